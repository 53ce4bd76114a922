import json
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from calmix.paper.claims import CLAIMS, claims_record, judge_claims
from calmix.paper.judging import WORDS, Judge, Part, Size
from calmix.paper.numbers import NUMBERS
from calmix.paper.page import claims_table
from calmix.paper.regime import Regime
from calmix.study.results import read_results
from tests.fabricate import fabricate
from tests.paper.paper_runs import paper_results
from tests.scenarios import run_command

IDS = ["0a", "0b", *map(str, range(1, 19))]

# augmentation: accuracy, confidence; then the same under corruption. The paper's story in round numbers.
STORY = {
    "none": ((0.80, 0.90), (0.50, 0.70)),
    "mixup": ((0.85, 0.70), (0.55, 0.65)),
    "camixup": ((0.86, 0.82), (0.55, 0.65)),
    "forgetting": ((0.90, 0.90), (0.65, 0.65)),
    "augmix": ((0.85, 0.87), (0.60, 0.70)),
    "augmix+mixup": ((0.90, 0.80), (0.65, 0.75)),
    "augmix+camixup": ((0.89, 0.88), (0.65, 0.66)),
    "label-smoothing-0.2": ((0.80, 0.60), None),
    "label-smoothing-0.3": ((0.80, 0.55), None),
    "label-smoothing-0.5": ((0.80, 0.40), None),
}
MIXED = [[[0, 0, 0, 1]] * 2] * 9 + [[[0, 1, 0, 0]] * 2]  # (epochs, members, classes)


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    out = tmp_path_factory.mktemp("story")
    for ensemble in ("batch", "mc", "deep"):
        for augment, ((accuracy, confidence), corrupted) in STORY.items():
            fabricate(
                out,
                ensemble,
                augment,
                accuracy=accuracy,
                confidence=confidence,
                corrupted=corrupted,
                mixed=MIXED if augment == "camixup" and ensemble == "batch" else None,
                classes=tuple("abcd"),
                dataset="digits",
            )
    return out


def judged(results, **options):
    return {claim.id: claim for claim in judge_claims(results, **options)}


def parts_of(claim):
    return {(part.dataset, part.ensemble, part.comparison): part for part in claim.parts}


def test_claims_have_the_ids_of_the_table():
    assert [claim.id for claim in CLAIMS] == IDS


def test_the_papers_own_numbers_are_shown_or_consistent():
    for claim in judge_claims(paper_results()):
        for part in claim.parts:
            if part.paper is not None:
                assert part.verdict in ("shown", "consistent"), (claim.id, part)
                assert part.estimate == pytest.approx(part.paper, abs=2e-4), (claim.id, part)
                assert part.seeds == 5


def test_with_the_papers_numbers_the_main_claims_are_shown():
    claims = judged(paper_results())
    for name in ("0b", "1", "2", "5", "8"):
        words = {part.verdict for part in claims[name].parts if part.paper is not None}
        assert words == {"shown"}, name


@pytest.mark.parametrize(
    ("pair", "column", "claims"),
    [(("mixup", "none"), 0, ["1"]), (("mixup", "none"), 1, ["2"]), (("camixup", "mixup"), 1, ["5"])],
)
def test_the_opposite_of_the_papers_numbers_is_contradicted(pair, column, claims):
    """Each of a pair gets the other's number: the difference changes its sign."""
    mirrored = []
    for dataset in ("cifar10", "cifar100"):
        for ensemble in ("batch", "deep"):
            first, second = ((dataset, ensemble, augment) for augment in pair)
            for key, source in ((first, second), (second, first)):
                row = list(NUMBERS[key])
                row[column] = NUMBERS[source][column]
                mirrored.append((key, tuple(row)))
    results = judged(paper_results(mirrored))
    for name in claims:
        parts = [part for part in results[name].parts if part.paper is not None]
        assert len(parts) == 4
        for part in parts:
            half = (part.interval[1] - part.interval[0]) / 2
            if abs(part.paper) > 2 * half:
                assert part.verdict == "contradicted", part
            else:
                assert part.verdict in ("contradicted", "undecided"), part


def test_the_story_in_round_numbers(story):
    claims = judged(read_results(_runs(story)))
    for name in ("1", "2", "4", "5", "8", "9", "11"):
        words = set(claims[name].counts)
        assert words <= {"shown", "consistent"}, (name, claims[name].line)
    assert set(claims["14"].counts) == {"shown"}
    for name in ("0a", "16", "18"):
        assert set(claims[name].counts) == {"not run"}, name


def test_one_seed_is_provisional(story):
    claims = judged(read_results(_runs(story)))
    parts = [part for claim in claims.values() for part in claim.parts if part.verdict != "not run"]
    assert parts
    assert all(part.provisional and part.seeds == 1 for part in parts)


