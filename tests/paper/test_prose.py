import pytest

from calmix.paper import prose
from calmix.paper.items import ITEMS
from calmix.paper.page import write_items
from calmix.paper.regime import main_regime
from calmix.paper.reproduce import plan_items, render_plan
from calmix.runs.folder import find_runs
from calmix.study import quantities as q
from calmix.study.results import read_results
from tests.fabricate import fabricate

THREE = ("batch", "mc", "deep")


def regime(folder, dataset="cifar10"):
    return main_regime(read_results(find_runs([folder])), dataset)


def test_a_change_has_its_sign_and_says_where_it_is_within_noise(tmp_path):
    for ensemble, accuracy, confidence in (("batch", 0.9, 0.8), ("mc", 0.7, 0.6), ("deep", 0.8, 0.799)):
        fabricate(tmp_path, ensemble, "none", accuracy=0.8, confidence=0.8)
        fabricate(tmp_path, ensemble, "mixup", accuracy=accuracy, confidence=confidence)
    assert prose.change_sentence(regime(tmp_path), "mixup", "none", [q.ERROR, q.ECE], THREE) == (
        "Compared with none, Mixup changes the error by -10.0 (BE), +10.0 (MC) and +0.00 points (DE, within "
        "noise); ECE by +10.0 (BE), +10.0 (MC) and +0.10 points (DE, within noise)."
    )
    assert prose.change_sentence(regime(tmp_path), "mixup", "none", [q.ECE], ("deep",)) == (
        "Compared with none, Mixup changes ECE by +0.10 points, within noise."
    )


def test_a_change_of_one_ensemble_does_not_name_it_and_without_runs_there_is_none(tmp_path):
    fabricate(tmp_path, "deep", "mixup", accuracy=0.8, confidence=0.7)
    fabricate(tmp_path, "deep", "camixup", accuracy=0.9, confidence=0.9)
    told = prose.change_sentence(regime(tmp_path), "camixup", "mixup", [q.ACCURACY], ("deep",))
    assert told == "Compared with Mixup, CAMixup changes accuracy by +10.0 points."
    assert prose.change_sentence(regime(tmp_path), "camixup", "none", [q.ACCURACY], THREE) == ""


def test_a_change_whose_noise_nothing_tells_says_so(tmp_path):
    for augment, temperature in (("mixup", 0.5), ("none", 1.0)):
        fabricate(tmp_path, "deep", augment, accuracy=0.8, confidence=0.7, temperature=temperature)
    told = prose.change_sentence(regime(tmp_path), "mixup", "none", [q.TEMPERATURE], ("deep",))
    assert told == "Compared with none, Mixup changes T by -0.5, noise not known."


def test_the_error_has_the_noise_of_the_accuracy(tmp_path):
    for augment, accuracy in (("mixup", 0.8), ("none", 0.85)):
        fabricate(tmp_path, "deep", augment, accuracy=accuracy, corrupted=(accuracy, 0.7))
    some = regime(tmp_path)
    for error, accuracy in ((q.ERROR, q.ACCURACY), (q.CORRUPTED_ERROR, q.CORRUPTED_ACCURACY)):
        widths = {x: some.estimate(("deep", "mixup"), x).half_width for x in (error, accuracy)}
        assert widths[error] == pytest.approx(widths[accuracy])
        assert 0 < widths[error] < 0.1
    assert some.estimate(("deep", "mixup"), q.MEMBER_ERROR).influences == {}


def test_means_over_seeds_by_ensemble_and_what_is_missing(tmp_path):
    for seed, confidence in enumerate((0.7, 0.6)):
        fabricate(tmp_path, "deep", "none", accuracy=0.8, confidence=confidence, seed=seed)
    fabricate(tmp_path, "deep", "mixup", accuracy=0.9, confidence=0.8)
    fabricate(tmp_path, "batch", "mixup", accuracy=0.9, confidence=0.85)
    methods = [(e, a) for e in ("batch", "deep") for a in ("none", "mixup", "camixup")]
    assert prose.values_sentence(regime(tmp_path), [q.GAP, q.ERROR], methods) == (
        "Gap of BE: Mixup +5.00; of DE: none +15.00, Mixup +10.00. "
        "Error % of BE: Mixup 10.00; of DE: none 20.00, Mixup 10.00."
    )
    assert prose.values_sentence(regime(tmp_path), [q.GAP], [("mc", "mixup")]) == ""
    assert prose.level_sentence(regime(tmp_path), "The gap is", q.GAP, "mixup", THREE) == (
        "The gap is +5.0 (BE) and +10.0 points (DE), both within noise."
    )
    assert prose.best_sentence(regime(tmp_path), [q.ERROR, q.GAP], methods) == (
        "The best error % is 10.00 with Mixup (BE) and 10.00 with Mixup (DE), noise not counted. "
        "The best gap is +5.00 with Mixup (BE) and +10.00 with Mixup (DE), noise not counted."
    )


