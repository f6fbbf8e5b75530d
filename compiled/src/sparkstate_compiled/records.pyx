"""Stands here until the record path does; it shows that the distribution can be built."""


def added(long long one, long long other):
    """The sum, in C."""
    return one + other
