"""The operator's one decision: from the observed and the desired state to the next step. Pure.

Each call makes one step. An intent is written into the status before anything that cannot be taken back is done; the
next look, by this process or by the one after it, goes on from the intent and from the objects that exist.
"""

from sparkstate_operator.decide.job import decide

__all__ = ["decide"]
