"""CalibratedModel with networks of timm, whose features are those of extraction."""

import numpy as np
import pytest
import timm
import torch

import domaincal as dc
from domaincal.deploy import CalibratedModel
from domaincal.vision import Network


@pytest.mark.parametrize("name", ["resnet10t", "resnetv2_50x1_bit"])
def test_the_features_of_a_network_of_timm_are_those_of_extraction(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = timm.create_model(name, num_classes=5)
        images = torch.randn(3, 3, 64, 64)
    data, _ = dc.make_multi_domain(4, 40, 5, n_features=module.num_features, random_state=0)
    calibrator = dc.FeatureTemperatureScaling().fit(data)
    calibrated = CalibratedModel(module, calibrator)
    with torch.inference_mode():
        found = calibrated(images)
    logits, features = Network(module, calibrated.layer).outputs(images)
    wanted = calibrator.predict_proba(logits, features=features)
    np.testing.assert_allclose(found.probabilities, wanted, atol=1e-5)
