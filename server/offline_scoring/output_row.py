"""Rows of scoring output, and their columns in Arrow and Spark."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from polydom.features.errors import BadInput, BadItem, PolydomError, without_frames
from polydom.features.items import Gaps, Item

from ..batch.batch_budget import Failed, Result
from ..runtime.translator import Translator
from ..schema.wire import Reason

# Fields that only answers with classes have, and fields that only answers with numbers
# have.
_OF_CLASSES = frozenset(
    (
        "label",
        "scores",
        "expected_accuracy",
        "base_models_used",
        "base_models",
        "early",
        "threshold",
    )
)
_OF_NUMBERS = frozenset(("value", "low", "high"))

# Names of column types in Spark's SQL.
NUMBER, COUNT, WORD, WORDS = "DOUBLE", "BIGINT", "STRING", "ARRAY<STRING>"
FLAG = "BOOLEAN"
_TYPES = {
    **dict.fromkeys(("item", "label", "error", "reason", "index_version"), WORD),
    **dict.fromkeys(("scores", "threshold"), "MAP<STRING, DOUBLE>"),
    **dict.fromkeys(("features", "unknown"), WORDS),
    **dict.fromkeys(("missing", "base_models_used", "base_models"), COUNT),
    "early": FLAG,
}

# Columns that describe the batch plan.
OF_PLAN = ("price", "index_version")

ScorableItem = Item | bytes | str | Mapping[str, Any] | PolydomError


class Scored(msgspec.Struct, repr_omit_defaults=True):
    """The result of one item: an answer, or an error.

    Fields without a value are None.

    Attributes
    ----------
    item
        Position or name of the item.
    label, scores
        The class, and the score of each class. None if the index answers with numbers;
        scores are also None if the model stopped early and the index is older than
        scores of early answers.
    value, low, high
        The number, and the two bounds of its interval. None for classes.
    features
        Names of the features used, in the order of their computation.
    expected_quality, expected_accuracy
        Quality and accuracy of the model that answered, on held-out items. The accuracy
        is None if answers are numbers.
    cost
        Measured seconds of features and model. If the index's unit is not time: the
        plan's predicted cost in that unit.
    error
        Reason why the item has no answer.
    unknown
        Names of a record's columns with values unknown to the index; None without any.
    missing
        Number of empty columns that the model reads; None without any.
    base_models_used, base_models
        Number of base models evaluated, and number of all base models; None without
        early exits.
    early
        True if the answer was sure before all features and base models were computed.
        None if answers are numbers.
    reason
        Why the plan is not the best one for the item: one of `Reason`. None if it is.
    threshold
        One of two classes, and the score from which the answer is this class. None if
        the index answers with the class of the larger score.
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
    early: bool | None = None
    reason: Reason | None = None
    threshold: dict[str, float] | None = None


def columns_of(numeric: bool) -> tuple[str, ...]:
    """Return the names of the output's columns, for numeric answers or for classes."""
    unused = _OF_CLASSES if numeric else _OF_NUMBERS
    return tuple(field for field in Scored.__struct_fields__ if field not in unused)


def check_kept(keep: Sequence[str], columns: Sequence[str]) -> None:
    """Raise BadInput if `keep` has a name twice, or a name that is in `columns`."""
    for name in keep:
        if name in columns:
            raise BadInput(
                f"the column {name!r} to keep is one of the answers' too: rename it"
            )
        if keep.count(name) > 1:
            raise BadInput(f"the column {name!r} is to be kept twice")


def row_of(translator: Translator, result: Result) -> Scored:
    """Return the output row for a result; its field `item` is the item's number."""
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
        early=None if outcome.label is None else outcome.early,
        reason=outcome.reason,
        threshold=translator.planner.thresholds[outcome.row],
    )


def as_item(translator: Translator, item: ScorableItem) -> Item | PolydomError:
    """Read an item. If the item is invalid, return the error instead of raising it."""
    if isinstance(item, PolydomError):
        return item
    try:
        return translator.read(item.payload if isinstance(item, Item) else item)
    except BadItem as error:
        return without_frames(error)


def spark_type(column: str) -> str:
    """Return the type of an output column in Spark's SQL."""
    return _TYPES.get(column, NUMBER)


def arrow_schema(columns: Sequence[str]) -> Any:
    """Return the Arrow schema of the output columns with the names `columns`."""
    import pyarrow as pa

    types = {
        NUMBER: pa.float64(),
        COUNT: pa.int64(),
        FLAG: pa.bool_(),
        WORD: pa.string(),
        WORDS: pa.list_(pa.string()),
        _TYPES["scores"]: pa.map_(pa.string(), pa.float64()),
    }
    return pa.schema({name: types[spark_type(name)] for name in columns})


def arrow_batch(
    rows: Sequence[Scored], columns: Sequence[str], **same: str | float | None
) -> Any:
    """Return an Arrow batch of output rows with the given columns.

    `same` has the values of columns that are equal in all rows.
    """
    import pyarrow as pa

    def cells(name: str) -> list[Any]:
        if name in same:
            return [same[name]] * len(rows)
        found = [getattr(row, name) for row in rows]
        if name not in ("scores", "threshold"):
            return found
        return [None if cell is None else [*cell.items()] for cell in found]

    schema = arrow_schema(columns)
    arrays = [pa.array(cells(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
