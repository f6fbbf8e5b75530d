"""Types, the bytes of their values, and row keys whose order is the order of the values.

``typeinfo`` has the theory: a value, its stored form, its bytes. Types are part of stored formats, so a description
once written must be readable for ever. Values are msgpack, checked by their declared type. Pickle appears only where a
descriptor asks for it, and never in keys or metadata: to read a snapshot must not run code. The room knows no state,
store or overlay.
"""
