"""Calibration metrics in a `torchmetrics.MetricCollection`, batch by batch. Takes a few seconds.

    pip install 'calmix[torchmetrics]'
    python examples/torchmetrics_collection.py

The sums behind them have a fixed size and add over processes: the values are those of all
examples together.
"""

import torch
from torchmetrics import MetricCollection

import calmix
from calmix.integrations.torchmetrics import ECE, NLL, SCE, Accuracy, Brier, Gap


def main(seed=0):
    generator = torch.Generator().manual_seed(seed)
    true_logits = 2 * torch.randn(5000, 10, generator=generator)
    labels = true_logits.softmax(-1).multinomial(1, generator=generator)[:, 0]
    logits = 1.5 * true_logits + torch.randn(4, 5000, 10, generator=generator)  # four over-confident members

    kinds = (Accuracy, NLL, Brier, ECE, SCE, Gap)
    collection = MetricCollection([kind(num_classes=10, values="logits") for kind in kinds])
    members = collection.clone(prefix="member_0_")
    for rows in torch.arange(5000).split(128):
        collection.update(logits[:, rows], labels[rows])  # members (M, N, C) are pooled
        members.update(logits[0, rows], labels[rows])  # one member (N, C)
    for name, value in (collection.compute() | members.compute()).items():
        print(f"{name:20} {value:+.4f}")

    whole = calmix.metrics.ece(calmix.pool(logits), labels)
    print(f"ECE of all examples at once: {whole:+.4f}")


if __name__ == "__main__":
    main()
