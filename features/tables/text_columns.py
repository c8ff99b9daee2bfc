"""Columns of free text in records: features of texts, each on one such column.

A feature of texts begins with a string. On a column it begins with a step that takes
the string out of the record; all else is as it is for texts. Steps are shared by the
features of one column, and apart for each column.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ..errors import BadItem
from ..feature import Feature, Step
from ..items import Value
from .records import trim

BETWEEN = ": "  # a column and a feature in the name of both


@dataclass(frozen=True)
class TextOf:
    """Gives the text in a column of a record: what features of it begin with.

    A cell that is missing or empty is the empty text, of which every feature of texts
    is finite and whose length tells it from all others. White space at the ends does
    not count, as in the cells of tables.

    Attributes
    ----------
    column
        Its name.
    most
        Characters that are read: as many as the longest text of the build has. The time
        of a record is foreseen without regard to its texts, so none may take longer
        than those that were measured.
    """

    column: str
    most: int

    def __call__(self, record: Mapping[str, Value]) -> str:
        """Take the text.

        Raises
        ------
        BadItem
            If there is a number or a boolean.
        """
        value = record.get(self.column)
        if isinstance(value, str):
            return trim(value)[: self.most]
        if value is None or value != value:
            return ""
        came = "a boolean" if isinstance(value, bool) else "a number"
        raise BadItem(f"column {self.column!r} holds {came}; a text is needed")


@dataclass(frozen=True, eq=False, kw_only=True)
class StepOfColumn(Step):
    """A step of texts, carried out on a column; equal where both are the same.

    Attributes
    ----------
    text
        Where the text comes from.
    of
        The step of texts; None for the one that takes the text.
    """

    text: TextOf
    of: Step | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, StepOfColumn):
            return False
        return self.text == other.text and self.of == other.of

    def __hash__(self) -> int:
        return hash((self.text, self.of))


def name_on(column: str, feature: str) -> str:
    """Name a feature of texts on a column, such as `note: learned_words`."""
    return f"{column}{BETWEEN}{feature}"


def feature_on(
    text: TextOf, feature: Feature, declared: Mapping[str, float] | None = None
) -> Feature:
    """Make a feature of texts one of records, on a column.

    `declared` are the costs of having the text, by unit, which all features of the
    column share.
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


def _step_on(
    text: TextOf, step: Step, made: dict[Step | None, StepOfColumn]
) -> StepOfColumn:
    """Make a step of texts one of a column, once each: a fingerprint minds that.

    That of None takes the text.
    """
    if step not in made:
        needs = tuple(_step_on(text, need, made) for need in step.needs)
        made[step] = StepOfColumn(
            name_on(text.column, step.name),
            "record",
            needs or (made[None],),
            step.function,
            version=step.version,
            text=text,
            of=step,
        )
    return made[step]
