"""Checkpoints that are whole, verified and loaded without unpickling strangers' code.

A checkpoint file is what `torch.save` wrote, then its SHA-256 digest, 32 bytes that `torch.load` passes over.
The checkpoint before it is kept.
"""

import contextlib
import hashlib
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from calmix import files
from calmix.errors import InputError

NEWEST, PREDECESSOR = "checkpoint.pt", "checkpoint.previous.pt"


def save(folder: Path, state: dict[str, Any]) -> None:
    """Write `state` (tensors, numbers, strings, lists, dicts) as the newest checkpoint of `folder`."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    content = buffer.getbuffer()
    with files.replacing(folder / NEWEST) as file:
        file.write(content)
        file.write(hashlib.sha256(content).digest())
        # The old one gives up its name only now that the new bytes are on the disk.
        file.flush()
        os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            _keep(folder / NEWEST, folder / PREDECESSOR)


def _keep(newest: Path, predecessor: Path) -> None:
    """Give `newest` its second name without ever being without the first."""
    spare = predecessor.with_suffix(".tmp")
    spare.unlink(missing_ok=True)
    os.link(newest, spare)
    os.replace(spare, predecessor)


def load(folder: Path, *, warn: Callable[[str], None], map_location: Any = "cpu") -> dict[str, Any] | None:
    """The newest checkpoint that is whole, or None; a damaged one is reported through `warn`."""
    paths = [path for name in (NEWEST, PREDECESSOR) if (path := folder / name).exists()]
    for path in paths:
        content = path.read_bytes()
        if hashlib.sha256(content[:-32]).digest() == content[-32:]:
            return _unpack(content[:-32], path, map_location)
        older = (
            "there is no older one, so it starts again" if path == paths[-1] else "the one before it is used"
        )
        warn(f"{path} is damaged (its digest does not match its {len(content):,} bytes); {older}")
    return None


def _unpack(content: bytes, path: Path, map_location: Any) -> dict[str, Any]:
    try:
        state: dict[str, Any] = torch.load(io.BytesIO(content), map_location=map_location, weights_only=True)
    except pickle.UnpicklingError:
        raise InputError(f"{path} holds more than weights, so calmix did not write it: remove it") from None
    return state
