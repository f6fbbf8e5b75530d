"""Functions on Arrow batches: the classes that a job's author writes and is given.

``functions`` has the function and its contexts, ``keys`` the keys of a batch, ``state`` the handles of keyed state on
columns. The room knows Arrow and NumPy, and neither overlays nor stores: ``operators.batches`` runs what
is declared here.
"""
