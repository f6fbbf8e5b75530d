"""The results of a run of the tests, and which of them count."""
