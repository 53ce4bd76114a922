"""Checkpoints that are whole, verified, and loaded without unpickling code.

A checkpoint file is what `torch.save` wrote, then its SHA-256 digest, 32 bytes that `torch.load` passes over.
The previous checkpoint is kept.
"""

import contextlib
import hashlib
import io
import os
import pickle
from pathlib import Path
from typing import Any

import torch

from calmix import files
from calmix.errors import InputError
from calmix.progress import Message, Reporter, ignore

NEWEST, PREVIOUS = "checkpoint.pt", "checkpoint.previous.pt"


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
        spare = folder / "checkpoint.previous.tmp"
        spare.unlink(missing_ok=True)
        with contextlib.suppress(FileNotFoundError):  # there is none yet
            os.link(folder / NEWEST, spare)
            os.replace(spare, folder / PREVIOUS)


def load(folder: Path, *, reporter: Reporter = ignore, map_location: Any = "cpu") -> dict[str, Any] | None:
    """The newest checkpoint that is whole, or None; a damaged one is reported."""
    paths = [path for name in (NEWEST, PREVIOUS) if (path := folder / name).exists()]
    for path in paths:
        content = path.read_bytes()
        if hashlib.sha256(content[:-32]).digest() == content[-32:]:
            try:
                return torch.load(io.BytesIO(content), map_location=map_location, weights_only=True)  # type: ignore[no-any-return]
            except pickle.UnpicklingError:
                reason = "holds more than weights, so calmix did not write it"
                raise InputError(f"{path} {reason}: remove it") from None
        older = path != paths[-1]
        remedy = "the previous one is used" if older else "there is no older one, so training starts again"
        size = f"{len(content):,} bytes"
        reporter(Message(f"{path} is damaged (its digest does not match its {size}); {remedy}"))
    return None
