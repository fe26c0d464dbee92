"""A LightGBM model that is fitted already, calibrated for batches of rows from one hospital.

python examples/make_patients.py
python examples/lightgbm_classifier.py
"""

import lightgbm
import pandas as pd

import domaincal as dc

patients = pd.read_csv("patients.csv")
X, y, site = patients.filter(like="x_"), patients["outcome"], patients["site"]
train, new = site < "site-05", site >= "site-15"  # to fit the model; without labels
calibration = ~train & ~new
fitted = lightgbm.LGBMClassifier(verbose=-1, random_state=0).fit(X[train], y[train])

model = dc.CalibratedDomainClassifier(fitted, batch_size=100)
model.fit(X[calibration], y[calibration], domains=site[calibration])
print(model.predict_temperature(X[new], domains=site[new])[::200].round(2))  # one per hospital

fitted.booster_.save_model("model.txt")  # no pickle anywhere
model.save("calibrator.safetensors", estimator_file="model.txt")
again = dc.CalibratedDomainClassifier.load(
    "calibrator.safetensors", lightgbm.Booster(model_file="model.txt"), estimator_file="model.txt"
)
assert (again.predict(X) == model.predict(X)).all()  # the classes are in the file
