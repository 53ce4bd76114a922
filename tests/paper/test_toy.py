"""Confidence over the plane: the pool's below its members' is compounding."""

import torch

from calmix.paper.toy import Surface, surfaces_sentence


def test_sentence_has_the_members_before_their_pool_and_means_over_seeds():
    inside = torch.tensor([[True, False], [False, False]])
    members, pool = torch.tensor([[0.5, 0.9], [0.9, 0.9]]), torch.tensor([[0.3, 0.9], [0.9, 0.9]])
    first = Surface(pool, members, ~inside, inside)
    second = Surface(pool - 0.1, members + 0.1, ~inside, inside)
    assert surfaces_sentence({"DE, Mixup": [first, second]}) == (
        "Mean confidence % of the members / of their pool: 85.0 / 70.0 over the plane and 55.0 / 25.0 inside "
        "the ring with DE, Mixup."
    )
    assert surfaces_sentence({}) == ""
