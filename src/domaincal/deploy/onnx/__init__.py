"""ONNX graphs of fitted calibrators: built here node by node, without torch.

``plans`` has the calibrators that have a graph; ``tensors`` the arithmetic of which graphs are
written. Only ``protobuf`` and ``classifier`` need the package onnx.
"""
