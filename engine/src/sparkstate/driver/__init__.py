"""The driver process of one job: session, lineage, slots, epochs, checkpoints and control endpoint put together."""
