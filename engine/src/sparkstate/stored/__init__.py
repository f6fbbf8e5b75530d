"""Reading what a job has stored, without its driver: which lineage it has, what it could be restored from.

The command line uses it, and so do the commands that the operator runs in pods. It writes nothing: what deletes is in
``checkpoint``. It knows no Spark, no slot and no command line, so that whatever reads state offline can stand on it.
"""
