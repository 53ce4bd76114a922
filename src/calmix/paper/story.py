"""The first page of the results: the claims as a matrix, pathology and cure, what differs and why.

Numbers come from the results that are given; the sentences beside them are written here.
"""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from calmix import files
from calmix.paper.beyond import BEYOND_ITEMS
from calmix.paper.beyond.crossing import crossing
from calmix.paper.claims import TOY, judge_claims
from calmix.paper.claims_figures import matrix_figure
from calmix.paper.items import camixup, pathology
from calmix.paper.judging import ClaimResult, Part
from calmix.paper.numbers import NUMBERS
from calmix.paper.page import CLAIMS_NOTE, part_text
from calmix.paper.prose import change_sentence, values_sentence
from calmix.paper.regime import MAIN_SCALE, Regime, main_regimes, seeds_text
from calmix.paper.reproduce import plan_items, render_plan
from calmix.paper.sheet import cross
from calmix.progress import Progress, Reporter, ignore
from calmix.report.figures.comparisons import bars
from calmix.report.style import save_figure
from calmix.report.words import listed
from calmix.runs.augmentation import parse_augmentation
from calmix.runs.recipe import ENSEMBLES
from calmix.study import quantities as q
from calmix.study.results import Results

THREE = ("batch", "mc", "deep")
METHODS = cross(THREE, ("none", "mixup", "camixup"))
COMPARED = (("mixup", "none"), ("camixup", "mixup"))
QUANTITIES = (q.ACCURACY, q.ECE)
HEAD = "pathology-and-cure"
BARS = "bars are means over seeds with their standard deviation, dots are runs"
BARS_ALONE = "bars are that seed's run"
QUESTION = (
    "Do the confidences of small ensembles fit their accuracies when they are trained plainly (none), with "
    "Mixup, or with CAMixup, which mixes only classes on which the model is over-confident? ECE, the "
    "expected calibration error, says how far they are apart."
)
WORDS = (
    "BE is a BatchEnsemble, MC is MC-dropout, DE a deep ensemble; members are measured alone, the pool "
    "averages their probabilities. The gap is accuracy minus confidence: above 0 is under-confident. A c "
    "before a quantity means its mean over 75 corrupted test sets. A regime is a data set with a number of "
    "training images; laptop is the scale of this study, small networks on few images."
)
FOUND = (
    "The paper found that Mixup raises an ensemble's accuracy and harms its calibration, and that CAMixup "
    "keeps most of the one without the other."
)
IN_SHORT = {  # claims, what is shown of them and what where they are contradicted
    "2": ("Mixup is shown to raise the ECE of", "and to lower it in"),
    "5": ("CAMixup is shown to have a lower ECE than Mixup in", "and a higher one in"),
}
PHONE = 4.5  # inches: wider figures cannot be read on a phone

WORDS_NOTE = (
    "*Shown*: the whole interval lies on the claimed side. *Consistent*: the estimate does, the interval "
    "reaches across. *Undecided*: the estimate lies on the other side, the interval reaches across. "
    "*Contradicted*: the whole interval lies on the other side. What lies within a claim's margin counts as "
    "claimed: 0.22 points of accuracy in claim 6 (the paper's own largest loss), 0.4 of ECE in claim 9, 0.05 "
    "of accuracy in claim 12. Without an interval a part is consistent or undecided, and so is one of claim "
    "15 where the order by ECE is itself not sure. Exactly half of the metrics is undecided in claim 14."
)

CONTRADICTED_NOTE = "Comparisons whose whole 95 % interval lies on the side opposite to the claim:"

REMEDIES_NOTE = (
    "CAMixup decides by each member's own gap, or by the pool's (by pool), perhaps by its mean over epochs "
    "(momentum) and only beyond a margin. RegMixup and MixupMP train on clean and mixed images together. A "
    "pooled temperature is one number for the pool, fitted on validation images; a joint calibrator has a "
    "second one, for how much of the members' spread is kept."
)

MIN_REGIMES = 3  # below, there is nothing to see of a crossing

