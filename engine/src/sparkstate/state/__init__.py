"""Keyed state as a job declares it: descriptors, the handles' classes, and the functions that fold values.

The names are PyFlink's. Nothing here holds state or knows a store: ``operators.state`` implements the handles, and the
same classes serve both backends, the harness and the conformance kit.
"""
