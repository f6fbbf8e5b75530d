"""A stateful job on real input, killed twice, restored, and compared with a batch calculation."""
