"""The half of an operator that every kind over overlays has: its life, intake, outputs, and the order of due timers.

It says when the user's function is called, and never how: each kind has a room above (``keyed``, ``batches``), and
neither is known here.
"""