# Why a claim does not show on a data set: the likely reason, tested or not as the sentence says. A key is a
# claim, perhaps with an ensemble or with a quantity.
REASONS = {
    "mnist": {
        "0a": "one network is over-confident by less than a point without Mixup, and under-confident by 6 "
        "with it",
        "0b": "without mixing BatchEnsemble's ECE is below a point here (the paper's, on CIFAR-10, is 1.8), "
        "and CAMixup overshoots",
        "12": "with AugMix alone ECE is below a point here, and AugCAMixup overshoots into under-confidence",
    },
    "cifar10": {
        "1 BE": "one network gains 0.8 points here; BE's members lose 2.4, and why is open",
        "2": "Mixup turns over-confidence of 14 (BE) and 12 points (MC) into under-confidence of 5 and 4",
        "4": "smoothing of 0.2 turns over-confidence of 14 (BE) and 12 points (MC) into under-confidence of "
        "9 and 8",
        "11 Acc": "the reason is open (more than 80 epochs were not tried)",
        "11 ECE": "AugMix alone leaves the pool over-confident by 10 points; with Mixup it is "
        "under-confident by 5",
        "15": "SKCE looks at all classes, and with CAMixup some are predicted too rarely, deer most of all; "
        "with each class's mean probability set to its frequency, SKCE is lowest with CAMixup (one seed)",
        "17 cECE": "AugMix alone leaves the pool over-confident by 8 points under corruption, AugCAMixup "
        "under-confident by 1",
    },
    "cifar100": {
        "1 BE": "one network, trained for as many epochs, hardly loses accuracy; the reason is open",
        "2": "without mixing pools are over-confident by 13 to 20 points, about what Mixup adds (14 to 19)",
        "3": "members are over-confident by 23 to 30 points without mixing, and by 2 to 4 with Mixup",
        "5": "mixing every class takes nearly all over-confidence away here, so mixing fewer may take too "
        "little (not tested; with 25 validation images of a class its choices are noisy, too)",
        "11 Acc": "the reason is open (more than 80 epochs were not tried)",
        "11 ECE": "AugMix alone leaves the pools over-confident by 10 and 11 points, which Mixup takes away",
        "12": "mixing every class takes nearly all over-confidence away here, so mixing fewer may take too "
        "little (not tested)",
        "15": "mixing moves probability between classes: with each class's mean probability set to its "
        "frequency, SKCE is highest without mixing (tested with MC, one seed)",
    },
}


def write_story(results: Results, target: Path, *, command: str, reporter: Reporter = ignore) -> list[Path]:
    """Write `target` (Markdown) with its figures in `figures/` beside it; returns all files."""
    folder = target.parent / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    regimes = [r for r in main_regimes(results) if r.dataset != TOY and r.groups(METHODS)]
    reporter(Progress("results", 0, 1 + len(regimes), "claims"))
    judged = judge_claims(results)
    written = [target, folder / "claims.svg"]
    lines = ["# Results", "", f"Made by `{command}`.", ""]
    lines += [QUESTION, "", *_in_short(judged, regimes), *_matrix(judged)]
    save_figure(matrix_figure(judged), written[-1])
    for place, regime in enumerate(regimes):
        reporter(Progress("results", 1 + place, 1 + len(regimes), regime.dataset))
        name = HEAD if place == 0 else f"{HEAD}-{regime.dataset}"
        written.append(folder / f"{name}.svg")
        lines += _pathology(regime, written[-1], first=place == 0)
        if place == 0:
            lines += _crossing(results, folder, written)
            lines += _answers(results, [r.dataset for r in regimes if r.name == MAIN_SCALE])
    lines += _contradicted(judged)
    lines += ["## Every claim", "", WORDS_NOTE, "", CLAIMS_NOTE, ""]
    for claim in judged:
        lines += [f"**{claim.id}. {claim.text}**: {claim.line}.", ""]
        if parts := [f"- {part_text(part)}" for part in claim.parts if part.estimate is not None]:
            lines += [*parts, ""]
    with files.replacing(target) as file:
        file.write(("\n".join(lines).rstrip() + "\n").encode())
    return written


