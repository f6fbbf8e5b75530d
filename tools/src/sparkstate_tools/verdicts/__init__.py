"""What a run of the tests has said, and what of it counts."""
