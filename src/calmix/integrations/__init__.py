"""Integrations with Lightning, the Hugging Face Trainer, torchmetrics and scikit-learn, each in a module.

from calmix.integrations.lightning import MixerCallback
from calmix.integrations.transformers import MixedClassifier, MixerCallback
from calmix.integrations.torchmetrics import ECE
from calmix.integrations.sklearn import CalibratedEnsemble
"""

from collections.abc import Iterator
from contextlib import contextmanager

from calmix.augment import Mixer
from calmix.errors import InputError


@contextmanager
def requires(library: str, extra: str) -> Iterator[None]:
    """Around the import of an optional library: if it is missing, say which extra installs it."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"calmix.integrations.{extra} needs {library}, and {str(error)!r}: pip install 'calmix[{extra}]'"
        ) from error


def learns_from_validation(mixer: Mixer) -> bool:
    """Whether the mixer decides from validation data, as CAMixup does."""
    return hasattr(mixer.where, "validate")
