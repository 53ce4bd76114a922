"""Random draws in blocks of fixed length: image i gets the same draws in every batch and process."""

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from calmix.seeds import derive


def block_length(height: int, width: int) -> int:
    """Images per random stream: 64 of 32 x 32, one of 224 x 224, whatever the batch size."""
    return min(64, max(1, 65536 // (height * width)))


@functools.cache
def _normal_quantiles() -> npt.NDArray[np.float32]:
    return ndtri((np.arange(65536) + 0.5) / 65536).astype(np.float32)  # type: ignore[no-any-return]


class Draws:
    """Draws for images `rows` of one block: each method draws for the whole block and returns those rows.

    Shapes are those of one image; a leading axis over `rows` is added.

    >>> all_four = Draws(0, "fog", 1, block=2, length=4, rows=slice(0, 4)).uniform(0, 1, 3)
    >>> last = Draws(0, "fog", 1, block=2, length=4, rows=slice(3, 4)).uniform(0, 1, 3)
    >>> bool((all_four[3:] == last).all())
    True
    """

    def __init__(self, seed: int, name: str, severity: int, *, block: int, length: int, rows: slice) -> None:
        self._bits = np.random.SFC64(derive(seed, "corruption", name, severity, block))
        self._generator = np.random.Generator(self._bits)
        self._length = length
        self._rows = rows

    def words(self, *shape: int) -> npt.NDArray[np.uint16]:
        """Uniform 16-bit integers: the cheapest draws, used as indices into tables of quantiles."""
        count = self._length * math.prod(shape)
        raw: npt.NDArray[np.uint64] = self._bits.random_raw(-(-count // 4))
        return raw.view(np.uint16)[:count].reshape(self._length, *shape)[self._rows]

    def normal(self, mean: float, scale: float, *shape: int) -> npt.NDArray[np.float32]:
        """Normal draws from 65,536 equally likely quantiles (the largest at 4.3 `scale`)."""
        table = np.float32(mean) + np.float32(scale) * _normal_quantiles()
        return np.take(table, self.words(*shape))

    def uniform(self, low: float, high: float, *shape: int) -> npt.NDArray[np.float32]:
        unit = self._generator.random((self._length, *shape), dtype=np.float32)[self._rows]
        return np.float32(low) + np.float32(high - low) * unit

    def integers(self, low: int, high: int, *shape: int) -> npt.NDArray[Any]:
        """Uniform integers from `low` to `high - 1`, int8."""
        return self._generator.integers(low, high, (self._length, *shape), dtype=np.int8)[self._rows]
