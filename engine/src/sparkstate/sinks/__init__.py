"""Sinks of ours: exact, because they hold their output and publish it when the checkpoint that covers it commits.

In a slot, a ``FileSinkWriter`` holds output and stages it. In the driver, ``publication`` makes the staged files
visible, each of them once even where an answer is lost (RFC 0025). A ``Committable`` in the checkpoint's metadata
carries one to the other. The room knows neither slots, driver nor log: its callers say which incarnations are dead, and
when a checkpoint has committed.
"""
