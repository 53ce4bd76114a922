"""Does the rule of class-adjusted Mixup oscillate, and what do `margin` and `momentum` do about it?

The paper's rule decides anew after every epoch: a class is mixed while the network is over-confident on it.
Mixing lowers the confidence, so the class is not mixed in the next epoch, becomes over-confident again, and
so on. With a learning rate that falls to 0 this settles; with a constant one, on a small data set of 1-D
signals, accuracy goes up and down with it. A margin asks for more than so much over-confidence, momentum
judges on a running mean of the epochs.

    python examples/oscillation.py            # below a minute

Printed for each method, as means over the seeds: the lowest and highest test accuracy of the last ten epochs,
the share of classes mixed in them, and how many of the classes change from mixed to not mixed, or back, after
an epoch.
"""

import statistics
from collections.abc import Callable

import torch
from torch import Tensor, nn

import calmix

CLASSES, LENGTH, NOISE = 6, 48, 1.0
EPOCHS, LAST, BATCH, RATE = 24, 10, 30, 0.05
SEEDS = range(3)
METHODS: dict[str, Callable[[], calmix.augment.Mixer]] = {
    "no mixing": lambda: calmix.augment.NoMixing(CLASSES),
    "all classes": lambda: calmix.Mixup(CLASSES, fold=True),
    "paper's rule": lambda: calmix.CAMixup(CLASSES),
    "margin 0.1": lambda: calmix.CAMixup(CLASSES, margin=0.1),
    "momentum 0.8": lambda: calmix.CAMixup(CLASSES, momentum=0.8),
    "both": lambda: calmix.CAMixup(CLASSES, margin=0.1, momentum=0.8),
}


def signals(examples: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sine waves (N, 1, LENGTH) of six frequencies, with random phases, in noise as strong as themselves."""
    draw = torch.Generator().manual_seed(seed)
    y = torch.arange(examples) % CLASSES
    turns = (2 + y.unsqueeze(1)) * torch.linspace(0, 1, LENGTH) + torch.rand(examples, 1, generator=draw)
    x = torch.sin(2 * torch.pi * turns) + NOISE * torch.randn(turns.shape, generator=draw)
    return x.unsqueeze(1), y


def network() -> nn.Module:
    return nn.Sequential(
        *(nn.Conv1d(1, 8, 9, padding=4), nn.BatchNorm1d(8), nn.ReLU()),
        *(nn.Conv1d(8, 16, 9, stride=2, padding=4), nn.BatchNorm1d(16), nn.ReLU()),
        *(nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(64, CLASSES)),
    )


def train(mixer: calmix.augment.Mixer, seed: int) -> tuple[list[float], Tensor]:
    """Test accuracy after each of the last epochs, and which classes were mixed in them."""
    torch.manual_seed(seed)
    g = torch.Generator().manual_seed(seed)
    x, y = signals(300, 3 * seed)
    val_x, val_y = signals(300, 3 * seed + 1)
    test_x, test_y = signals(600, 3 * seed + 2)
    model = calmix.DeepEnsemble([network()])
    optimiser = torch.optim.SGD(model.parameters(), lr=RATE, momentum=0.9)
    accuracy = []
    for _ in range(EPOCHS):
        model.train()
        for index in torch.randperm(len(x), generator=g).split(BATCH):
            batch = mixer(x[index], y[index], generator=g)
            loss = batch.loss(model(batch.inputs, per_member=True)).mean()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            mixer.validate(model(val_x), val_y)
            mixer.update()
            accuracy.append(calmix.metrics.accuracy(calmix.pool(model(test_x)), test_y))
    return accuracy[-LAST:], mixer.history[-LAST:, 0].float()


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'':<14}{'accuracy':>12}{'range':>8}{'mixed':>8}{'changes':>9}")
    for name, make in METHODS.items():
        low, high, mixed, changes = [], [], [], []
        for seed in SEEDS:
            accuracy, active = train(make(), seed)
            low.append(min(accuracy))
            high.append(max(accuracy))
            mixed.append(float(active.mean()))
            changes.append(float(active.diff(dim=0).abs().sum(1).mean()))
        a, b, c, d = (statistics.fmean(values) for values in (low, high, mixed, changes))
        print(f"{name:<14}{f'{a:.2f}-{b:.2f}':>12}{b - a:>8.2f}{c:>8.0%}{d:>9.2f}", flush=True)


if __name__ == "__main__":
    main()