def test_in_how_many_ensembles_one_is_as_good_as_another(tmp_path):
    for ensemble, confidence in (("batch", 0.7), ("deep", 0.9)):
        fabricate(tmp_path, ensemble, "mixup", accuracy=0.8, confidence=confidence)
        fabricate(tmp_path, ensemble, "camixup", accuracy=0.8, confidence=0.75)
    fabricate(tmp_path, "mc", "mixup")  # alone: compared with nothing
    quantities = {"clean": q.ECE, "clean and cropped": q.ACCURACY, "corrupted": q.CORRUPTED_ECE}
    told = prose.count_sentence(regime(tmp_path), "As good in", "camixup", "mixup", quantities, THREE)
    assert told == (
        "As good in 2 of 2 ensembles on clean images and 2 of 2 ensembles on clean and cropped images, "
        "noise not counted."
    )
    told = prose.count_sentence(regime(tmp_path), "As good in", "mixup", "camixup", {"clean": q.ECE}, THREE)
    assert told == "As good in 0 of 2 ensembles on clean images, noise not counted."


def test_whether_another_measure_orders_methods_alike(tmp_path):
    for augment, accuracy, confidence in (("none", 0.8, 0.8), ("mixup", 0.9, 0.7), ("camixup", 0.7, 0.65)):
        fabricate(tmp_path, "deep", augment, accuracy=accuracy, confidence=confidence)
    methods = [("deep", augment) for augment in ("none", "mixup", "camixup")]
    assert prose.order_sentence(regime(tmp_path), q.ECE, [q.GAP, q.ACCURACY], methods) == (
        "DE, best first, by ECE: none, CAMixup, Mixup; by gap the same; by Acc Mixup, none, CAMixup."
    )
    assert prose.order_sentence(regime(tmp_path), q.ECE, [q.GAP], [*methods, ("deep", "augmix")]) == ""


def test_later_paragraphs_of_an_item_begin_with_a_data_set():
    known = {"mnist", "cifar10", "cifar100", "fashion-mnist", "clusters"}
    named = [text.split(": ", 1)[0] for item in ITEMS for text in item.prose[2:]]
    assert named
    assert {*named} <= known


def test_several_data_sets_have_a_line_each_with_the_reason_at_its_end(tmp_path):
    item = next(item for item in ITEMS if item.name == "pathology")
    for dataset in ("cifar10", "fashion-mnist"):
        for augment in ("none", "mixup"):
            fabricate(tmp_path, "deep", augment, dataset=dataset, scale="laptop")
    regimes = [regime(tmp_path, dataset) for dataset in ("cifar10", "fashion-mnist")]
    (alone,), (about, *lines) = item.render(regimes[0]).lines, item.render(*regimes).lines
    assert about.startswith("In the paper Mixup lowers")
    assert [line.split(": ")[0] for line in lines] == ["- cifar10", "- fashion-mnist"]
    assert "over-confidence into" in lines[0]
    assert alone == f"{about} On {lines[0].removeprefix('- ')}"


def test_a_page_has_a_paragraph_and_a_list_of_data_sets(tmp_path):
    for dataset in ("cifar10", "cifar100"):
        fabricate(tmp_path / "runs", "deep", "none", dataset=dataset)
        fabricate(tmp_path / "runs", "deep", "mixup", dataset=dataset, accuracy=0.9)
    plan = plan_items(
        [next(item for item in ITEMS if item.name == "pathology")],
        dataset=["cifar10", "cifar100"],
        scale="paper",
        seeds=1,
        absent=True,
    )
    results = read_results(find_runs([tmp_path / "runs"]))
    page = tmp_path / "page.md"
    write_items(plan, results, render_plan(plan, results), page, command="calmix reproduce", errors={})
    assert "of its members.\n\n- cifar10: Compared with none" in page.read_text()
    assert "\n- cifar100: Compared with none, Mixup changes the error by -10.0" in page.read_text()


def test_what_was_written_of_the_main_study_is_not_printed_beside_other_runs(tmp_path):
    item = next(item for item in ITEMS if item.name == "pathology")
    runs = [fabricate(tmp_path, "deep", augment, scale="paper") for augment in ("none", "mixup")]
    (line,) = item.render(main_regime(read_results(runs), "cifar10")).lines
    assert "On cifar10: Compared with none" in line
    assert "over-confidence into" not in line
