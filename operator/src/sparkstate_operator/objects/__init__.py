"""A job's children as plain documents. Pure: the same revision and attempt always give the same document."""
