"""A test part under a corruption: made batch by batch, or taken from a folder in the official layout."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from calmix.corruptions.corrupt import corrupt
from calmix.data.corrupted import corrupted_labels, open_corrupted
from calmix.data.dataset import Draws, Examples, Part
from calmix.errors import InputError


@dataclass(frozen=True)
class Corrupted:
    """The images of `part`, corrupted as they are read, so that a large set is never held in memory.

    An image's draws belong to its position in the part, whatever the batches.
    """

    part: Examples
    name: str
    severity: int
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.part.shape) != 3:
            raise InputError(f"{self.name} is for images; these examples have the shape {self.part.shape}")

    def __len__(self) -> int:
        return len(self.part)

    @property
    def labels(self) -> Tensor:
        return self.part.labels

    @property
    def groups(self) -> Tensor | None:
        return self.part.groups

    @property
    def shape(self) -> tuple[int, ...]:
        return self.part.shape

    def take(self, index: Tensor) -> "Corrupted":
        return replace(self, part=self.part.take(index))

    def read(self, batches: Sequence[Tensor], draws: Draws | None = None) -> Iterator[Tensor]:
        for index, images in zip(batches, self.part.read(batches, draws), strict=True):
            start = int(index[0])
            if not torch.equal(index, torch.arange(start, start + len(index))):
                raise InputError(
                    "corrupted images are read in order, as test_batches does; take() a subset first"
                )
            pixels = images.permute(0, 2, 3, 1).contiguous()
            made = corrupt(pixels, self.name, self.severity, seed=self.seed, start=start)
            yield made.permute(0, 3, 1, 2)


def read_corrupted(folder: Path, name: str, severity: int, index: Tensor, labels: Tensor) -> Part:
    """The images at positions `index` of a folder's test set; its labels must be `labels`."""
    images = open_corrupted(folder, name, severity)
    if len(index) and int(index.max()) >= len(images):
        raise InputError(
            f"{folder} has {len(images)} images of {name}; image {int(index.max())} is asked for"
        )
    held = torch.from_numpy(corrupted_labels(folder))[index]
    if not torch.equal(held, labels):
        place = int((held != labels).nonzero()[0, 0])
        raise InputError(
            f"{folder}: image {int(index[place])} has the label {int(held[place])}, in the test set it is "
            f"{int(labels[place])}: this folder was made from another test set or in another order"
        )
    return Part(torch.from_numpy(images[index.numpy()]), labels)
