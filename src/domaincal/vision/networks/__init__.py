"""Networks: modules of torch split at their last layer, and their files."""
