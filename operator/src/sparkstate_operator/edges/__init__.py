"""Where the operator touches the world: the API server, drivers, other operators, and callers of health and metrics.

Each outside thing has one importer: the Kubernetes client in ``kube``. Foreign errors become ours here (``errors``).
Nothing here decides what becomes of a job: a call is made once, because the queue alone tries again, after a new look.
"""
