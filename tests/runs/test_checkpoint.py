import hashlib
import pickle

import pytest
import torch

from calmix import InputError
from calmix.runs import checkpoint


def save(folder, *numbers):
    for number in numbers:
        checkpoint.save(folder, {"number": number, "weights": torch.full((3,), float(number))})


def test_the_newest_is_loaded_and_one_predecessor_kept(tmp_path):
    save(tmp_path, 1, 2, 3)
    assert checkpoint.load(tmp_path, reporter=pytest.fail)["number"] == 3
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.previous.pt", "checkpoint.pt"]


def test_a_damaged_one_is_reported_and_the_predecessor_used(tmp_path):
    save(tmp_path, 1, 2)
    path = tmp_path / "checkpoint.pt"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(bytes(content))
    events = []
    assert checkpoint.load(tmp_path, reporter=events.append)["number"] == 1
    (message,) = events
    assert "checkpoint.pt is damaged" in message.text
    assert "the previous one is used" in message.text


@pytest.mark.parametrize("length", [0, 10, 32, 500])
def test_a_truncated_one_is_noticed(tmp_path, length):
    save(tmp_path, 1)
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(path.read_bytes()[:length])
    events = []
    assert checkpoint.load(tmp_path, reporter=events.append) is None
    (message,) = events
    assert "training starts again" in message.text


def test_nothing_is_unpickled(tmp_path):
    class Bomb:
        def __reduce__(self):
            return (pytest.fail, ("code of a pickle was run",))

    content = pickle.dumps(Bomb(), protocol=2)
    (tmp_path / "checkpoint.pt").write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(InputError, match="did not write it"):
        checkpoint.load(tmp_path, reporter=pytest.fail)


def test_a_good_digest_of_bad_content_is_damage_too(tmp_path):
    save(tmp_path, 1, 2)
    content = b"PK\x03\x04" + bytes(200)
    (tmp_path / "checkpoint.pt").write_bytes(content + hashlib.sha256(content).digest())
    events = []
    assert checkpoint.load(tmp_path, reporter=events.append)["number"] == 1
    assert "the previous one is used" in events[0].text


def test_a_checkpoint_that_is_no_state(tmp_path):
    save(tmp_path, 1)
    checkpoint.save(tmp_path, [1, 2])
    events = []
    assert checkpoint.load(tmp_path, reporter=events.append)["number"] == 1
    assert "it holds list instead of a training's state" in events[0].text


def test_what_fails_while_a_state_is_taken_names_the_checkpoint(tmp_path):
    message = r"checkpoint\.pt does not fit its recipe\.json: 'model'; remove checkpoint\.pt and"
    with pytest.raises(InputError, match=message), checkpoint.restoring(tmp_path):
        {}["model"]


def test_a_digest_of_weights_sees_every_bit_and_no_order():
    weights = {"a": torch.arange(3.0), "b": torch.ones(2, 2, dtype=torch.float16), "c": torch.tensor(7)}
    expected = checkpoint.digest(weights)
    assert checkpoint.digest(dict(reversed(weights.items()))) == expected
    checkpoint.check_digest(weights, expected)
    checkpoint.check_digest(weights, None)
    changes = [
        {"a": torch.arange(3.0) + 1e-7},
        {"b": torch.ones(4, dtype=torch.float16)},
        {"c": torch.tensor(8)},
    ]
    for change in changes:
        with pytest.raises(ValueError, match="damaged"):
            checkpoint.check_digest(weights | change, expected)


def test_a_failed_save_leaves_the_old_ones(tmp_path, monkeypatch):
    save(tmp_path, 1, 2)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        save(tmp_path, 3)
    monkeypatch.undo()
    assert checkpoint.load(tmp_path, reporter=pytest.fail)["number"] == 2


def test_torch_opens_it(tmp_path):
    checkpoint.save(tmp_path, {"weight": torch.arange(3)})
    state = torch.load(tmp_path / "checkpoint.pt", weights_only=True)
    assert state["weight"].tolist() == [0, 1, 2]


def test_no_checkpoint(tmp_path):
    assert checkpoint.load(tmp_path, reporter=pytest.fail) is None


def test_a_kill_between_the_two_renames_leaves_nothing_behind(tmp_path):
    save(tmp_path, 1, 2)
    newest, previous = tmp_path / "checkpoint.pt", tmp_path / "checkpoint.previous.pt"
    previous.unlink()
    previous.hardlink_to(newest)  # the old one took its second name, the new one was never put in place
    save(tmp_path, 3)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.previous.pt", "checkpoint.pt"]
    newest.unlink()
    assert checkpoint.load(tmp_path)["number"] == 2
