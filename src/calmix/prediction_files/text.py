"""`.csv` and `.tsv` files: read by pyarrow where it is installed, else by NumPy; errors name the line."""

import collections
import csv
import itertools
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from calmix.errors import InputError
from calmix.memory import check_fits
from calmix.prediction_files.contents import Columns, NumpyArray
from calmix.prediction_files.layout import GROUP, USUAL, Table
from calmix.prediction_files.sources import Source

SAMPLE, SAMPLE_VALUES = 100, 200_000  # rows, and values, by which columns of numbers are told from text
FIRST_SAMPLE = 2  # rows for pyarrow's first attempt, which fails where a number turns out to be text
WIDE = 50_000  # columns from which on NumPy's reader is the faster one
# Bytes that pyarrow reads at a time: a block costs time for each column, and a large one memory.
LEAST_BLOCK, BLOCK_PER_COLUMN, MOST_BLOCK = 1 << 20, 1 << 12, 1 << 24
MEMORY_PER_BYTE = 1.5  # of a text file: its numbers as float64, and what is read at a time


def read_text(source: Source, options: Columns, delimiter: str) -> Table:
    """The table of a text file with a header."""
    check_fits(source.name, MEMORY_PER_BYTE * source.size)
    with source.text() as text:
        names = next(csv.reader(text, delimiter=delimiter), [])
    if not names:
        raise InputError(f"{source.name}: is empty: it needs a header with one column per class")
    texts = {*(name for usual in USUAL.values() for name in usual), "group", "groups"}
    named = (options.label, options.id, options.member, *options.group)
    texts |= {name for name in named if name is not None}
    texts |= {name for name in names if name.startswith(GROUP)}
    plain = NumpyTable(source, names, delimiter)
    try:
        from pyarrow import csv as arrow_csv
    except ImportError:
        return plain
    if len(names) > WIDE or len(set(names)) < len(names):  # the latter are refused by their header
        return plain
    return ArrowText(plain, arrow_csv, {name for name in names if name in texts or name in options.ignore})


