"""The keyed operator: intake, the calls of the user's code, firing, outputs. Only ``kinds`` imports it."""
