"""What Mixup did to the calibration of each ensemble and what cured it, in sentences made of the numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from calmix.auditing.report import AuditReport
from calmix.report.levels import Level
from calmix.report.words import listed

PLAIN, MIXUP, CAMIXUP = "none", "mixup", "camixup"
TITLES = {PLAIN: "without Mixup", MIXUP: "with Mixup", CAMIXUP: "with CAMixup"}


@dataclass(frozen=True)
class Story:
    """Sentences, the first of which stands out, and a picture: of each heading some levels."""

    sentences: tuple[str, ...]
    picture: tuple[tuple[str, tuple[Level, ...]], ...]
    note: str = ""


def mixup_story(reports: Mapping[tuple[str, str], AuditReport]) -> Story:
    """From audits by (ensemble, augmentation), with augmentations "none", "mixup" and "camixup".

    A change is named only where the intervals of the two gaps do not overlap; what did not happen is not
    told.
    """
    ensembles = list(dict.fromkeys(ensemble for ensemble, _ in reports))
    done = [_effect(reports[name, PLAIN], reports[name, MIXUP]) for name in ensembles]
    cured = [_effect(reports[name, MIXUP], reports[name, CAMIXUP]) for name in ensembles]
    hurt = [name for name, effect in zip(ensembles, done, strict=True) if effect == "worse"]
    sentences = [_mixup(ensembles, done, reports)]
    if hurt:
        sentences.append(_camixup(hurt, dict(zip(ensembles, cured, strict=True)), reports))
        sentences.append(_example(max(hurt, key=lambda name: _off(reports[name, MIXUP])), reports))
    else:
        sentences.append("There was nothing for CAMixup to cure." + _others(ensembles, cured))
    picture = tuple(
        (name, tuple(_level(TITLES[kind], reports[name, kind]) for kind in TITLES)) for name in ensembles
    )
    note = (
        "The bar is how often it was right, the mark how sure it was: a bar beyond its mark is "
        "under-confident."
    )
    return Story(tuple(sentences), picture, note)


def _effect(before: AuditReport, after: AuditReport) -> str:
    """Whether the gap moved for sure away from 0 ("worse") or towards it ("better"); else "unclear"."""
    first, second = before.evidence.gap, after.evidence.gap
    if first.low <= second.high and second.low <= first.high:
        return "unclear"
    return "worse" if _off(after) > _off(before) else "better"


def _off(report: AuditReport) -> float:
    return abs(report.evidence.gap.value)


def _mixup(
    ensembles: Sequence[str], effects: Sequence[str], reports: Mapping[tuple[str, str], AuditReport]
) -> str:
    by = {kind: [n for n, e in zip(ensembles, effects, strict=True) if e == kind] for kind in set(effects)}
    parts = []
    if hurt := by.get("worse", []):
        unders = [reports[name, MIXUP].evidence.gap.value > 0 for name in hurt]
        how = "less sure than it should be" if all(unders) else "surer than it should be"
        if len(set(unders)) > 1:
            how = "worse calibrated"
        parts.append(f"made {_names(hurt)} {how if len(hurt) == 1 else _plural(how)}")
    if helped := by.get("better", []):
        parts.append(f"improved the calibration of {_names(helped)}")
    if unclear := by.get("unclear", []):
        parts.append(f"made no sure difference to {_names(unclear)}")
    return f"Mixup {listed(parts)}."


def _plural(text: str) -> str:
    return text.replace("it should", "they should")


def _camixup(
    hurt: Sequence[str], effects: Mapping[str, str], reports: Mapping[tuple[str, str], AuditReport]
) -> str:
    def within(name: str) -> bool:
        report = reports[name, CAMIXUP]
        return _off(report) <= report.tolerance

    cured = [name for name in hurt if effects[name] == "better" and within(name)]
    eased = [name for name in hurt if effects[name] == "better" and not within(name)]
    rest = [name for name in hurt if effects[name] != "better"]
    parts = []
    if cured:
        parts.append(f"cured {_names(cured)}")
    if eased:
        parts.append(f"brought {_names(eased)} nearer to calibrated, though not within the tolerance")
    if rest:
        parts.append(f"made no sure improvement to {_names(rest)}")
    return f"CAMixup {listed(parts)}."


def _others(ensembles: Sequence[str], effects: Sequence[str]) -> str:
    worse = [name for name, effect in zip(ensembles, effects, strict=True) if effect == "worse"]
    return f" It left {_names(worse)} worse calibrated than Mixup did." if worse else ""


def _example(name: str, reports: Mapping[tuple[str, str], AuditReport]) -> str:
    """The numbers of the ensemble that Mixup leaves furthest off."""
    mixup, camixup = reports[name, MIXUP], reports[name, CAMIXUP]
    after = mixup.temperature.ece_after_pool
    return (
        f"Of these the furthest off is {_names([name])} with Mixup: right in {_percent(_accuracy(mixup))} of "
        f"cases, and {_percent(_confidence(mixup))} sure on average. Its calibration error (ECE) is "
        f"{_percent(mixup.evidence.ece)}, against {_percent(reports[name, PLAIN].evidence.ece)} without "
        f"Mixup and {_percent(camixup.evidence.ece)} with CAMixup. Without training again, temperature "
        f"scaling leaves {_percent(after)}."
    )


def _level(label: str, report: AuditReport) -> Level:
    return Level(label, _confidence(report), _accuracy(report), report.examples)


def _accuracy(report: AuditReport) -> float:
    return report.evidence.accuracy


def _confidence(report: AuditReport) -> float:
    return report.evidence.accuracy - report.evidence.gap.value


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _names(names: Sequence[str]) -> str:
    """
    >>> _names(["single network", "BatchEnsemble", "deep ensemble"])
    'the single network, BatchEnsemble and the deep ensemble'
    """
    return listed([f"the {name}" if name[0].islower() else name for name in names])
