"""What a batch looks like on the wire: its terms, its items and its entries."""

from typing import Annotated, Literal

import msgspec

from .predict import Answer, PredictRequest
from .record import Record


class BatchTerms(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """What the query of `POST /v1/batch` may say; None is what it does not say.

    Items that cannot be answered are skipped then, and models may stop early.
    """

    model: str | None = None
    budget_ms: float | None = None
    budget: float | None = None
    count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    on_bad_item: Literal["skip", "stop"] | None = None
    label: str | None = None
    top: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    exact: bool | None = None


class BatchItem(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One item of a batch; in msgpack `image_base64` holds the image's own bytes."""

    text: str | None = None
    record: Record | None = None
    image_base64: bytes | None = None

    def ask(self) -> PredictRequest:
        """Ask for it alone."""
        return PredictRequest(
            text=self.text, record=self.record, image_base64=self.image_base64
        )


class BatchBody(BatchTerms, forbid_unknown_fields=True, kw_only=True):
    """Body of `POST /v1/batch` as one JSON object: the items, and the terms."""

    items: list[msgspec.Raw]


class Entry(Answer, kw_only=True):
    """The answer to one item; `item` counts them from 0."""

    item: int


class ErrorEntry(msgspec.Struct, kw_only=True):
    """What is wrong with one item, in its place."""

    item: int
    error: str
    code: str


class Totals(msgspec.Struct, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """What became of all items; the `_us` fields where the index counts seconds.

    `expected_quality` and `expected_accuracy` are means of those answered, the latter
    null where answers are numbers; `error` and `code` say why
    there may have been more items than are counted.
    """

    items: int
    errors: int
    expected_quality: float | None
    expected_accuracy: float | None
    budget_met: bool
    budget_us: float | None = None
    spent_us: float | None = None
    budget: float | None = None
    spent: float | None = None
    error: str | None = None
    code: str | None = None
