"""Text: a small transformer with CAMixup on embeddings, on sentences that come with scikit-learn.

    python examples/text.py

The task: from sixteen words, tell which of scikit-learn's data sets a description is about. Token ids cannot
be mixed; their embeddings can: the network offers `embed`, `forward_embedded` and `mask` (the protocol is in
`calmix.runs.embedding`).
"""

import re
import sys

import torch
from sklearn import datasets
from torch import nn

import calmix
from calmix.data import DataSet, Part

SOURCES = ("breast_cancer", "diabetes", "digits", "iris", "linnerud", "wine")
LENGTH, STEP, PADDING, UNKNOWN = 16, 3, 0, 1


class Classifier(nn.Module):
    """Embeddings, one layer of attention and a mean over the words that are there."""

    def __init__(self, vocabulary, length, width, num_classes):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Embedding(length, width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.norm = nn.LayerNorm(width)
        self.hidden = nn.Linear(width, 2 * width)
        self.dropout = nn.Dropout(0.1)
        self.head = nn.Linear(2 * width, num_classes)

    def mask(self, x):
        return x != PADDING

    def embed(self, x):
        return self.tokens(x) + self.positions(torch.arange(x.shape[1], device=x.device))

    def forward_embedded(self, e, mask):
        scores = self.query(e) @ self.key(e).transpose(1, 2) / e.shape[-1] ** 0.5
        scores = scores.masked_fill(~mask.unsqueeze(1), -1e4)
        e = self.norm(e + scores.softmax(-1) @ self.value(e))
        kept = mask.unsqueeze(-1).float()
        pooled = (self.hidden(e).relu() * kept).sum(1) / kept.sum(1).clamp(min=1)
        return self.head(self.dropout(pooled))

    def forward(self, x):
        return self.forward_embedded(self.embed(x), self.mask(x))


def make(*, shape, num_classes, vocabulary, width=32):
    return Classifier(vocabulary, shape[0], width, num_classes)


def load():
    """Windows of sixteen words: the first three quarters of each description for training, the rest for
    testing."""
    train, test = [], []
    for label, name in enumerate(SOURCES):
        words = re.findall(r"[a-z]+", getattr(datasets, f"load_{name}")().DESCR.lower())
        border = len(words) * 3 // 4
        train += [(words[i : i + LENGTH], label) for i in range(0, border - 4, STEP)]
        test += [(words[i : i + LENGTH], label) for i in range(border, len(words) - 4, STEP)]
    vocabulary = {
        word: k + 2 for k, word in enumerate(sorted({word for words, _ in train for word in words}))
    }

    def part(rows):
        ids = torch.full((len(rows), LENGTH), PADDING)
        for row, (words, _) in zip(ids, rows, strict=True):
            row[: len(words)] = torch.tensor([vocabulary.get(word, UNKNOWN) for word in words])
        return Part(ids, torch.tensor([label for _, label in rows]))

    return DataSet("descriptions", SOURCES, part(train), part(test))


def main(out="runs", **fields):
    vocabulary = int(load().train.inputs.max()) + 1
    run = calmix.train(
        network=f"{__file__}:make",
        network_options={"vocabulary": vocabulary},
        dataset=f"{__file__}:load",
        ensemble="deep",
        augment="camixup",
        optimiser="adamw",
        out=out,
        **{"epochs": 15, "members": 2, **fields},
    )
    scores = run.summary.clean.pool
    print(f"accuracy {scores.accuracy:.1%}, ECE {scores.ece:.1%}, gap {scores.gap:+.1%}: {run.folder}")
    return run


if __name__ == "__main__":
    main(*sys.argv[1:])
