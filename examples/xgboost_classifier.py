"""An XGBoost model, compared with no calibration in hospitals that nobody has labelled.

python examples/make_patients.py
python examples/xgboost_classifier.py
"""

import pandas as pd
import xgboost

import domaincal as dc

patients = pd.read_csv("patients.csv")
new = patients["site"] >= "site-15"
X, site = patients.filter(like="x_"), patients["site"]
y = patients["outcome"].astype("category").cat.codes  # XGBoost takes the labels 0, 1, 2, ...

model = dc.CalibratedDomainClassifier(xgboost.XGBClassifier(n_estimators=50), cv=5)
model.fit(X[~new], y[~new], domains=site[~new])
rows = model.calibration_data(X[new], y[new], domains=site[new])  # labels only to check
methods = {"before": dc.MaxSoftmax().fit(rows), "after": model.calibrator_}
print(dc.summary_table(dc.score_table(methods, rows))[["method", "accuracy", "ece", "nll"]])

model.estimator_.save_model("model.json")
model.save("calibrator.safetensors", estimator_file="model.json")
estimator = xgboost.XGBClassifier()
estimator.load_model("model.json")
again = dc.CalibratedDomainClassifier.load(
    "calibrator.safetensors", estimator, estimator_file="model.json"
)
assert (again.predict_proba(X) == model.predict_proba(X)).all()
