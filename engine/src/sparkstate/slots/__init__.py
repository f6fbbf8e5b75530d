"""The slot: a long-lived process that owns the state of its shards, and the driver's and the tasks' side of it.

A slot is told by the driver what becomes state. It decides nothing that another slot would have to know: not which
attempt won, not whether a checkpoint is complete. Every request names the incarnation, so that an old driver
is refused. ``runtime`` has the theory of its concurrency, ``protocol`` what may be asked, ``incoming`` why a task is
answered before its rows are processed (RFC 0007). The room imports no PySpark, so a slot starts in a fraction of a
second and stays small. It knows no driver either: that imports ``group`` and ``client``.
"""
