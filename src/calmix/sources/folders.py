"""Folders of images, one for each class."""

import os
from pathlib import Path

from calmix.errors import InputError


def class_names(folder: Path) -> tuple[str, ...]:
    """Names of the folders in `folder`, sorted, without hidden ones."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; images are expected in {folder}/<class>/*.jpg")
    names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir() and entry.name[0] != ".")
    if not names:
        raise InputError(f"{folder}: no class folders; images are expected in {folder}/<class>/*.jpg")
    return tuple(names)
