"""Conversion of input tensors to items, and of answers to output tensors."""

import base64
import binascii
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Value
from polydom.features.wording import describe_decode_error
from polydom.indexer.index.fetches.stored_fetches import KeyKind
from polydom.indexer.index.package import Package

from ..runtime.known_columns import KnownColumns
from ..schema.bounds import LARGE, USUAL_COLUMNS, check_record
from ..schema.record import decode_record
from ..schema.wire import Answer, PredictRequest
from .metadata import TensorFacts
from .tensors import BYTES, Tensor

MAX_ITEMS = 1024
RECORD = "record"
# Names that clients give to an input by default, such as `input-0`.
_NAMELESS = re.compile(r"inputs?[-_]?\d*", re.IGNORECASE)
# Values in output tensors for answers without these fields.
_NOTHING = {"reason": "", "missing": 0, "early": False}
# Datatype of a key's column by what it holds; a name is likelier than a number.
_KEY_TYPES: dict[KeyKind | None, str] = {
    None: BYTES,
    "text": BYTES,
    "whole number": "INT64",
    "number": "FP64",
    "boolean": "BOOL",
}

Record = dict[str, Any]


class Requested(NamedTuple):
    """An output tensor that the request asks for.

    If `classes` is above 0, the output is a classification: a string
    `SCORE:POSITION:LABEL` for each of the `classes` best labels of an item.
    """

    name: str
    classes: int = 0


class Items:
    """Converts the input tensors of requests to items, and answers to output tensors.

    `inputs` and `outputs` are the metadata: names, datatypes and shapes. `widest` is
    the maximum number of values per item in one input: the number of columns of a
    record, or 1.
    """

    def __init__(self, package: Package) -> None:
        self._kind = package.kind
        self._labels = package.labels
        self._columns = KnownColumns.of(package)
        self.widest = max(1, len(self._columns.names))
        self.inputs = [
            TensorFacts(name, self._datatype(name), [-1])
            for name in self._columns.names
        ] or [TensorFacts(package.kind, BYTES, [-1])]
        own = [
            TensorFacts("label", BYTES, [-1]),
            TensorFacts("scores", "FP64", [-1, len(package.labels)]),
            TensorFacts("expected_accuracy", "FP64", [-1]),
            TensorFacts("early", "BOOL", [-1]),
        ]
        if package.numeric:
            own = [
                TensorFacts("value", "FP64", [-1]),
                TensorFacts("interval", "FP64", [-1, 2]),
            ]
        if any(package.thresholds()):
            own.append(TensorFacts("threshold", "FP64", [-1]))
        self._default = [Requested(facts.name) for facts in own[:2]]
        self.outputs = [
            *own,
            TensorFacts("expected_quality", "FP64", [-1]),
            TensorFacts("features", BYTES, [-1]),
            TensorFacts("reason", BYTES, [-1]),
            TensorFacts("budget_met", "BOOL", [-1]),
        ]
        if self._kind == "record":
            self.outputs += [
                TensorFacts("unknown", BYTES, [-1]),
                TensorFacts("missing", "INT64", [-1]),
                TensorFacts("best_next", BYTES, [-1]),
            ]
        self._datatypes = {facts.name: facts.datatype for facts in self.outputs}

    def _datatype(self, column: str) -> str:
        if column in self._columns.keys:
            return _KEY_TYPES[self._columns.keys[column]]
        return BYTES if column in self._columns.texts else "FP64"

    def read(self, inputs: Sequence[Tensor]) -> list[PredictRequest]:
        """Return one prediction request for each item in the input tensors.

        The requests have no budget or other terms yet.
        """
        names = [tensor.name for tensor in inputs]
        if len(set(names)) < len(names):
            raise BadInput("an input is given twice")
        if self._kind == "record":
            return [PredictRequest(record=record) for record in self._records(inputs)]
        if not self._holds_items(names, self._kind) or inputs[0].datatype != BYTES:
            came = ", ".join(f"{t.name[:40]!r} of {t.datatype}" for t in inputs[:4])
            raise BadInput(
                f"one input {self._kind!r} of {BYTES} is needed; {came or 'none'} came"
            )
        elements = enumerate(_one_each(inputs[0]))
        if self._kind == "text":
            return [PredictRequest(text=_text(element, i)) for i, element in elements]
        return [
            PredictRequest(image_base64=_image(element, i)) for i, element in elements
        ]

    def check(self, outputs: Sequence[Requested]) -> None:
        """Raise BadInput if an output is unknown, repeated, or cannot hold classes."""
        names = [output.name for output in outputs]
        for name in names:
            if name not in self._datatypes:
                raise BadInput(
                    f"there is no output {name[:80]!r}; there are "
                    f"{', '.join(self._datatypes)}"
                )
        if len(set(names)) < len(names):
            raise BadInput("an output is asked for twice")
        for output in outputs:
            if output.classes and output.name != "scores":
                raise BadInput("only 'scores' can be asked for as a classification")

    def asks_scores(self, outputs: Sequence[Requested]) -> bool:
        """Return True if scores are requested, by name or by default."""
        return any(output.name == "scores" for output in outputs or self._default)

    def write(
        self, answers: Sequence[Answer], met: bool, outputs: Sequence[Requested]
    ) -> list[Tensor]:
        """Return the requested output tensors.

        By default, these are label and scores, or value and interval if the index
        predicts numbers. If `asks_scores` returns True, each answer must have scores.
        `met` is True if all answers met their budget.
        """
        wanted = outputs or self._default
        return [self._output(answers, met, output) for output in wanted]

    def _output(
        self, answers: Sequence[Answer], met: bool, output: Requested
    ) -> Tensor:
        name = output.name
        if name == "scores":
            return self._scores(answers, output.classes)
        values: list[Any] = [getattr(answer, name) for answer in answers]
        if name == "interval":
            ends = [end for interval in values for end in interval]
            return Tensor(name, "FP64", (len(answers), 2), ends)
        if name == "threshold":
            values = [score for one in values for score in one.values()]
        if name == "budget_met":
            values = [met] * len(answers)
        if name == "best_next":
            values = [value.columns if value else () for value in values]
        if name in ("features", "unknown", "best_next"):
            values = [",".join(names or ()) for names in values]
        if name in _NOTHING:
            values = [value or _NOTHING[name] for value in values]
        return Tensor(name, self._datatypes[name], (len(answers),), values)

    def _scores(self, answers: Sequence[Answer], classes: int) -> Tensor:
        """Return the scores of all labels; a label unknown to a model has the score 0.

        If `classes` is above 0, return a classification instead, as `Requested`
        describes.
        """
        rows = [
            [_scores(answer).get(label, 0.0) for label in self._labels]
            for answer in answers
        ]
        if not classes:
            flat = [score for row in rows for score in row]
            return Tensor("scores", "FP64", (len(rows), len(self._labels)), flat)
        classes = min(classes, len(self._labels))
        best = [
            f"{row[code]:f}:{code}:{self._labels[code]}"
            for row in rows
            for code in sorted(range(len(row)), key=row.__getitem__, reverse=True)[
                :classes
            ]
        ]
        return Tensor("scores", BYTES, (len(rows), classes), best)

    def _records(self, inputs: Sequence[Tensor]) -> list[Record]:
        if not inputs:
            raise BadInput("there are no inputs")
        names = [tensor.name for tensor in inputs]
        if self._holds_items(names, RECORD):
            if inputs[0].datatype != BYTES:
                return self._rows_of(inputs[0])
            most = len(self._columns.names) or USUAL_COLUMNS
            elements = enumerate(_one_each(inputs[0]))
            return [_record(element, i, most) for i, element in elements]
        columns = {tensor.name: _one_each(tensor) for tensor in inputs}
        if len({len(column) for column in columns.values()}) > 1:
            lengths = {name[:40]: len(column) for name, column in columns.items()}
            raise BadInput(f"the inputs hold different numbers of items: {lengths}")
        return [
            {name: _cell(value, name) for name, value in zip(columns, row, strict=True)}
            for row in zip(*columns.values(), strict=True)
        ]

    def _holds_items(self, names: Sequence[str], kind: str) -> bool:
        """Return True if the only input holds items, not the values of one column.

        Such an input has the name `kind`, or a default name such as `input-0`.
        """
        if len(names) != 1 or names[0] in self._columns.names:
            return False
        # an index that reads any column may have a column with a default name
        knows = self._kind != RECORD or bool(self._columns.names)
        return names[0] == kind or (knows and bool(_NAMELESS.fullmatch(names[0])))

    def _rows_of(self, tensor: Tensor) -> list[Record]:
        names = self._columns.names
        if not names:
            raise BadInput(
                "the features of this index may read any column: give an input per "
                f"column, or {RECORD!r} as {BYTES} with a JSON object per element"
            )
        if len(tensor.shape) != 2 or tensor.shape[1] != len(names):
            raise BadInput(
                f"input {RECORD!r} has shape {list(tensor.shape)}; [-1, {len(names)}] "
                f"is needed, with the columns in the order of the metadata"
            )
        _refuse_count(tensor.shape[0])
        values: Any = tensor.values
        rows = (values[i : i + len(names)] for i in range(0, len(values), len(names)))
        return [dict(zip(names, row, strict=True)) for row in rows]


