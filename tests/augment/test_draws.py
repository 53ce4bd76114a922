import pytest
import torch
from scipy import stats

from calmix.augment.draws import beta, dirichlet, integers, permutations, uniform


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 20.0])
def test_beta_and_dirichlet_have_their_distributions(alpha):
    drawn = beta(alpha, 20_000, generator=seeded())
    low = drawn[drawn < 0.5]  # the upper half mirrors it, but float32 rounds it to 1 where alpha is small
    assert abs(len(low) / 20_000 - 0.5) < 0.01
    assert stats.kstest(low.numpy(), lambda x: 2 * stats.beta(alpha, alpha).cdf(x)).pvalue > 0.01
    weights = dirichlet(alpha, 20_000, 3, generator=seeded())
    torch.testing.assert_close(weights.sum(1), torch.ones(20_000))
    for k in range(3):  # the marginals of a Dirichlet are Betas
        assert stats.kstest(weights[:, k].numpy(), stats.beta(alpha, 2 * alpha).cdf).pvalue > 0.01


def test_a_tiny_alpha_gives_corners_and_no_nan():
    drawn = beta(1e-4, 1000, generator=seeded())
    assert ((drawn < 1e-3) | (drawn > 1 - 1e-3)).float().mean() > 0.99
    assert 0.4 < drawn.mean() < 0.6


def test_permutations_are_permutations_and_differ():
    rows = permutations(4, 100, generator=seeded())
    assert torch.equal(rows.sort(1).values, torch.arange(100).expand(4, -1))
    assert len({tuple(row.tolist()) for row in rows}) == 4


def test_ranges():
    numbers = uniform(1000, low=-1.0, high=3.0, generator=seeded())
    assert -1 <= numbers.min() < -0.9
    assert 2.9 < numbers.max() < 3
    assert integers(1000, low=2, high=5, generator=seeded()).unique().tolist() == [2, 3, 4]
