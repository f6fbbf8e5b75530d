"""Whether a machine has what a job needs: ``sparkstate doctor``.

Each check is a small function that returns a :class:`~sparkstate.doctor.check.Check`; none raises, none changes
anything but a probe file that it removes (and the Java shim, which :mod:`sparkstate.java` writes where one is needed).
A check judges what it is given or what it looks at itself; it knows no manifest, no storage and no running job.
"""
