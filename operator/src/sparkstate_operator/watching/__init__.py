"""The operator's ears: every change of a job, a snapshot, a pod or a command puts a key into the queue.

Nothing here decides what becomes of a job. :mod:`handlers`, the only importer of kopf, hears of changes;
:mod:`retrying` lets the watches begin anew after they have failed; :mod:`served_kinds` waits until our kinds are
served; :mod:`watches` says whether the watches are live; :mod:`relabelled_jobs` finds the jobs that no watch shows.
"""
