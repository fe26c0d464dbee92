"""Networks: torch modules split at their last layer, and their files."""
