"""Data sets as tensors, and batches for training and evaluation."""

from calmix.data.batches import Batch, as_floats, steps_per_epoch, test_batches, train_batches
from calmix.data.catalogue import NAMES, Entry, default_root, download, inventory, load
from calmix.data.clusters import Clusters, make_clusters
from calmix.data.dataset import DataSet, Examples, Part
from calmix.data.folder import ImageFiles, load_folder
from calmix.data.validation import split

__all__ = [
    "NAMES",
    "Batch",
    "Clusters",
    "DataSet",
    "Entry",
    "Examples",
    "ImageFiles",
    "Part",
    "as_floats",
    "default_root",
    "download",
    "inventory",
    "load",
    "load_folder",
    "make_clusters",
    "split",
    "steps_per_epoch",
    "test_batches",
    "train_batches",
]
