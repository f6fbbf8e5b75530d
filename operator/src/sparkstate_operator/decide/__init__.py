"""The operator's one decision: what is seen, and what is wanted, to what is done next. Pure.

Each call makes one step. An intent is written into the status before anything that cannot be taken back is done; the
next look, by this process or by the one after it, goes on from the intent and from what is there.
"""

from sparkstate_operator.decide.job import decide

__all__ = ["decide"]
