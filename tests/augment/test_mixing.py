"""Mixup, CutMix, RegMixup, MixupMP: what is mixed with what, and by how much."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from calmix.augment import CutMix, Mixup, MixupMP, RegMixup, Unmixed, cross_entropy, one_hot
from calmix.errors import InputError

MIXERS = [Mixup, CutMix, RegMixup, MixupMP]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def bits(x: torch.Tensor) -> torch.Tensor:
    return x.contiguous().view({2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from([1, 3]),
    st.booleans(),
    st.integers(1, 7),
    st.sampled_from(["permutation", "reversed"]),
    st.booleans(),
    st.integers(0, 999),
)
def test_mixup_by_its_formula(members, own_images, size, partner, fold, seed):
    """Loop over members and examples, with the partner and share that were drawn."""
    lead = (members,) if own_images else ()
    x = torch.randn(*lead, size, 2, 3, generator=seeded(seed))
    y = torch.randint(0, 5, (*lead, size), generator=seeded(seed))
    before = x.clone()
    plan = Mixup(5, alpha=0.7, members=members, partner=partner, fold=fold).plan(y, generator=seeded(seed))
    batch = plan(x)
    assert torch.equal(x, before)
    assert batch.inputs.shape == (members, size, 2, 3)
    for k in range(members):
        images, labels = (x[k], y[k]) if own_images else (x, y)
        assert sorted(plan.partner[k].tolist()) == list(range(size))
        if partner == "reversed":
            assert plan.partner[k].tolist() == list(range(size))[::-1]
        for i in range(size):
            j, share = plan.partner[k, i], plan.share[k, i]
            assert not fold or share >= 0.5
            torch.testing.assert_close(batch.inputs[k, i], share * images[i] + (1 - share) * images[j])
            expected = share * one_hot(labels[i], 5) + (1 - share) * one_hot(labels[j], 5)
            torch.testing.assert_close(batch.targets[k, i], expected)
    assert torch.equal(batch.weights, torch.ones(members, size))


@pytest.mark.parametrize("alpha", [0.4, 1.0, 20.0])
def test_shares_have_the_beta_distribution_per_example_and_member(alpha):
    y = torch.zeros(10_000, dtype=torch.long)
    share = Mixup(2, alpha=alpha, members=4).plan(y, generator=seeded()).share
    for k in range(4):
        assert stats.kstest(share[k].numpy(), stats.beta(alpha, alpha).cdf).pvalue > 0.001
    assert abs(torch.corrcoef(share)[0, 1]) < 0.05
    folded = Mixup(2, alpha=alpha, fold=True).plan(y, generator=seeded()).share
    cdf = stats.beta(alpha, alpha).cdf
    assert stats.kstest(folded[0].numpy(), lambda s: cdf(s) - cdf(1 - s)).pvalue > 0.001


@pytest.mark.parametrize("mixer", MIXERS)
def test_the_generator_decides(mixer):
    x, y = torch.rand(6, 3, 8, 8), torch.arange(6)
    first, again, other = (mixer(6)(x, y, generator=seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first.inputs, again.inputs)
    assert torch.equal(first.targets, again.targets)
    assert not torch.equal(first.inputs, other.inputs)


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_batch_of_one_image_comes_back(mixer):
    x, y = torch.randn(1, 3, 8, 8), torch.tensor([2])
    x[0, 0] = -0.0
    batch = mixer(4)(x, y, generator=seeded())
    for k in range(len(batch.inputs)):
        for row in range(batch.inputs.shape[1]):
            assert torch.equal(bits(batch.inputs[k, row]), bits(x[0]))
            assert torch.equal(batch.targets[k, row], one_hot(y[0], 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_off_is_bit_for_bit_whatever_the_partner_holds(dtype):
    x = torch.randn(6, 50, generator=seeded()).to(dtype)
    x[:, ::3] = -0.0
    x[1::2, 1] = torch.tensor([float("nan"), float("inf"), -float("inf")]).to(dtype)
    y = torch.tensor([0, 1, 0, 1, 0, 1])
    plan = Mixup(2, members=3, partner="reversed").plan(y, generator=seeded())
    on = (y == 1).expand(3, -1)
    batch = plan.only(on)(x)
    assert torch.equal(bits(batch.inputs[~on]), bits(x[y == 0].repeat(3, 1)))
    assert torch.equal(batch.targets[~on], one_hot(y[y == 0].repeat(3), 2))
    assert torch.equal(batch.inputs[on].nan_to_num(), plan(x).inputs[on].nan_to_num())


def test_one_draw_serves_all_views_and_all_members():
    x, y = torch.rand(5, 4), torch.arange(5)
    plan = Mixup(5).plan(y, generator=seeded())
    torch.testing.assert_close(plan(2 * x).inputs, 2 * plan(x).inputs)
    own = Mixup(5)(x.expand(3, -1, -1), y.expand(3, -1), generator=seeded())
    assert torch.equal(own.inputs, plan(x).inputs.expand(3, -1, -1))
    assert torch.equal(own.targets, plan(x).targets.expand(3, -1, -1))


def test_members_draw_on_their_own():
    batch = Mixup(5, members=4)(torch.rand(5, 4), torch.arange(5), generator=seeded())
    assert len({tuple(rows.flatten().tolist()) for rows in batch.inputs}) == 4


@pytest.mark.parametrize("shape", [(8, 8), (6, 11)])
def test_cutmix_pastes_one_clipped_box_and_counts_its_pixels(shape):
    count = 400
    x = torch.arange(1.0, count + 1).view(-1, 1, 1, 1).expand(-1, 2, *shape)  # every image one colour
    y = torch.arange(count)
    plan = CutMix(count).plan(y, generator=seeded())
    batch = plan(x)
    partner = plan.partner[0]
    clipped = 0
    for i in range(count):
        pasted = batch.inputs[0, i] != x[i]
        assert torch.equal(pasted[0], pasted[1])
        assert torch.equal(batch.inputs[0, i][pasted], x[partner[i]][pasted])
        share = 1 - pasted[0].float().mean()
        if partner[i] != i:
            torch.testing.assert_close(batch.targets[0, i, i], share)
            torch.testing.assert_close(batch.targets[0, i, partner[i]], 1 - share)
        rows, columns = pasted[0].any(1).nonzero(), pasted[0].any(0).nonzero()
        if len(rows):  # one full box of at most the drawn size
            height, width = int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1
            assert pasted[0].sum() == height * width
            full = [2 * int((1 - plan.share[0, i]).sqrt() * size / 2) for size in shape]
            assert height <= full[0]
            assert width <= full[1]
            assert height == full[0] or rows.min() == 0 or rows.max() == shape[0] - 1
            assert width == full[1] or columns.min() == 0 or columns.max() == shape[1] - 1
            clipped += int([height, width] != full)
    assert 20 < clipped < 380


def test_cutmix_boxes_reach_every_pixel_alike_but_for_the_border():
    x = torch.tensor([0.0, 1.0]).view(2, 1, 1, 1).expand(2, 1, 9, 9)
    covered = torch.zeros(9, 9)
    mixer, generator = CutMix(2), seeded()
    for _ in range(1500):
        covered += mixer(x, torch.tensor([0, 1]), generator=generator).inputs[0, 0, 0]
    torch.testing.assert_close(covered, covered.T, atol=0.12 * 1500, rtol=0)
    assert covered[4, 4] > covered[0, 0] > 0
    assert covered[4, 4] > covered[8, 8] > 0


@pytest.mark.parametrize(("mixer", "weight"), [(RegMixup, 1.0), (RegMixup, 0.5), (MixupMP, 2.0)])
def test_clean_and_mixed_rows_make_the_sum_of_two_losses(mixer, weight):
    x, y = torch.rand(6, 4, generator=seeded()), torch.arange(6) % 3
    mixer = mixer(3, members=2, weight=weight)
    batch = mixer(x, y, generator=seeded())
    alone = Mixup(3, alpha=mixer.mixing.alpha, members=2)(x, y, generator=seeded())
    assert torch.equal(batch.inputs, torch.cat([x.expand(2, -1, -1), alone.inputs], dim=1))
    assert torch.equal(batch.targets, torch.cat([one_hot(y, 3).expand(2, -1, -1), alone.targets], dim=1))
    head = torch.randn(4, 3, generator=seeded())
    loss = (batch.weights * cross_entropy(batch.inputs @ head, batch.targets)).sum(1) / y.shape[-1]
    clean = cross_entropy((x @ head).expand(2, -1, -1), y).mean(1)
    mixed = cross_entropy(alone.inputs @ head, alone.targets).mean(1)
    torch.testing.assert_close(loss, clean + weight * mixed)


@pytest.mark.parametrize("make", MIXERS)
def test_partner_and_fold_are_those_of_every_mixer(make):
    """Reversed, the last image is the partner of the first; folded, nobody gives away more than a half."""
    x, y = torch.arange(8.0).reshape(8, 1, 1, 1).expand(8, 1, 16, 16), torch.arange(8)
    made = make(8, alpha=1.0, members=1, partner="reversed", fold=True)(x, y, generator=seeded())
    targets = made.targets[0, -8:]  # the mixed rows, where clean ones are there too
    others = targets - targets * torch.eye(8)
    given_away = others.sum(1) > 0  # a box may be empty
    assert (others.argmax(1) == y.flip(0))[given_away].all()
    assert given_away.sum() > 4
    assert (targets.diagonal() >= 0.5).all()
    loose = make(8, alpha=1.0, members=1)(x, y, generator=seeded()).targets[0, -8:]
    assert (loose.diagonal() < 0.5).any()


def test_everyone_is_active_and_nobody_is():
    for make in MIXERS:
        assert make(5, members=3).active.shape == (3, 5)
        assert make(5, members=3).active.all()
    assert not Unmixed(5).active.any()


def test_defaults_are_the_papers():
    assert (Mixup(3).mixing.alpha, RegMixup(3).mixing.alpha, MixupMP(3).mixing.alpha) == (1.0, 20.0, 1.0)
    assert MixupMP(3).mixing.members == 4


def test_loops_may_call_what_a_mixer_does_not_need():
    mixer = Mixup(3)
    mixer.observe(torch.zeros(1, 2, 3), torch.tensor([0, 1]), torch.tensor([0, 1]))
    mixer.update(torch.zeros(1, 2, 3), torch.tensor([0, 1]))
    mixer(torch.rand(2, 4), torch.tensor([0, 1]), group=torch.tensor([0, 0]), index=torch.tensor([5, 6]))


@pytest.mark.parametrize(
    ("options", "name"),
    [
        *(
            ({"alpha": 0.0}, "alpha = 0.0"),
            ({"alpha": -1.0}, "alpha = -1.0"),
            ({"alpha": float("nan")}, "alpha"),
        ),
        *(({"members": 0}, "members = 0"), ({"num_classes": 0}, "num_classes = 0")),
        *(({"partner": "random"}, "partner = 'random'"),),
    ],
)
def test_bad_options_are_named(options, name):
    with pytest.raises(InputError, match=name):
        Mixup(**{"num_classes": 3, **options})


def test_bad_batches_are_named():
    mixer, x = Mixup(3), torch.rand(2, 4)
    with pytest.raises(InputError, match=r"y\[1\] = 3 .*num_classes = 3"):
        mixer(x, torch.tensor([0, 3]))
    with pytest.raises(InputError, match=r"x has shape \(2, 4\)"):
        mixer(x, torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match="uint8"):
        mixer(x.byte(), torch.tensor([0, 1]))
    with pytest.raises(InputError, match="y has shape"):
        mixer(x[:0], torch.tensor([], dtype=torch.long))
    with pytest.raises(InputError, match="members = 2"):
        Mixup(3, members=2)(torch.rand(3, 2, 4), torch.zeros(3, 2, dtype=torch.long))
    with pytest.raises(InputError, match="CutMix"):
        CutMix(3)(x, torch.tensor([0, 1]))
    with pytest.raises(InputError, match="weight"):
        RegMixup(3, weight=0.0)