class NumpyTable:
    """A text table, column by column, with NumPy's own reader."""

    def __init__(self, source: Source, names: list[str], delimiter: str) -> None:
        self.source, self.names, self.delimiter = source.name, names, delimiter
        self._source = source
        self._place = {name: i for i, name in enumerate(names)}
        self._numeric: set[str] | None = None
        self._checked = False
        self._columns: dict[str, NumpyArray] = {}

    def is_number(self, name: str) -> bool:
        if self._numeric is None:
            self._numeric = self.numbers_in(self.sample_rows)
        return name in self._numeric

    @property
    def sample_rows(self) -> int:
        return min(SAMPLE, max(FIRST_SAMPLE, SAMPLE_VALUES // len(self.names)))

    def numbers_in(self, rows: int) -> set[str]:
        """The columns with nothing but numbers in the first `rows` rows; none where there are no rows."""
        sample = list(itertools.islice(filter(None, self._rows()), rows))
        columns = itertools.zip_longest(*sample, fillvalue="")
        pairs = zip(self.names, columns, strict=False)  # a row may be longer or shorter than the header
        return {name for name, values in pairs if _are_floats(values)}

    def is_list(self, name: str) -> bool:
        return False

    def column(self, name: str) -> NumpyArray:
        if name not in self._columns:
            values = self._load([self._place[name]], np.dtype(str))
            self._columns[name] = np.char.strip(values[:, 0]) if len(values) else np.array([], dtype=str)
        return self._columns[name]

    def matrix(self, names: Sequence[str]) -> NumpyArray:
        return self._load([self._place[name] for name in names], np.dtype(np.float64))

    def lists(self, name: str) -> NumpyArray:
        raise NotImplementedError

    def _load(self, columns: list[int], dtype: np.dtype[Any]) -> NumpyArray:
        every = columns == list(range(len(self.names)))
        try:
            with self._source.text() as text, warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of no rows, which are refused later
                next(csv.reader(text, delimiter=self.delimiter))
                loaded = np.loadtxt(
                    text,
                    dtype=dtype,
                    delimiter=self.delimiter,
                    comments=None,
                    quotechar='"',
                    ndmin=2,
                    usecols=None if every else columns,
                )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            self.explain([self.names[i] for i in columns] if dtype.kind == "f" else [])
            raise InputError(f"{self.source}: {error}") from None
        if len(loaded) and not every:
            self._require_widths()
        return loaded.reshape(len(loaded), len(columns))

    def _require_widths(self) -> None:
        """NumPy reads some columns of a row, whatever their number is."""
        if not self._checked:
            self.explain([])
            self._checked = True

    def explain(self, numeric: Sequence[str]) -> None:
        """Name the first line that has another number of columns, or no number where there must be one."""
        at = [(self._place[name], name) for name in numeric]
        width = len(self.names)
        for number, row in enumerate(self._rows(), start=2):
            if not row:
                continue
            if len(row) != width:
                raise InputError(
                    f"{self.source}, line {number}: {len(row)} columns where the header has {width}"
                )
            for i, name in at:
                if not _is_float(row[i]):
                    raise InputError(
                        f"{self.source}, line {number}: {row[i][:60]!r} in column {name!r} is not a number"
                    )

    def _rows(self) -> Any:
        with self._source.text() as text:
            rows = csv.reader(text, delimiter=self.delimiter)
            next(rows)
            yield from rows


class ArrowText:
    """A text table that pyarrow reads at once; where it fails, the plain reader says why."""

    def __init__(self, plain: NumpyTable, reader: Any, texts: set[str]) -> None:
        import pyarrow

        self.source, self.names, self._plain = plain.source, plain.names, plain
        header = sum(map(len, plain.names)) + len(plain.names)
        block = min(max(LEAST_BLOCK, BLOCK_PER_COLUMN * len(plain.names)), MOST_BLOCK)
        # A block must hold a row, whose numbers can be longer than their names.
        read = reader.ReadOptions(block_size=max(block, 64 * header), use_threads=False)
        parse = reader.ParseOptions(delimiter=plain.delimiter, newlines_in_values=True)
        string, number = pyarrow.string(), pyarrow.float64()
        for rows in (FIRST_SAMPLE, plain.sample_rows):
            numbers = plain.numbers_in(rows) - texts
            numeric = [name for name in plain.names if name in numbers]
            types = dict.fromkeys(plain.names, string) | dict.fromkeys(numeric, number)
            # An empty number is an error, not a null.
            convert = reader.ConvertOptions(column_types=types, null_values=[], strings_can_be_null=False)
            try:
                with plain._source.open() as file:
                    self._table = reader.read_csv(
                        file, read_options=read, parse_options=parse, convert_options=convert
                    )
                break
            except (pyarrow.ArrowInvalid, pyarrow.ArrowKeyError, pyarrow.ArrowTypeError) as error:
                reason = str(error)
        else:
            plain.explain(numeric)
            raise InputError(f"{plain.source}: cannot be read as text: {reason}")
        self._place = {name: i for i, name in enumerate(self.names)}
        self._numeric = numbers
        self._columns: dict[str, NumpyArray] = {}

    def is_number(self, name: str) -> bool:
        return name in self._numeric

    def is_list(self, name: str) -> bool:
        return False

    def column(self, name: str) -> NumpyArray:
        if name not in self._columns:
            encoded = self._table.column(self._place[name]).combine_chunks().dictionary_encode()
            texts = np.array([str(text).strip() for text in encoded.dictionary.to_pylist()], dtype=str)
            self._columns[name] = texts[encoded.indices.to_numpy()]
        return self._columns[name]

    def matrix(self, names: Sequence[str]) -> NumpyArray:
        for name in names:
            if not self.is_number(name):
                if self._table.num_rows:
                    self._plain.explain([name])
                return self._plain.matrix(names)  # text that is a number all the same, such as '0x' or ' 1'
        result = np.empty((self._table.num_rows, len(names)))
        for i, name in enumerate(names):
            result[:, i] = self._table.column(self._place[name]).to_numpy()
        return result

    def lists(self, name: str) -> NumpyArray:
        raise NotImplementedError


def _are_floats(texts: Iterable[str]) -> bool:
    try:
        collections.deque(map(float, texts), maxlen=0)
    except ValueError:
        return False
    return True


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
