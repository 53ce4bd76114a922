"""Claims of the user's own: `file.py:NAME` or `package.module:NAME`.

A claim is a function with a docstring, the claim in words, that is decorated with `Claim(id, ensembles)` and
yields comparisons of the `Judge` it is given, each judged as the paper's claims are:

    from calmix.paper.judging import Claim
    from calmix.study import quantities as q

    @Claim("pool", ("deep",))
    def pool_beats_member(judge):
        'CAMixup by pool has a lower ECE than by member'
        yield judge.compare(q.ECE, "camixup-by-pool", "camixup", "below")

    CLAIMS = [pool_beats_member]

`judge.compare(quantity, this, that, side)` compares two augmentations, `judge.level(quantity, augment, side)`
one with 0. The claimed side is "above" or "below"; what lies within its `margin` counts as claimed.
"""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from calmix.errors import InputError
from calmix.paper.judging import Claim

DEFAULT_NAME = "CLAIMS"


def load_claims(place: str) -> list[Claim]:
    """The claims that `file.py`, `file.py:NAME` or `package.module:NAME` holds: one, or a list of them."""
    path, _, name = place.rpartition(":") if ":" in place else (place, "", DEFAULT_NAME)
    name = name or DEFAULT_NAME
    module = _module(path)
    if not hasattr(module, name):
        raise InputError(f"{path} has no {name}; give it as {path}:NAME")
    value = getattr(module, name)
    claims = [value] if isinstance(value, Claim) else value
    if not isinstance(claims, Sequence) or not claims or not all(isinstance(c, Claim) for c in claims):
        raise InputError(f"{path}:{name} must be a Claim or a list of them, got {type(value).__name__}")
    ids = [claim.id for claim in claims]
    for claim in claims:
        if ids.count(claim.id) > 1:
            raise InputError(f"{path}:{name} has two claims with the id {claim.id!r}")
        if not claim.text:
            raise InputError(f"{path}:{name}: claim {claim.id!r} has no docstring, which is its text")
    return list(claims)


def _module(path: str) -> Any:
    try:
        if not path.endswith(".py"):
            return importlib.import_module(path)
        if not Path(path).is_file():
            raise InputError(f"{path}: no such file")
        spec = importlib.util.spec_from_file_location(f"calmix_claims_{Path(path).stem}", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    except InputError:
        raise
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{last.filename}, line {last.lineno}"
        raise InputError(f"{path} cannot be read: {type(error).__name__}: {error} ({where})") from None
    return module
