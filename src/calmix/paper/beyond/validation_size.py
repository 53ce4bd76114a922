"""How many validation images does CAMixup need?"""

import statistics
from collections.abc import Iterator

from calmix.paper import prose
from calmix.paper.mixed_classes import rank_correlation
from calmix.paper.sheet import Item, Sheet, Shown, Variant
from calmix.report import figures
from calmix.report.style import colour
from calmix.report.tables import Cell, Table, interval_text
from calmix.report.words import listed
from calmix.runs.augmentation import parse_augmentation
from calmix.runs.presets import preset
from calmix.runs.recipe import ENSEMBLES
from calmix.study import quantities as q
from calmix.study.estimates import NotRunError, SeedVariance, estimate
from calmix.study.results import Result

SIZES = (100, 250, 500, 1000, 2500, 5000)
FEWER = {"digits": (50, 100, 200, 300), "clusters": (20, 50, 100)}
SMOKE = (20, 40, 60)
# Where a preset trains on all that validation leaves: as many for every size.
TRAIN_SIZES = {
    "digits": 1000,
    "cifar10": 45_000,
    "cifar100": 45_000,
    "mnist": 55_000,
    "fashion-mnist": 55_000,
}
SHOWN = (q.ECE, q.ACCURACY, q.GAP)
JOINED = ("train_on_validation", True)


def _variants(dataset: str, scale: str) -> list[Variant]:
    """CAMixup with every size; none and Mixup, which need no validation images, without them and trained on
    those of the preset too."""
    sizes = SMOKE if scale == "smoke" else FEWER.get(dataset, SIZES)
    fields: tuple[tuple[str, int], ...] = ()
    if preset(dataset, "batch", scale=scale).train_size is None and dataset in TRAIN_SIZES:
        fields = (("train_size", TRAIN_SIZES[dataset]),)
    return [
        *(
            Variant(ensemble, "camixup", (("validation_size", size), *fields))
            for ensemble in ("batch", "deep")
            for size in sizes
        ),
        *(
            Variant(ensemble, augment, (*joined, *fields))
            for joined in ((), (JOINED,))
            for ensemble in ("batch", "deep")
            for augment in ("none", "mixup")
        ),
    ]


@Item("How many validation images CAMixup needs", variants=_variants)
def validation_size(sheet: Sheet) -> Shown:
    """How well does CAMixup calibrate when few validation images tell it each class's gap? Every size has a
    sample of its own of as many training images, because validation images are split off first: differences
    between sizes include that of the sample, which is in no interval. Dotted lines are none and Mixup, which
    use no validation images. The table also has none and Mixup trained on the preset's validation images
    besides, the share of the epochs in which a class was mixed, mean over classes and members, and the rank
    correlation of that share with a class's test accuracy.

    The paper has 2,500 validation images and tries no other number; its methods that need no validation
    images train on all 50,000.

    mnist: With 100 images no preference of BE for hard classes is seen (rank correlation 0 over ten classes,
    one seed), so its low ECE does not say that it mixes the right ones. The 1,000 validation images are as
    many as those for training, in the paper a twentieth of them.
    """
    sized, others, joined = _split(sheet)
    if not any(sized.values()):
        raise NotRunError("CAMixup with a number of validation images")
    texts = [*_sentences(sized, others), *_joined_sentences(others, joined)]
    yield {sheet.results[0].recipe.dataset: " ".join(texts)}
    yield _table(sized, others, joined)
    for ensemble, by_size in sized.items():
        if not by_size:
            continue
        title = f"{ENSEMBLES[ensemble].long}: {sheet.subject}"
        drawing = figures.lines(
            {"CAMixup": {float(size): some for size, some in by_size.items()}},
            SHOWN,
            xlabel="validation images",
            title=title,
            levels=others[ensemble],
            log=True,
            colours={parse_augmentation(a).title: colour(a) for a in ("none", "mixup", "camixup")},
        )
        caption = f"CAMixup on {ENSEMBLES[ensemble].long} against the number of validation images"
        yield sheet.figure(caption, drawing, ensemble)


Sized = dict[str, dict[int, list[Result]]]
Titled = dict[str, dict[str, list[Result]]]


def _split(sheet: Sheet) -> tuple[Sized, Titled, Titled]:
    """For each ensemble CAMixup's results by size, those of none and Mixup, and those of none and Mixup that
    train on the validation images too."""
    sized: Sized = {"batch": {}, "deep": {}}
    others: Titled = {"batch": {}, "deep": {}}
    joined: Titled = {"batch": {}, "deep": {}}
    for variant, results in sheet.variants.items():
        evaluated = [r for r in results if r.summary]
        if evaluated and variant.augment == "camixup":
            sized[variant.ensemble][evaluated[0].recipe.validation_size] = evaluated
        elif evaluated:
            by_title = (joined if JOINED in variant.fields else others)[variant.ensemble]
            by_title[evaluated[0].recipe.augmentation.title] = evaluated
    return sized, others, joined


