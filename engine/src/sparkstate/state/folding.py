"""How values become one: the functions that reducing and aggregating states are given. Names are PyFlink's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


class ReduceFunction(ABC):
    """Combines two values of a ``ReducingState`` into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """``value1`` is what is stored, ``value2`` what is added."""


class AggregateFunction(ABC):
    """Folds the values added to an ``AggregatingState`` into an accumulator, which is what is stored."""

    @abstractmethod
    def create_accumulator(self) -> Any:
        """An empty accumulator."""

    @abstractmethod
    def add(self, value: Any, accumulator: Any) -> Any:
        """The accumulator with ``value`` added; it may be the one given, changed."""

    @abstractmethod
    def get_result(self, accumulator: Any) -> Any:
        """The result of ``AggregatingState.get`` for this accumulator."""

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        """One accumulator out of two. Needed only where windows merge."""
        raise NotImplementedError(f"{type(self).__qualname__} does not define merge")
