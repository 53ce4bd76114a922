from calmix.report.paper_numbers import NUMBERS, OTHERS, SKCE, SMOOTHED, SPREADS, paper_numbers, paper_spread


def test_the_tables_of_the_paper_by_hand():
    found = paper_numbers("cifar100", "deep", "augmix+mixup")
    assert (found.accuracy, found.ece, found.ca, found.cece) == (84.85, 6.86, 69.31, 7.6)
    found = paper_numbers("cifar10", "batch", "mixup")
    assert (found.accuracy, found.ece, found.ca, found.cece) == (96.98, 6.4, 80.0, 9.3)
    found = paper_spread("cifar10", "batch", "none")
    assert (found.accuracy, found.ece, found.ca, found.cece) == (0.07, 0.2, 0.3, 1.2)
    assert paper_numbers("imagenet", "batch", "camixup").ca is None
    assert paper_numbers("digits", "deep", "mixup") is None
    assert paper_spread("cifar10", "deep", "none") is None


def test_every_table_is_whole():
    places = [(n.dataset, n.ensemble, n.augment) for n in NUMBERS]
    assert len(places) == len(set(places)) == 2 * 2 * 6 + 3
    assert (len(SPREADS), len(SKCE), len(SMOOTHED), len(OTHERS)) == (6, 6, 9, 7)


def test_what_the_paper_concludes_from_them():
    for dataset in ("cifar10", "cifar100"):
        for ensemble in ("batch", "deep"):
            none, mixup, camixup = (paper_numbers(dataset, ensemble, a) for a in ("none", "mixup", "camixup"))
            assert mixup.accuracy > none.accuracy
            assert mixup.ece > 2 * none.ece
            assert camixup.ece < mixup.ece
