"""Data sets as tensors, and the batches that training and evaluation take from them."""

from calmix.data.batches import Batch, steps_per_epoch, test_batches, train_batches
from calmix.data.catalogue import NAMES, default_root, load
from calmix.data.clusters import Clusters, make_clusters
from calmix.data.dataset import DataSet, Examples, Part
from calmix.data.validation import split

__all__ = [
    "NAMES",
    "Batch",
    "Clusters",
    "DataSet",
    "Examples",
    "Part",
    "default_root",
    "load",
    "make_clusters",
    "split",
    "steps_per_epoch",
    "test_batches",
    "train_batches",
]
