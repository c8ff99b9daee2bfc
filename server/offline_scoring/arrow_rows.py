"""Rows as Arrow has them: items out of columns, and columns of what became of them."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from polydom.features.errors import BadInput
from polydom.features.items import Kind
from polydom.features.wording import hint, listed

from .scored import ScorableItem, Scored
from .sources import IMAGE_COLUMNS, image_in, record_in, text_in

# What Spark calls the types of the columns below.
NUMBER, COUNT, WORD, WORDS = "DOUBLE", "BIGINT", "STRING", "ARRAY<STRING>"
_TYPES = {
    **dict.fromkeys(("item", "label", "error", "index_version"), WORD),
    "scores": "MAP<STRING, DOUBLE>",
    **dict.fromkeys(("features", "unknown"), WORDS),
    **dict.fromkeys(("missing", "base_models_used", "base_models"), COUNT),
}


def spark_type(column: str) -> str:
    """Name the type of an output column as Spark's SQL does."""
    return _TYPES.get(column, NUMBER)


def arrow_schema(columns: Sequence[str]) -> Any:
    """Make the schema of some output columns."""
    import pyarrow as pa

    types = {
        NUMBER: pa.float64(),
        COUNT: pa.int64(),
        WORD: pa.string(),
        WORDS: pa.list_(pa.string()),
        _TYPES["scores"]: pa.map_(pa.string(), pa.float64()),
    }
    return pa.schema({name: types[spark_type(name)] for name in columns})


def arrow_batch(
    rows: Sequence[Scored], columns: Sequence[str], **same: str | float | None
) -> Any:
    """Lay rows out in columns: theirs, and those that are the `same` for all."""
    import pyarrow as pa

    def cells(name: str) -> list[Any]:
        if name in same:
            return [same[name]] * len(rows)
        found = [getattr(row, name) for row in rows]
        if name != "scores":
            return found
        return [None if cell is None else [*cell.items()] for cell in found]

    schema = arrow_schema(columns)
    arrays = [pa.array(cells(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class ItemColumns(NamedTuple):
    """Where the items of a table are.

    Attributes
    ----------
    kind
        What items are.
    column
        Where they are; None for the usual one, and for records that are the rows.
    known
        Columns of records that are read; where there are none, all but `beside`.
    """

    kind: Kind
    column: str | None
    known: tuple[str, ...]
    beside: tuple[str, ...] = ()

    def among(self, names: Sequence[str]) -> list[str]:
        """Say which of a table's columns are read; BadInput where none can be."""
        if self.kind == "record" and self.column is None:
            known = self.known or [name for name in names if name not in self.beside]
            wanted = [name for name in names if name in known]
            if not wanted:
                raise BadInput(
                    f"the index reads none of the columns {listed(names)}; it knows "
                    f"{listed(sorted(known))}"
                )
            return wanted
        usual = IMAGE_COLUMNS if self.kind == "image" else (self.kind,)
        name = self.column or next((one for one in usual if one in names), usual[0])
        require(names, name)
        return [name]

    def items(self, batch: Any) -> Iterator[ScorableItem]:
        """Read the items of an Arrow batch or table; BadInput as `among`."""
        wanted = self.among(batch.schema.names)
        if self.kind == "record" and self.column is None:
            yield from batch.select(wanted).to_pylist()
            return
        read = {"record": record_in, "text": text_in, "image": image_in}[self.kind]
        yield from map(read, batch.column(wanted[0]).to_pylist())


def require(names: Sequence[str], name: str) -> None:
    """Refuse columns among which there is not just one of a name, with BadInput."""
    count = names.count(name)
    if count == 0:
        raise BadInput(f"no column {name!r}; {hint(name, names)}")
    if count > 1:
        raise BadInput(f"{count} columns are called {name!r}; each needs its own name")
