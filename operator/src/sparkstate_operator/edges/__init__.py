"""Where the operator touches the world: the API server, its watches, drivers, and whoever asks for health and metrics.

Each outside thing has one importer: kopf in ``handlers``, the Kubernetes client in ``kube``. Foreign errors become ours
here (``errors``). Nothing here decides what becomes of a job: a watch only puts a key into the queue, and a call is
made once, because the queue alone tries again, after a new look.
"""
