"""The functions behind the short methods of a keyed stream (``map``, ``reduce``, ``sum``, …) and the interval join.

Each is a ``KeyedProcessFunction`` or a ``KeyedBatchFunction`` like any that a job's author writes, so the engine knows
nothing of them. ``sparkstate.spark`` makes them from the stream's columns; they run in the slots, without Spark.
"""
