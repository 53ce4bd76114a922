import pytest
from hypothesis import given
from hypothesis import strategies as st

from calmix import InputError
from calmix.runs.augmentation import MIXINGS, TRANSFORMS, Augmentation, parse_augmentation

ADAPTIVE_BY_VALIDATION = [name for name, mixing in MIXINGS.items() if mixing.chooses_by == "validation"]


@st.composite
def augmentations(draw):
    mixing = draw(st.sampled_from(list(MIXINGS)))
    gaps = ("member", "pool") if mixing in ADAPTIVE_BY_VALIDATION else ("member",)
    smoothing = st.floats(min_value=0, max_value=1, exclude_max=True)
    return Augmentation(
        draw(st.sampled_from(TRANSFORMS)), mixing, draw(st.sampled_from(gaps)), draw(smoothing)
    )


@given(augmentations())
def test_the_text_of_an_augmentation_is_read_back(augmentation):
    assert parse_augmentation(str(augmentation)) == augmentation


@given(augmentations(), st.randoms())
def test_parts_may_stand_in_any_order(augmentation, random):
    parts = str(augmentation).split("+")
    random.shuffle(parts)
    assert parse_augmentation("+".join(parts)) == augmentation


@given(augmentations(), augmentations())
def test_different_augmentations_have_different_texts_and_titles(first, second):
    assert (first == second) == (str(first) == str(second))
    if first.smoothing == second.smoothing:  # titles round it
        assert (first == second) == (first.title == second.title)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("none", ("none", "none", "member", 0.0)),
        ("mixup", ("none", "mixup", "member", 0.0)),
        ("augmix", ("augmix", "none", "member", 0.0)),
        ("augmixup", ("augmix", "mixup", "member", 0.0)),
        ("augcamixup", ("augmix", "camixup", "member", 0.0)),
        ("camixup-by-pool", ("none", "camixup", "pool", 0.0)),
        ("cutmix-camixup-by-pool", ("none", "cutmix-camixup", "pool", 0.0)),
        ("label-smoothing", ("none", "none", "member", 0.1)),
        ("label-smoothing-0.25", ("none", "none", "member", 0.25)),
        ("camixup+augmix+label-smoothing", ("augmix", "camixup", "member", 0.1)),
    ],
)
def test_grammar(text, fields):
    assert parse_augmentation(text) == Augmentation(*fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("camixupp", "did you mean 'camixup'"),
        ("mixup+cutmix", "both a mixing"),
        ("augmix+augmix", "both a transform"),
        ("label-smoothing+label-smoothing-0.2", "both a smoothing"),
        ("none+mixup", "stands alone"),
        ("augmixup+mixup", "stands alone"),
        ("", "unknown augment"),
        ("mixup+", "unknown augment"),
        ("mixup-by-pool", "gap_of='pool' is for CAMixup, not for mixup"),
        ("label-smoothing-", "write the amount of smoothing as label-smoothing-0.2"),
        ("label-smoothing-much", "write the amount of smoothing"),
        ("label-smoothing-1", "write the amount of smoothing"),
        ("label-smoothing-0", "write the amount of smoothing"),
        ("label-smoothing-nan", "write the amount of smoothing"),
        ("label-smoothing0.2", "write the amount of smoothing"),
    ],
)
def test_bad_augmentations(text, message):
    with pytest.raises(InputError, match=message):
        parse_augmentation(text)


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("none", "none"),
        ("camixup", "CAMixup"),
        ("camixup-by-pool", "CAMixup by pool"),
        ("augmix+mixup", "AugMixup"),
        ("augcamixup", "AugCAMixup"),
        ("augmix+cutmix", "AugMix + CutMix"),
        ("augmix+camixup-by-pool", "AugMix + CAMixup by pool"),
        ("label-smoothing-0.3", "label smoothing 0.3"),
        ("augmix+mixup+label-smoothing", "AugMix + Mixup + label smoothing 0.1"),
        ("forgetting", "forgetting CAMixup"),
        ("cutmix-camixup", "adaptive CutMix"),
    ],
)
def test_titles(text, title):
    assert parse_augmentation(text).title == title


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"transform": "augmx"}, "did you mean 'augmix'"),
        ({"mixing": "mixp"}, "did you mean 'mixup'"),
        ({"gap_of": "pol"}, "did you mean 'pool'"),
        ({"smoothing": 1.0}, "smoothing must be at least 0 and below 1"),
        ({"smoothing": float("nan")}, "smoothing must be at least 0 and below 1"),
        ({"gap_of": "pool"}, "gap_of='pool' is for CAMixup"),
    ],
)
def test_invalid_records(fields, message):
    with pytest.raises(InputError, match=message):
        Augmentation(**fields)
