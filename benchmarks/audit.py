"""The audit, temperature scaling and the report page against their limits."""

import functools
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from benchmarks.timing import Row, cpu_seconds
from calmix.auditing import audit
from calmix.calibrate import Order, fit_temperature
from calmix.predictions import Predictions
from calmix.report.gallery import standard_figures
from calmix.report.page import runs_page
from calmix.runs.folder import Run
from calmix.study.results import read_results
from tests.fabricate import fabricate, random_predictions
from tests.report.browser import CHROMIUM, Browser


def ensemble(members: int, examples: int, classes: int) -> Predictions:
    """Members that see one truth through noise of their own."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (examples,), generator=draw)
    shared = 3 * torch.eye(classes)[labels] + torch.randn(examples, classes, generator=draw)
    return Predictions(shared + torch.randn(members, examples, classes, generator=draw), labels)


def rows() -> Iterator[Row]:
    many = ensemble(4, 10_000, 10)
    (seconds,) = cpu_seconds(lambda: audit(many), repeats=2)
    yield Row("audit, 4 x 10,000 x 10", seconds, "s", at_most=5)

    validation = ensemble(4, 2_500, 100)
    orders: tuple[Order, ...] = ("pool", "member", "each")
    fits = [functools.partial(fit_temperature, validation.logits, validation.labels, order=o) for o in orders]
    one_pass, *times = cpu_seconds(lambda: validation.logits.double().softmax(-1), *fits, repeats=3)
    for order, seconds in zip(orders, times, strict=True):
        yield Row(f"fit_temperature {order}, 4 x 2,500 x 100", seconds, "s", at_most=1)
        yield Row("  relative to one softmax of all logits", seconds / one_pass, "x")

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        runs = _hundred_runs(Path(folder) / "runs")
        page = Path(folder) / "report.html"
        start = time.process_time()
        results = read_results(runs)
        page.write_text(runs_page(results, standard_figures(results)))
        yield Row("page of 100 runs, written", time.process_time() - start, "s")
        yield Row("  its size", page.stat().st_size / 1e6, "MB")
        if CHROMIUM:
            with Browser(Path(folder) / "profile") as browser:
                browser.open(page)
                script = "performance.getEntriesByType('navigation')[0].loadEventEnd"
                yield Row("  opened in Chromium (wall)", browser.evaluate(script) / 1e3, "s", at_most=1)


def _hundred_runs(folder: Path) -> list[Run]:
    names = ("none", "mixup", "camixup", "augmix", "augmix+mixup", "augmix+camixup")
    wanted = [
        (ensemble, augment, dataset, seed)
        for dataset in ("cifar10", "cifar100")
        for ensemble in ("mc", "batch", "deep")
        for augment in names
        for seed in range(3)
    ]
    return [
        fabricate(
            folder,
            ensemble,
            augment,
            dataset=dataset,
            seed=seed,
            test=random_predictions(seed=seed),
            corrupted=(0.6, 0.5),
            history=20,
        )
        for ensemble, augment, dataset, seed in wanted[:100]
    ]
