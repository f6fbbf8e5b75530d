"""Runs one job on one machine: starts the driver, watches it, starts it again, and stops it cleanly.

The runner knows a driver as the operator does: by its command line, its files and REST. It imports nothing of the
driver, and starts no Spark. The decisions are pure: what the end of a driver means (``verdict``), when to try again
(``sparkstate.restart``), which savepoint is due (``schedule``) and which ones go (``retention``). Whatever must
outlast the runner is in its folder (``workdir``) or in the job's storage, never in memory alone.
"""
