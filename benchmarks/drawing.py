"""The page of 100 runs with all its tables, figures and claims, as `calmix report` writes it, and its opening
in Chromium where there is one."""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.timing import Row
from calmix.cli.report import write_report
from calmix.runs.folder import find_runs
from calmix.study.results import read_results
from tests.fabricate import fabricate, random_predictions
from tests.report.browser import CHROMIUM, Browser


def rows(full: bool = False) -> Iterator[Row]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        runs = Path(folder) / "runs"
        fabricate_runs(runs, 100)
        page = Path(folder) / "report.html"
        write_report(read_results(find_runs((runs,))[:1]), page)  # imports
        start = time.process_time()
        results = read_results(find_runs((runs,)))
        read = time.process_time() - start
        write_report(results, page)
        yield Row("page of 100 runs, read", read, "s")
        yield Row(
            "page of 100 runs, read and written", time.process_time() - start, "s", at_most=3, before=10.6
        )
        yield Row("  its size", page.stat().st_size / 1e6, "MB")
        if CHROMIUM:
            with Browser(Path(folder) / "profile") as browser:
                browser.open(page)
                script = "performance.getEntriesByType('navigation')[0].loadEventEnd"
                yield Row("  opened in Chromium (wall)", browser.evaluate(script) / 1e3, "s", at_most=1)


def fabricate_runs(folder: Path, count: int) -> None:
    """Run folders as training leaves them, of random numbers."""
    names = ("none", "mixup", "camixup", "augmix", "augmix+mixup", "augmix+camixup")
    wanted = [
        (ensemble, augment, dataset, seed)
        for dataset in ("cifar10", "cifar100")
        for ensemble in ("mc", "batch", "deep")
        for augment in names
        for seed in range(3)
    ]
    for ensemble, augment, dataset, seed in wanted[:count]:
        predictions = random_predictions(seed=seed)
        options = {"test": predictions, "corrupted": (0.6, 0.5), "history": 20}
        fabricate(folder, ensemble, augment, dataset=dataset, seed=seed, **options)
