import errno
import math
import shutil

import pytest
import torch

from calmix import InputError, Predictions, data, metrics, pool
from calmix.cli.evaluate import print_summary
from calmix.corruptions import CORRUPTIONS, EXTRA_CORRUPTIONS, frost_source
from calmix.data.corrupted import write_corrupted
from calmix.progress import Message
from calmix.runs.build import load_splits
from calmix.runs.evaluate import compute_metrics, evaluate
from calmix.runs.folder import Run, lock, open_run
from calmix.runs.influence import corrupted_influences, read_influences
from calmix.runs.summary import CorruptionSource, Summary
from tests.scenarios import tiny, trained

TYPES = ("contrast", "gaussian_noise")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return trained(tiny("deep", corruption_size=20), tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def summary(run):
    return evaluate(run, corruptions=TYPES)


@pytest.fixture
def copy(run, summary, tmp_path):
    """The evaluated run again, to be changed."""
    return open_run(shutil.copytree(run.folder, tmp_path / run.folder.name))


@pytest.fixture(scope="module")
def corrupted_folder(tmp_path_factory):
    """The whole test set under contrast, which draws nothing, and under noise of another seed."""
    folder, test = tmp_path_factory.mktemp("corrupted"), data.load("digits").test
    write_corrupted(test.inputs, test.labels, folder, names=["contrast", "gaussian_noise"], seed=1)
    return folder


def changes(run, before):
    """The predictions that are newer, or another file, than `before`, by name."""
    return {name for name, stamp in stamps(run).items() if before.get(name) != stamp}


def stamps(run):
    return {p.stem: p.stat().st_mtime_ns for p in run.predictions_path("test").parent.iterdir()}


def test_every_metric_of_the_pool_with_its_interval(run, summary):
    predictions = run.predictions("test")
    assert predictions.logits.shape == (2, 50, 10)
    pooled = pool(predictions.logits.double())
    for name, metric in metrics.SCALARS.items():
        value = getattr(summary.clean.pool, name)
        assert value == metric(pooled, predictions.labels)
        low, high = summary.clean.intervals[name]
        assert low <= value <= high
    for logits, member in zip(predictions.logits, summary.clean.members, strict=True):
        assert member.ece == metrics.ece(logits.double().softmax(-1), predictions.labels)
    assert summary.classes == tuple("0123456789")
    assert summary.name == run.recipe.name


def test_corrupted_sets_have_numbers_of_their_own(run, summary):
    for name in TYPES:
        for severity in range(1, 6):
            predictions = run.predictions(f"{name}-{severity}")
            assert predictions.logits.shape == (2, 20, 10)
            scores = summary.corrupted[name][severity]
            assert scores.pool.accuracy == metrics.accuracy(pool(predictions.logits), predictions.labels)
            assert scores.intervals == {}
    assert set(summary.corrupted) == set(summary.sources) == set(TYPES)


def test_the_summary_is_on_disk_and_a_second_call_predicts_nothing(run, summary, monkeypatch):
    assert Summary.read(run.summary_path) == run.summary == summary
    before = run.summary_path.stat().st_mtime_ns
    monkeypatch.setattr("calmix.runs.evaluate.predict_logits", pytest.fail)
    assert evaluate(run, corruptions=TYPES) == evaluate(run) == summary
    assert run.summary_path.stat().st_mtime_ns == before


def test_deleted_predictions_are_computed_again(run, summary, copy):
    shutil.rmtree(copy.predictions_path("test").parent)
    assert evaluate(copy, corruptions=TYPES) == summary
    for what in ("validation", "contrast-3"):
        assert copy.predictions_path(what).read_bytes() == run.predictions_path(what).read_bytes()


def test_a_single_deleted_file_is_computed_again(summary, copy):
    copy.predictions_path("contrast-3").unlink()
    before = stamps(copy)
    assert evaluate(copy, corruptions=TYPES) == summary
    assert changes(copy, before) == {"contrast-3"}


def test_a_new_type_leaves_the_others(summary, copy):
    before = stamps(copy)
    again = evaluate(copy, corruptions=["contrast", "frost"])
    assert changes(copy, before) == {f"frost-{severity}" for severity in range(1, 6)}
    assert again.sources["frost"] == CorruptionSource(
        "generated", seed=0, frost=frost_source().split(" in ")[0]
    )
    assert again.sources["contrast"] == CorruptionSource("generated", seed=0)
    for name in TYPES:
        assert again.corrupted[name] == summary.corrupted[name]


def test_images_from_another_source_are_predicted_again(summary, copy, corrupted_folder):
    before = stamps(copy)
    again = evaluate(copy, corruptions=TYPES, corrupted_folder=corrupted_folder)
    assert changes(copy, before) == {f"{name}-{severity}" for name in TYPES for severity in range(1, 6)}
    assert {source.kind for source in again.sources.values()} == {"folder"}
    assert again.corrupted["gaussian_noise"] != summary.corrupted["gaussian_noise"]  # of another seed
    assert again.corrupted["contrast"] == summary.corrupted["contrast"]  # which draws nothing
    assert again.clean == summary.clean
    before = stamps(copy)
    assert evaluate(copy, corruptions=TYPES, corrupted_folder=corrupted_folder) == again
    assert not changes(copy, before)
    assert evaluate(copy, corruptions=TYPES) == summary  # and back


def test_only_the_types_whose_source_differs_are_predicted_again(summary, copy, corrupted_folder):
    before = stamps(copy)
    again = evaluate(copy, corruptions=["gaussian_noise"], corrupted_folder=corrupted_folder)
    assert changes(copy, before) == {f"gaussian_noise-{severity}" for severity in range(1, 6)}
    assert [again.sources[name].kind for name in TYPES] == ["generated", "folder"]
    assert again.corrupted["contrast"] == summary.corrupted["contrast"]


def test_another_file_in_the_same_folder_is_another_source(copy, corrupted_folder, tmp_path):
    folder = shutil.copytree(corrupted_folder, tmp_path / "other")
    first = evaluate(copy, corruptions=["contrast"], corrupted_folder=folder)
    shutil.copy(folder / "gaussian_noise.npy", folder / "contrast.npy")
    second = evaluate(copy, corruptions=["contrast"], corrupted_folder=folder)
    assert second.sources["contrast"] != first.sources["contrast"]
    assert second.corrupted["contrast"] != first.corrupted["contrast"]


def test_predictions_of_an_unknown_source_are_not_trusted(summary, copy):
    copy.summary_path.unlink()
    before = stamps(copy)
    assert evaluate(copy, corruptions=TYPES) == summary
    assert changes(copy, before) == {f"{name}-{severity}" for name in TYPES for severity in range(1, 6)}


def test_an_interrupted_evaluation_goes_on(run, summary, copy):
    """The predictions that were written before the interruption are kept."""
    copy.summary_path.unlink()

    def interrupt(event):
        if getattr(event, "text", "") == "contrast-3":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(copy, corruptions=TYPES, reporter=interrupt)
    before = stamps(copy)
    assert evaluate(copy, corruptions=TYPES) == summary
    assert changes(copy, before) == {
        *(f"contrast-{severity}" for severity in (4, 5)),
        *(f"gaussian_noise-{severity}" for severity in range(1, 6)),
    }


def test_influences_are_written_with_the_whole_benchmark(copy, corrupted_folder):
    assert not copy.influences_path.exists()
    evaluate(copy, corruptions=CORRUPTIONS)
    written = read_influences(copy.influences_path, 20)
    assert {name: values.tolist() for name, values in written.items()} == {
        name: values.tolist() for name, values in corrupted_influences(copy.predictions).items()
    }

    def interrupt(event):
        if getattr(event, "text", "") == "gaussian_noise-1":
            raise KeyboardInterrupt

    options = {"corruptions": ["gaussian_noise"], "corrupted_folder": corrupted_folder}
    with pytest.raises(KeyboardInterrupt):
        evaluate(copy, **options, reporter=interrupt)
    assert not copy.influences_path.exists()  # they would be those of other predictions
    evaluate(copy, **options)
    again = read_influences(copy.influences_path, 20)
    assert again["ca"].tolist() == corrupted_influences(copy.predictions)["ca"].tolist()
    assert again["cece"].tolist() != written["cece"].tolist()


def test_types_outside_the_benchmark_have_a_mean_of_their_own(summary, copy):
    extra = EXTRA_CORRUPTIONS[:1]
    again = evaluate(copy, corruptions=extra)
    sets = again.corrupted[extra[0]].values()
    expected = sum(scores.pool.accuracy for scores in sets) / 5
    assert again.corrupted_mean("accuracy", types=extra) == pytest.approx(expected)
    assert again.corrupted_mean("accuracy") is None
    assert again.corrupted_mean("ece", types=TYPES) == summary.corrupted_mean("ece", types=TYPES)


def test_an_unknown_corruption_names_the_nearest(run):
    with pytest.raises(InputError, match="did you mean 'fog'"):
        evaluate(run, corruptions=["fogg"])


def test_a_folder_without_the_type(run, tmp_path):
    with pytest.raises(InputError, match=r"contrast\.npy cannot be read: No such file"):
        evaluate(run, corruptions=["contrast"], corrupted_folder=tmp_path)


def test_a_folder_gives_the_images_of_the_same_test_set(tmp_path, corrupted_folder):
    """Of a part of the test set, and of a part of that, the labels are those of the images."""
    run = trained(tiny("single", corruption_size=20, epochs=1), tmp_path)
    evaluate(run, corruptions=["contrast"], corrupted_folder=corrupted_folder)
    folder = run.predictions("contrast-3")
    evaluate(run, corruptions=["contrast"])
    generated = run.predictions("contrast-3")
    torch.testing.assert_close(folder.logits, generated.logits)
    assert torch.equal(folder.labels, generated.labels)


def test_temperature_is_fitted_on_validation_data(run, summary):
    validation, test = run.predictions("validation"), run.predictions("test")
    logs = pool(validation.logits.double()).log()
    best = min(
        (0.01 * t for t in range(5, 1000)),
        key=lambda t: metrics.nll((logs / t).softmax(-1), validation.labels),
    )
    assert summary.temperature == pytest.approx(best, abs=0.006)
    scaled = (pool(test.logits.double()).log() / summary.temperature).softmax(-1)
    assert summary.clean.scaled.ece == pytest.approx(metrics.ece(scaled, test.labels), abs=1e-6)
    assert summary.corrupted["contrast"][3].scaled is not None


def test_a_run_trained_on_its_validation_images_has_no_temperature(tmp_path):
    run = trained(tiny("single", train_on_validation=True, mixing="mixup", corruption_size=20), tmp_path)
    events = []
    summary = evaluate(run, corruptions=["contrast"], reporter=events.append)
    assert summary.temperature is None
    assert summary.clean.scaled is None
    assert summary.corrupted_mean("ece", of="scaled", types=["contrast"]) is None
    assert any("no temperature" in event.text for event in events if isinstance(event, Message))
    print_summary(run, summary)


def test_a_member_that_is_sure_and_wrong_has_a_finite_nll():
    logits = torch.zeros(2, 3, 4)
    logits[:, 0, 1] = 120.0
    scores = compute_metrics(Predictions(logits, torch.zeros(3, dtype=torch.long)))
    for each in (scores.pool, *scores.members):
        assert each.nll == pytest.approx((120 + 2 * math.log(4)) / 3)


def test_diversity_needs_two_members():
    logits = torch.randn(2, 30, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30) % 4
    assert compute_metrics(Predictions(logits, labels)).diversity == metrics.diversity(logits)
    assert compute_metrics(Predictions(logits[:1], labels)).diversity is None


def test_no_other_process_writes_a_summary_meanwhile(run, summary):
    with lock(run.folder), pytest.raises(InputError, match="another process"):
        evaluate(run)


@pytest.mark.parametrize("device", ["banana", "cuda:99"])
def test_a_device_that_is_not_there(run, device):
    with pytest.raises(InputError, match=f"device '{device}' is not available on this machine"):
        evaluate(run, device=device)


@pytest.mark.parametrize("content", ["[]", "{", '{"version": 1}'])
def test_a_summary_that_cannot_be_read_is_computed_again(summary, copy, content):
    copy.summary_path.write_text(content)
    events = []
    assert evaluate(copy, corruptions=TYPES, reporter=events.append) == summary
    (message, *_) = (event for event in events if isinstance(event, Message))
    assert "it is computed again" in message.text


def test_an_untrained_run_has_nothing_to_evaluate(tmp_path):
    (tmp_path / "run").mkdir()
    with pytest.raises(InputError, match="is not trained yet"):
        evaluate(Run(tmp_path / "run", tiny()))


def test_every_test_image_counts(tmp_path):
    run = trained(tiny(test_size=None, epochs=1), tmp_path)
    assert evaluate(run).clean.examples == len(load_splits(run.recipe, None).test) == 597


def refuse(path, *_, **__):
    raise OSError(errno.EROFS, "Read-only file system", str(path))


def test_a_read_only_folder_is_evaluated_and_nothing_is_kept(run, summary, tmp_path, monkeypatch):
    folder = shutil.copytree(run.folder, tmp_path / run.folder.name)
    shutil.rmtree(folder / "predictions")
    (folder / "summary.json").unlink()
    before = sorted(folder.rglob("*"))
    monkeypatch.setattr("filelock.FileLock.acquire", refuse)
    monkeypatch.setattr("calmix.files._new", refuse)
    monkeypatch.setattr("calmix.runs.evaluate.Path.mkdir", refuse)
    messages = []
    again = evaluate(open_run(folder), corruptions=TYPES, reporter=messages.append)
    assert again == summary
    assert sorted(folder.rglob("*")) == before
    said = [event for event in messages if isinstance(event, Message) and "cannot be written" in event.text]
    assert len(said) == 1


@pytest.mark.parametrize("what", ["test", "validation", "contrast-1"])
def test_damaged_predictions_are_made_again_and_it_is_said(run, summary, copy, what):
    path = copy.predictions_path(what)
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    messages = []
    assert evaluate(copy, corruptions=TYPES, reporter=messages.append) == summary
    assert path.read_bytes() == content
    said = [event.text for event in messages if isinstance(event, Message)]
    assert any("it is predicted again" in text and what in text for text in said)


def test_the_second_waits_for_the_first_where_it_is_told_to(copy, summary):
    with lock(copy.folder), pytest.raises(InputError, match="another process"):
        evaluate(copy)
    assert evaluate(copy, wait=True).clean == summary.clean
