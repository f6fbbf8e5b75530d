"""The conformance kit: the checks that every state backend must pass, whatever it is made of.

``chapters`` is the table of contents; a chapter is a module with functions ``check_…``, and a line there. ``kit`` has
the tools of the checks. ``trial`` runs all of them on a backend of the user's own, in a process that it can end.

The room knows stores, and neither operators nor slots: what holds for stores holds for whatever runs on them.
"""

from __future__ import annotations

from sparkstate.conformance.chapters import CHAPTERS, CHECKS, Failure, check_shard_store, first_failure
from sparkstate.conformance.kit import Kit, MakeFactory

__all__ = ["CHAPTERS", "CHECKS", "Failure", "Kit", "MakeFactory", "check_shard_store", "first_failure"]
