"""A job's children as plain documents: pods, ConfigMaps, Secrets, Services, and the Jobs of engine commands.

The room is pure: the same revision and attempt always give the same document, so an operator that was killed between
two writes makes the same object again. It sends nothing, and does not know whether an object exists already.
"""
