"""Reads what a job has stored, without its driver: its lineage, and the snapshots that it could be restored from.

The command line uses it, and so do the commands that the operator runs in pods. It writes nothing: the code that
deletes is in ``checkpoint``. It knows no Spark, no slot and no command line, so that an offline reader can use it.
"""
