"""Items: a table or figure with the runs it needs, and the sheet of parts that it is put together from."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, TypeAlias

from matplotlib.figure import Figure

from calmix.errors import InputError
from calmix.paper import prose
from calmix.paper.numbers import published
from calmix.paper.regime import MAIN_SCALE, Method, Regime, seeds_text
from calmix.report import figures
from calmix.report.figures import CaptionedFigure
from calmix.report.reliability import Curve, reliability_figure
from calmix.report.style import colour
from calmix.report.tables import Table, comparison, side_by_side
from calmix.report.words import listed
from calmix.runs.augmentation import parse_augmentation
from calmix.runs.presets import preset
from calmix.runs.recipe import Recipe
from calmix.study import quantities as q
from calmix.study.estimates import NotRunError
from calmix.study.quantities import Quantity
from calmix.study.results import Group, Result

ByDataset: TypeAlias = Mapping[str, str]  # what came out on each data set, in sentences
Shown: TypeAlias = Iterator[str | ByDataset | Table | CaptionedFigure]


@dataclass(frozen=True)
class Variant:
    """A method with recipe fields of its own, perhaps on a data set of its own.

    `unmixed` is the share of the epochs, the last ones, in which nothing is mixed.
    """

    ensemble: str
    augment: str
    fields: tuple[tuple[str, Any], ...] = ()
    dataset: str | None = None
    unmixed: float = 0.0

    def recipe(
        self,
        dataset: str,
        scale: str,
        seed: int,
        changes: Mapping[str, Any] | None = None,
        *,
        paper_code: bool = False,
    ) -> Recipe:
        """Its recipe on a data set, with a plan's `changes`; its own fields come last."""
        method = (self.dataset or dataset, self.ensemble, self.augment)
        recipe = preset(*method, scale=scale, seed=seed, paper_code=paper_code)
        recipe = recipe.replace(**{**(changes or {}), **dict(self.fields)})
        if self.unmixed:
            recipe = recipe.replace(mixing_epochs=max(1, round((1 - self.unmixed) * recipe.epochs)))
        return recipe


@dataclass(frozen=True)
class RenderedItem:
    """What is shown of an item: sentences about it and of each data set, tables, figures."""

    sentences: tuple[str, ...] = ()
    by_dataset: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    figures: tuple[CaptionedFigure, ...] = ()

    @property
    def lines(self) -> list[str]:
        """Its sentences: a line about the item, and one for each data set where there are several."""
        about = " ".join(self.sentences)
        if len(self.by_dataset) == 1:
            ((dataset, text),) = self.by_dataset.items()
            return [f"{about} On {dataset}: {text}".strip()]
        return list(filter(None, (about, *(f"- {d}: {text}" for d, text in self.by_dataset.items()))))

    @property
    def paragraphs(self) -> list[str]:
        """Its lines as Markdown: the list of the data sets is a paragraph of its own."""
        items = [line for line in self.lines if line.startswith("- ")]
        about = [line for line in self.lines if line not in items]
        return [*about, *([""] if about and items else []), *items]


Variants: TypeAlias = Callable[[str, str], Sequence[Variant]]  # of a data set and a scale


