"""Data sets as tensors, and batches for training and evaluation."""

from calmix.data.arrays import check_dataset, dataset_digest, from_arrays
from calmix.data.batches import Batch, as_floats, steps_per_epoch, test_batches, train_batches
from calmix.data.clusters import Clusters, make_clusters
from calmix.data.dataset import DataSet, Examples, Kind, Part, kind_of
from calmix.data.folder import ImageFiles, load_folder
from calmix.data.named import load
from calmix.data.npz import load_npz
from calmix.data.pairs import from_datasets
from calmix.data.paths import load_path
from calmix.data.validation import split
from calmix.sources.catalogue import NAMES, Entry, default_root, download, inventory

__all__ = [
    "NAMES",
    "Batch",
    "Clusters",
    "DataSet",
    "Entry",
    "Examples",
    "ImageFiles",
    "Kind",
    "Part",
    "as_floats",
    "check_dataset",
    "dataset_digest",
    "default_root",
    "download",
    "from_arrays",
    "from_datasets",
    "inventory",
    "kind_of",
    "load",
    "load_folder",
    "load_npz",
    "load_path",
    "make_clusters",
    "split",
    "steps_per_epoch",
    "test_batches",
    "train_batches",
]
