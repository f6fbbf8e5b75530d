"""The driver process of one job: composition of session, lineage, slots, epochs, checkpoints and the control endpoint."""
