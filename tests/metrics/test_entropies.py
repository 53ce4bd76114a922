import math

import pytest
import torch

from calmix.errors import InputError
from calmix.metrics import entropies, uncertainty


def entropy(p):
    return -sum(q * math.log(q) for q in p if q > 0)


def test_equals_sums_by_hand(monkeypatch):
    monkeypatch.setattr(entropies, "BLOCK", 30)
    logits = 2 * torch.randn(3, 17, 4, generator=torch.Generator().manual_seed(0))
    logits[0, 3, 1] = -torch.inf
    parts = uncertainty(logits)
    p = logits.double().softmax(-1)
    for i in range(17):
        total = entropy(p[:, i].mean(0).tolist())
        data = sum(entropy(row) for row in p[:, i].tolist()) / 3
        assert float(parts.total[i]) == pytest.approx(total, abs=1e-12)
        assert float(parts.data[i]) == pytest.approx(data, abs=1e-12)
        # Mutual information: the mean divergence of the members from their mean.
        kl = sum(
            float(torch.nn.functional.kl_div(p[:, i].mean(0).log(), row, reduction="sum")) for row in p[:, i]
        )
        assert float(parts.knowledge[i]) == pytest.approx(kl / 3, abs=1e-12)
    assert (parts.total == parts.data + parts.knowledge).all()


def test_extremes():
    agree = uncertainty(torch.zeros(5, 2, 8))
    assert agree.data.tolist() == pytest.approx([math.log(8)] * 2)
    assert agree.knowledge.tolist() == pytest.approx([0, 0], abs=1e-15)
    assert (uncertainty(torch.randn(1, 50, 3)).knowledge == 0).all()


def test_half_and_numpy_and_bad_input():
    logits = torch.randn(2, 5, 3)
    assert uncertainty(logits.half()).total.dtype == torch.float64
    assert torch.equal(uncertainty(logits.numpy()).total, uncertainty(logits).total)
    with pytest.raises(InputError, match="logits must have the axes"):
        uncertainty(logits[0])
    logits[1, 4, 0] = torch.nan
    with pytest.raises(InputError, match=r"logits\[1, 4\] has the maximum nan"):
        uncertainty(logits)
