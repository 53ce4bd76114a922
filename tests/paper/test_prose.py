from calmix.paper.items import ITEMS
from calmix.paper.prose import came_out
from calmix.paper.regime import main_regime
from calmix.runs.folder import find_runs
from calmix.study import quantities as q
from calmix.study.results import read_results
from tests.fabricate import fabricate


def test_means_over_seeds_by_ensemble_and_what_is_missing(tmp_path):
    for seed, confidence in enumerate((0.7, 0.6)):
        fabricate(tmp_path, "deep", "none", accuracy=0.8, confidence=confidence, seed=seed)
    fabricate(tmp_path, "deep", "mixup", accuracy=0.9, confidence=0.8)
    fabricate(tmp_path, "batch", "mixup", accuracy=0.9, confidence=0.85)
    regime = main_regime(read_results(find_runs([tmp_path])), "cifar10")
    methods = [(e, a) for e in ("batch", "deep") for a in ("none", "mixup", "camixup")]
    assert came_out([regime], [q.GAP, q.ERROR], methods) == (
        "Here on cifar10, for none / Mixup: gap - / +5.00 with BE, +15.00 / +10.00 with DE; "
        "error % - / 10.00 with BE, 20.00 / 10.00 with DE."
    )


def test_a_data_set_without_the_methods_has_no_sentence(tmp_path):
    fabricate(tmp_path, "deep", "none")
    regime = main_regime(read_results(find_runs([tmp_path])), "cifar10")
    assert came_out([regime], [q.GAP], [("batch", "mixup")]) == ""


def test_later_paragraphs_of_an_item_begin_with_a_data_set():
    known = {"mnist", "cifar10", "cifar100", "fashion-mnist", "clusters"}
    named = [text.split(": ", 1)[0] for item in ITEMS for text in item.prose[2:]]
    assert named
    assert {*named} <= known


def test_reasons_name_their_data_set_where_several_stand_side_by_side(tmp_path):
    item = next(item for item in ITEMS if item.name == "pathology")
    for dataset in ("cifar10", "fashion-mnist"):
        for augment in ("none", "mixup"):
            fabricate(tmp_path, "deep", augment, dataset=dataset, scale="laptop")
    results = read_results(find_runs([tmp_path]))
    regimes = [main_regime(results, dataset) for dataset in ("cifar10", "fashion-mnist")]
    alone, both = item.render(regimes[0]).sentences, item.render(*regimes).sentences
    assert f"cifar10: {alone[-1]}" in both
    assert both[-1].startswith("fashion-mnist: ")


def test_what_was_written_of_the_main_study_is_not_printed_beside_other_runs(tmp_path):
    item = next(item for item in ITEMS if item.name == "pathology")
    runs = [fabricate(tmp_path, "deep", augment, scale="paper") for augment in ("none", "mixup")]
    sentences = item.render(main_regime(read_results(runs), "cifar10")).sentences
    assert not any("over-confidence into" in sentence for sentence in sentences)
