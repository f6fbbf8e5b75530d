"""The kind whose function is called for each row of two inputs. It calls as ``keyed`` does, with a loop of its own.

A batch has rows of both inputs: each has the columns of both, null where they are the other's, and says by
``columns.INPUT`` of which it is. Within an epoch the rows of the first input come before those of the second. So the
second's wait until the epoch ends, on the disk where they do not fit in memory. With ``sort_by_event_time`` the rows of
both wait, and are sorted together.
"""
