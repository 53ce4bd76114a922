import json
import os

import numpy as np
import pytest
import torch

from calmix.corruptions.constants import ALL_CORRUPTIONS
from calmix.corruptions.dispatch import corrupt
from calmix.corruptions.frost import frost_source
from calmix.data import corrupted
from calmix.data.corrupted import corrupted_labels, open_corrupted, write_corrupted
from calmix.errors import InputError
from tests.corruptions.scenes import photographs

IMAGES, LABELS = photographs(70, 16, 16), np.arange(70) % 10
NAMES = ("fog", "contrast")


@pytest.fixture
def folder(tmp_path):
    write_corrupted(IMAGES, LABELS, tmp_path / "C", names=NAMES, seed=3)
    return tmp_path / "C"


def test_layout_is_the_official_one(folder):
    assert sorted(os.listdir(folder)) == ["contrast.npy", "corruptions.json", "fog.npy", "labels.npy"]
    whole = np.load(folder / "fog.npy")
    assert (whole.shape, whole.dtype) == ((350, 16, 16, 3), np.uint8)
    np.testing.assert_array_equal(whole[140:210], corrupt(IMAGES, "fog", 3, seed=3))
    labels = np.load(folder / "labels.npy")
    assert labels.dtype == np.uint8
    np.testing.assert_array_equal(labels, np.tile(LABELS, 5))


def test_open_corrupted_maps_one_severity(folder):
    images = open_corrupted(folder, "contrast", 5)
    assert isinstance(images, np.memmap)
    np.testing.assert_array_equal(images, corrupt(IMAGES, "contrast", 5))
    np.testing.assert_array_equal(corrupted_labels(folder), LABELS)


def test_official_folder_is_read(tmp_path):
    np.save(
        tmp_path / "snow.npy", np.repeat(np.arange(5, dtype=np.uint8), 4).reshape(20, 1, 1, 1).repeat(3, -1)
    )
    np.save(tmp_path / "labels.npy", np.tile([1, 9, 8, 2], 5))
    assert [open_corrupted(tmp_path, "snow", s).mean() for s in (1, 5)] == [0, 4]
    assert corrupted_labels(tmp_path).tolist() == [1, 9, 8, 2]