def _in_short(judged: Sequence[ClaimResult], regimes: Sequence[Regime]) -> list[str]:
    """In how many ensembles of each data set the pathology and its cure are shown, by how much, and on how
    many training images and seeds that rests."""
    sentences, seeds = [], {}
    images = {r.dataset: next(iter(r.results.values()))[0].recipe.train_size for r in regimes}
    for claim_id, words in IN_SHORT.items():
        parts = [p for claim in judged if claim.id == claim_id for p in claim.parts if p.estimate is not None]
        texts = []
        for start, verdict in zip(words, ("shown", "contradicted"), strict=True):
            some = []
            for dataset in dict.fromkeys(part.dataset for part in parts):
                here = [part for part in parts if part.dataset == dataset]
                seeds[dataset] = seeds_text(part.seeds for part in here)
                changes = [100 * abs(p.estimate or 0.0) for p in here if p.verdict == verdict]
                if changes:
                    ends = " to ".join(dict.fromkeys(f"{x:.1f}" for x in (min(changes), max(changes))))
                    some.append(f"{len(changes)} of {len(here)} ensembles on {dataset} (by {ends} points)")
            texts += [f"{start} {listed(some)}"] if some else []
        if texts:
            text = ", ".join(texts).removeprefix("and ")
            sentences.append(f"{text[0].upper()}{text[1:]}.")
    if not sentences:
        return []
    trained = "; ".join(
        f"{dataset} " + (f"{size:,} training images, " if (size := images.get(dataset)) else "") + text
        for dataset, text in seeds.items()
    )
    return [f"{' '.join(sentences)} ({trained}. With one seed the noise of training is hardly known.)", ""]


def _matrix(judged: Sequence[ClaimResult]) -> list[str]:
    parts = [part for claim in judged for part in claim.parts]
    words = Counter(part.verdict for part in parts)
    alone = Counter(part.verdict for part in parts if part.provisional and part.verdict != "not run")
    counts = ", ".join(
        f"{number} {word}" + (f" ({alone[word]} with one seed)" if alone[word] else "")
        for word, number in words.most_common()
    )
    return [
        "Each row is a claim of the paper, each square one ensemble on one data set, in as many pieces as "
        f"the claim has comparisons ([what the words mean](#every-claim)): {counts}.",
        "",
        "![The paper's claims by data set and ensemble](figures/claims.svg)",
        "",
        WORDS,
        "",
    ]


def _pathology(regime: Regime, path: Path, *, first: bool) -> list[str]:
    """The section of a data set: what the paper found, what came out here, and why they differ."""
    groups = regime.groups(METHODS)
    seeds = max(len(group.results) for group in groups)
    where = f"{regime.dataset}, {regime.name}, " + ("one seed" if seeds == 1 else f"up to {seeds} seeds")
    of_members = (q.MEMBER_ERROR, q.MEMBER_ECE)
    save_figure(bars(groups, (q.ERROR, q.ECE), of_members, title=where, wide=PHONE), path)
    changes = [change_sentence(regime, *pair, QUANTITIES, THREE) for pair in COMPARED]
    why = [item.reasons.get(regime.dataset, "") for item in (pathology, camixup)]
    texts = [FOUND if first else "", _in_the_paper(regime.dataset), f"On {regime.dataset}:", *changes]
    texts += why if regime.name == MAIN_SCALE else []
    drawn = f"{BARS_ALONE if seeds == 1 else BARS}, diamonds are the members' means"
    return [
        f"## {'Pathology and cure' if first else 'None, Mixup and CAMixup'}: {regime.dataset}",
        "",
        " ".join(filter(None, texts)),
        "",
        f"![Error and ECE on {regime.dataset}](figures/{path.name})",
        "",
        f"*{where}: {drawn}. {values_sentence(regime, QUANTITIES, METHODS)}*",
        "",
    ]


