"""CIFAR-10 and CIFAR-100 from the official binary archives: records of label bytes and pixels, no pickle."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from calmix.data.dataset import DataSet, Part
from calmix.errors import InputError

PIXELS = 3 * 32 * 32

_CLASSES_10 = "airplane automobile bird cat deer dog frog horse ship truck"
_CLASSES_100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard
lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear
pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal
shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
_COARSE_100 = """
aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
household_furniture insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees
vehicles_1 vehicles_2
"""
CLASSES_10, CLASSES_100, COARSE_100 = (tuple(s.split()) for s in (_CLASSES_10, _CLASSES_100, _COARSE_100))


@dataclass(frozen=True)
class Layout:
    """The files of each part with their number of images, and the names behind each image's label bytes."""

    folder: str
    train: dict[str, int]
    test: dict[str, int]
    names: tuple[tuple[str, ...], ...]

    @property
    def record(self) -> int:
        """Bytes of one image: its labels, the class last, then the red, the green and the blue pixels."""
        return len(self.names) + PIXELS


CIFAR10 = Layout(
    folder="cifar-10-batches-bin",
    train={f"data_batch_{i}.bin": 10_000 for i in range(1, 6)},
    test={"test_batch.bin": 10_000},
    names=(CLASSES_10,),
)
CIFAR100 = Layout(
    folder="cifar-100-binary",
    train={"train.bin": 50_000},
    test={"test.bin": 10_000},
    names=(COARSE_100, CLASSES_100),
)


def load_cifar10(folder: Path) -> DataSet:
    """50,000 and 10,000 colour images of 32 x 32 in ten classes, from the files of `cifar-10-batches-bin`."""
    check_sizes(folder, CIFAR10)
    train, test = (_read(folder, CIFAR10, files) for files in (CIFAR10.train, CIFAR10.test))
    return DataSet("cifar10", CLASSES_10, train, test)


def load_cifar100(folder: Path) -> DataSet:
    """The same in a hundred classes, from `cifar-100-binary`; the twenty coarse labels are the groups."""
    check_sizes(folder, CIFAR100)
    train, test = (_read(folder, CIFAR100, files) for files in (CIFAR100.train, CIFAR100.test))
    return DataSet("cifar100", CLASSES_100, train, test, group_names=COARSE_100)


def check_sizes(folder: Path, layout: Layout) -> None:
    """Refuse a folder in which a file is missing or has another size than the official one."""
    for file, count in (layout.train | layout.test).items():
        path, expected = folder / file, count * layout.record
        if not path.is_file():
            raise InputError(f"{path}: missing; {expected:,} bytes expected")
        if (found := path.stat().st_size) != expected:
            raise InputError(f"{path}: {found:,} bytes found, {expected:,} expected")


def _read(folder: Path, layout: Layout, files: dict[str, int]) -> Part:
    """One read into one array; the images stay where they were read, and NHWC is a matter of strides."""
    records = np.empty((sum(files.values()), layout.record), dtype=np.uint8)
    end = 0
    for file, count in files.items():
        begin, end = end, end + count
        with open(folder / file, "rb") as opened:
            found = opened.readinto(records[begin:end])  # type: ignore[arg-type]
        if found != count * layout.record:
            raise InputError(f"{folder / file}: {found:,} bytes read, {count * layout.record:,} expected")
        for column, names in enumerate(layout.names):
            read = records[begin:end, column]
            if (worst := int(read.max())) >= len(names):
                at = int(read.argmax())
                raise InputError(
                    f"{folder / file}: label {worst} of image {at}; expected 0 to {len(names) - 1}"
                )
    width = len(layout.names)
    *groups, labels = (
        column.contiguous() for column in torch.from_numpy(records[:, :width]).long().unbind(1)
    )
    images = torch.from_numpy(records)[:, width:].view(-1, 3, 32, 32).permute(0, 2, 3, 1)
    return Part(images, labels, groups[0] if groups else None)
