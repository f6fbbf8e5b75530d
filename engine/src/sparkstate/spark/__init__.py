"""The only package that knows PySpark: the job's API, the planner of epochs, sessions, slots started by Spark tasks."""
