"""Rows of an epoch: between Arrow and Python, in files, in order of event time. It knows neither keys nor state."""
