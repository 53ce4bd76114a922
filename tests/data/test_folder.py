import dataclasses
import threading
from random import Random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from calmix import InputError, data
from calmix.data.folder import central_box, decode, random_box

COLOURS = {"ant": (250, 10, 10), "bee": (10, 250, 10), "cat": (10, 10, 250)}


def photograph(width, height):
    """A smooth image without symmetry."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x / 17 + y / 29), np.cos(x / 41 - y / 13), np.sin(x * y / 9_000)]
    return Image.fromarray((127.5 + 127 * np.stack(waves, axis=2)).astype(np.uint8))


@pytest.fixture
def root(tmp_path):
    """Three classes of one colour each: 4 training and 2 test images per class."""
    for part, count in (("train", 4), ("val", 2)):
        for name, colour in COLOURS.items():
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(count):
                Image.new("RGB", (40 + i, 30), colour).save(tmp_path / part / name / f"{i}.png")
    return tmp_path


def test_classes_are_sorted_and_images_have_their_labels(root):
    images = data.load_folder(root, size=16, workers=0)
    assert images.classes == ("ant", "bee", "cat")
    assert images.train.labels.tolist() == [0] * 4 + [1] * 4 + [2] * 4
    assert (len(images.test), images.test.shape) == (6, (3, 16, 16))
    for batches in (
        data.train_batches(images.train, batch_size=4),
        data.test_batches(images.test, batch_size=4),
    ):
        for batch in batches:
            assert batch.inputs.shape[1:] == (3, 16, 16)
            assert batch.inputs[:, :, 8, 8].argmax(1).tolist() == batch.labels.tolist()
            assert batch.inputs.max() == np.float32(250 / 255)


def test_load_by_name(root):
    images = data.load("folder", root)
    assert images.train.shape == (3, 224, 224)
    assert images.train.workers >= 1


@pytest.mark.filterwarnings("ignore:This DataLoader will create")  # on a machine with one CPU
def test_images_do_not_depend_on_the_number_of_workers(root):
    photograph(90, 70).save(root / "train" / "bee" / "9.jpg")
    serial = data.load_folder(root, size=16, workers=0).train
    parallel = dataclasses.replace(serial, workers=2)
    key = {"batch_size": 4, "seed": 5, "epoch": 1, "member": 3}
    before = torch.get_rng_state()
    pairs = list(zip(data.train_batches(serial, **key), data.train_batches(parallel, **key), strict=True))
    assert torch.equal(torch.get_rng_state(), before)
    assert len(pairs) == 3
    for one, other in pairs:
        assert one.inputs.shape == (4, 3, 16, 16)
        assert torch.equal(one.inputs, other.inputs)
        assert torch.equal(one.index, other.index)


def test_crops_depend_on_seed_epoch_and_member_not_on_the_order(root):
    photograph(90, 70).save(root / "train" / "bee" / "9.png")
    part = data.load_folder(root, size=16, workers=0).train
    index = part.files.tolist().index(b"bee/9.png")

    def crop(**key):
        (batch,) = data.train_batches(part, batch_size=13, **key)
        return batch.inputs[batch.index == index]

    first = crop(seed=1, epoch=2, member=3)
    assert torch.equal(first, crop(seed=1, epoch=2, member=3))
    for other in ({"seed": 0}, {"epoch": 0}, {"member": 0}):
        assert not torch.equal(first, crop(**{"seed": 1, "epoch": 2, "member": 3, **other}))
    (among_few,) = data.train_batches(part.take(torch.arange(index + 1)), seed=1, epoch=2, member=3)
    assert torch.equal(among_few.inputs[among_few.index == index], first)


def test_take(root):
    part = data.load_folder(root, size=16, workers=0).train.take(torch.tensor([9, 0, 5]))
    assert part.files.tolist() == [b"cat/1.png", b"ant/0.png", b"bee/1.png"]
    batch = next(data.test_batches(part))
    assert batch.labels.tolist() == batch.inputs[:, :, 8, 8].argmax(1).tolist() == [2, 0, 1]


@pytest.mark.parametrize(("width", "height"), [(300, 256), (333, 500), (64, 64), (1001, 257)])
def test_test_image_equals_resize_and_central_crop(tmp_path, width, height):
    image = photograph(width, height)
    image.save(tmp_path / "a.png")
    scale = 256 / min(width, height)
    resized = image.resize(
        (256 if width <= height else int(scale * width), 256 if height <= width else int(scale * height)),
        Image.Resampling.BILINEAR,
    )
    left, top = round((resized.width - 224) / 2), round((resized.height - 224) / 2)
    expected = np.asarray(resized.crop((left, top, left + 224, top + 224))).astype(int)
    decoded = decode(tmp_path / "a.png", 224, None).astype(int)
    assert np.abs(decoded - expected).max() <= 1


def test_large_jpeg_decoded_at_a_smaller_scale_is_close(tmp_path):
    image = photograph(150, 112).resize((1200, 896), Image.Resampling.BICUBIC)
    image.save(tmp_path / "a.jpg", quality=95)
    image.save(tmp_path / "a.png")
    for key in (None, 4, 5):
        small, whole = (
            decode(tmp_path / name, 64, None if key is None else Random(key)).astype(float)
            for name in ("a.jpg", "a.png")
        )
        assert not np.array_equal(small, whole)
        aligned = np.abs(small - whole).mean()
        assert aligned < 1.5
        for axis in (0, 1):  # a shift by one pixel would show
            assert np.abs(small - np.roll(whole, 1, axis)).mean() > 5 * aligned


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(0, 10_000))
def test_random_boxes_are_inside_with_the_right_aspect_ratio(width, height, seed):
    left, top, right, bottom = random_box(width, height, Random(seed))
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    w, h = right - left, bottom - top
    slack = 1 / min(w, h)  # a side is rounded to whole pixels
    assert 3 / 4 - slack <= w / h <= 4 / 3 + 2 * slack or 1 in (width, height)


def test_random_boxes_cover_the_image_and_areas():
    boxes = np.array([random_box(400, 300, Random(seed)) for seed in range(2_000)])
    area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) / 120_000
    assert 0.078 < area.min() < 0.09
    assert area.max() > 0.9
    assert abs(np.median(area[area < 0.5]) - 0.29) < 0.02  # uniform while boxes of that area fit
    centre = (boxes[:, :2] + boxes[:, 2:]) / 2
    assert np.abs(centre.mean(0) - [200, 150]).max() < 8
    assert (boxes.min(0)[:2] == 0).all()
    assert boxes.max(0)[2:].tolist() == [400, 300]


def test_image_without_a_valid_box_gives_its_centre():
    assert random_box(1000, 10, Random(0)) == (493, 0, 506, 10)
    assert random_box(9, 900, Random(0)) == (0, 444, 9, 456)


def test_half_of_the_crops_are_flipped(tmp_path):
    ramp = np.tile(np.arange(0, 240, 4, dtype=np.uint8), (60, 1))
    Image.fromarray(ramp).save(tmp_path / "ramp.png")
    crops = [decode(tmp_path / "ramp.png", 8, Random(seed)).astype(int) for seed in range(400)]
    flipped = sum(crop[4, 0, 0] > crop[4, 7, 0] for crop in crops)
    assert 150 < flipped < 250


def test_central_box_by_hand():
    # 512 -> 256, of which columns 16 to 240 remain: 32 to 480 of the original.
    assert central_box(512, 512, 224) == (32, 32, 480, 480)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "LA", "I;16"])
def test_every_mode_is_converted_to_rgb(tmp_path, mode):
    grey = Image.new("L", (20, 20), 255)
    if mode == "I;16":
        image = Image.fromarray(np.full((20, 20), 200 * 256 + 7, dtype=np.uint16))
    else:
        image = grey.convert("RGB").convert(mode)
    path = tmp_path / ("a.jpg" if mode == "CMYK" else "a.png")
    image.save(path, **({"transparency": bytes(256)} if mode == "P" else {}))
    decoded = decode(path, 8, None)
    assert decoded.shape == (8, 8, 3)
    assert (decoded == (200 if mode == "I;16" else 255)).all()


def test_suffixes_in_any_case_are_images_and_other_files_are_ignored(root):
    for name in ("A.JPEG", "b.JpG", "c.PNG"):
        photograph(20, 20).save(root / "train" / "ant" / name)
    (root / "train" / "ant" / "notes.txt").write_text("text")
    (root / "train" / ".hidden").mkdir()
    (root / "train" / "list.txt").write_text("text")
    images = data.load_folder(root, workers=0)
    assert images.classes == ("ant", "bee", "cat")
    assert images.train.labels.bincount().tolist() == [7, 4, 4]


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("cut", [0, 10, -40])
def test_broken_image_raises_when_it_is_read(root, workers, cut):
    path = root / "val" / "bee" / "0.png"
    photograph(60, 60).save(path)
    path.write_bytes(path.read_bytes()[:cut])
    batches = data.test_batches(data.load_folder(root, size=8, workers=workers).test, batch_size=2)
    assert len(next(batches).labels) == 2
    with pytest.raises(InputError) as caught:
        next(batches)
    assert str(caught.value).startswith(f"{path}: cannot be decoded as an image (")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda root: (root / "val").rename(root / "test"), "val: no such folder; images are expected in"),
        (lambda root: (root / "val" / "dog").mkdir(), "dog: a class without a folder in .*train"),
        (lambda root: [p.unlink() for p in (root / "train").glob("*/*")], "train: no images"),
        (lambda root: [p.rename(root / p.name) for p in (root / "val").glob("*")], "val: no class folders"),
    ],
)
def test_bad_layout_raises(root, damage, message):
    damage(root)
    with pytest.raises(InputError, match=message):
        data.load("folder", root)


def test_images_are_decoded_when_they_are_read(root):
    part = data.load_folder(root, size=8, workers=0).train
    for path in (root / "train" / "cat").glob("*"):
        path.unlink()
    batches = data.test_batches(part, batch_size=4)
    assert [next(batches).labels.tolist() for _ in range(2)] == [[0] * 4, [1] * 4]
    with pytest.raises(InputError, match=r"cat/0.png: cannot be decoded as an image \(.*No such file"):
        next(batches)


def test_decoding_stops_with_its_reader(root, monkeypatch):
    part = data.load_folder(root, size=8, workers=2).train
    decoded = []
    plain = data.folder.decode
    monkeypatch.setattr(data.folder, "decode", lambda path, *rest: decoded.append(path) or plain(path, *rest))
    batches = part.read(torch.arange(len(part)).split(1))
    next(batches)
    batches.close()
    assert len(decoded) <= data.folder.AHEAD + 1 < len(part)  # a few ahead, not all
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("decode")]
