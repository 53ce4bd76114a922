"""Seeds for each use of randomness, derived from the run's seed and a path of names."""

import hashlib

import torch


def derive(seed: int, *path: int | str) -> int:
    """A 63-bit seed that depends on `seed` and on every part of `path`, the same on every machine.

    >>> derive(0, "member", 1) == derive(0, "member", 1)
    True
    >>> derive(0, "member", 1) == derive(0, "member", 2)
    False
    """
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in (seed, *path))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def generator(seed: int, *path: int | str, device: torch.device | str = "cpu") -> torch.Generator:
    """A fresh generator for `derive(seed, *path)`.

    Draws keyed by (run, member, epoch, step) need no saved state: a resumed run repeats them.
    """
    return torch.Generator(device=device).manual_seed(derive(seed, *path))
