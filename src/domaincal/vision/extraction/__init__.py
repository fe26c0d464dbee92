"""Extraction: show images to a network and write its logits and features to a store."""
