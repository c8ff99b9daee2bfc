"""Text features applied to a column of free text in records.

A text feature reads a string, but a record is a mapping. So for each column, a first
step takes the string out of the record, and the feature's other steps remain the same.
All features of one column share these steps; no two columns share a step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import BadItem
from ..feature import Feature, Step
from ..items import Value
from .records import trim

BETWEEN = ": "  # between column and feature, as in `note: learned_words`


@dataclass(frozen=True)
class TextOf:
    """A step that takes the text out of a column of a record.

    For a missing or empty cell the text is empty. Every feature of texts is finite for
    the empty text, and `text_length` shows that it is empty.
    """

    column: str
    # Most characters that are read: the length of the longest text of the build. The
    # predicted time of a record does not depend on its texts, so no text may take
    # longer than the measured ones.
    most: int

    def __call__(self, record: Mapping[str, Value]) -> str:
        """Return the text; raise BadItem if the column holds a number or a boolean."""
        value = record.get(self.column)
        if isinstance(value, str):
            return trim(value)[: self.most]
        if value is None or value != value:
            return ""
        came = "a boolean" if isinstance(value, bool) else "a number"
        raise BadItem(f"column {self.column!r} holds {came}; a text is needed")


@dataclass(frozen=True, eq=False, kw_only=True)
class StepOfColumn(Step):
    """A step of a text feature, applied to one column of records.

    Two such steps are equal if they have the same `text` and `of`.
    """

    text: TextOf  # Step function that takes the text out of the record
    of: Step | None = None  # Step of texts; None for the step that takes the text

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StepOfColumn):
            return False
        return self.text == other.text and self.of == other.of

    def __hash__(self) -> int:
        return hash((self.text, self.of))


def name_on(column: str, feature: str) -> str:
    """Return the name of a text feature applied to a column: `note: learned_words`."""
    return f"{column}{BETWEEN}{feature}"


def feature_on(
    text: TextOf, feature: Feature, declared: Mapping[str, float] | None = None
) -> Feature:
    """Make a feature of records that applies a text feature to one column.

    `declared` maps units to the cost of obtaining the column's text. All features of
    the same column share this cost.
    """
    begin = StepOfColumn(
        f"text of {text.column}",
        "record",
        (),
        text,
        declared=dict(declared or {}),
        text=text,
    )
    made: dict[Step | None, StepOfColumn] = {None: begin}
    needs = tuple(_step_on(text, need, made) for need in feature.needs)
    return replace(
        feature,
        name=name_on(text.column, feature.name),
        kind="record",
        needs=needs or (begin,),
    )


def alone(feature: Feature) -> Feature:
    """Return the text feature that `feature_on` made a feature of records from.

    The name remains that of the feature of records.
    """
    steps = [one.of for one in feature.needs if isinstance(one, StepOfColumn)]
    needs = tuple(step for step in steps if step is not None)
    return replace(feature, kind="text", needs=needs)


def _step_on(
    text: TextOf, step: Step, made: dict[Step | None, StepOfColumn]
) -> StepOfColumn:
    """Return `step` applied to a column, from `made` if it was made before."""
    if step not in made:
        needs = tuple(_step_on(text, need, made) for need in step.needs)
        made[step] = StepOfColumn(
            name_on(text.column, step.name),
            "record",
            needs or (made[None],),
            step.function,
            version=step.version,
            files=step.files,
            text=text,
            of=step,
        )
    return made[step]
