import os

import numpy as np
import pytest
import torch

from calmix import InputError, data
from calmix.sources.cifar import CIFAR10, CIFAR100

LAYOUTS = {"cifar10": CIFAR10, "cifar100": CIFAR100}


def make_files(root, layout):
    """Sparse files of zeros with the official sizes."""
    folder = root / layout.folder
    folder.mkdir()
    for file, count in (layout.train | layout.test).items():
        (folder / file).touch()
        os.truncate(folder / file, count * layout.record)
    return folder


def write_record(path, index, labels, image):
    """One record of the official format: labels, then 1,024 red, 1,024 green and 1,024 blue bytes."""
    record = bytes(labels) + b"".join(image[:, :, channel].tobytes() for channel in range(3))
    with open(path, "r+b") as file:
        file.seek(index * len(record))
        file.write(record)


def test_cifar10_records(tmp_path):
    folder = make_files(tmp_path, CIFAR10)
    image = np.random.default_rng(0).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    write_record(folder / "data_batch_3.bin", 17, [6], image)
    write_record(folder / "test_batch.bin", 9_999, [9], image)
    cifar = data.load("cifar10", tmp_path)
    assert (len(cifar.train), len(cifar.test), cifar.train.shape) == (50_000, 10_000, (3, 32, 32))
    assert np.array_equal(cifar.train.inputs[20_017].numpy(), image)
    assert cifar.train.labels.nonzero().tolist() == [[20_017]]
    assert cifar.classes[cifar.train.labels[20_017]] == "frog"
    assert cifar.test.labels[9_999] == 9
    assert cifar.train.groups is None
    batch = next(data.test_batches(cifar.train.take(torch.tensor([4, 20_017]))))
    assert np.array_equal(batch.inputs[1].numpy(), image.transpose(2, 0, 1) / np.float32(255))
    assert not batch.inputs[0].any()


def test_cifar100_records_start_with_the_coarse_label(tmp_path):
    folder = make_files(tmp_path, CIFAR100)
    image = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    write_record(folder / "train.bin", 49_999, [15, 78], image)
    cifar = data.load("cifar100", tmp_path)
    assert cifar.classes[cifar.train.labels[-1]] == "snake"
    assert cifar.group_names[cifar.train.groups[-1]] == "reptiles"
    assert np.array_equal(cifar.train.inputs[-1].numpy(), image)
    assert (len(cifar.classes), len(cifar.group_names), len(cifar.test)) == (100, 20, 10_000)


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("change", [-1, 1, -3073, 3074])
def test_file_of_another_size_raises(tmp_path, name, change):
    layout = LAYOUTS[name]
    folder = make_files(tmp_path, layout)
    file, count = list((layout.train | layout.test).items())[-1]
    expected = count * layout.record
    os.truncate(folder / file, expected + change)
    with pytest.raises(InputError) as caught:
        data.load(name, tmp_path)
    assert str(caught.value) == f"{folder / file}: expected {expected:,} bytes, got {expected + change:,}"


def test_missing_file_raises(tmp_path):
    folder = make_files(tmp_path, CIFAR10)
    (folder / "data_batch_4.bin").unlink()
    with pytest.raises(InputError, match=r"data_batch_4.bin: missing, expected 30,730,000 bytes"):
        data.load("cifar10", tmp_path)


@pytest.mark.parametrize(
    ("name", "labels"), [("cifar10", [10]), ("cifar100", [20, 0]), ("cifar100", [0, 100])]
)
def test_label_out_of_range_raises(tmp_path, name, labels):
    layout = LAYOUTS[name]
    folder = make_files(tmp_path, layout)
    file = list(layout.train)[-1]
    write_record(folder / file, 123, labels, np.zeros((32, 32, 3), dtype=np.uint8))
    with pytest.raises(InputError, match=f"{file}: the label of image 123 must be in .*, got {max(labels)}"):
        data.load(name, tmp_path)


@pytest.mark.skipif("CALMIX_DATA" not in os.environ, reason="needs CIFAR in CALMIX_DATA")
def test_official_files():
    cifar = data.load("cifar100")
    assert cifar.train.labels.bincount().tolist() == [500] * 100
    fine_of = [cifar.train.labels[cifar.train.groups == group].unique() for group in range(20)]
    assert sorted(torch.cat(fine_of).tolist()) == list(range(100))
    assert {cifar.classes[i] for i in fine_of[14]} == {"baby", "boy", "girl", "man", "woman"}
    mean = data.load("cifar10").train.inputs.float().mean((0, 1, 2)) / 255
    assert torch.allclose(mean, torch.tensor([0.4914, 0.4822, 0.4465]), atol=1e-4)
