import numpy as np
import pytest
import torch

from calmix.corruptions import corrupt
from calmix.data import Part
from calmix.data import corrupted_cache as module
from calmix.data.corrupted import Corrupted
from calmix.data.corrupted_cache import CorruptedCache


@pytest.fixture
def part():
    images = torch.randint(0, 256, (6, 32, 32, 3), generator=torch.Generator().manual_seed(0))
    return Part(images.byte(), torch.arange(6))


def files(folder):
    return sorted(folder.glob("corrupted/*/*.npy"))


def test_images_are_those_of_corrupt_and_are_kept(part, tmp_path, monkeypatch):
    cache = CorruptedCache(part, seed=3, folder=tmp_path)
    expected = corrupt(part.inputs, "gaussian_noise", 2, seed=3)
    assert torch.equal(cache("gaussian_noise", 2).inputs, expected)
    assert [path.name for path in files(tmp_path)] == ["gaussian_noise-2.npy"]
    monkeypatch.setattr(module, "corrupt", pytest.fail)
    assert torch.equal(CorruptedCache(part, seed=3, folder=tmp_path)("gaussian_noise", 2).inputs, expected)


def test_chunks_do_not_change_the_draws(part, tmp_path, monkeypatch):
    whole = CorruptedCache(part, seed=0, folder=tmp_path / "whole")("shot_noise", 1).inputs
    monkeypatch.setattr(module, "CHUNK", 4)
    assert torch.equal(
        CorruptedCache(part, seed=0, folder=tmp_path / "chunks")("shot_noise", 1).inputs, whole
    )


def test_other_images_and_other_seeds_have_other_files(part, tmp_path):
    other = Part(part.inputs.flip(0), part.labels)
    for images, seed in ((part, 0), (other, 0), (part, 1)):
        CorruptedCache(images, seed=seed, folder=tmp_path)("contrast", 1)
    assert len(files(tmp_path)) == 3


def test_the_files_used_least_recently_make_room(part, tmp_path):
    size = part.inputs.numel()
    cache = CorruptedCache(part, seed=0, folder=tmp_path, limit=3 * size)
    for severity in (1, 2, 3, 4, 5):
        cache("contrast", severity)
    assert len(files(tmp_path)) <= 3
    assert any(path.name == "contrast-5.npy" for path in files(tmp_path))


def test_a_damaged_file_is_replaced(part, tmp_path):
    cache = CorruptedCache(part, seed=0, folder=tmp_path)
    expected = cache("contrast", 1).inputs
    (path,) = files(tmp_path)
    path.write_bytes(b"damaged")
    assert isinstance(cache("contrast", 1), Corrupted)  # generated this time
    assert torch.equal(cache("contrast", 1).inputs, expected)
    np.save(path, np.zeros((2, 2), dtype=np.uint8))
    assert isinstance(cache("contrast", 1), Corrupted)


def test_a_folder_that_cannot_be_written_is_no_error(part, tmp_path):
    (tmp_path / "file").write_text("")
    assert isinstance(CorruptedCache(part, seed=0, folder=tmp_path / "file")("contrast", 1), Corrupted)
