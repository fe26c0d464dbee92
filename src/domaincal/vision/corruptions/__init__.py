"""The 15 corruptions of ImageNet-C, for numpy arrays, torch tensors and folders."""