def _scores(answer: Answer) -> dict[str, float]:
    assert answer.scores is not None, "an output needs scores that were not asked for"
    return answer.scores


def _one_each(tensor: Tensor) -> Sequence[Any]:
    """Return the values of a tensor, whose shape must be [N] or [N, 1]."""
    if len(tensor.shape) > 2 or tensor.shape[1:] not in ((), (1,)):
        raise BadInput(
            f"input {tensor.name[:80]!r} has shape {list(tensor.shape)}; [-1] or "
            "[-1, 1] is needed"
        )
    _refuse_count(tensor.shape[0])
    return tensor.values


def _refuse_count(count: int) -> None:
    if not 1 <= count <= MAX_ITEMS:
        raise BadInput(f"1 to {MAX_ITEMS:,} items can be in a request; {count:,} came")


def _text(element: str | bytes | None, i: int) -> str:
    if isinstance(element, str):
        return element
    if element is None:
        raise BadItem(f"text {i} is null")
    try:
        return element.decode()
    except UnicodeDecodeError as error:
        raise BadItem(f"text {i} is not UTF-8 (byte {error.start})") from error


def _image(element: str | bytes | None, i: int) -> bytes:
    """Return the bytes of image `i`; a string from JSON is decoded as base64."""
    if isinstance(element, bytes):
        return element
    if element is None:
        raise BadItem(f"image {i} is null")
    try:
        return base64.b64decode(element, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadItem(f"image {i} is a JSON string, but not base64") from error


def _record(element: str | bytes | None, i: int, columns: int) -> Record:
    raw = b""
    try:
        raw = element.encode() if isinstance(element, str) else element or b""
        if len(raw) > LARGE:
            check_record(raw, columns=columns)
        return decode_record(raw)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        said = describe_decode_error(error, document=raw)
        raise BadItem(f"record {i} is no JSON object of columns: {said}") from error


def _cell(value: Any, name: str) -> Value:
    if not isinstance(value, bytes):
        read: Value = value
        return read
    try:
        return value.decode()
    except UnicodeDecodeError as error:
        raise BadItem(f"column {name[:80]!r} holds bytes that are no UTF-8") from error
