"""Prediction files as arrays, one family of formats a file. Nothing is unpickled, nothing is guessed.

`sources` opens files and standard input, `arrays` reads `.npz` and `.npy`, `tables` finds the columns of what
`text` (`.csv`, `.tsv`), `parquet` and `lines` (`.jsonl`) read, `writing` writes all of them.
"""

from calmix.prediction_files.arrays import labels_path
from calmix.prediction_files.contents import Arrays, Columns
from calmix.prediction_files.parquet import iter_parquet
from calmix.prediction_files.reading import FORMATS, format_of, read_arrays
from calmix.prediction_files.writing import write_arrays

__all__ = [
    "FORMATS",
    "Arrays",
    "Columns",
    "format_of",
    "iter_parquet",
    "labels_path",
    "read_arrays",
    "write_arrays",
]
