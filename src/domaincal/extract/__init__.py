"""Networks: training, and the logits and features of images, by torch."""
