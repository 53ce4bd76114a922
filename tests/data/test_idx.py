import gzip
import struct

import numpy as np
import pytest

from calmix import InputError, data
from calmix.sources.idx import FILES, read_idx

IMAGES = np.random.default_rng(0).integers(0, 256, (7, 28, 28), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1, 5, 9, 2], dtype=np.uint8)


def encode(array):
    return struct.pack(f">{1 + array.ndim}I", 0x0800 + array.ndim, *array.shape) + array.tobytes()


def make_files(folder, suffix=""):
    folder.mkdir(exist_ok=True)
    for name, array in zip(FILES, (IMAGES, LABELS, IMAGES[:2], LABELS[:2]), strict=True):
        content = encode(array)
        (folder / f"{name}{suffix}").write_bytes(gzip.compress(content) if suffix else content)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("folder", ["mnist", "."])
def test_plain_and_gzipped_files(tmp_path, suffix, folder):
    make_files(tmp_path / folder, suffix)
    mnist = data.load("mnist", tmp_path)
    assert np.array_equal(mnist.train.inputs[..., 0].numpy(), IMAGES)
    assert mnist.train.labels.tolist() == LABELS.tolist()
    assert (len(mnist.test), mnist.test.shape, mnist.classes[9]) == (2, (1, 28, 28), "9")


def test_fashion_mnist_has_its_own_classes_and_folder(tmp_path):
    make_files(tmp_path / "fashion-mnist", ".gz")
    assert data.load("fashion-mnist", tmp_path).classes[9] == "Ankle boot"
    for root in (tmp_path, tmp_path / "fashion-mnist"):
        with pytest.raises(InputError, match="mnist was not found"):
            data.load("mnist", root)


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda content: content[:-5], "expected 5,504 bytes, got 5,499"),
        (lambda content: content + b"x", "expected 5,504 bytes, got 5,505"),
        (lambda content: content[:9], "expected 16 bytes, got 9"),
        (lambda content: b"\0\0\x0d\x03" + content[4:], "expected magic number 2051, got 3331"),
        (lambda content: encode(LABELS) + content[:100], "expected magic number 2051, got 2049"),
        (lambda content: encode(IMAGES[:0]), r"empty, of shape \(0, 28, 28\)"),
    ],
)
def test_bad_file_raises(tmp_path, suffix, change, message):
    path = tmp_path / f"images{suffix}"
    content = change(encode(IMAGES))
    path.write_bytes(gzip.compress(content) if suffix else content)
    with pytest.raises(InputError, match=f"{path}: {message}"):
        read_idx(path, 3)


def test_truncated_gzip_raises(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(encode(IMAGES))[:3_000])
    with pytest.raises(
        InputError, match=r"images.gz: expected 5,504 bytes, got 2,[89]\d\d unpacked \(Compressed"
    ):
        read_idx(path, 3)


def test_flipped_bit_in_gzip_raises(tmp_path):
    path = tmp_path / "images.gz"
    packed = bytearray(gzip.compress(encode(IMAGES)))
    packed[2_000] ^= 1
    path.write_bytes(packed)
    with pytest.raises(InputError, match=r"images.gz: expected 5,504 bytes, got .* \("):
        read_idx(path, 3)


def test_gz_file_that_is_not_gzip_raises(tmp_path):
    path = tmp_path / "images.gz"
    path.write_bytes(b"<html>not found</html>")
    with pytest.raises(InputError, match=r"images.gz: expected .* got 0 unpacked \(Not a gzipped file"):
        read_idx(path, 3)


def test_different_numbers_of_labels_and_images_raise(tmp_path):
    make_files(tmp_path)
    (tmp_path / FILES[3]).write_bytes(encode(LABELS[:3]))
    with pytest.raises(InputError, match=f"{FILES[3]}: 3 labels for 2 images"):
        data.load("mnist", tmp_path)


def test_label_out_of_range_raises(tmp_path):
    make_files(tmp_path)
    (tmp_path / FILES[1]).write_bytes(encode(np.array([0, 0, 10, 0, 0, 0, 0], dtype=np.uint8)))
    with pytest.raises(InputError, match=f"{FILES[1]}: the label of image 2 must be in 0..9, got 10"):
        data.load("mnist", tmp_path)


def test_missing_file_raises(tmp_path):
    make_files(tmp_path)
    (tmp_path / FILES[2]).unlink()
    with pytest.raises(InputError, match=f"{FILES[2]}.gz: both are missing"):
        data.load("mnist", tmp_path)
