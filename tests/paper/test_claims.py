"""Each rule on runs whose numbers are chosen so that it must hold, fail, or stay open."""

import json

import numpy as np
import pytest

from calmix import run_folder
from calmix.cli import main
from calmix.paper import estimates
from calmix.paper.claims import CLAIMS, FAILS, HOLDS, NOT_RUN, UNDECIDED, claims_table
from tests.paper.fabricate import fabricate

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


def tell(out, story, ensembles=("batch", "mc", "deep"), **options):
    return [
        fabricate(
            out,
            ensemble,
            augment,
            accuracy=clean[0],
            confidence=clean[1],
            corrupted=corrupted,
            mixed=MIXED if augment == "camixup" else None,
            **options,
        )
        for ensemble in ensembles
        for augment, (clean, corrupted) in story.items()
    ]


def verdicts(runs, dataset=None):
    return {claim.number: claim.verdict for claim in claims_table(runs, dataset)}


def test_there_are_eighteen():
    assert len(CLAIMS) == 18


def test_the_papers_story_holds(tmp_path):
    found = verdicts(tell(tmp_path, STORY, dataset="digits"))
    for number in (1, 2, 4, 5, 6, 8, 9, 11, 14):
        assert found[number] == HOLDS, number
    assert found[16] == found[18] == NOT_RUN


def test_its_contrary_does_not(tmp_path):
    contrary = STORY | {"mixup": STORY["none"], "none": STORY["mixup"], "camixup": ((0.7, 0.4), (0.4, 0.9))}
    found = verdicts(tell(tmp_path, contrary, dataset="digits"))
    for number in (1, 2, 5, 6, 8, 9):
        assert found[number] == FAILS, number


def test_predictions_that_are_the_same_raise_nothing_and_are_on_par(tmp_path):
    same = dict.fromkeys(("none", "mixup", "camixup"), ((0.8, 0.8), (0.5, 0.5)))
    found = verdicts(tell(tmp_path, same, dataset="digits"))
    assert (found[1], found[9]) == (FAILS, HOLDS)


def test_too_wide_an_interval_is_undecided(tmp_path):
    runs = []
    for seed, shift in enumerate((0.0, 0.06)):
        runs += [fabricate(tmp_path, "batch", "none", seed=seed, accuracy=0.80)]
        runs += [fabricate(tmp_path, "batch", "mixup", seed=seed, accuracy=0.81 + shift)]
    claim = claims_table(runs, "cifar10")[0]
    assert claim.verdict == UNDECIDED
    assert "over 2 seeds" in claim.lines[0]
    assert claim.parts[1].verdict == NOT_RUN


def test_the_factor_is_asked_of_be_on_cifar10_alone(tmp_path):
    near = STORY | {"camixup": ((0.86, 0.80), None)}  # 6 points, where Mixup has 15
    labels = {p.of: p.verdict for p in claims_table(tell(tmp_path, near, ("batch", "deep")))[4].parts}
    assert labels["5 x ECE of BE CAMixup - Mixup"] == FAILS
    assert labels["ECE of BE CAMixup - Mixup"] == HOLDS
    assert len(labels) == 4


def test_compounding_asks_more_than_a_less_confident_pool(tmp_path):
    """Members all alike: they are under-confident, but their pool is no worse than they."""
    claim = claims_table(tell(tmp_path, {"mixup": ((0.85, 0.70), None)}, ("deep",)))[2]
    of = {part.of: part.verdict for part in claim.parts}
    assert of["gap of DE Mixup's members"] == HOLDS
    assert of["ECE of DE Mixup - its members' mean"] == FAILS
    assert claim.verdict == FAILS


def test_hard_classes_are_mixed_and_easy_ones_are_not(tmp_path):
    always = [[[1, 1, 1, 1]] * 2] * 10
    for folder, mixed, expected in (("a", MIXED, (HOLDS, HOLDS)), ("b", always, (HOLDS, FAILS))):
        run = fabricate(tmp_path / folder, "batch", "camixup", mixed=mixed)
        parts = claims_table([run])[6].parts
        assert tuple(part.verdict for part in parts) == expected
    assert parts[1].evidence == "+90.00"  # not in the first
    half = [fabricate(tmp_path / "d", "batch", "camixup", mixed=always, seed=seed) for seed in range(2)]
    half.append(fabricate(tmp_path / "d", "batch", "camixup", mixed=MIXED, seed=2))
    _, easy = claims_table(half)[6].parts
    assert easy.verdict == UNDECIDED  # 90, 90 and 0 %
    assert easy.evidence.startswith("+60.00 [-")
    assert easy.evidence.endswith("over 3 seeds")
    run = fabricate(tmp_path / "c", "batch", "camixup")
    assert claims_table([run])[6].verdict == NOT_RUN


def test_temperature(tmp_path):
    """T = 2 lowers a confidence of 0.97: right for an accuracy of 0.85, wrong for 0.97 under corruption."""
    run = fabricate(
        tmp_path, "batch", "camixup", accuracy=0.85, confidence=0.97, corrupted=(0.97, 0.97), temperature=2
    )
    clean, shifted = claims_table([run])[12].parts[:2]
    assert clean.verdict == shifted.verdict == HOLDS


