"""Pure array functions: formulas over rows, no validation, no state."""