@dataclass(frozen=True)
class Item:
    """A table or figure; it decorates the function that draws it, whose name is its name.

    The paragraphs of that function's docstring are its prose: what it shows, what the paper found, and then,
    each begun with a data set's name, why something else came out there (the likely reason, tested or not as
    it says). `dataset` is where it has one of its own. An item that `calibrates` fits something on validation
    images, on which no run of it may be trained. An item with `variants` needs runs that differ in more than
    the method, and draws them on its own.
    """

    title: str
    methods: tuple[Method, ...] = ()
    corruptions: bool = False
    dataset: str | None = None
    calibrates: bool = False
    variants: Variants | None = None
    draw: Callable[["Sheet"], Shown] = lambda sheet: iter(())

    def __call__(self, draw: Callable[["Sheet"], Shown]) -> "Item":
        return replace(self, draw=draw)

    @property
    def name(self) -> str:
        return self.draw.__name__.replace("_", "-")

    @property
    def prose(self) -> list[str]:
        """The paragraphs of its docstring."""
        return [" ".join(text.split()) for text in (self.draw.__doc__ or "").split("\n\n")]

    @property
    def shows(self) -> str:
        return self.prose[0]

    @property
    def reasons(self) -> dict[str, str]:
        """By data set: why something else came out there."""
        return dict(text.split(": ", 1) for text in self.prose[2:])

    def variants_of(self, dataset: str, scale: str) -> Sequence[Variant]:
        """What is trained for it on a data set at a scale, for each seed."""
        if self.variants is not None:
            return self.variants(dataset, scale)
        return [Variant(*method, dataset=self.dataset) for method in self.methods]

    def datasets_of(self, dataset: str, scale: str) -> list[str]:
        """The data sets it needs where `dataset` is asked for."""
        return list(dict.fromkeys(v.dataset or dataset for v in self.variants_of(dataset, scale)))

    def render(self, *regimes: Regime, results: "VariantResults | None" = None) -> RenderedItem:
        """Its tables and figures, from the main regimes of the data sets, or from the results of variants."""
        sheet = Sheet(self, regimes, results or {})
        shown = list(self.draw(sheet))
        reasons = self.reasons if sheet.is_main_study else {}
        sentences = [*self.prose[1:2], *(each for each in shown if isinstance(each, str))]
        by_dataset: dict[str, list[str]] = {result.recipe.dataset: [] for result in sheet.results}
        for texts in (*(each for each in shown if isinstance(each, Mapping)), reasons):
            for dataset in texts.keys() & by_dataset.keys():
                by_dataset[dataset].append(texts[dataset])
        named = {
            dataset: text for dataset, some in by_dataset.items() if (text := " ".join(filter(None, some)))
        }
        tables = tuple(each for each in shown if isinstance(each, Table))
        figures = tuple(each for each in shown if isinstance(each, CaptionedFigure))
        return RenderedItem(tuple(filter(None, sentences)), named, tables, figures)


VariantResults: TypeAlias = Mapping[Variant, tuple[Result, ...]]


