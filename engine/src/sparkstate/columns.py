"""Names of the hidden columns between Spark and the slots. Users' columns must not start with the prefix."""

from __future__ import annotations

PREFIX = "__sparkstate_"
KEY_GROUP = PREFIX + "kg"
"""int: the key group, computed in Spark."""
TIMESTAMP = PREFIX + "ts"
"""long: event time in ms since the Unix epoch; null where there is none."""
SOURCE = PREFIX + "source"
"""int: which of several source DataFrames the row came from, for the watermark."""
KEY_PREFIX = PREFIX + "key_"
"""Canonical key columns (``-0.0`` as ``0.0``, one NaN), numbered; only where they differ from the user's column."""
