"""Members that choose by the pool's gap wait for each other, in one process or in several."""

import multiprocessing

import numpy as np
import pytest
import torch

from calmix import metrics, pool
from calmix.progress import Message
from calmix.runs.build import load_splits
from calmix.runs.coupling import KEPT_EPOCHS, RESTART
from calmix.runs.folder import Run, read_epochs
from tests.scenarios import Stop, StopAt, tiny, trained, weights


def work(recipe, out, members):
    torch.set_num_threads(1)
    trained(recipe, out, members=members)


class NoLongWait:
    """A reporter for members of one process, which never wait long for each other."""

    def __init__(self):
        self.waits = 0

    def __call__(self, event):
        self.waits += getattr(event, "text", "") == "waits for the others"
        assert self.waits < 100, "it waits for logits that are gone"


def train_together(recipe, out):
    return trained(recipe, out, reporter=NoLongWait())


def train_apart(recipe, out, *groups):
    """A process for each group of members."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=work, args=(recipe, out, group)) for group in groups]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
    for process in processes:
        process.kill()  # those that still wait
    assert [process.exitcode for process in processes] == [0] * len(groups)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
@pytest.mark.parametrize("groups", [([0], [1], [2]), ([0, 2], [1])])
def test_members_in_several_processes_are_those_of_one(tmp_path, groups):
    recipe = tiny("deep", "camixup", gap_of="pool", members=3, epochs=2)
    together = train_together(recipe, tmp_path / "together")
    train_apart(recipe, tmp_path / "apart", *groups)
    apart = type(together)(tmp_path / "apart" / recipe.name, recipe)
    assert weights(apart) == weights(together)
    mixed = [[epoch.mixed_classes for epoch in run.history] for run in (together, apart)]
    assert mixed[0] == mixed[1]


def test_all_members_mix_what_the_pool_is_over_confident_on(tmp_path):
    recipe = tiny("deep", "camixup", gap_of="pool", epochs=2)
    run = train_together(recipe, tmp_path)
    logits = [np.load(run.stream_folder(k) / "validation-0.npy") for k in range(2)]
    pooled = pool(torch.from_numpy(np.concatenate(logits)))
    expected = metrics.class_gap(pooled, load_splits(recipe, None).validation.labels) <= 0
    for member in range(2):
        epochs = read_epochs(run.stream_folder(member) / "metrics.jsonl")
        assert np.array_equal(np.array(epochs[1].mixed_classes[0], dtype=bool), expected.numpy())
    assert int(expected.sum()) > 0


def test_the_pools_gap_gives_other_weights_than_the_members_own(tmp_path):
    runs = [train_together(tiny("deep", "camixup", gap_of=gap_of), tmp_path) for gap_of in ("member", "pool")]
    assert weights(runs[0]) != weights(runs[1])


def test_only_the_last_epochs_logits_are_kept(tmp_path):
    recipe = tiny("deep", "camixup", gap_of="pool", epochs=KEPT_EPOCHS + 2)
    run = train_together(recipe, tmp_path)
    for member in range(2):
        kept = sorted(path.name for path in run.stream_folder(member).glob("validation-*.npy"))
        assert kept == [f"validation-{epoch}.npy" for epoch in range(2, KEPT_EPOCHS + 2)]


def stopped(recipe, out, count=9):
    """A run in its third epoch or later."""
    with pytest.raises(Stop):
        trained(recipe, out, reporter=StopAt(count), save_seconds=1e9)
    return Run(out / recipe.name, recipe)


def late(epochs=6):
    return tiny("deep", "camixup", gap_of="pool", epochs=epochs, train_size=40)


@pytest.mark.parametrize("damage", ["checkpoints", "logits", "both"])
def test_a_member_that_lost_its_files_does_not_wait_for_ever(tmp_path, damage):
    recipe = late()
    whole = train_together(recipe, tmp_path / "whole")
    run = stopped(recipe, tmp_path / "damaged", 30)
    folder = run.stream_folder(1)
    assert not (run.stream_folder(0) / "validation-0.npy").exists()
    for path in [*folder.glob("*.pt")] if damage != "logits" else []:
        path.write_bytes(path.read_bytes()[:-1])
    for path in [*folder.glob("*.npy")] if damage != "checkpoints" else []:
        path.write_bytes(b"") if path.name.endswith("3.npy") else path.unlink()
    assert weights(train_together(recipe, tmp_path / "damaged")) == weights(whole)
    assert not (run.folder / "members" / RESTART).exists()


def test_processes_of_some_members_give_up_and_one_of_all_starts_again(tmp_path):
    recipe = late()
    whole = train_together(recipe, tmp_path / "whole")
    run = stopped(recipe, tmp_path / "damaged", 30)
    for path in run.stream_folder(1).glob("*.pt"):
        path.unlink()
    messages = []
    for member in (1, 0):
        report = lambda event: messages.append(event.text) if isinstance(event, Message) else None  # noqa: E731
        assert not trained(recipe, tmp_path / "damaged", members=[member], reporter=report).trained
    assert sum("all start again when the whole run is trained" in text for text in messages) == 2
    assert weights(train_together(recipe, tmp_path / "damaged")) == weights(whole)


def test_a_start_again_that_was_interrupted_is_completed(tmp_path):
    recipe = late(epochs=2)
    whole = train_together(recipe, tmp_path / "whole")
    run = stopped(recipe, tmp_path / "damaged", 5)
    (run.folder / "members" / RESTART).touch()
    assert weights(train_together(recipe, tmp_path / "damaged")) == weights(whole)
    assert not (run.folder / "members" / RESTART).exists()


def test_a_member_that_was_stopped_finds_the_logits_it_needs(tmp_path):
    recipe = tiny("deep", "camixup", gap_of="pool", epochs=5)
    whole = train_together(recipe, tmp_path / "whole")
    for count in (7, 12):
        with pytest.raises(Stop):
            trained(recipe, tmp_path / "stopped", reporter=StopAt(count), save_seconds=1e9)
    resumed = train_together(recipe, tmp_path / "stopped")
    assert weights(resumed) == weights(whole)
