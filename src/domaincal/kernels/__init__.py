"""Pure array functions on rows, without validation or state."""
