"""Built-in aggregates of event-time windows on Arrow batches: sums, counts, extremes, ends, deviations, sketches.

``slices`` has the arithmetic of windows and slices, ``window_aggregation`` the function that keeps an accumulator for
each key and slice, and ``session_aggregation`` the one for sessions; the other modules are their parts and the
aggregates themselves. The room knows state on columns, and neither overlays, nor stores, nor Spark.
"""
