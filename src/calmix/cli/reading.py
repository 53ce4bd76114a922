"""Options of every command that reads predictions, and checks before work begins."""

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from calmix.errors import InputError, one_of
from calmix.prediction_files import FORMATS, format_of
from calmix.predictions import Predictions, join_members, load_predictions


@dataclass(frozen=True)
class Reading:
    """How files of predictions are read."""

    values: Literal["logits", "probs"] | None = None
    """What the numbers are, where neither an array, the file nor its columns say so."""
    label: str | None = None
    """Column of the labels, if it is not called label."""
    classes: str | None = None
    """Columns of the classes in their order, joined by commas; of arrays, the names of the classes."""
    class_names: Path | None = None
    """The same as --classes, from a text file with one name on each line."""
    group: str | None = None
    """Groups, joined by commas: columns of a table, or arrays groups_<name>."""
    id: str | None = None
    """Column of the examples' ids, if it is not called id."""
    member: str | None = None
    """Column of the members, if it is not called member."""
    ignore: str | None = None
    """Columns to leave out, joined by commas."""
    positive: str | None = None
    """The one column with P(y = 1) of a table of two classes."""
    normalise: bool = False
    """Divide rows of probabilities by their sum, where that is off by rounding."""
    format: str | None = None
    """Format of standard input (the file "-"), or of a file with another suffix."""

    def check(self, files: Sequence[Path]) -> None:
        """Everything that can be refused before a file is read."""
        for path in files:
            format_of(path, self.format)
            if str(path) != "-" and not path.is_file():
                raise InputError(f"{path}: " + ("not a file" if path.exists() else "no such file"))
        if self.format is not None:
            one_of("--format", self.format.removeprefix("."), FORMATS)
        if sum(str(path) == "-" for path in files) > 1:
            raise InputError("standard input can be read only once")
        if self.classes is not None and self.class_names is not None:
            raise InputError("give --classes or --class-names, not both")

    @property
    def groups(self) -> tuple[str, ...]:
        return split(self.group) or ()

    def read(self, path: Path) -> Predictions:
        classes = split(self.classes) if self.class_names is None else read_names(self.class_names)
        try:
            return load_predictions(
                path,
                self.values,
                label=self.label,
                classes=classes,
                group=self.groups,
                id=self.id,
                member=self.member,
                ignore=split(self.ignore) or (),
                positive=self.positive,
                normalise=self.normalise,
                format=self.format,
            )
        except InputError as error:
            raise InputError(as_flags(str(error))) from None


def as_flags(text: str) -> str:
    """Parameters in a message as the command's options: ignore='age' is --ignore age."""
    for name in ("ignore", "group", "positive"):
        text = text.replace(f"{name}='...'", f"--{name} ...")
        head, found, rest = text.partition(f" {name}='")
        if found:
            text = f"{head} --{name} {rest.replace(chr(39), '', 1)}"
    for old, new in {
        "classes=[negative, positive]": "--classes negative,positive",
        "classes=[...]": "--classes a,b,...",
        "normalise=True": "--normalise",
        'values="logits"': "--values logits",
        'Predictions.from_probs(probs, ...), or values="probs"': "--values probs",
        'values must be "logits" or "probs"': "--values must be logits or probs",
        "values is '": "--values is '",
        "by_id=True": "--by-id",
        "paired=False": "--unpaired",
        ": format must be": ": --format must be",
    }.items():
        text = text.replace(old, new)
    return text


def read_one(files: Sequence[Path], reading: Reading, *, members: bool) -> Predictions:
    """One model from its file, or an ensemble from a file for each member."""
    if not files:
        raise InputError("give a file of predictions")
    if len(files) > 1 and not members:
        raise InputError(
            f"{len(files)} files: if they are the members of one ensemble, add --members; "
            "if they are different models, compare them: calmix compare A B"
        )
    reading.check(files)
    parts = [reading.read(path) for path in files]
    return join_members(parts, [str(path) for path in files]) if len(parts) > 1 else parts[0]


def digests(files: Sequence[Path]) -> list[dict[str, str]]:
    """Name and SHA-256 of each file; what came by standard input is gone."""
    result = []
    for path in files:
        if str(path) != "-":
            with open(path, "rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            result.append({"name": str(path), "sha256": digest})
    return result


def split(text: str | None) -> tuple[str, ...] | None:
    """Names joined by commas.

    >>> split("age, sex")
    ('age', 'sex')
    """
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InputError(f"{text!r} has an empty name: give names joined by commas")
    return names


def read_names(path: Path) -> tuple[str, ...]:
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except UnicodeDecodeError:
        raise InputError(f"{path}: class names must be UTF-8 text, one on each line") from None


def check_output(path: Path | None, option: str, inputs: Sequence[Path] = ()) -> None:
    """Refuse a path that cannot be written, before the work begins."""
    if path is None:
        return
    folder = path.parent
    if path.is_dir():
        raise InputError(f"{option} {path}: is a folder; give a file")
    if not folder.is_dir():
        raise InputError(f"{option} {path}: the folder {folder} does not exist")
    if not os.access(folder, os.W_OK):
        raise InputError(f"{option} {path}: the folder {folder} cannot be written")
    if any(
        str(other) != "-" and other.exists() and path.exists() and path.samefile(other) for other in inputs
    ):
        raise InputError(f"{option} {path}: would overwrite its own input; give another file")


def check_fraction(option: str, value: float) -> None:
    """A number between 0 and 1; nan is refused too."""
    if not 0 < value < 1:
        raise InputError(f"{option} must be above 0 and below 1, got {value}")


def check_resamples(value: int) -> None:
    if value < 2:
        raise InputError(f"--resamples must be at least 2, got {value}")


def show(text: str) -> None:
    """Print a result, and notice here if nobody reads it."""
    print(text)
    sys.stdout.flush()
