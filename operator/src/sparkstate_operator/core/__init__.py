"""The operator's arithmetic: names, revisions, settings, memory, schedules, conditions, and the tables of lives.

Pure functions over frozen data. The room knows the API's types (``model``) and the reading of the spec
(``sparkstate_spec``), but neither pods nor clocks nor the API server: a caller passes the time and whatever it has
seen. ``transitions`` has the theory of a life that is drawn as a table; ``schedule`` says why a clock that jumps makes
no storm of savepoints.
"""
