"""How many validation images does CAMixup need?

CAMixup compares accuracy and confidence of each class on validation data after every epoch. With few images
a class, both are noise. Here a BatchEnsemble of four small perceptrons is trained on handwritten digits with
10 to 300 validation images, drawn evenly over the ten classes, the same training and test images each time.

    python examples/validation_size.py        # below a minute

Printed for each number, as means over the seeds: the share of decisions (member, class, epoch) that agree
with those that all 797 images which were not trained on would have made, test accuracy, ECE and gap.
"""

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import calmix

MEMBERS, EPOCHS, SEEDS, CLASSES = 4, 20, range(3), 10
TRAIN, SIZES = 1000, (10, 30, 100, 300)


def load() -> tuple[Tensor, Tensor]:
    pixels, digits = load_digits(return_X_y=True)
    return torch.from_numpy(pixels / 16).float(), torch.from_numpy(digits)


def evenly(y: Tensor, size: int, draw: torch.Generator) -> Tensor:
    """Positions of `size` examples, equally many of each class."""
    order = torch.randperm(len(y), generator=draw)
    return torch.cat([order[y[order] == k][: size // CLASSES] for k in range(CLASSES)])


def fit(size: int, seed: int) -> tuple[float, Tensor, Tensor]:
    """Share of decisions that agree; pooled test probabilities and labels."""
    torch.manual_seed(seed)
    draw = torch.Generator().manual_seed(seed)
    x, y = load()
    held_x, held_y = x[TRAIN:], y[TRAIN:]
    rows = evenly(held_y[:400], size, draw)
    network = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    model = calmix.BatchEnsemble(network, members=MEMBERS)
    mixer = calmix.CAMixup(CLASSES, members=MEMBERS)
    groups = calmix.parameter_groups(model, weight_decay=2e-4)
    optimiser = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    agreeing = []
    for _ in range(EPOCHS):
        model.train()
        for index in torch.randperm(TRAIN, generator=draw).split(100):
            batch = mixer(x[index], y[index], generator=draw)
            optimiser.zero_grad()
            batch.loss(model(batch.inputs, per_member=True)).mean().backward()
            optimiser.step()
        model.eval()
        with torch.no_grad():
            logits = model(held_x)
        mixer.update(logits[:, rows], held_y[rows])
        probs = logits.softmax(-1)
        gaps = torch.stack([calmix.metrics.class_gap(member, held_y) for member in probs])
        agreeing.append(((gaps <= 0) == mixer.active).float().mean().item())
    with torch.no_grad():
        test = calmix.pool(model(held_x[400:]))
    return sum(agreeing) / EPOCHS, test, held_y[400:]


def main() -> None:
    print("images  a class  agreeing  accuracy   ECE    gap")
    for size in SIZES:
        rows = []
        for seed in SEEDS:
            agreeing, probs, labels = fit(size, seed)
            scores = (calmix.metrics.accuracy, calmix.metrics.ece, calmix.metrics.gap)
            rows.append([agreeing, *(score(probs, labels) for score in scores)])
        share, accuracy, ece, gap = (100 * sum(column) / len(rows) for column in zip(*rows, strict=True))
        print(f"{size:6} {size // CLASSES:8} {share:8.0f} % {accuracy:9.1f} {ece:6.1f} {gap:+6.1f}")


if __name__ == "__main__":
    main()
