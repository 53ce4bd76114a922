"""CIFAR-10 and CIFAR-100: names and sizes of the official binary files, without pickle."""

from dataclasses import dataclass
from pathlib import Path

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
    """Files of each part with their number of images, and the names of the labels of an image."""

    folder: str
    train: dict[str, int]
    test: dict[str, int]
    names: tuple[tuple[str, ...], ...]

    @property
    def record(self) -> int:
        """Bytes per image: its labels, the class last, then red, green and blue pixels."""
        return len(self.names) + PIXELS


_BATCHES_10 = {f"data_batch_{i}.bin": 10_000 for i in range(1, 6)}
CIFAR10 = Layout("cifar-10-batches-bin", _BATCHES_10, {"test_batch.bin": 10_000}, (CLASSES_10,))
_PARTS_100 = {"train.bin": 50_000}, {"test.bin": 10_000}
CIFAR100 = Layout("cifar-100-binary", *_PARTS_100, (COARSE_100, CLASSES_100))


def check_sizes(folder: Path, layout: Layout) -> None:
    """Every official file must be there and have its official size."""
    for file, count in (layout.train | layout.test).items():
        path, expected = folder / file, count * layout.record
        if not path.is_file():
            raise InputError(f"{path}: missing, expected {expected:,} bytes")
        if (size := path.stat().st_size) != expected:
            raise InputError(f"{path}: expected {expected:,} bytes, got {size:,}")