@dataclass(frozen=True, eq=False)
class Sheet:
    """The parts of which items are put together: for the runs of one regime or of several side by side, or
    for the results of an item's variants."""

    item: Item
    regimes: tuple[Regime, ...]
    variants: VariantResults = field(default_factory=dict)

    @property
    def regime(self) -> Regime:
        return self.regimes[0]

    def each(self) -> Iterator["Sheet"]:
        """A sheet for each data set that has runs, for figures that hold one."""
        for regime in self.regimes:
            if regime.results:
                yield replace(self, regimes=(regime,))

    @property
    def results(self) -> list[Result]:
        return [result for some in self._by_method for result in some]

    @property
    def is_main_study(self) -> bool:
        """Whether the runs are those of the laptop scale, of which this project's own sentences speak."""
        recipes = [(variant, result.recipe) for variant, some in self.variants.items() for result in some]
        if any(
            recipe != variant.recipe(recipe.dataset, MAIN_SCALE, recipe.seed) for variant, recipe in recipes
        ):
            return False
        planned = {v for _, r in recipes for v in self.item.variants_of(r.dataset, MAIN_SCALE)}
        regimes = all(regime.name == MAIN_SCALE for regime in self.regimes)
        return regimes and planned <= self.variants.keys()

    @property
    def _by_method(self) -> list[tuple[Result, ...]]:
        methods = self.item.methods
        chosen = [some for r in self.regimes for m, some in r.results.items() if m in methods]
        return [some for some in (*chosen, *self.variants.values()) if some]

    @property
    def subject(self) -> str:
        """Data sets, scale and seeds, for the titles of figures."""
        results = self.results
        datasets = dict.fromkeys(result.recipe.dataset for result in results)
        scales = ", ".join(dict.fromkeys(result.recipe.scale for result in results))
        seeds = seeds_text(len({result.recipe.seed for result in some}) for some in self._by_method)
        return f"{listed([*datasets])}, {scales} scale, {seeds}"

    def groups(self, methods: Sequence[Method] = ()) -> list[Group]:
        """The methods that were run, data set by data set."""
        return [group for regime in self.regimes for group in regime.groups(methods or self.item.methods)]

    def change(self, this: str, that: str, *quantities: Quantity) -> ByDataset:
        """What training with one augmentation instead of another changes, beyond noise."""
        ensembles = self._ensembles
        return {r.dataset: prose.change_sentence(r, this, that, quantities, ensembles) for r in self.regimes}

    def level(self, words: str, quantity: Quantity, augment: str) -> ByDataset:
        """`words`, then a difference that one method shows by itself."""
        ensembles = self._ensembles
        return {r.dataset: prose.level_sentence(r, words, quantity, augment, ensembles) for r in self.regimes}

    def values(self, *quantities: Quantity) -> ByDataset:
        """The means over seeds."""
        return {r.dataset: prose.values_sentence(r, quantities, self.item.methods) for r in self.regimes}

    def count(self, words: str, this: str, that: str, quantities: Mapping[str, Quantity]) -> ByDataset:
        """`words`, then in how many ensembles one augmentation is at least as good as another."""
        options = words, this, that, quantities, self._ensembles
        return {r.dataset: prose.count_sentence(r, *options) for r in self.regimes}

    def order(self, first: Quantity, *others: Quantity) -> ByDataset:
        """Whether other quantities order the methods as the first does."""
        return {r.dataset: prose.order_sentence(r, first, others, self.item.methods) for r in self.regimes}

    def best(self, *quantities: Quantity) -> ByDataset:
        """The best mean of each quantity."""
        return {r.dataset: prose.best_sentence(r, quantities, self.item.methods) for r in self.regimes}

    @property
    def _ensembles(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(ensemble for ensemble, _ in self.item.methods))

    def table(self, caption: str, *quantities: Quantity, methods: Sequence[Method] = ()) -> Table:
        """A row for each method; of several data sets the columns of one after those of the other."""
        groups = {r.dataset: r.groups(methods or self.item.methods) for r in self.regimes}
        tables = {
            dataset: comparison(caption, some, quantities, published=published)
            for dataset, some in groups.items()
            if some
        }
        return next(iter(tables.values())) if len(tables) == 1 else side_by_side(caption, tables)

    def figure(self, caption: str, figure: Figure, name: str = "") -> CaptionedFigure:
        datasets = "-".join(dict.fromkeys(result.recipe.dataset for result in self.results))
        name = "-".join(filter(None, (datasets, self.item.name, name)))
        return CaptionedFigure(name, f"{self.item.title}: {self.subject}", caption, caption, figure)

    def bars(
        self, caption: str, *quantities: Quantity, members: Sequence[Quantity] = (), name: str = ""
    ) -> CaptionedFigure:
        drawing = figures.bars(self.groups(), quantities, members, title=self.subject)
        return self.figure(caption, drawing, name)

    def reliability(self, caption: str, panels: Mapping[str, Sequence[Method]]) -> CaptionedFigure:
        drawn = {}
        for regime, (name, methods) in product(self.regimes, panels.items()):
            tops = {m: [r.top_labels for r in regime.results.get(m, ())] for m in methods}
            seeds = {m: [top for top in each if top is not None] for m, each in tops.items()}
            curves = [Curve(parse_augmentation(m[1]).title, s, colour(m[1])) for m, s in seeds.items() if s]
            if curves:
                drawn[f"{regime.dataset}: {name}" if len(self.regimes) > 1 else name] = curves
        if not drawn:
            raise NotRunError("test predictions")
        return self.figure(caption, reliability_figure(drawn, title=self.subject), "reliability")

    def severities(self) -> Iterator[CaptionedFigure]:
        for sheet in self.each():
            drawing = figures.severity_boxes(sheet.groups(), title=sheet.subject)
            yield sheet.figure("By severity: boxes over the types of corruption", drawing, "severity")

    def before_and_after(self) -> Iterator[CaptionedFigure]:
        pairs = ((q.ECE, q.SCALED_ECE), (q.CORRUPTED_ECE, q.SCALED_CORRUPTED_ECE))
        for sheet in self.each():
            drawing = figures.before_and_after(sheet.groups(), pairs, title=sheet.subject)
            yield sheet.figure(
                "ECE of the pool before and after its temperature, clean and corrupted (c)", drawing
            )


def cross(ensembles: Sequence[str], augments: Sequence[str]) -> tuple[Method, ...]:
    return tuple(product(ensembles, augments))


def render_item(
    item: Item, regimes: Sequence[Regime], results: VariantResults | None = None
) -> RenderedItem | str:
    """The item, or why it cannot be shown. Beside data sets where ways to train can be compared, one that has
    a single way is left out."""
    if item.variants is None:
        ways = {r.dataset: {m[1] for m in item.methods if m in r.results} for r in regimes}
        several = [r for r in regimes if len(ways[r.dataset]) > 1]
        regimes = several or [r for r in regimes if ways[r.dataset]]
    if not regimes and not any((results or {}).values()):
        return "not run"
    try:
        return item.render(*regimes, results=results)
    except NotRunError as missing:
        return f"not run: it needs {missing}"
    except InputError as error:
        return f"not shown: {error}"
