"""The kind whose function is called for each row: the record loop, and firing one timer at a time. Only ``kinds``
imports it; it does not know ``batches``."""
