"""Checkpoints that are whole, verified, and loaded without unpickling code.

A checkpoint file is what `torch.save` wrote, then its SHA-256 digest, 32 bytes that `torch.load` passes over.
The previous checkpoint is kept.
"""

import contextlib
import hashlib
import io
import os
import pickle
from collections.abc import Iterator, Mapping
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
            # Renaming one link of a file to another of its links removes neither: after a kill right here.
            spare.unlink(missing_ok=True)


def load(folder: Path, *, reporter: Reporter = ignore, map_location: Any = "cpu") -> dict[str, Any] | None:
    """The newest checkpoint that is whole, or None; a damaged one is reported."""
    paths = [path for name in (NEWEST, PREVIOUS) if (path := folder / name).exists()]
    for path in paths:
        content = path.read_bytes()
        if hashlib.sha256(content[:-32]).digest() != content[-32:]:
            damage = f"its digest does not match its {len(content):,} bytes"
        else:
            try:
                state = torch.load(io.BytesIO(content), map_location=map_location, weights_only=True)
            except pickle.UnpicklingError:
                reason = "holds more than weights, so calmix did not write it"
                raise InputError(f"{path} {reason}: remove it") from None
            except (
                Exception
            ) as error:  # torch's reader raises nearly anything for bytes that it did not write
                damage = f"torch cannot read it: {(str(error) or type(error).__name__).splitlines()[0]}"
            else:
                if isinstance(state, dict):
                    return state
                damage = f"it holds {type(state).__name__} instead of a training's state"
        older = path != paths[-1]
        remedy = "the previous one is used" if older else "there is no older one, so training starts again"
        reporter(Message(f"{path} is damaged ({damage}); {remedy}"))
    return None


def remove(folder: Path) -> None:
    """Forget the checkpoints of `folder`."""
    for name in (NEWEST, PREVIOUS):
        (folder / name).unlink(missing_ok=True)


@contextlib.contextmanager
def restoring(folder: Path) -> Iterator[None]:
    """What fails in the block, which takes a checkpoint's state, is the checkpoint's fault."""
    try:
        yield
    except Exception as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise InputError(
            f"{folder / NEWEST} does not fit its recipe.json: {reason}; "
            f"remove {NEWEST} and {PREVIOUS} to start again"
        ) from None


def load_optimiser(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Take the moments from `state`; rates and decays stay what the optimiser was made with."""
    made_with = [{k: v for k, v in group.items() if k != "params"} for group in optimiser.param_groups]
    optimiser.load_state_dict(state)
    for group, own in zip(optimiser.param_groups, made_with, strict=True):
        group.update(own)
    parameters = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    moments = [optimiser.state.get(parameter, {}) for parameter in parameters]
    names = [tuple(sorted(each)) if isinstance(each, dict) else None for each in moments]
    if (
        None in names
        or len({*names}) > 1
        or any(
            getattr(value, "shape", None) not in (parameter.shape, torch.Size())
            for parameter, each in zip(parameters, moments, strict=True)
            for value in each.values()
        )
    ):
        raise ValueError("its optimiser's state does not fit the parameters")


def digest(weights: Mapping[str, torch.Tensor]) -> str:
    """SHA-256 of names, types, shapes and bytes, whatever the order."""
    total = hashlib.sha256()
    for name, tensor in sorted(weights.items()):
        tensor = tensor.detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)} ".encode())
        total.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    return total.hexdigest()


def check_digest(weights: Mapping[str, torch.Tensor], expected: str | None) -> None:
    """`ValueError` for weights that are not those of the digest; files without one are not checked."""
    if expected is not None and digest(weights) != expected:
        raise ValueError("its digest does not match its weights, so it is damaged")
