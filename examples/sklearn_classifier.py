"""A scikit-learn model whose confidence holds in hospitals that nobody has labelled.

python examples/make_patients.py
python examples/sklearn_classifier.py
"""

import joblib
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier

import domaincal as dc

patients = pd.read_csv("patients.csv")
new = patients["site"] >= "site-15"  # five hospitals without labels
X, y, site = patients.filter(like="x_"), patients["outcome"], patients["site"]

estimator = HistGradientBoostingClassifier(max_iter=30, random_state=0)
model = dc.CalibratedDomainClassifier(estimator, cv=5)
model.fit(X[~new], y[~new], domains=site[~new])
print(model.calibrator_.provenance_)  # how the method was chosen
print(model.predict_proba(X[new])[:2].round(3), model.classes_)

joblib.dump(model.estimator_, "model.joblib")  # your model, saved your way
model.save("calibrator.safetensors", estimator_file="model.joblib")
again = dc.CalibratedDomainClassifier.load(
    "calibrator.safetensors", joblib.load("model.joblib"), estimator_file="model.joblib"
)
assert (again.predict_proba(X) == model.predict_proba(X)).all()
