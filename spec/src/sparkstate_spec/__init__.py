"""What a job's spec means: one reading, for the engine and for the operator.

Pure functions over plain data. The package knows no Spark, no Kubernetes, no file and no clock, so that both sides can
carry it; neither side's errors or settings are known here.
"""
