"""State as Python objects in the slot's process. Start with ``store``; ``backends.copy_on_write`` has the theory.

A snapshot freezes the tables, which costs the same however many rows there are, and is encoded beside later commits.
Its only format is the canonical file, so each checkpoint stores the whole state. Nothing but the process's memory
bounds the state. The package must not import rocksdict.
"""
