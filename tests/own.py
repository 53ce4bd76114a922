"""A network, data and a mixer that nobody here knows, written to a temporary folder."""

import numpy as np

NETS = '''
import torch
from torch import nn


def make(*, shape, num_classes, depth=1, width=4):
    """A convnet for images of any size."""
    layers = [nn.Conv2d(shape[0], width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(width, num_classes)
    )


def perceptron(*, shape, num_classes):
    return nn.Sequential(nn.Linear(shape[0], 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, num_classes))


def wrong_shape(*, shape, num_classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(torch.Size(shape).numel(), num_classes + 1))


def raises(*, shape, num_classes):
    class Net(nn.Module):
        def forward(self, x):
            raise RuntimeError("no such luck")

    return Net()


def no_module(*, shape, num_classes):
    return 3


class Rows(nn.Module):
    """Takes the batch for its second axis."""

    def __init__(self, features, classes):
        super().__init__()
        self.head = nn.Linear(features, classes)

    def forward(self, x):
        return self.head(x).cumsum(0)


def looks_around(*, shape, num_classes):
    return nn.Sequential(nn.Flatten(), Rows(torch.Size(shape).numel(), num_classes))


class Text(nn.Module):
    """Offers embeddings and a mask."""

    def __init__(self, num_classes, vocabulary=20):
        super().__init__()
        self.table = nn.Embedding(vocabulary, 6)
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(6, num_classes)

    def mask(self, x):
        return x != 0

    def embed(self, x):
        return self.table(x)

    def forward_embedded(self, e, mask):
        kept = mask.unsqueeze(-1).float()
        return self.head(self.dropout((e * kept).sum(1) / kept.sum(1).clamp(min=1)))

    def forward(self, x):
        return self.forward_embedded(self.embed(x), self.mask(x))


def text(*, shape, num_classes):
    return Text(num_classes)


def plain_text(*, shape, num_classes):
    """Offers nothing: mix_after names its module `0`."""
    return nn.Sequential(nn.Embedding(20, 6), nn.Flatten(), nn.Linear(6 * shape[0], num_classes))
'''

MIXERS = '''
import torch
import calmix


def make_mixer(*, num_classes, members):
    return calmix.Mixup(num_classes, alpha=0.4, members=members)


class Odd:
    """A policy that mixes the odd classes, or what it was told to by validation data."""

    def __init__(self, num_classes, members):
        self.active = torch.arange(num_classes).remainder(2).bool().expand(members, -1).clone()
        self.seen = torch.zeros(1)

    def __call__(self, y, group, index):
        return y % 2 == 1

    def validate(self, logits, labels, group):
        self.seen += len(labels)

    def update(self):
        pass

    def state(self):
        return {"seen": self.seen}


def make_policy(*, num_classes, members):
    return Odd(num_classes, members)


def make_broken(*, num_classes, members):
    def policy(y, group, index):
        raise KeyError("nobody is mixed")

    return policy


def make_nothing(*, num_classes, members):
    return 5
'''

LOADER = """
import numpy as np
from calmix.data import from_arrays


def load():
    rng = np.random.default_rng(3)
    y = np.arange(60) % 3
    x = rng.normal(size=(60, 5)) + y[:, None]
    return from_arrays({"x_train": x, "y_train": y, "x_test": x[:20], "y_test": y[:20]}, name="rows")


def nothing():
    return None
"""


def write_code(folder):
    """`nets.py`, `mixers.py` and `loader.py` in a folder."""
    for name, text in (("nets.py", NETS), ("mixers.py", MIXERS), ("loader.py", LOADER)):
        (folder / name).write_text(text)


def arrays(kind="image", size=60, **more):
    """Arrays of an `.npz` file whose classes can be told apart."""
    rng = np.random.default_rng(0)
    y = np.arange(size) % 3
    if kind == "image":
        x = (rng.integers(0, 60, (size, 9, 9, 3)) + 60 * y[:, None, None, None]).astype(np.uint8)
    elif kind == "vector":
        x = 100 * rng.normal(size=(size, 5)) + 300 * y[:, None] + 1000
    elif kind == "tensor":
        x = rng.normal(size=(size, 2, 4, 3)) + y[:, None, None, None]
    else:
        x = rng.integers(1, 6, (size, 7)) + 6 * y[:, None]
        x[:, 5:] = 0
    test = size // 3
    return {"x_train": x, "y_train": y, "x_test": x[:test], "y_test": y[:test], **more}


def write_npz(path, kind="image", **more):
    np.savez(path, **arrays(kind, **more))
    return path


FAST = {"epochs": 2, "batch_size": 12, "train_size": 24}
