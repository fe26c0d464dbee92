"""Training and fine-tuning of networks."""
