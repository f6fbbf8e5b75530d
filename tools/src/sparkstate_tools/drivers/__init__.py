"""Drivers: real ones on small jobs, and a job in memory behind a real control endpoint."""
