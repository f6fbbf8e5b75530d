"""Operators whose function is called with Arrow batches."""
