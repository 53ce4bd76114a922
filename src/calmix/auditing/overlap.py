"""Do two sets of predictions share examples? Told by a small sketch of the first.

A calibrator that was fitted on its own test examples looks better than it is. The sketch holds the smallest
hashes of the rows and ids (bottom-k, Cohen & Kaplan 2007): a few thousand numbers, whatever the size.
"""

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from calmix.predictions import Predictions

KEPT = 4096  # hashes; below, the comparison is exact
DISTINCT = 0.99  # share of distinct rows; below, equal rows prove nothing (trees repeat their outputs)
BLOCK = 1 << 22  # logits hashed at a time
Hashes = np.ndarray[Any, np.dtype[np.uint64]]


@dataclass(frozen=True)
class Overlap:
    """The share of the examples that were seen in the fit: by equal ids, and by equal rows of logits.

    None where it cannot be told: no ids, or rows that repeat by nature.
    """

    ids: float | None
    rows: float | None

    @property
    def text(self) -> str | None:
        """What to say; None where there is nothing."""
        if self.rows:
            return (
                f"about {100 * self.rows:.3g} % of these examples were in the data of the fit (equal rows of "
                "logits): on those, the calibration is judged on what it was fitted to"
            )
        if self.ids:
            return (
                f"about {100 * self.ids:.3g} % of the ids were in the data of the fit, with other "
                "predictions: if ids name examples and not rows, it is judged on what it was fitted to"
            )
        return None


def sketch(predictions: Predictions) -> dict[str, Any]:
    """What to keep of the data of a fit, as plain values."""
    rows = _row_hashes(predictions)
    return {
        "examples": len(predictions),
        "distinct": len(np.unique(rows)) / len(rows),
        "rows": _smallest(rows),
        "ids": None if predictions.ids is None else _smallest(_id_hashes(predictions.ids)),
    }


def find_overlap(kept: dict[str, Any], predictions: Predictions) -> Overlap:
    """The share of `predictions` that is in the data of a `sketch`."""
    rows = _row_hashes(predictions)
    distinct = min(float(kept["distinct"]), len(np.unique(rows)) / len(rows)) >= DISTINCT
    ids = None
    if kept["ids"] is not None and predictions.ids is not None:
        ids = _share(kept["ids"], _id_hashes(predictions.ids))
    return Overlap(ids, _share(kept["rows"], rows) if distinct else None)


def _smallest(hashes: Hashes) -> list[str]:
    return [f"{value:016x}" for value in np.unique(hashes)[:KEPT].tolist()]


def _share(kept: list[str], hashes: Hashes) -> float:
    """The share of hashes that are kept, among those that could be."""
    known = np.array([int(text, 16) for text in kept], dtype=np.uint64)
    if len(kept) == KEPT:
        hashes = hashes[hashes <= known.max()]
    return float(np.isin(hashes, known).mean()) if len(hashes) else 0.0


def _row_hashes(predictions: Predictions) -> Hashes:
    """A hash of each example's logits in float32, (N,): multilinear over random odd factors, then mixed."""
    logits = predictions.logits.numpy()
    members, examples, classes = logits.shape
    factors = np.random.default_rng(0).integers(0, 2**63, members * classes, dtype=np.uint64) * 2 + 1
    step = max(1, BLOCK // (members * classes))
    parts = []
    for start in range(0, examples, step):
        block = np.swapaxes(logits[:, start : start + step], 0, 1).reshape(-1, members * classes)
        bits = np.ascontiguousarray(block.astype(np.float32) + np.float32(0)).view(np.uint32)  # -0 is 0
        parts.append((bits.astype(np.uint64) * factors).sum(1, dtype=np.uint64))
    mixed = np.concatenate(parts)
    mixed ^= mixed >> np.uint64(31)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return mixed


def _id_hashes(ids: Any) -> Hashes:
    digests = [hashlib.blake2b(str(i).encode(), digest_size=8).digest() for i in ids.tolist()]
    return np.array([int.from_bytes(digest) for digest in digests], dtype=np.uint64)
