"""A convnet and images of one's own: BatchEnsemble with CAMixup from an `.npz` file, in half a minute.

    python examples/own_convnet.py

The same from the command line, in as many worker processes as wanted:

    calmix train --network examples/own_convnet.py:make --network-options '{"width": 16}' \
        --dataset digits.npz --ensemble batch --augment camixup
"""

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

import calmix


def make(*, shape, num_classes, width=16):
    """Called with the shape of an image (channels, height, width), the number of classes, and the options."""
    channels = shape[0]
    return nn.Sequential(
        *(nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()),
        *(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU()),
        *(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, num_classes)),
    )


def write_images(path):
    """1,797 digits of scikit-learn as uint8 images; every fourth is for testing."""
    digits = load_digits()
    images = np.rint(digits.images * 255 / 16).astype(np.uint8)
    test = np.arange(len(images)) % 4 == 0
    np.savez(
        path,
        x_train=images[~test],
        y_train=digits.target[~test],
        x_test=images[test],
        y_test=digits.target[test],
    )


def main(out="runs", **fields):
    Path(out).mkdir(parents=True, exist_ok=True)
    path = Path(out).parent / "digits.npz"
    write_images(path)
    run = calmix.train(
        network=f"{__file__}:make",
        network_options={"width": 16},
        dataset=path,
        ensemble="batch",
        augment="camixup",
        out=out,
        **{"epochs": 40, **fields},
    )
    scores = run.summary.clean.pool
    print(f"accuracy {scores.accuracy:.1%}, ECE {scores.ece:.1%}, gap {scores.gap:+.1%}: {run.folder}")
    return run


if __name__ == "__main__":
    main(*sys.argv[1:])
