"""The kind whose function is called with Arrow batches: rows numbered by key, calls, firing in sets, state on columns.

Its overlays, tables and stored bytes are those of the record path, so a job can change from one kind to the other by a
restart. The handles on columns (``states``) hold nothing: they read and write through the handles per key. The classes
that a job's author sees are in ``sparkstate.batches``. Only ``kinds`` imports the room; it does not know ``keyed``.
"""
