"""The only package that knows PySpark: the job's API, the planner of epochs, sessions, slots started by Spark tasks.

Spark plans, reads and retries; no state lives in it (RFC 0001). A task only carries batches to slots and returns an
acknowledgement (``feed``): the end of its input proves nothing, and the attempt of the successful Spark job is the one
that may become state (``feeding``, ``epochs``). Key groups are computed in Spark alone (``plans.key_group``).
Where the sources stand is in Spark's own files, of which a checkpoint takes a copy (``capture``).

The room knows slots by their protocol. It decides nothing about checkpoints, failures or the end of a job: the driver
calls it, and is called back for each epoch. ``watermarks`` and ``kubernetes`` are pure.
"""
