import hashlib
import sys

import numpy as np
import pytest
from PIL import Image

from calmix.corruptions import frost
from calmix.corruptions.constants import SEVERITIES, constants
from calmix.corruptions.corrupt import corrupt
from calmix.corruptions.frost import frost_source
from calmix.errors import InputError
from tests.corruptions import reference
from tests.corruptions.scenes import photographs

NAMES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")


def fill(folder):
    """Five pictures of different sizes; their names and the beginnings of their hashes."""
    folder.mkdir(parents=True)
    for k, name in enumerate(NAMES):
        Image.fromarray(photographs(1, 240 + 10 * k, 300 - 20 * k, seed=k)[0]).save(folder / name)
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest()[:8] for name in NAMES}


@pytest.fixture
def pictures(tmp_path, monkeypatch):
    folder = tmp_path / "pictures"
    monkeypatch.setattr(frost, "PHOTOGRAPHS", fill(folder))
    monkeypatch.delenv("CALMIX_FROST", raising=False)
    return folder


def read(folder):
    return [np.asarray(Image.open(folder / name)) for name in NAMES]


@pytest.mark.parametrize("severity", SEVERITIES)
@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (64, 50, 224)])
def test_the_same_draws_give_the_reference(pictures, severity, height, width, size):
    images = photographs(8, height, width)
    values = constants("frost", severity, size=size)
    length = min(64, 65536 // (height * width))
    expected = [
        reference.frost(image, reference.OneOf(0, "frost", severity, i, length), *values, read(pictures))
        for i, image in enumerate(images)
    ]
    found = corrupt(images, "frost", severity, size=size, frost_folder=pictures)
    np.testing.assert_array_equal(found, np.stack(expected))


def test_the_environment_names_a_folder(pictures, monkeypatch):
    images = photographs(2)
    assert frost_source() == "procedural texture"
    monkeypatch.setenv("CALMIX_FROST", str(pictures))
    assert frost_source() == f"photographs in {pictures}"
    np.testing.assert_array_equal(
        corrupt(images, "frost", 1), corrupt(images, "frost", 1, frost_folder=pictures)
    )


def test_an_installed_package_is_read_and_not_imported(pictures, tmp_path, monkeypatch):
    package = tmp_path / "site" / "imagecorruptions"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('pkg_resources is gone')")
    pictures.rename(package / "frost")
    monkeypatch.syspath_prepend(str(package.parent))
    assert frost_source() == f"photographs in {package / 'frost'}"
    assert "imagecorruptions" not in sys.modules


def test_a_package_with_other_pictures_is_passed_over(pictures, tmp_path, monkeypatch):
    package = tmp_path / "site" / "imagecorruptions"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    pictures.rename(package / "frost")
    (package / "frost" / "frost4.jpg").write_bytes(b"another picture")
    monkeypatch.syspath_prepend(str(package.parent))
    assert frost_source() == "procedural texture"


def test_a_folder_that_was_asked_for_has_to_be_right(pictures, tmp_path):
    (pictures / "frost4.jpg").write_bytes(b"another picture")
    with pytest.raises(InputError, match=r"frost4\.jpg .* begins with [0-9a-f]{8}, not "):
        frost_source(pictures)
    with pytest.raises(InputError, match=r"nowhere/frost1\.png is missing"):
        corrupt(photographs(1), "frost", 1, frost_folder=tmp_path / "nowhere")


def test_a_picture_smaller_than_the_image_is_enlarged(pictures):
    images = np.zeros((3, 400, 350, 3), np.uint8)
    assert corrupt(images, "frost", 5, frost_folder=pictures).std() > 10


@pytest.mark.parametrize(("side", "size"), [(32, 32), (224, 224)])
def test_the_procedural_texture_has_the_colours_of_the_photographs(side, size, monkeypatch):
    monkeypatch.delenv("CALMIX_FROST", raising=False)
    monkeypatch.setattr(frost, "_find", lambda folder: None)
    count = 600 if side == 32 else 40
    keep, add, _ = constants("frost", 1, size=size)
    added = corrupt(np.zeros((count, side, side, 3), np.uint8), "frost", 1, size=size) / add
    assert keep == 1
    # The photographs' mean colours weighted .2 .4 .2 .2, less half a grey level of truncation.
    expected = np.array([144.8, 165.4, 177.6]) - 0.5 / add
    np.testing.assert_allclose(added.mean(axis=(0, 1, 2)), expected, atol=8 if side == 32 else 20)
    within = added[..., 1].std(axis=(1, 2))
    assert 12 < np.quantile(within, 0.1) < np.quantile(within, 0.9) < 37
