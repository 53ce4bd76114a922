"""How pairs are mixed: partners, lam, pixels and labels."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from calmix.augment import CutMix, Mixup, MixupMP, RegMixup, one_hot
from calmix.errors import InputError


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
    """Loop over members and examples, with the partner and lam that were drawn."""
    lead = (members,) if own_images else ()
    x = torch.randn(*lead, size, 2, 3, generator=seeded(seed))
    y = torch.randint(0, 5, (*lead, size), generator=seeded(seed))
    before = x.clone()
    mixer = Mixup(5, alpha=0.7, members=members, partner=partner, fold=fold)
    plan = mixer.plan(y, per_member=own_images, generator=seeded(seed))
    batch = plan(x)
    assert torch.equal(x, before)
    assert batch.inputs.shape == (members, size, 2, 3)
    for k in range(members):
        images, labels = (x[k], y[k]) if own_images else (x, y)
        assert sorted(plan.partner[k].tolist()) == list(range(size))
        if partner == "reversed":
            assert plan.partner[k].tolist() == list(range(size))[::-1]
        for i in range(size):
            j, lam = plan.partner[k, i], plan.lam[k, i]
            assert not fold or lam >= 0.5
            torch.testing.assert_close(batch.inputs[k, i], lam * images[i] + (1 - lam) * images[j])
            expected = lam * one_hot(labels[i], 5) + (1 - lam) * one_hot(labels[j], 5)
            torch.testing.assert_close(batch.targets[k, i], expected)
    assert torch.equal(batch.weights, torch.ones(members, size))


@pytest.mark.parametrize("alpha", [0.4, 1.0, 20.0])
def test_lam_has_the_beta_distribution_per_example_and_member(alpha):
    y = torch.zeros(10_000, dtype=torch.long)
    lam = Mixup(2, alpha=alpha, members=4).plan(y, generator=seeded()).lam
    for k in range(4):
        assert stats.kstest(lam[k].numpy(), stats.beta(alpha, alpha).cdf).pvalue > 0.001
    assert abs(torch.corrcoef(lam)[0, 1]) < 0.05
    folded = Mixup(2, alpha=alpha, fold=True).plan(y, generator=seeded()).lam
    cdf = stats.beta(alpha, alpha).cdf
    assert stats.kstest(folded[0].numpy(), lambda s: cdf(s) - cdf(1 - s)).pvalue > 0.001


@pytest.mark.parametrize("mixer", [Mixup, CutMix, RegMixup, MixupMP])
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
    batch = plan.where(on)(x)
    assert torch.equal(bits(batch.inputs[~on]), bits(x[y == 0].repeat(3, 1)))
    assert torch.equal(batch.targets[~on], one_hot(y[y == 0].repeat(3), 2))
    assert torch.equal(batch.inputs[on].nan_to_num(), plan(x).inputs[on].nan_to_num())


def test_one_draw_serves_all_views_and_all_members():
    x, y = torch.rand(5, 4), torch.arange(5)
    plan = Mixup(5).plan(y, generator=seeded())
    torch.testing.assert_close(plan(2 * x).inputs, 2 * plan(x).inputs)
    own = Mixup(5)(x.expand(3, -1, -1), y.expand(3, -1), per_member=True, generator=seeded())
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
        stayed = 1 - pasted[0].float().mean()
        if partner[i] != i:
            torch.testing.assert_close(batch.targets[0, i, i], stayed)
            torch.testing.assert_close(batch.targets[0, i, partner[i]], 1 - stayed)
        rows, columns = pasted[0].any(1).nonzero(), pasted[0].any(0).nonzero()
        if len(rows):  # one full box of at most the drawn size
            height, width = int(rows.max() - rows.min()) + 1, int(columns.max() - columns.min()) + 1
            assert pasted[0].sum() == height * width
            full = [2 * int((1 - plan.lam[0, i]).sqrt() * size / 2) for size in shape]
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


def test_draws_come_in_the_order_of_permutations_lam_and_box():
    """Values of the first release: a run of the same seed must mix the same images in the same way."""
    y, x = torch.arange(4), torch.arange(4.0).view(4, 1, 1, 1).expand(4, 1, 4, 4)
    lam = [[0.8024818, 0.4528380, 0.2261991, 0.7757167], [0.5689508, 0.3170726, 0.3796338, 0.7585230]]
    for mixer in (Mixup(4, members=2), CutMix(4, members=2)):
        plan = mixer.plan(y, generator=seeded())
        assert plan.partner.tolist() == [[0, 1, 3, 2], [0, 2, 3, 1]]
        torch.testing.assert_close(plan.lam, torch.tensor(lam))
    stayed = plan(x).targets.diagonal(dim1=1, dim2=2)
    assert stayed.tolist() == [[1.0, 1.0, 0.75, 1.0], [1.0, 0.75, 0.9375, 1.0]]
    assert plan(x).inputs.mean((2, 3, 4)).tolist() == [[0.0, 1.0, 2.25, 3.0], [0.0, 1.25, 2.0625, 3.0]]


@pytest.mark.parametrize("channels", [1, 3])
def test_cutmix_of_sequences_cuts_a_piece_along_them(channels):
    count, length = 300, 40
    x = torch.arange(1.0, count + 1).view(-1, 1, 1).expand(-1, channels, length)
    plan = CutMix(count).plan(torch.arange(count), generator=seeded())
    batch = plan(x)
    pasted = batch.inputs[0] != x
    assert torch.equal(pasted.all(1), pasted.any(1))  # the same piece of every channel
    cut = pasted[:, 0]
    assert (cut.int().diff(dim=1).abs().sum(1) <= 2).all()  # in one piece
    size = 2 * ((1 - plan.lam[0]) * length / 2).floor()
    inner = cut.any(1) & ~cut[:, 0] & ~cut[:, -1]
    assert inner.sum() > 50
    assert torch.equal(cut.sum(1)[inner].float(), size[inner])
    assert (cut.sum(1) <= size).all()
    stayed = batch.targets[0, torch.arange(count), torch.arange(count)]
    partnered = plan.partner[0] != torch.arange(count)
    torch.testing.assert_close(stayed[partnered], 1 - cut.float().mean(1)[partnered])


@pytest.mark.parametrize("leading", [(), (2,)])
def test_cutmix_of_videos_cuts_the_same_box_of_every_frame(leading):
    x = torch.rand(*leading, 6, 3, 5, 8, 8)
    y = torch.arange(6).expand(*leading, 6)
    pasted = CutMix(6)(x, y, per_member=bool(leading), generator=seeded()).inputs != x
    assert pasted.any()
    assert torch.equal(pasted.all(-3).all(-3), pasted.any(-3).any(-3))


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (torch.ones(5, dtype=torch.bool), r"shape \(5,\).*\(4,\) or \(2, 4\)"),
        (torch.ones(3, 4, dtype=torch.bool), r"shape \(3, 4\)"),
        (torch.tensor(True), r"shape \(\)"),
        (torch.ones(4), "torch.float32"),
        ([True] * 4, "mask is a list"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask, message):
    plan = Mixup(4, members=2).plan(torch.arange(4))
    with pytest.raises(InputError, match=message):
        plan.where(mask)


def test_bad_batches_are_named():
    mixer, x, y = Mixup(3), torch.rand(2, 4), torch.tensor([0, 1])
    with pytest.raises(InputError, match=r"y\[1\] = 3 .*num_classes = 3"):
        mixer(x, torch.tensor([0, 3]))
    with pytest.raises(InputError, match=r"x has shape \(2, 4\)"):
        mixer(x, torch.tensor([0, 1, 2]))
    with pytest.raises(InputError, match=r"uint8.*x / 255"):
        mixer(x.byte(), y)
    with pytest.raises(InputError, match="y has shape"):
        mixer(x[:0], torch.tensor([], dtype=torch.long))
    with pytest.raises(InputError, match="members = 2"):
        Mixup(3, members=2)(torch.rand(3, 2, 4), torch.zeros(3, 2, dtype=torch.long), per_member=True)
    for rows in ((), (4,)):
        with pytest.raises(InputError, match=r"CutMix cuts along spatial axes"):
            CutMix(3)(torch.rand(2, *rows), y)
    for wrong in ([0, 1], y.numpy()):
        with pytest.raises(InputError, match=r"y is a (list|ndarray); .*torch.as_tensor\(y\)"):
            mixer(x, wrong)
    with pytest.raises(InputError, match="x is a ndarray"):
        mixer(x.numpy(), y)


def test_nothing_is_read_off_the_rank_of_the_labels():
    mixer, x, y = Mixup(3), torch.rand(2, 5, 4), torch.zeros(2, 5, dtype=torch.long)
    assert mixer(x, y, per_member=True).inputs.shape == (2, 5, 4)
    with pytest.raises(InputError, match=r"y has shape \(2, 5\).*per_member=True"):
        mixer(x, y)
    with pytest.raises(InputError, match=r"y has shape \(5,\).*per_member=True"):
        mixer(x, y[0], per_member=True)
    with pytest.raises(InputError, match=r"x has shape \(2, 5, 4\).*per_member=True"):
        mixer(x, y[0])
