"""No package exports a function named like one of its submodules: importing one would hide the other."""

import importlib
import pkgutil

import pytest

import calmix

PACKAGES = ["calmix"] + [
    module.name
    for module in pkgutil.walk_packages(calmix.__path__, "calmix.")
    if module.ispkg and module.name != "calmix.cli"
]
KNOWN_CLASHES: set[str] = set()


def clashes(package):
    """Exported names that are a submodule's and a function's, whichever of the two the package has now."""
    for module in pkgutil.iter_modules(package.__path__):
        value = getattr(package, module.name, None)
        if module.name in getattr(package, "__all__", ()) and (
            callable(value) or callable(getattr(value, module.name, None))
        ):
            yield module.name


@pytest.mark.parametrize("name", PACKAGES)
def test_no_function_has_the_name_of_a_submodule(name, request):
    if name in KNOWN_CLASHES:
        request.applymarker(pytest.mark.xfail)
    assert list(clashes(importlib.import_module(name))) == []
