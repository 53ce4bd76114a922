"""Doctests of integrations are collected where their library is installed; `make check` installs all."""

import importlib.util

LIBRARIES = ("lightning", "transformers", "torchmetrics", "sklearn")
collect_ignore = [
    f"src/calmix/integrations/{name}.py" for name in LIBRARIES if importlib.util.find_spec(name) is None
]
