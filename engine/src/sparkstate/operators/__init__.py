"""One operator in one slot: the user's function over batches and due timers, on overlays that are not state yet.

``base`` is the contract by which a slot, the commit of an epoch and a harness know an operator; ``kinds`` finds the
kind. The rooms are floors, each of which knows only those below it (RFC 0028): ``keyed`` and ``batches`` call the
user's code, side by side and unknown to each other; ``common`` says when it is called; ``memory`` bounds the overlays,
``state`` holds them, ``rows`` turns Arrow into Python and back. The theory of the hot path is in
``keyed.keyed_operator`` and ``keyed.calls``.

Nothing here knows Spark, a socket or a checkpoint, so that the harness runs the same code. Key groups come with the
rows, and are never computed here: Python and Spark could disagree.
"""
