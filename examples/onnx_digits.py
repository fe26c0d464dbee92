"""A classifier in ONNX with its calibrator in the same graph, served by onnxruntime.

    pip install '.[onnx]' onnxruntime
    python examples/onnx_digits.py

A network of scikit-learn learns handwritten digits from clean scans, and is written as an ONNX
graph. The domains are scanners with defects. The calibrator learns from labelled scans of
twelve; three others are new.
"""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from scipy.ndimage import uniform_filter
from scipy.special import softmax
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import domaincal as dc
from domaincal.deploy import attach_onnx


def scan(images: np.ndarray, scanner: str, seed: int) -> np.ndarray:
    """Images as a scanner reads them; its name is a defect and a strength."""
    defect, _, strength = scanner.partition("-")
    s = float(strength or 0)
    rng = np.random.default_rng(seed)
    if defect == "noise":
        images = images + s / 10 * rng.standard_normal(images.shape)
    if defect == "pale":
        images = images * (1 - s / 10)
    if defect == "dust":
        images = np.where(rng.random(images.shape) < s / 20, 1.0, images)
    if defect == "blur":
        images = (1 - s / 5) * images + s / 5 * uniform_filter(images, (0, 3, 3))
    return images.reshape(-1, 64).astype(np.float32)


def write_network(network: MLPClassifier, path: str) -> None:
    """Write a network with one hidden layer; "features" is the hidden layer."""
    weights = {
        "w1": network.coefs_[0], "b1": network.intercepts_[0],
        "w2": network.coefs_[1], "b2": network.intercepts_[1],
    }  # fmt: skip
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["image", "w1", "b1"], ["hidden"]),
            helper.make_node("Relu", ["hidden"], ["features"]),
            helper.make_node("Gemm", ["features", "w2", "b2"], ["logits"]),
        ],
        "digits",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 64])],
        [
            helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 10]),
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["n", 64]),
        ],
        [numpy_helper.from_array(w.astype(np.float32), name) for name, w in weights.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


def serve(path: str) -> onnxruntime.InferenceSession:
    """Session of onnxruntime on one thread, without its warnings."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


digits = load_digits()
images, labels = digits.images / 16, digits.target
network = MLPClassifier((64,), alpha=1e-4, max_iter=200, tol=1e-3, random_state=0)
network.fit(scan(images[:800], "clean", 0), labels[:800])
write_network(network, "classifier.onnx")

# Outputs of the network for labelled scans of known scanners.
classifier = serve("classifier.onnx")
known = ["clean", "noise-2", "noise-4", "noise-6", "pale-2", "pale-4", "pale-7", "dust-1", "dust-3",
         "dust-5", "blur-2", "blur-4"]  # fmt: skip
parts = []
for seed, scanner in enumerate(known):
    rows = {"image": scan(images[800:1300], scanner, seed)}
    logits, features = classifier.run(["logits", "features"], rows)
    domains = [scanner] * 500
    parts.append(dc.CalibrationData(logits, labels[800:1300], features=features, domains=domains))

# One temperature for the scans that are read together, also of a new scanner. The logits show it.
calibrator = dc.BatchTemperatureScaling().fit(dc.concatenate(parts))

# One graph: images in, calibrated probabilities out.
attach_onnx(calibrator, "classifier.onnx", "calibrated.onnx", logits="logits", features="features")
server = serve("calibrated.onnx")

print(f"{'new scanner':12} accuracy   mean confidence before -> after   ECE before -> after")
for seed, scanner in enumerate(["noise-5", "pale-6", "dust-4"]):
    request = {"image": scan(images[1300:], scanner, 100 + seed)}
    logits, after = server.run(["logits", "probabilities"], request)
    before, truth = softmax(logits, axis=1), labels[1300:]
    accuracy = np.mean(after.argmax(axis=1) == truth)
    ece = [dc.expected_calibration_error(p, truth) for p in (before, after)]
    confidence = [p.max(axis=1).mean() for p in (before, after)]
    print(
        f"{scanner:12} {accuracy:8.1%} {confidence[0]:22.1%} -> {confidence[1]:5.1%}"
        f" {ece[0]:16.1%} -> {ece[1]:5.1%}"
    )
