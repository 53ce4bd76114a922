"""Tables and curves of a sweep: every metric against every number that was swept."""

from collections.abc import Iterator, Sequence

from calmix.report.figures import CaptionedFigure, lines
from calmix.report.gallery import subject
from calmix.report.tables import Table, comparison
from calmix.runs.recipe import ENSEMBLES, Recipe
from calmix.study.quantities import ACCURACY, ECE, GAP, NLL
from calmix.study.results import Result, Results

METRICS = (ECE, ACCURACY, NLL, GAP)


def sweep_table(results: Results) -> Table:
    """A row for each combination, mean ± standard deviation over seeds."""
    first = ("data set", "ensemble", "augmentation", "runs")
    return comparison(subject(results.groups()), results.groups(), METRICS, first=first)


def sweep_figures(results: Results, fields: Sequence[str]) -> Iterator[CaptionedFigure]:
    """For each swept number and each metric a curve, a line for each combination of what else was swept."""
    for field in fields:
        xs = {_value(result.recipe, field) for result in results}
        if len(xs) < 2 or not all(isinstance(x, int | float) and not isinstance(x, bool) for x in xs):
            continue
        series: dict[str, dict[float, list[Result]]] = {}
        for result in results:
            label = _label(result.recipe, [name for name in fields if name != field], results)
            x = float(_value(result.recipe, field))  # type: ignore[arg-type]
            series.setdefault(label, {}).setdefault(x, []).append(result)
        numbers = sorted(float(x) for x in xs)  # type: ignore[arg-type]
        log = len(numbers) > 2 and numbers[0] > 0 and numbers[-1] / numbers[0] >= 10
        for quantity in METRICS:
            if not quantity.values(results):
                continue
            words = field.replace("_", " ")
            drawing = lines(series, (quantity,), xlabel=words, title=subject(results.groups()), log=log)
            caption = f"{quantity.description} against {words}, mean and standard deviation over seeds"
            name = f"{quantity.name}-{field.replace('_', '-')}"
            yield CaptionedFigure(name, f"{quantity.title} against {words}", caption, caption, drawing)


def _value(recipe: Recipe, field: str) -> object:
    return recipe.augment if field == "augment" else {"scale": recipe.scale, **recipe.flat()}.get(field)


def _label(recipe: Recipe, others: Sequence[str], results: Results) -> str:
    """What tells a line apart: the other swept fields; ensemble and augmentation where nothing does."""
    shown = [name for name in others if len({str(_value(r.recipe, name)) for r in results}) > 1]
    words = {"ensemble": ENSEMBLES[recipe.ensemble].short, "augment": recipe.augmentation.title}
    texts = [words.get(name, f"{name.replace('_', ' ')} {_value(recipe, name)}") for name in shown]
    return ", ".join(texts) or f"{words['ensemble']}, {words['augment']}"
