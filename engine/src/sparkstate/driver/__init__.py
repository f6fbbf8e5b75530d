"""The driver process of one job: session, lineage, slots, epochs, checkpoints and control endpoint put together.

``job`` is its life from top to bottom (RFC 0029): claim, prepare, then restore, run and end, again after each failure.
The claim comes before any use of the state, since it is what makes an older driver's next commit collide. Whatever may
hang (a storage, a slot, a volume) is called beside the epochs, or in a wait that an end of the job breaks off. Each
kind of failure is judged in one place: an incarnation's in ``restarts``, a checkpoint's in ``completion``.

The room puts other rooms together and holds few rules itself: ``checkpoint.coordinator`` says when a checkpoint begins,
``restart`` how long to wait, ``control.driver_life`` which phase may follow. It imports no PySpark, FastAPI or boto3,
and knows of Kubernetes only what its pod's environment says (``pod``).
"""
