import builtins

import pytest

from calmix import InputError
from calmix.integrations.loggers import LoggingReporter, log_results, log_summary, open_log
from calmix.progress import Message, Numbers
from calmix.report.figures import bars
from calmix.report.style import CaptionedFigure
from calmix.study.quantities import ECE
from calmix.study.results import read_results
from tests.fabricate import fabricate


class Recorder:
    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *values: self.calls.append((name, *values))


def test_numbers_of_epochs_go_to_the_logger():
    events, logger = [], Recorder()
    reporter = LoggingReporter(events.append, logger, "run")
    for event in (Message("hello"), Numbers("training", 3, {"loss": 0.5, "ece": float("nan")})):
        reporter(event)
        assert events[-1] == event
    reporter(Numbers("member 1", 1, {"loss": 1.0}))
    assert logger.calls == [
        ("scalars", "run", 3, {"loss": 0.5}),
        ("scalars", "run member 1", 1, {"loss": 1.0}),
    ]


def test_final_numbers_and_figures_go_to_the_logger(tmp_path):
    run = fabricate(tmp_path, "deep", "mixup", accuracy=0.8, confidence=0.6, corrupted=(0.5, 0.6))
    results, logger = read_results([run]), Recorder()
    drawing = bars(results.groups(), (ECE,))
    shown = type("Shown", (), {"figures": (CaptionedFigure("ece", "", "", "", drawing),)})()
    log_results(LoggingReporter(print, logger), results, {"item": shown, "other": "not run"})
    (final, name, values), figure = logger.calls
    assert (final, name) == ("final", "cifar10 deep mixup seed 0")
    assert values["ece"] == pytest.approx(0.2)
    assert values["ca"] == pytest.approx(0.5)
    assert figure == ("figure", "ece", drawing)
    log_summary(print, "run", run.summary)  # a reporter that does not log


def test_without_a_log_the_reporter_is_itself():
    with open_log(None, print) as reporter:
        assert reporter is print
    with pytest.raises(InputError, match="did you mean 'tensorboard'"), open_log("tensorbord", print):
        pass


def test_tensorboard_has_scalars_and_figures(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = fabricate(tmp_path / "runs", "deep", "mixup")
    results = read_results([run])
    with open_log(f"tensorboard:{tmp_path / 'logs'}", lambda event: None) as reporter:
        reporter(Numbers("a run", 1, {"loss": 2.0}))
        reporter(Numbers("a run", 2, {"loss": 1.0}))
        reporter.logger.figure("ece", bars(results.groups(), (ECE,)))
    read = EventAccumulator(str(tmp_path / "logs" / "a-run")).Reload()
    assert [(event.step, event.value) for event in read.Scalars("loss")] == [(1, 2.0), (2, 1.0)]
    assert EventAccumulator(str(tmp_path / "logs" / "figures")).Reload().Tags()["images"] == ["ece"]


@pytest.mark.parametrize(
    ("kind", "module"), [("tensorboard", "torch.utils.tensorboard"), ("mlflow", "mlflow.tracking")]
)
def test_a_missing_library_says_what_to_install(monkeypatch, kind, module):
    real = builtins.__import__

    def without(name, *rest, **more):
        if name == module:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(InputError, match=rf"pip install 'calmix\[{kind}\]'"), open_log(kind, print):
        pass
