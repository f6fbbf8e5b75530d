"""The Kubernetes operator for stateful Spark jobs.

``reconcile`` is its centre: one look (``observe``), one decision (``decide``), one step (``apply``), called by the
queue for each key. It is level-triggered, so an event only says that something may have changed. The status is a
write-ahead log: an intent is in it before anything is done that cannot be taken back. The process may lose its memory
(``memory``) at any moment.

The operator knows nothing of the engine's code. The two meet in documented formats (manifest, REST, status files,
storage layout), and both read the spec through ``sparkstate_spec``. It never touches a bucket and reads no Secret of a
job: engine commands do that in pods of their own.
"""
