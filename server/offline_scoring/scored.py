"""What is said of an item that was scored, in a row or in Arrow's columns."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from polydom.features.errors import BadInput, BadItem, PolydomError, without_frames
from polydom.features.items import Gaps, Item

from ..batch.ledger import Failed, Result
from ..runtime.translator import Translator

# What is said of classes alone, and of numbers alone.
_OF_CLASSES = frozenset(
    ("label", "scores", "expected_accuracy", "base_models_used", "base_models")
)
_OF_NUMBERS = frozenset(("value", "low", "high"))

# What Spark calls the types of the columns below.
NUMBER, COUNT, WORD, WORDS = "DOUBLE", "BIGINT", "STRING", "ARRAY<STRING>"
_TYPES = {
    **dict.fromkeys(("item", "label", "error", "index_version"), WORD),
    "scores": "MAP<STRING, DOUBLE>",
    **dict.fromkeys(("features", "unknown"), WORDS),
    **dict.fromkeys(("missing", "base_models_used", "base_models"), COUNT),
}

# Of the plan that answers were given by.
OF_PLAN = ("price", "index_version")

ScorableItem = Item | bytes | str | Mapping[str, Any] | PolydomError


class Scored(msgspec.Struct, repr_omit_defaults=True):
    """What became of one item; `error` or what was answered is None.

    Attributes
    ----------
    item
        Its position or name.
    label, scores
        The class, and each class's score. None where the index answers with numbers;
        scores also where the model stopped before its last base model.
    value, low, high
        The number, and between what its label is expected. None of classes.
    features
        Those used, in the order they were computed.
    expected_quality, expected_accuracy
        On held-out items, of the model that answered; no accuracy of numbers.
    cost
        Measured seconds of features and model, or what the plan costs in the index's
        unit.
    error
        Why it was not answered.
    unknown, missing, base_models_used, base_models
        As in `Answer`; None where there is nothing to tell.
    """

    item: int | str
    label: str | None = None
    scores: dict[str, float] | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    features: tuple[str, ...] | None = None
    expected_quality: float | None = None
    expected_accuracy: float | None = None
    cost: float | None = None
    error: str | None = None
    unknown: tuple[str, ...] | None = None
    missing: int | None = None
    base_models_used: int | None = None
    base_models: int | None = None


def columns_of(numeric: bool) -> tuple[str, ...]:
    """Name the fields that there are where answers are numbers, or classes."""
    unused = _OF_CLASSES if numeric else _OF_NUMBERS
    return tuple(field for field in Scored.__struct_fields__ if field not in unused)


def check_kept(keep: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse columns to keep that have names of answers' columns, or of each other.

    Raises
    ------
    BadInput
        Naming it.
    """
    for name in keep:
        if name in columns:
            raise BadInput(
                f"the column {name!r} to keep is one of the answers' too: rename it"
            )
        if keep.count(name) > 1:
            raise BadInput(f"the column {name!r} is to be kept twice")


def row_of(translator: Translator, result: Result) -> Scored:
    """Say what became of an item; `item` is its number."""
    if isinstance(result, Failed):
        return Scored(result.number, error=str(result.error))
    outcome, gaps = result.outcome, result.item.gaps or Gaps()
    cost = outcome.predicted
    if translator.unit == "s":
        cost = outcome.finished_s - outcome.started_s
    low, high = outcome.interval or (None, None)
    return Scored(
        result.number,
        outcome.label,
        outcome.scores,
        outcome.value,
        low,
        high,
        translator.planner.feature_names[outcome.row],
        outcome.quality,
        outcome.accuracy,
        cost,
        unknown=gaps.unknown or None,
        missing=translator.missing(gaps, outcome.row) or None,
        base_models_used=outcome.base_models_used,
        base_models=outcome.base_models,
    )


def as_item(translator: Translator, item: ScorableItem) -> Item | PolydomError:
    """Make an item, or say why it is none."""
    if isinstance(item, PolydomError):
        return item
    try:
        return translator.read(item.payload if isinstance(item, Item) else item)
    except BadItem as error:
        return without_frames(error)


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
