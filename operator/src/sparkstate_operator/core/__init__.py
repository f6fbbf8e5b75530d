"""What the operator decides and computes: pure functions over frozen data, no input or output."""