def test_a_temperature_that_hardly_changes_corrupted_ece_does_not_improve_it(tmp_path):
    run = fabricate(tmp_path, "batch", "camixup", corrupted=(0.8, 0.9), temperature=1.001)
    assert claims_table([run])[12].parts[1].verdict == HOLDS


def test_forgetting_is_judged_by_most_numbers_and_not_by_mcs_ece(tmp_path):
    """Better accuracy and cA; worse cECE, and worse ECE: two of three for MC, two of four for BE."""
    story = {"camixup": ((0.8, 0.8), (0.6, 0.62)), "forgetting": ((0.9, 0.7), (0.7, 0.8))}
    batch, mc = claims_table(tell(tmp_path, story, ("batch", "mc")))[13].parts
    assert (batch.of, batch.verdict) == ("BE, 3 of 4", FAILS)
    assert (mc.of, mc.verdict) == ("MC, 2 of 3", HOLDS)


def test_augmix_may_be_as_underconfident_as_nothing_is(tmp_path):
    for folder, confidence, verdict in (("a", 0.70, HOLDS), ("b", 0.55, FAILS)):
        story = {"none": ((0.8, 0.65), None), "augmix": ((0.8, confidence), None)}
        assert verdicts(tell(tmp_path / folder, story, ("batch",)))[10] == verdict


@pytest.mark.parametrize(
    ("skce", "spread", "verdict"),
    [
        ({"none": 2, "mixup": 3, "camixup": 1}, 0.1, HOLDS),
        ({"none": 3, "mixup": 2, "camixup": 1}, 0.1, FAILS),
        ({"none": 3, "mixup": 2, "camixup": 1}, 2.0, UNDECIDED),
    ],
)
def test_other_metrics_rank_as_ece_does(tmp_path, monkeypatch, skce, spread, verdict):
    story = {"none": ((0.8, 0.9), None), "mixup": ((0.8, 0.5), None), "camixup": ((0.8, 0.81), None)}
    draws = {name: np.random.default_rng(seed).normal(0, spread, 1000) for seed, name in enumerate(skce)}

    def kernel_draws(result):
        name = result.run.recipe.augment
        return skce[name], skce[name] + draws[name]

    monkeypatch.setattr(estimates, "kernel_draws", kernel_draws)
    assert verdicts(tell(tmp_path, story, ("batch", "deep")))[15] == verdict


def test_what_the_paper_says_of_cifar10_alone_is_not_judged_on_cifar100(tmp_path):
    runs = [
        fabricate(tmp_path, "batch", augment, dataset="cifar100", corrupted=(0.6, 0.6), mixed=MIXED)
        for augment in ("camixup", "forgetting")
    ]
    for number in (7, 14):
        claim = claims_table(runs)[number - 1]
        assert claim.verdict == NOT_RUN
        assert claim.parts[0].evidence == "the paper does not claim it of cifar100"


def test_runs_of_other_kinds_do_not_stand_in_the_way(tmp_path):
    by_group = fabricate(tmp_path, "batch", "camixup", by_group=True, mixed=[[[1]]])
    joined = fabricate(tmp_path, "deep", "mixup", smoothing=0.1)
    assert joined.recipe.augment == "mixup+label-smoothing-0.1"
    judged = claims_table([by_group, joined])
    assert judged[6].verdict == NOT_RUN
    assert "needs a run whose CAMixup decides by class" in judged[6].lines[0]


def test_under_corruption_all_types_are_compared_or_none(tmp_path):
    runs = tell(tmp_path, {"none": STORY["none"], "mixup": STORY["mixup"]}, ("deep",))
    before = claims_table(runs)[7]
    assert before.verdict != NOT_RUN
    summary = run_folder.read_json(runs[0].summary)
    summary["corrupted"]["saturate"] = {"1": {"pool": {"accuracy": 0, "ece": 1}}}
    run_folder.write_json(runs[0].summary, summary)
    assert claims_table(runs)[7] == before
    del summary["corrupted"]["fog"]
    run_folder.write_json(runs[0].summary, summary)
    assert claims_table(runs)[7].verdict == NOT_RUN


def test_the_command_knows_the_data_sets(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["claims", "--runs", str(tmp_path), "--dataset", "cifar1O"])
    assert ended.value.code == 2
    assert "did you mean 'cifar10'" in capsys.readouterr().err


def test_the_command_prints_json(tmp_path, capsys):
    tell(tmp_path, {"none": STORY["none"], "mixup": STORY["mixup"]}, ("deep",))
    with pytest.raises(SystemExit):
        main(["claims", "--runs", str(tmp_path), "--json"])
    claims = json.loads(capsys.readouterr().out)
    assert [claim["number"] for claim in claims] == list(range(1, 19))
    assert claims[0]["verdict"] == HOLDS
    assert {"of", "verdict", "evidence"} == set(claims[0]["parts"][0])


def test_the_command_prints_a_table(tmp_path, capsys):
    tell(tmp_path, {"none": STORY["none"]}, ("deep",))
    tell(tmp_path, {"mixup": STORY["none"]}, ("deep",), epochs=3)
    with pytest.raises(SystemExit):
        main(["claims", "--runs", str(tmp_path)])
    assert "1 runs of other regimes are left out" in capsys.readouterr().out
