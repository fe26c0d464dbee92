"""Logits and features of images, written to a store."""
