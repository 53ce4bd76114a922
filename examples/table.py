"""A table of numbers: a deep ensemble with Mixup on rows of features, which are standardised, in seconds.

    python examples/table.py

Rows are mixed as they are. The mean and deviation of the training rows are a fixed first layer of the network
(`standardise=True`, the default for vectors), saved with its weights.
"""

import sys

import torch
from sklearn.datasets import load_breast_cancer

import calmix
from calmix.data import DataSet, Part


def load():
    """569 tumours, 30 measurements; every fourth is for testing, every fifth of the rest for validation."""
    bunch = load_breast_cancer()
    whole = Part(torch.from_numpy(bunch.data).float(), torch.from_numpy(bunch.target).long())
    place = torch.arange(len(whole))
    test, rest = place[place % 4 == 0], place[place % 4 != 0]
    validation, train = rest[::5], torch.tensor(sorted(set(rest.tolist()) - set(rest[::5].tolist())))
    return DataSet(
        name="breast-cancer",
        classes=tuple(map(str, bunch.target_names)),
        train=whole.take(train),
        test=whole.take(test),
        validation=whole.take(validation),
    )


def main(out="runs", **fields):
    options = {"network": "mlp", "hidden": 32, "epochs": 30, **fields}
    run = calmix.train(dataset=f"{__file__}:load", ensemble="deep", augment="mixup", out=out, **options)
    scores = run.summary.clean.pool
    print(f"accuracy {scores.accuracy:.1%}, ECE {scores.ece:.1%}, gap {scores.gap:+.1%}: {run.folder}")
    return run


if __name__ == "__main__":
    main(*sys.argv[1:])
