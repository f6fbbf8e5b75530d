"""Runs one job on one machine: starts the driver, watches it, starts it again, and stops it cleanly."""