def _sentences(sized: Sized, others: Titled) -> Iterator[str]:
    """From which size on the ECE is below Mixup's, what more images change, and every number."""
    rows = [some for by_size in sized.values() for some in by_size.values()]
    rows += [some for by_method in others.values() for some in by_method.values()]
    variance = SeedVariance.pooled([q.ECE.values(some) for some in rows])
    enough, changes, texts = [], {}, []
    for ensemble, by_size in sized.items():
        sizes, name = sorted(by_size), ENSEMBLES[ensemble].short
        if not sizes:
            continue
        eces = {size: estimate(by_size[size], q.ECE, variance) for size in sizes}
        changes[name] = eces[sizes[-1]] - eces[sizes[0]]
        if mixup := others[ensemble].get("Mixup"):
            reference = estimate(mixup, q.ECE, variance)
            above = [size for size in sizes if (eces[size] - reference).interval.high >= 0]
            below = [size for size in sizes if not above or size > above[-1]]
            enough.append(f"from {below[0]:,} on ({name})" if below else f"with no number ({name})")
        beside = ", ".join(f"{title} {_ece(some)}" for title, some in others[ensemble].items())
        each = ", ".join(_ece(by_size[size]) for size in sizes)
        images = " / ".join(f"{size:,}" for size in sizes)
        texts.append(f"ECE % {each} with {name} and {images} images" + (f" ({beside})" if beside else ""))
    if enough:
        yield (
            f"By number of validation images, CAMixup's ECE is below Mixup's beyond noise {listed(enough)}. "
            f"From the fewest to the most it changes by {prose.amounts_text(q.ECE, changes)}."
        )
    yield f"{'; '.join(texts)}."


def _joined_sentences(others: Titled, joined: Titled) -> Iterator[str]:
    """What none and Mixup gain by training on the validation images, unless the whole plan does."""
    pairs = {
        f"{ENSEMBLES[ensemble].short}, {title}": (some, others[ensemble][title])
        for ensemble, by_title in joined.items()
        for title, some in by_title.items()
        if title in others[ensemble] and not others[ensemble][title][0].recipe.train_on_validation
    }
    if not pairs:
        return
    texts = {}
    for quantity in (q.ACCURACY, q.ECE):
        variance = SeedVariance.pooled([quantity.values(some) for pair in pairs.values() for some in pair])
        estimates = {
            name: estimate(with_them, quantity, variance) - estimate(without, quantity, variance)
            for name, (with_them, without) in pairs.items()
        }
        texts[quantity.title] = prose.amounts_text(quantity, estimates)
    with_them, _ = next(iter(pairs.values()))
    yield (
        f"Where none and Mixup train on their {with_them[0].recipe.validation_size:,} validation images too, "
        f"accuracy changes by {texts['Acc']}, ECE by {texts['ECE']}."
    )


def _ece(results: list[Result]) -> str:
    return q.ECE.text(statistics.fmean(q.ECE.values(results)))


def _table(sized: Sized, others: Titled, joined: Titled) -> Table:
    methods: dict[str, list[Result]] = {}
    for ensemble, by_size in sized.items():
        named = {f"CAMixup, {size:,} validation images": some for size, some in by_size.items()}
        too = {f"{title}, trained on the validation images too": x for title, x in joined[ensemble].items()}
        for name, some in {**others[ensemble], **too, **named}.items():
            methods[f"{ENSEMBLES[ensemble].short}, {name}"] = some
    columns: list[list[Cell]] = []
    for quantity in SHOWN:
        variance = SeedVariance.pooled([quantity.values(some) for some in methods.values()])
        means = [estimate(some, quantity, variance) for some in methods.values()]
        signed = quantity.unit == "points"
        columns.append([Cell(interval_text(mean.interval, signed=signed), mean.value) for mean in means])
    columns += map(list, zip(*map(_mixed_cells, methods.values()), strict=True))
    columns.append([Cell(str(len(some)), len(some)) for some in methods.values()])
    rows = tuple(zip(map(Cell, methods), *columns, strict=True))
    heads = ("method", *(quantity.heading for quantity in SHOWN), "mixed %", "rank correlation", "seeds")
    caption = "Means with 95 % intervals: the test images, and the spread over seeds of all rows"
    return Table(caption, heads, rows)


def _mixed_cells(results: list[Result]) -> tuple[Cell, Cell]:
    """The share of the epochs in which a class was mixed, and its rank correlation with the accuracy."""
    pairs = [(r.mixed, r.class_accuracy) for r in results]
    known = [(mixed, accuracy) for mixed, accuracy in pairs if mixed is not None and accuracy is not None]
    if not known:
        return Cell("-"), Cell("-")
    share = 100 * statistics.fmean(float(mixed.mean()) for mixed, _ in known)
    correlation = statistics.fmean(rank_correlation(*pair) for pair in known)
    return Cell(f"{share:.0f}", share), Cell(f"{correlation:+.2f}", correlation)
