import pytest
import torch

from calmix.augment import AugMix
from calmix.augment import augmix as module
from calmix.augment.draws import beta, dirichlet
from calmix.augment.operations import OPERATIONS
from calmix.errors import InputError


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images(*shape: int) -> torch.Tensor:
    return torch.randint(0, 256, shape, generator=seeded(9)) / 255


@pytest.mark.parametrize(
    "shape", [(0, 3, 8, 8), (1, 12, 12), (5, 3, 16, 16), (2, 3, 1, 28, 28), (4, 3, 10, 14)]
)
def test_shape_range_and_input_are_kept(shape):
    x = images(*shape)
    before = x.clone()
    view = AugMix()(x, generator=seeded())
    assert view.shape == x.shape
    assert torch.equal(x, before)
    assert ((view >= 0) & (view <= 1 + 1e-6)).all()
    assert x.numel() == 0 or not torch.allclose(view, x)


def test_the_generator_decides():
    x = images(6, 3, 16, 16)
    first, again, other = (AugMix()(x, generator=seeded(s)) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_blocks_make_no_difference(monkeypatch):
    x = images(7, 3, 12, 12)
    whole = AugMix()(x, generator=seeded())
    monkeypatch.setattr(module, "_BLOCK", 3 * 12 * 12 * 2)
    torch.testing.assert_close(AugMix()(x, generator=seeded()), whole)


def test_chains_that_change_nothing_give_the_image_back(monkeypatch):
    """Dirichlet and Beta weights each sum to one."""
    monkeypatch.setattr(module, "apply", lambda chains, operation, level: chains)
    x = images(8, 3, 16, 16)
    torch.testing.assert_close(AugMix()(x, generator=seeded()), x, atol=1e-6, rtol=0)


def test_the_blend_is_that_of_the_formula(monkeypatch):
    """Chains that come out as black, grey 51 and grey 102 show what weights they were given."""
    monkeypatch.setattr(
        module,
        "apply",
        lambda chains, operation, level: (
            (51 * torch.arange(3).repeat_interleave(len(chains) // 3))
            .byte()
            .view(-1, 1, 1, 1)
            .expand_as(chains)
        ),
    )
    drawn = {}
    monkeypatch.setattr(
        module, "dirichlet", lambda *a, **k: drawn.setdefault("dirichlet", dirichlet(*a, **k))
    )
    monkeypatch.setattr(module, "beta", lambda *a, **k: drawn.setdefault("beta", beta(*a, **k)))
    x = images(40, 1, 4, 4)
    view = AugMix(alpha=0.7)(x, generator=seeded())
    keep = drawn["beta"].view(-1, 1, 1, 1)
    chains = (drawn["dirichlet"] @ torch.tensor([0.0, 0.2, 0.4])).view(-1, 1, 1, 1)
    torch.testing.assert_close(view, keep * x + (1 - keep) * chains)


def test_depths_levels_signs_and_operations_are_uniform(monkeypatch):
    seen = []

    def spy(chains, operation, level):
        seen.append((operation, level))
        return chains

    monkeypatch.setattr(module, "apply", spy)
    AugMix(severity=3)(images(3000, 1, 2, 2), generator=seeded())
    operation = torch.stack([operation for operation, _ in seen])
    level = torch.stack([level for _, level in seen])
    on = operation < len(OPERATIONS)
    assert operation.shape == (3, 9000)
    assert on[0].all()
    assert (on.int().diff(dim=0) <= 0).all()  # a chain that has ended stays ended
    depth = on.sum(0)
    torch.testing.assert_close(depth.bincount()[1:] / 9000, torch.full((3,), 1 / 3), atol=0.02, rtol=0)
    torch.testing.assert_close(
        operation[on].bincount() / on.sum(), torch.full((9,), 1 / 9), atol=0.01, rtol=0
    )
    assert 0.1 <= level.abs().min() < 0.11
    assert 2.99 < level.abs().max() <= 3
    assert abs((level > 0).float().mean() - 0.5) < 0.02


def test_a_fixed_depth_and_width(monkeypatch):
    seen = []
    monkeypatch.setattr(module, "apply", lambda chains, operation, level: seen.append(operation) or chains)
    AugMix(depth=5, width=2)(images(10, 1, 4, 4))
    assert torch.stack(seen).shape == (5, 20)
    assert torch.stack(seen).max() < len(OPERATIONS)


def test_paper_code_leaves_the_first_member_clean():
    x = images(1, 6, 3, 16, 16).expand(4, -1, -1, -1, -1)
    augmix = AugMix.paper_code()
    views = augmix(x, generator=seeded())
    assert augmix.alpha == 0.5
    assert torch.equal(views[0], x[0])
    for a in range(4):
        for b in range(a):
            assert not torch.equal(views[a], views[b])


@pytest.mark.parametrize(
    ("options", "name"),
    [
        *(({"severity": 0}, "severity"), ({"severity": 11}, "severity"), ({"width": 0}, "width")),
        *(({"depth": 0}, "depth"), ({"alpha": 0.0}, "alpha")),
    ],
)
def test_bad_options_are_named(options, name):
    with pytest.raises(InputError, match=f"{name} = "):
        AugMix(**options)


def test_bad_images_are_named():
    with pytest.raises(InputError, match="uint8"):
        AugMix()(torch.zeros(2, 3, 8, 8, dtype=torch.uint8))
    with pytest.raises(InputError, match="to 255"):
        AugMix()(torch.full((2, 3, 8, 8), 255.0))
    with pytest.raises(InputError, match="channels"):
        AugMix()(torch.rand(2, 4, 8, 8))
    with pytest.raises(InputError, match="member axis"):
        AugMix(clean_first=True)(torch.rand(3, 8, 8))