def test_hard_classes_are_mixed_more_often(story):
    part, *_ = judged(read_results(_runs(story)))["7"].parts
    # Shares 0, 0.1, 0, 0.9 against accuracies that fall with the class: computed by hand.
    assert part.estimate == pytest.approx(np.corrcoef([1.5, 3, 1.5, 4], [3, 3, 3, 1])[0, 1], abs=0.3)
    assert part.estimate < 0


def test_every_claim_has_a_part_and_unrun_parts_are_counted(tmp_path):
    fabricate(tmp_path, "deep", "none")
    for claim in judge_claims(read_results(_runs(tmp_path))):
        assert claim.parts
        assert set(claim.counts) == {"not run"}
        assert all(part.missing for part in claim.parts)


def test_each_data_set_is_judged_by_itself(tmp_path):
    for dataset in ("cifar10", "digits"):
        for augment, confidence in (("none", 0.8), ("mixup", 0.7)):
            fabricate(tmp_path, "deep", augment, dataset=dataset, confidence=confidence)
    results = read_results(_runs(tmp_path))
    deep = [part for part in judged(results)["2"].parts if part.ensemble == "deep"]
    assert {part.dataset: part.verdict for part in deep} == {"cifar10": "shown", "digits": "shown"}
    only = judged(results, dataset="digits")["2"].parts
    assert {part.dataset for part in only} == {"digits"}


def test_json_and_table(story):
    code, out, err = run_command("claims", "--runs", story, "--json")
    assert (code, err) == (0, "")
    record = json.loads(out)
    assert record["version"] == 2
    assert [claim["id"] for claim in record["claims"]] == IDS
    keys = {"ensemble", "dataset", "condition", "estimate", "interval", "paper", "seeds", "verdict"}
    for claim in record["claims"]:
        for part in claim["parts"]:
            assert keys | {"provisional"} <= part.keys()
            assert part["verdict"] in WORDS
    code, out, _ = run_command("claims", "--runs", story)
    assert code == 0
    assert "Mixup worsens the pool's ECE" in " ".join(out.split())


def test_the_record_is_what_the_table_shows(story):
    claims = judge_claims(read_results(_runs(story)))
    assert len(claims_record(claims)["claims"]) == len(claims_table(claims).rows) == len(IDS)


def _runs(folder):
    from calmix.runs.folder import find_runs

    return find_runs([folder])


def _with_accuracies(shares, accuracies):
    """What claim 7 reads of a run: mixed shares by member and class, and each class's accuracy."""
    mixed = np.array([shares, shares], dtype=float)
    recipe = SimpleNamespace(by_group=False)
    return SimpleNamespace(mixed=mixed, class_accuracy=np.array(accuracies, dtype=float), recipe=recipe)


def _seven(*results):
    regime = Regime("digits", "laptop", {("batch", "camixup"): tuple(results)})
    claim = next(claim for claim in CLAIMS if claim.id == "7")
    return list(claim.rule(Judge(regime, "batch")))


def _judge_seven(*results):
    return next(part for part in _seven(*results) if isinstance(part, Part))


def _sizes_of_seven(*results):
    return [size for size in _seven(*results) if isinstance(size, Size)]


def test_the_rank_correlation_of_one_seed_has_fishers_interval():
    places = [3, 1, 4, 2, 0, 6, 9, 5, 8, 7]
    part = _judge_seven(_with_accuracies(range(10), [-place for place in places]))
    expected = stats.spearmanr(range(10), places).statistic
    assert part.estimate == pytest.approx(-expected)
    half = 1.959964 * (1.06 / 7) ** 0.5
    ends = [np.tanh(np.arctanh(-expected) + sign * half) for sign in (-1, 1)]
    assert part.interval == pytest.approx(tuple(ends), abs=1e-6)
    assert part.unit == "rank correlation"


def test_few_classes_or_none_decide_no_rank_correlation():
    few = _judge_seven(_with_accuracies([0, 1, 2], [3, 2, 1]))
    assert (few.estimate, few.interval, few.verdict) == (pytest.approx(-1), (-1, 1), "consistent")
    absent = _judge_seven(_with_accuracies([0, 1, 2, 9], [3, 2, 1, np.nan]))  # no test image of the last
    assert (absent.estimate, absent.interval) == (pytest.approx(-1), (-1, 1))
    shares = [size.value for size in _sizes_of_seven(_with_accuracies([0, 1, 2, 9], [3, 2, 1, np.nan]))]
    assert shares == [2, 0]  # of the hardest and the easiest that has test images
    several = [_with_accuracies(range(5), [5, 4, 3, 2, 1]), _with_accuracies(range(5), [5, 4, 3, 1, 2])]
    both = _judge_seven(*several)
    assert both.seeds == 2
    assert both.interval[0] == -1  # never beyond a correlation