def _in_the_paper(dataset: str) -> str:
    """The paper's ECE of each ensemble, where it has the data set.

    >>> _in_the_paper("cifar10")
    'In the paper, ECE % of BE: none 1.8, Mixup 6.4, CAMixup 1.2; of DE: none 0.78, Mixup 6.15, CAMixup 1.92.'
    """
    texts: dict[str, list[str]] = {}
    for ensemble, augment in METHODS:
        if row := NUMBERS.get((dataset, ensemble, augment)):
            value = f"{parse_augmentation(augment).title} {row.ece:g}"
            texts.setdefault(ENSEMBLES[ensemble].short, []).append(value)
    known = "; ".join(f"of {name}: {', '.join(values)}" for name, values in texts.items())
    return f"In the paper, ECE % {known}." if known else ""


def _crossing(results: Results, folder: Path, written: list[Path]) -> list[str]:
    """When Mixup harms an ensemble, where runs of several regimes tell it."""
    seeds = 1 + max((result.recipe.seed for result in results), default=0)
    plan = plan_items([crossing], dataset="mnist", scale="laptop", seeds=seeds, absent=True)
    runs = [result for result in results if result.recipe in plan.runs]
    if len({(result.recipe.dataset, result.recipe.train_size) for result in runs}) < MIN_REGIMES:
        return []
    shown = render_plan(plan, results)[crossing.name]
    if isinstance(shown, str):
        return []
    conclusion, *details = shown.sentences
    lines = [f"## {crossing.title}", "", conclusion, ""]
    for captioned in shown.figures:
        written.append(folder / f"{captioned.name}.svg")
        save_figure(captioned.figure, written[-1])
        lines += [f"![{captioned.alt}](figures/{written[-1].name})", "", f"*{captioned.caption}.*", ""]
    for paragraph in (crossing.shows, *details, shown.tables[0].markdown()):
        lines += [paragraph, ""]
    return lines


def _answers(results: Results, datasets: Sequence[str]) -> list[str]:
    """The other questions that the paper leaves open, answered on the data sets where each of their methods
    was run."""
    seeds = 1 + max((result.recipe.seed for result in results), default=0)
    finished = {result.recipe for result in results if result.summary}
    lines = []
    for item in BEYOND_ITEMS:
        plans = (
            plan_items([item], dataset=name, scale=MAIN_SCALE, seeds=seeds, absent=True) for name in datasets
        )
        whole = [
            plan.dataset
            for plan in plans
            if all(finished & {*recipes} for recipes in plan.by_variant(item, plan.dataset).values())
        ]
        if item is crossing or not whole:
            continue
        plan = plan_items([item], dataset=whole, scale=MAIN_SCALE, seeds=seeds, absent=True)
        shown = render_plan(plan, results)[item.name]
        if not isinstance(shown, str):
            question = item.shows.partition("?")[0]
            lines += [f"**{question}?** (`calmix reproduce {item.name}`)", "", *shown.paragraphs, ""]
    return ["## What else the paper leaves open", "", REMEDIES_NOTE, "", *lines] if lines else []


def _reason(claim: ClaimResult, part: Part) -> str | None:
    if part.regime != MAIN_SCALE:
        return None
    reasons = REASONS.get(part.dataset, {})
    ensemble, quantity = ENSEMBLES[part.ensemble].short, part.comparison.split(":")[0]
    keys = (f"{claim.id} {ensemble}", f"{claim.id} {quantity}", claim.id)
    return next((reasons[key] for key in keys if key in reasons), None)


def _contradicted(judged: Sequence[ClaimResult]) -> list[str]:
    """Of each claim the parts that are contradicted, those of one data set with the same reason together."""
    lines = []
    for claim in judged:
        found: dict[tuple[str, str], list[Part]] = {}
        for part in claim.parts:
            if part.verdict == "contradicted":
                found.setdefault((part.dataset, _reason(claim, part) or ""), []).append(part)
        lines += [f"**{claim.id}. {claim.text}**", ""] * bool(found)
        for (dataset, reason), parts in found.items():
            lines.append(f"- On {dataset}" + f": {reason}." * bool(reason))
            lines += [f"    - {part_text(part)}" for part in parts]
        lines += [""] * bool(found)
    if not lines:
        return []
    return ["## Contradicted here", "", CONTRADICTED_NOTE, "", *lines]
