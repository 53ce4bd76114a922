import hashlib
import io
import os
import tarfile
from pathlib import Path

import pytest

from calmix import InputError, data
from calmix.sources import catalogue, cifar
from calmix.sources.archives import Remote


@pytest.fixture
def no_system_folder(monkeypatch, tmp_path):
    """As on a machine without Debian's packages."""
    relative = {
        name: tuple(path for path in paths if not path.startswith("/"))
        for name, paths in catalogue.SEARCH_PATHS.items()
    }
    monkeypatch.setattr(catalogue, "SEARCH_PATHS", relative)


@pytest.fixture
def small_cifar(monkeypatch):
    """CIFAR-100 with two images a file."""
    small = cifar.Layout("cifar-100-binary", {"train.bin": 2}, {"test.bin": 2}, cifar.CIFAR100.names)
    monkeypatch.setattr(cifar, "CIFAR100", small)
    monkeypatch.setattr(catalogue, "CIFAR100", small)
    return small


def write_archive(root, monkeypatch, files):
    """A valid archive in `root`, with an unreachable URL."""
    root.mkdir()
    with tarfile.open(root / "small.tar.gz", "w:gz") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(f"cifar-100-binary/{name}")
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    content = (root / "small.tar.gz").read_bytes()
    remote = Remote("http://127.0.0.1:9/small.tar.gz", hashlib.md5(content).hexdigest(), len(content))
    monkeypatch.setitem(catalogue.REMOTES, "cifar100", (remote,))


def test_unknown_name_raises_with_the_nearest_one():
    with pytest.raises(InputError, match="unknown data set 'cifar'; did you mean 'cifar10'"):
        data.load("cifar")


@pytest.mark.usefixtures("no_system_folder")
@pytest.mark.parametrize("name", ["cifar10", "cifar100", "fashion-mnist", "mnist"])
def test_missing_data_set_raises_with_paths_and_remedy(tmp_path, name):
    with pytest.raises(InputError) as caught:
        data.load(name, tmp_path)
    message = str(caught.value)
    assert message.startswith(f"{name} was not found in {tmp_path / catalogue.SEARCH_PATHS[name][0]}, ")
    assert f"calmix.data.download({name!r})" in message


def test_root_is_the_argument_the_environment_or_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("CALMIX_DATA", str(tmp_path / "environment"))
    assert data.default_root() == tmp_path / "environment"
    with pytest.raises(InputError, match=str(tmp_path / "environment" / "cifar-10-batches-bin")):
        data.load("cifar10")
    with pytest.raises(InputError, match=str(tmp_path / "argument" / "cifar-10-batches-bin")):
        data.load("cifar10", tmp_path / "argument")
    monkeypatch.delenv("CALMIX_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data.default_root() == tmp_path / "cache" / "calmix"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data.default_root() == Path.home() / ".cache" / "calmix"


@pytest.mark.usefixtures("no_system_folder")
def test_inventory_of_an_empty_folder(tmp_path):
    entries = data.inventory(tmp_path)
    assert tuple(entry.name for entry in entries) == data.NAMES
    assert [entry.state for entry in entries] == ["present"] * 2 + ["missing"] * 5
    assert all(entry.searched and entry.remedy for entry in entries[2:])


@pytest.mark.usefixtures("no_system_folder")
def test_inventory_of_present_and_damaged_data_sets(tmp_path, small_cifar):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    for file in ("train.bin", "test.bin"):
        (folder / file).write_bytes(bytes(2 * 3_074))
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist" / "train-images-idx3-ubyte").write_bytes(b"\0\0\x08\x03")
    entries = {entry.name: entry for entry in data.inventory(tmp_path)}
    assert (entries["cifar100"].state, entries["cifar100"].folder) == ("present", folder)
    assert entries["cifar100"].size == 4 * 3_074
    assert (entries["mnist"].state, entries["mnist"].size) == ("damaged", 4)
    assert "missing" in entries["mnist"].problem
    os.truncate(folder / "test.bin", 3_074)
    (damaged,) = (entry for entry in data.inventory(tmp_path) if entry.name == "cifar100")
    assert damaged.state == "damaged"
    assert damaged.problem == f"{folder / 'test.bin'}: expected 6,148 bytes, got 3,074"
    assert "download('cifar100')" in damaged.remedy


def test_archive_in_the_root_is_verified_unpacked_and_loaded(tmp_path, monkeypatch, small_cifar):
    root = tmp_path / "root"
    record = bytes([1, 2]) + bytes(3_072)
    write_archive(root, monkeypatch, {"train.bin": record * 2, "test.bin": record * 2})
    assert data.download("cifar100", root) == root / "cifar-100-binary"
    assert data.load("cifar100", root).test.labels.tolist() == [2, 2]
    (root / "small.tar.gz").unlink()
    assert data.download("cifar100", root) == root / "cifar-100-binary"  # valid: no network needed
    os.truncate(root / "cifar-100-binary" / "test.bin", 10)
    with pytest.raises(InputError, match="cannot reach"):
        data.download("cifar100", root)


def test_damaged_folder_is_restored_from_the_archive(tmp_path, monkeypatch, small_cifar):
    root = tmp_path / "root"
    write_archive(root, monkeypatch, {"train.bin": bytes(2 * 3_074), "test.bin": bytes(2 * 3_074)})
    data.download("cifar100", root)
    os.truncate(root / "cifar-100-binary" / "train.bin", 10)
    data.download("cifar100", root)
    assert len(data.load("cifar100", root).train) == 2


@pytest.mark.parametrize(("name", "reason"), [("digits", "built in"), ("folder", "put images into")])
def test_download_of_other_data_sets_raises(tmp_path, name, reason):
    with pytest.raises(InputError, match=f"{name} cannot be downloaded; .*{reason}"):
        data.download(name, tmp_path)
