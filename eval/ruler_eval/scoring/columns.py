"""Numbers of rows, in as little memory as they need: 200 runs of 39,000 rows are read together."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from ruler_eval.running.answers import Count, Share

Floats = npt.NDArray[np.float64]


class Column(Sequence[float | None]):
    """A number for each row, None where a row has none; an array holds them in little memory.

    >>> column = Column((0.5, None))
    >>> column[0], column[1], column == (0.5, None), column[1:].array
    (0.5, None, True, array([nan]))
    """

    kind: ClassVar[type[float]] = float
    item: ClassVar[Any] = Share

    def __init__(self, numbers: "Sequence[float | None] | Floats" = ()) -> None:
        """Keep numbers, with NaN for None, in the smallest floats that are equal to them."""
        self._kept: npt.NDArray[Any] = np.asarray(numbers, dtype=np.float64)
        with np.errstate(over="ignore"):
            for small in (self._kept.astype(dtype) for dtype in (np.float32, np.float16)):
                if np.array_equal(small, self._kept, equal_nan=True):
                    self._kept = small

    @property
    def array(self) -> Floats:
        """The numbers as an array."""
        return np.asarray(self._kept, dtype=np.float64)

    @property
    def small(self) -> npt.NDArray[Any]:
        """The same in the smallest floats that are equal to the numbers."""
        return self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, at: Any) -> Any:  # noqa: ANN401 - a number, or the column of a slice
        if isinstance(at, slice):
            return type(self)(self.array[at])
        return None if math.isnan(number := self._kept[at]) else self.kind(number)

    def __iter__(self) -> Iterator[float | None]:
        absent = np.isnan(self._kept)
        numbers = np.where(absent, 0, self._kept).astype(self.kind).tolist()
        if not absent.any():
            return iter(numbers)
        return (None if gone else x for x, gone in zip(numbers, absent.tolist(), strict=True))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and [*self] == [*other]

    @classmethod
    def __get_pydantic_core_schema__(cls, _: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        as_list = core_schema.plain_serializer_function_ser_schema(list)
        items = core_schema.list_schema(
            core_schema.nullable_schema(handler.generate_schema(cls.item))
        )
        return core_schema.no_info_after_validator_function(cls, items, serialization=as_list)


class Counts(Column):
    """A whole number for each row, likewise; below 2 ** 53 a float is exact."""

    kind, item = int, Count
