"""The README's loop, the same code for all six mixers and every ensemble."""

import pytest
import torch
from torch import nn

import calmix

CLASSES, EXAMPLES, MEMBERS = 3, 150, 4
MIXERS = {
    "Mixup": lambda members: calmix.Mixup(CLASSES, members=members),
    "CutMix": lambda members: calmix.CutMix(CLASSES, members=members),
    "RegMixup": lambda members: calmix.RegMixup(CLASSES, members=members),
    "MixupMP": lambda members: calmix.MixupMP(CLASSES, members=members),
    "CAMixup": lambda members: calmix.CAMixup(CLASSES, members=members),
    "ForgettingMixup": lambda members: calmix.ForgettingMixup(CLASSES, EXAMPLES, members=members),
}
ENSEMBLES = {
    "batch": (lambda: calmix.BatchEnsemble(network(), members=MEMBERS), MEMBERS),
    "deep": (lambda: calmix.DeepEnsemble([network() for _ in range(MEMBERS)]), MEMBERS),
    "dropout": (lambda: calmix.MCDropout(network(), samples=20), 1),
}


def network():
    return nn.Sequential(
        *(nn.Conv1d(1, 8, 5, padding=2), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1)),
        *(nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(32, CLASSES)),
    )


def signals(examples, seed):
    """Sine waves (N, 1, 32) of three frequencies, random phases and some noise."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(examples) % CLASSES
    time = torch.linspace(0, 1, 32)
    phase = torch.rand(examples, 1, generator=draw)
    x = torch.sin(2 * torch.pi * ((1 + 3 * y.unsqueeze(1)) * time + phase))
    return (x + 0.3 * torch.randn(x.shape, generator=draw)).unsqueeze(1), y


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize("kind", MIXERS)
def test_one_loop_for_all(kind, ensemble):
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(0)
    (x, y), (val_x, val_y) = signals(EXAMPLES, seed=1), signals(90, seed=2)
    make, members = ENSEMBLES[ensemble]
    model, mixer = make(), MIXERS[kind](members)
    optimiser = torch.optim.Adam(calmix.parameter_groups(model, weight_decay=1e-4), lr=0.02)
    for _ in range(6):
        model.train()
        for index in torch.randperm(EXAMPLES, generator=g).split(30):
            batch = mixer(x[index], y[index], index=index, generator=g)
            logits = model(batch.inputs, per_member=True)
            loss = batch.loss(logits).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            mixer.observe(logits[:, : len(index)].detach(), y[index], index)
        model.eval()
        with torch.no_grad():
            for rows in torch.arange(len(val_y)).split(40):
                mixer.validate(model(val_x[rows]), val_y[rows])
        mixer.update()

    assert calmix.metrics.accuracy(calmix.pool(model(val_x).detach()), val_y) > 0.8
    assert len(mixer.history) == 6
    if kind in ("CAMixup", "ForgettingMixup"):
        assert not mixer.history[0].any()
        assert mixer.history.any() or ensemble == "dropout"  # the pool of its samples is under-confident
    else:
        assert mixer.history.all()
