"""The operator's one decision: from the observed and the desired state to the next step.

The room is pure. It sees ``observed`` and returns ``actions``; it must not read the API server, a driver or a clock,
and must not know how an action is carried out. So a table can test it,
and the same look always gives the same decision.

Each call makes one step. An intent is written into the status before anything is done that cannot be taken back. The
next look, by this process or by the next one, goes on from the intent and from the objects that exist. A decision names
what has happened, and a table (``core.job_life``, ``core.snapshot_life``) gives the phase. Where several rules could
apply, a list states their precedence (:mod:`precedence`, RFC 0030).
"""

from sparkstate_operator.decide.job import decide

__all__ = ["decide"]
