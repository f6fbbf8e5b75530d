"""State backends of the user's own: the class that a job names, and a store over rows of bytes that does most of the
work for one.

``factory`` is the contract of the class, ``loading`` finds it by its name. ``ordered_rows`` asks for an ordered map
from bytes to bytes, and ``row_store`` keeps values, lists, maps and timers in it. Authors import all of it from
:mod:`sparkstate.backend_api`. Nothing here knows the other backends.
"""
