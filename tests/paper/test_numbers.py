import pytest

from calmix.paper.numbers import NUMBERS, SKCE, SMOOTHED, SPREADS, published, published_number
from calmix.runs.presets import preset
from calmix.study import quantities as q
from calmix.study.results import Group, read_results
from tests.fabricate import fabricate


def test_every_number_of_the_tables_is_here():
    assert (len(NUMBERS), len(SPREADS), len(SKCE), len(SMOOTHED)) == (27, 6, 6, 9)
    assert set(SPREADS) <= set(NUMBERS)


@pytest.mark.parametrize(
    ("quantity", "method", "number"),
    [
        (q.ACCURACY, ("cifar10", "deep", "augmix+mixup"), (0.9756, None)),
        (q.ERROR, ("cifar10", "batch", "none"), (0.0378, 0.0007)),
        (q.ECE, ("cifar100", "batch", "mixup"), (0.097, 0.005)),
        (q.ECE, ("cifar10", "mc", "label-smoothing-0.5"), (0.419, None)),
        (q.CORRUPTED_ACCURACY, ("cifar100", "deep", "camixup"), (0.5918, None)),
        (q.SKCE, ("cifar10", "batch", "mixup"), (4e-3, None)),
        (q.CORRUPTED_SKCE, ("cifar10", "deep", "camixup"), (0.0032, None)),
        (q.DCE, ("cifar10", "batch", "none"), None),
        (q.ECE, ("mnist", "batch", "none"), None),
    ],
)
def test_numbers_as_fractions(quantity, method, number):
    group = Group(preset(*method, scale="paper"), ())
    assert published(quantity, group) == (number and pytest.approx(number))


def test_numbers_stand_beside_the_scale_they_belong_to():
    recipe = preset("cifar10", "batch", "camixup", scale="paper")
    assert published(q.ECE, Group(recipe, ())) == (0.012, 0.002)
    for other in (preset("cifar10", "batch", "camixup", scale="laptop"), recipe.replace(epochs=3)):
        assert published(q.ECE, Group(other, ())) is None
    scripts = preset("cifar10", "batch", "camixup", scale="paper", paper_code=True)
    assert published(q.ECE, Group(scripts, ())) == (0.012, 0.002)
    paper = preset("cifar10", "batch", "mixup", scale="paper").replace(train_on_validation=True)
    assert published(q.ECE, Group(paper, ())) == (0.064, 0.004)


@pytest.mark.parametrize(("classes", "number"), [(1000, (0.015, None)), (10, None)])
def test_imagenets_numbers_stand_beside_imagenet_alone(tmp_path, classes, number):
    names = tuple(map(str, range(classes)))
    run = fabricate(tmp_path, "batch", "camixup", dataset="folder", classes=names)
    (group,) = read_results([run]).groups()
    assert published(q.ECE, group) == number


def test_the_corrupted_error_is_the_rest_of_the_accuracy():
    accuracy, error = (published_number(name, ("cifar10", "batch", "mixup")) for name in ("ca", "cerror"))
    assert accuracy[0] + error[0] == pytest.approx(1)
    assert published_number("ca", ("imagenet", "batch", "mixup")) is None
