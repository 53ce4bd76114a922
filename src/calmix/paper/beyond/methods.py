"""Which way to train is best? Nine of them, before and after a temperature."""

from calmix.paper.sheet import Item, Sheet, Shown, cross
from calmix.study import quantities as q

METHODS = cross(
    ("deep", "batch"),
    (
        *("none", "mixup", "camixup", "camixup-by-pool", "regmixup", "mixupmp", "cutmix", "cutmix-camixup"),
        "label-smoothing-0.1",
    ),
)


@Item("Beyond the paper: nine ways to train", METHODS, corruptions=True, calibrates=True)
def beyond(sheet: Sheet) -> Shown:
    """Which of nine ways to train an ensemble is best, before and after one temperature for the pool? CAMixup
    by member and by pool, RegMixup, MixupMP, CutMix and label smoothing, with the time each takes to train,
    its members one after the other. The paper's number with label smoothing is from its authors' notebook."""
    before = (q.ACCURACY, q.ECE, q.DCE, q.NLL, q.CORRUPTED_ECE, q.CORRUPTED_DCE, q.SECONDS)
    after = (q.TEMPERATURE, q.SCALED_ECE, q.SCALED_DCE, q.SCALED_NLL, q.SCALED_CORRUPTED_ECE)
    yield sheet.best(q.ACCURACY, q.ECE, q.SCALED_ECE)
    yield sheet.table("Each method before and after one temperature T for the pool", *before, *after)
    yield from sheet.before_and_after()
