"""Sinks of ours: exact, because they hold their output and publish it when the checkpoint that covers it commits."""
