"""The functions that run the short methods of a keyed stream: ``map``, ``flat_map``, ``filter``, ``reduce``, ``sum``,
``min``, ``max``.

Each is a ``KeyedProcessFunction`` or a ``KeyedBatchFunction`` like any that a job's author writes, so the engine knows
nothing of them. ``sparkstate.spark`` makes them from the stream's columns; they run in the slots, without Spark.
"""
