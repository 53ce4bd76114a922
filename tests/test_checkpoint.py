import pickle

import pytest
import torch

from calmix import InputError, checkpoint


def saved(folder, *numbers):
    for number in numbers:
        checkpoint.save(folder, {"number": number, "weights": torch.full((3,), float(number))})


def test_the_newest_is_loaded_and_one_predecessor_kept(tmp_path):
    saved(tmp_path, 1, 2, 3)
    assert checkpoint.load(tmp_path, warn=pytest.fail)["number"] == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.previous.pt", "checkpoint.pt"]


def test_a_damaged_one_is_reported_and_the_predecessor_used(tmp_path):
    saved(tmp_path, 1, 2)
    path = tmp_path / "checkpoint.pt"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    told = []
    assert checkpoint.load(tmp_path, warn=told.append)["number"] == 1
    assert len(told) == 1
    assert "checkpoint.pt is damaged" in told[0]


@pytest.mark.parametrize("length", [0, 10, 32, 500])
def test_a_truncated_one_is_noticed(tmp_path, length):
    saved(tmp_path, 1)
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:length])
    told = []
    assert checkpoint.load(tmp_path, warn=told.append) is None
    assert "starts again" in told[0]


def test_nothing_is_unpickled(tmp_path):
    import hashlib

    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("a stranger's pickle was run",))

    content = pickle.dumps(Bomb(), protocol=2)
    (tmp_path / "checkpoint.pt").write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(InputError, match="did not write it"):
        checkpoint.load(tmp_path, warn=pytest.fail)


def test_a_failed_save_leaves_the_old_ones(tmp_path, monkeypatch):
    saved(tmp_path, 1, 2)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        saved(tmp_path, 3)
    monkeypatch.undo()
    assert checkpoint.load(tmp_path, warn=pytest.fail)["number"] == 2


def test_torch_opens_it(tmp_path):
    checkpoint.save(tmp_path, {"weight": torch.arange(3)})
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["weight"].tolist() == [0, 1, 2]


def test_no_checkpoint(tmp_path):
    assert checkpoint.load(tmp_path, warn=pytest.fail) is None
