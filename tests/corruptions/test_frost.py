import hashlib
import sys

import numpy as np
import pytest
from PIL import Image

from calmix.corruptions import frost
from calmix.corruptions.constants import SEVERITIES, constants
from calmix.corruptions.dispatch import corrupt
from calmix.corruptions.frost import frost_source
from calmix.errors import InputError
from tests.corruptions import reference
from tests.corruptions.scenes import photographs

NAMES = ("frost1.png", "frost2.png", "frost3.png", "frost4.jpg", "frost5.jpg")


def fill(folder):
    """Write five pictures of different sizes; returns {name: first digits of the SHA-256}."""
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
def test_photographs_equal_reference(pictures, severity, height, width, size):
    images = photographs(8, height, width)
    expected = reference.corrupted(images, "frost", severity, size=size, extra=(read(pictures),))
    frosted = corrupt(images, "frost", severity, size=size, frost_folder=pictures)
    np.testing.assert_array_equal(frosted, expected)


def test_folder_from_the_environment(pictures, monkeypatch):
    images = photographs(2)
    assert frost_source() == "procedural texture"
    monkeypatch.setenv("CALMIX_FROST", str(pictures))
    assert frost_source() == f"photographs in {pictures}"
    np.testing.assert_array_equal(
        corrupt(images, "frost", 1), corrupt(images, "frost", 1, frost_folder=pictures)
    )


def test_installed_package_is_used_without_import(pictures, tmp_path, monkeypatch):
    package = tmp_path / "site" / "imagecorruptions"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise ImportError('pkg_resources is gone')")
    pictures.rename(package / "frost")
    monkeypatch.syspath_prepend(str(package.parent))
    assert frost_source() == f"photographs in {package / 'frost'}"
    assert "imagecorruptions" not in sys.modules


def test_package_with_other_pictures_is_ignored(pictures, tmp_path, monkeypatch):
    package = tmp_path / "site" / "imagecorruptions"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    pictures.rename(package / "frost")
    (package / "frost" / "frost4.jpg").write_bytes(b"another picture")
    monkeypatch.syspath_prepend(str(package.parent))
    assert frost_source() == "procedural texture"


def test_bad_folder_raises(pictures, tmp_path):
    (pictures / "frost4.jpg").write_bytes(b"another picture")
    with pytest.raises(InputError, match=r"frost4\.jpg is another file: expected SHA-256 [0-9a-f]{8}"):
        frost_source(pictures)
    with pytest.raises(InputError, match=r"nowhere/frost1\.png does not exist"):
        corrupt(photographs(1), "frost", 1, frost_folder=tmp_path / "nowhere")


def test_picture_smaller_than_the_image_is_enlarged(pictures):
    images = np.zeros((3, 400, 350, 3), np.uint8)
    assert corrupt(images, "frost", 5, frost_folder=pictures).std() > 10


@pytest.mark.parametrize(("side", "size"), [(32, 32), (224, 224)])
def test_procedural_texture_has_the_colours_of_the_photographs(side, size, monkeypatch):
    monkeypatch.delenv("CALMIX_FROST", raising=False)
    monkeypatch.setattr(frost, "_find_photographs", lambda folder: None)
    count = 600 if side == 32 else 40
    keep, add, _ = constants("frost", 1, size=size)
    added = corrupt(np.zeros((count, side, side, 3), np.uint8), "frost", 1, size=size) / add
    assert keep == 1
    # The mean colours of the photographs, weighted .2 .4 .2 .2, minus half a grey level of truncation.
    expected = np.array([144.8, 165.4, 177.6]) - 0.5 / add
    np.testing.assert_allclose(added.mean(axis=(0, 1, 2)), expected, atol=8 if side == 32 else 20)
    within = added[..., 1].std(axis=(1, 2))
    assert 12 < np.quantile(within, 0.1) < np.quantile(within, 0.9) < 37
