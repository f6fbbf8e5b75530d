"""The meaning of a job's spec: one reading, for the engine and for the operator (RFC 0027).

Copies on both sides had drifted apart. So a field's spelling and built-in value stand once (``fields``), a rule's words
once (``rules``), and so do layers, units and the memory sum; both sides pin exactly this version. Pure functions over
plain data: the package knows no Spark, no Kubernetes, no file and no clock, so that both can carry it. It returns
findings as data and raises no error of either side; the schema and the CEL rules are the operator's,
settings the engine's.
"""
