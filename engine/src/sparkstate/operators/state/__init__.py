"""Keyed state as a function sees it: handles and cursor over one overlay, above the committed tables of the stores.

The room knows the contract of a store (``backends.base``), and no store. It does not know who calls the function, nor
when: ``keyed`` and ``batches`` set the current key, ``epoch`` commits what the overlay holds.
"""
