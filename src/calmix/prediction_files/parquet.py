"""`.parquet` files, whole or in blocks of rows; only the columns that are needed are read."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from calmix.errors import InputError
from calmix.memory import check_fits
from calmix.prediction_files.contents import Arrays, Columns, NumpyArray
from calmix.prediction_files.layout import find_layout
from calmix.prediction_files.sources import Source
from calmix.prediction_files.tables import read_table


def read_parquet(source: Source, values: str | None, options: Columns) -> Arrays:
    with source.open() as file:
        table = ParquetTable(source.name, _open(source, file))
        layout = find_layout(table, options)
        bytes_of_all = 8 * table.rows * len(layout.needed)
        check_fits(source.name, bytes_of_all)
        return read_table(ArrowTable(source.name, table.file.read(columns=layout.needed)), layout, values)


def iter_parquet(source: Source, values: str | None, options: Columns, rows: int) -> Iterator[Arrays]:
    """Blocks of up to `rows` rows; the layout is found once, from the header and the labels."""
    with source.open() as file:
        table = ParquetTable(source.name, _open(source, file))
        layout = find_layout(table, options)
        if layout.member is not None:
            raise InputError(
                f"{source.name}: with a column {layout.member!r} a block would not hold all members of an "
                "example: read the file whole, or write one column of lists"
            )
        for batch in table.file.iter_batches(batch_size=rows, columns=layout.needed):
            import pyarrow

            yield read_table(ArrowTable(source.name, pyarrow.Table.from_batches([batch])), layout, values)


def _open(source: Source, file: Any) -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise InputError(
            f"{source.name}: reading Parquet needs pyarrow: pip install 'calmix[parquet]'"
        ) from None
    return parquet.ParquetFile(file)


class ArrowTable:
    """A pyarrow table."""

    def __init__(self, source: str, table: Any) -> None:
        self.source, self._table = source, table
        self.names: list[str] = list(table.schema.names)

    def is_number(self, name: str) -> bool:
        return is_number(self._table.schema.field(name).type)

    def is_list(self, name: str) -> bool:
        return is_list(self._table.schema.field(name).type)

    def column(self, name: str) -> NumpyArray:
        values = self._values(name)
        if self.is_number(name):
            return np.asarray(values.to_numpy())
        return np.array([str(value) for value in values.to_pylist()], dtype=str)

    def matrix(self, names: Sequence[str]) -> NumpyArray:
        for name in names:
            if not self.is_number(name):
                kind = self._table.schema.field(name).type
                raise InputError(f"{self.source}: class columns must be numbers, but {name!r} is {kind}")
        narrow = all(self._table.schema.field(name).type in ("float", "halffloat") for name in names)
        result = np.empty((self._table.num_rows, len(names)), np.float32 if narrow else np.float64)
        for i, name in enumerate(names):
            result[:, i] = self._values(name).to_numpy()
        return result

    def lists(self, name: str) -> NumpyArray:
        """Lists of numbers (N, C), or lists of lists (N, M, C)."""
        values, sizes = self._values(name).combine_chunks(), [self._table.num_rows]
        while is_list(values.type):
            length = np.unique(np.asarray(values.value_lengths()))
            if len(length) != 1:
                raise InputError(f"{self.source}: the lists in column {name!r} have different lengths")
            values = values.flatten()
            sizes.append(int(length[0]))
        if not is_number(values.type) or values.null_count:
            raise InputError(f"{self.source}: the lists in column {name!r} must hold numbers")
        return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(sizes)

    def _values(self, name: str) -> Any:
        column = self._table.column(name)
        if column.null_count:
            raise InputError(f"{self.source}: column {name!r} has empty values")
        return column


class ParquetTable(ArrowTable):
    """A Parquet file by its header; of its rows, only columns that are asked for are read."""

    def __init__(self, source: str, file: Any) -> None:
        self.source, self.file = source, file
        self.schema = file.schema_arrow
        self.names = list(self.schema.names)
        self.rows: int = file.metadata.num_rows

    def is_number(self, name: str) -> bool:
        return is_number(self.schema.field(name).type)

    def is_list(self, name: str) -> bool:
        return is_list(self.schema.field(name).type)

    def column(self, name: str) -> NumpyArray:
        check_fits(self.source, 8 * self.rows)
        return ArrowTable(self.source, self.file.read(columns=[name])).column(name)


def is_number(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
