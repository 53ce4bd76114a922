"""Without its library, an integration says what to install; without any use, none is imported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import calmix
from calmix.errors import InputError
from calmix.integrations import requires

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(calmix.__file__).parents[1])}


def test_a_missing_library_says_what_to_install():
    with pytest.raises(InputError, match=r"needs lightning.*pip install 'calmix\[lightning\]'"):  # noqa: SIM117
        with requires("lightning", "lightning"):
            raise ImportError("No module named 'lightning'")


@pytest.mark.parametrize("name", ["lightning", "transformers", "torchmetrics"])
def test_import_without_the_library(name):
    code = (
        f"import sys; sys.modules[{name!r}] = None\n"
        "from calmix.errors import InputError\n"
        f"try: import calmix.integrations.{name}\n"
        "except InputError as error: print(error)"
    )
    command = [sys.executable, "-c", code]
    text = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout
    assert f"pip install 'calmix[{name}]'" in text


def test_the_package_itself_is_light():
    code = (
        "import sys, calmix.integrations\n"
        "print([n for n in ('lightning', 'transformers', 'torchmetrics', 'sklearn') if n in sys.modules])"
    )
    command = [sys.executable, "-c", code]
    text = subprocess.run(command, env=ENVIRONMENT, check=True, capture_output=True, text=True).stdout
    assert text.strip() == "[]"