def test_result_does_not_depend_on_chunks_and_processes(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(corrupted, "block_length", lambda height, width: 1)
    steps = []
    write_corrupted(
        torch.from_numpy(IMAGES),
        torch.from_numpy(LABELS),
        tmp_path / "two",
        names=NAMES,
        seed=3,
        jobs=2,
        progress=lambda *step: steps.append(step),
    )
    for name in (*NAMES, "labels"):
        assert (tmp_path / "two" / f"{name}.npy").read_bytes() == (folder / f"{name}.npy").read_bytes()
    assert steps[0] == ("fog", 16, 700)
    assert steps[-1] == ("contrast", 700, 700)


def test_complete_files_are_kept_and_missing_ones_are_written(folder):
    (folder / "fog.npy").unlink()
    kept = (folder / "contrast.npy").stat().st_mtime_ns
    steps = []
    write_corrupted(
        IMAGES, LABELS, folder, names=(*NAMES, "frost"), seed=3, progress=lambda name, *_: steps.append(name)
    )
    assert set(steps) == {"fog", "frost"}
    assert (folder / "contrast.npy").stat().st_mtime_ns == kept
    assert json.loads((folder / "corruptions.json").read_text())["frost"] == frost_source()


def test_interrupted_file_is_not_left(folder):
    def stop(name, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_corrupted(IMAGES, LABELS, folder, names=("snow",), seed=3, progress=stop)
    assert sorted(os.listdir(folder)) == ["contrast.npy", "corruptions.json", "fog.npy", "labels.npy"]


def test_folder_of_another_seed_or_other_images_raises(folder):
    with pytest.raises(InputError, match="has seed=3 instead of 4"):
        write_corrupted(IMAGES, LABELS, folder, names=("snow",), seed=4)
    with pytest.raises(InputError, match="has images="):
        write_corrupted(IMAGES[::-1], LABELS, folder, names=("snow",), seed=3)
    assert not (folder / "snow.npy").exists()


def test_writing_to_an_official_folder_raises(tmp_path):
    np.save(tmp_path / "snow.npy", np.zeros((5, 16, 16, 3), np.uint8))
    with pytest.raises(InputError, match=r"has snow\.npy, which calmix did not write"):
        write_corrupted(IMAGES, LABELS, tmp_path, names=("fog",))


def test_type_of_labels_fits_the_classes(tmp_path):
    for top, dtype in ((255, np.uint8), (256, np.int16), (40000, np.int64)):
        write_corrupted(IMAGES[:2], [0, top], tmp_path / str(top), names=("contrast",))
        assert np.load(tmp_path / str(top) / "labels.npy").dtype == dtype
        assert corrupted_labels(tmp_path / str(top)).tolist() == [0, top]


def test_truncated_file_raises_and_is_written_again(folder):
    path = folder / "fog.npy"
    size = path.stat().st_size
    os.truncate(path, size - 1000)
    with pytest.raises(InputError, match=rf"fog\.npy: expected {size:,} bytes, got {size - 1000:,}"):
        open_corrupted(folder, "fog", 1)
    write_corrupted(IMAGES, LABELS, folder, names=("fog",), seed=3)
    assert path.stat().st_size == size


def test_missing_file_raises_with_the_nearest_name(folder):
    with pytest.raises(InputError, match=r"fogg\.npy does not exist; did you mean 'fog'"):
        open_corrupted(folder, "fogg", 1)
    with pytest.raises(InputError, match=r"there are no \.npy files"):
        corrupted_labels(folder / "elsewhere")


def test_files_that_are_not_images_raise(folder):
    (folder / "snow.npy").write_bytes(b"not an array")
    with pytest.raises(InputError, match=r"snow\.npy is not a \.npy file"):
        open_corrupted(folder, "snow", 1)
    for wrong in (np.zeros((350, 16, 16, 3)), np.zeros((351, 16, 16, 3), np.uint8)):
        np.save(folder / "snow.npy", wrong)
        with pytest.raises(InputError, match="must be uint8"):
            open_corrupted(folder, "snow", 1)
    np.save(folder / "snow.npy", np.array([{}] * 350))
    with pytest.raises(InputError, match="never unpickled"):
        open_corrupted(folder, "snow", 1)
    np.save(folder / "snow.npy", np.zeros((345, 16, 16, 3), np.uint8))
    with pytest.raises(InputError, match="has 345 images, but"):
        open_corrupted(folder, "snow", 1)


def test_labels_that_differ_between_severities_raise(folder):
    np.save(folder / "labels.npy", np.arange(350) % 9)
    with pytest.raises(InputError, match="must repeat"):
        corrupted_labels(folder)


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (IMAGES.astype(float), LABELS, "images must be uint8 .* got float64"),
        (IMAGES[:0], LABELS[:0], r"\(0, 16, 16, 3\)"),
        (IMAGES, LABELS[:-1], r"labels must be 70 integers from 0, got int64 \(69,\)"),
        (IMAGES, LABELS / 2, "labels must be .* got float64"),
        (IMAGES, LABELS - 1, "integers from 0"),
    ],
)
def test_bad_input_raises_before_anything_is_written(images, labels, message, tmp_path):
    with pytest.raises(InputError, match=message):
        write_corrupted(images, labels, tmp_path / "C", names=NAMES)
    with pytest.raises(InputError, match="did you mean 'fog'"):
        write_corrupted(IMAGES, LABELS, tmp_path / "C", names=("fogg",))
    assert not (tmp_path / "C").exists()


def test_bad_severity_raises(folder):
    with pytest.raises(InputError, match="severity must be one of 1, 2, 3, 4, 5, got 0"):
        open_corrupted(folder, "fog", 0)


def test_all_corruptions_can_be_written(tmp_path):
    write_corrupted(IMAGES[:3], LABELS[:3], tmp_path / "C", names=ALL_CORRUPTIONS)
    assert {path.stem for path in (tmp_path / "C").glob("*.npy")} == {*ALL_CORRUPTIONS, "labels"}


@pytest.mark.parametrize("content", ["", "[]", "{", "[" * 100_000, "7"])
def test_damaged_provenance_is_an_input_error(tmp_path, content):
    (tmp_path / "corruptions.json").write_text(content)
    images = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    with pytest.raises(InputError, match=r"corruptions\.json"):
        write_corrupted(images, [0, 1], tmp_path, names=["contrast"])


def test_leftovers_of_a_killed_process_are_removed(tmp_path):
    left = tmp_path / ".contrast.npy.0123abcd.part"
    left.write_bytes(b"half")
    images = np.zeros((2, 8, 8, 3), dtype=np.uint8)
    write_corrupted(images, [0, 1], tmp_path, names=["contrast"])
    assert not left.exists()
