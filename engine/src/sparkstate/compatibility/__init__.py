"""The effect of an upgrade on each state of a job: the stored states beside those that the job's code declares.

``declaration`` opens the job's functions over empty stores and notes what they declare. ``comparison`` is pure: it puts
every stored and every declared state into a report. The room reads no storage, processes no row, and knows no Spark.
"""
