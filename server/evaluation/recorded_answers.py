"""Read the answers that a server recorded, and join labels to them by the id."""

import contextlib
import gzip
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Kind
from polydom.features.readers.table_file import open_table
from polydom.features.wording import listed
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ..answer_log.log_file import files_in
from ..offline_scoring.item_rows import Row, require
from ..schema.record import Record
from ..schema.wire import Answer
from .labelled_items import LabelledItems, class_name, drawn, usable

SHOWN = 3  # number of ids in a message


class RecordedAnswer(Answer, kw_only=True):
    """A recorded line about an answer: fields of `Head`, the answer, and its item."""

    time: datetime
    id: str
    model: str | UnsetType = UNSET
    text: str | None = None
    record: Record | None = None
    image_base64: bytes | None = None

    def item(self, kind: Kind) -> str | bytes | Mapping[str, Any] | None:
        """Return the item; None if the line has none of this kind."""
        fields = {"text": self.text, "record": self.record, "image": self.image_base64}
        return fields[kind]


class _Told(msgspec.Struct):
    """The fields that every recorded line has, and the code of an error."""

    id: str
    status: int
    code: str = ""
    model: str | UnsetType = UNSET


class LabelledAnswer(NamedTuple):
    """A recorded answer, and the label of its item as the file of labels has it."""

    answer: RecordedAnswer
    label: Any


class RecordedAnswers(NamedTuple):
    """The recorded answers whose items have labels, and the numbers of other lines."""

    labelled: list[LabelledAnswer]  # In the order of the files; at least one
    answers: int  # Number of answers with and without a label
    errors: dict[str, int]  # Number of recorded errors, by code
    unreadable: int  # Number of lines that are no answer and no error
    unmatched: int  # Number of labels without a recorded answer

    def remarks(self) -> list[str]:
        """Return remarks on lines and labels that are left out."""
        remarks = []
        if without := self.answers - len(self.labelled):
            remarks.append(f"recorded answers without a label, left out: {without:,}")
        if self.unmatched:
            remarks.append(f"labels without a recorded answer: {self.unmatched:,}")
        if self.errors:
            each = ", ".join(f"{code} {count:,}" for code, count in self.errors.items())
            remarks.append(f"recorded errors, left out: {each}")
        if self.unreadable:
            remarks.append(
                f"lines that are not whole or no answers, left out: {self.unreadable:,}"
            )
        return remarks


def read_labels(
    path: Path,
    id: str = "id",
    label: str = "label",
    separator: str | None = None,
    encoding: str | None = None,
) -> dict[str, Any]:
    """Read labels by the id of the request, from a table with these two columns.

    Rows without an id or a label are left out. Raises BadInput if a column is missing,
    if an id has two labels, or if there is no label at all.
    """
    if not path.is_file():
        raise BadInput(f"--labels {path}: a .csv, .tsv, .jsonl or .parquet is needed")
    table = open_table(path, separator, encoding, (id, label))
    for name in (id, label):
        require(table.names, name)
    read = table.read([id, label]).columns
    labels: dict[str, Any] = {}
    pairs = zip(read[id].to_pylist(), read[label].to_pylist(), strict=True)
    for own, given in pairs:
        if own in (None, "") or given in (None, ""):
            continue
        # Parquet files may have ids as bytes
        name = own.decode(errors="replace") if type(own) is bytes else class_name(own)
        if labels.setdefault(name, given) != given:
            raise BadInput(f"{path}: the id {name[:80]!r} has two different labels")
    if not labels:
        raise BadInput(f"{path}: none of its rows has an id and a label")
    return labels


def read_recorded(
    folder: Path, labels: Mapping[str, Any], model: str | None = None
) -> RecordedAnswers:
    """Read the recorded answers of a model, and keep those with a label.

    If `model` is None, the labelled answers must be of one model. Lines that were cut
    off, because the server was killed, are counted. Of several answers with one id, the
    last counts. Raises BadInput if no answer has a label.
    """
    kept: dict[str, RecordedAnswer] = {}
    errors: Counter[str] = Counter()
    answers = unreadable = 0
    other = ""
    for line in _lines(folder):
        try:
            told = _decode_told(line)
            if model is not None and told.model != model:
                continue
            if told.status != 200:
                errors[told.code] += 1
                continue
            answer = _decode_answer(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            unreadable += 1
            continue
        answers += 1
        if answer.id not in labels:
            other = answer.id
        elif answer.id not in kept or answer.time >= kept[answer.id].time:
            kept[answer.id] = answer
    if not answers:
        named = "" if model is None else f" of model {model!r}"
        raise BadInput(f"{folder}: no answer{named} is recorded there")
    if not kept:
        ids = listed([*labels][:SHOWN])
        raise BadInput(
            f"none of the {len(labels):,} ids with a label is recorded in {folder}; "
            f"ids of labels are such as {ids}, recorded ones such as {other!r}"
        )
    models = sorted({answer.model or "" for answer in kept.values()})
    if len(models) > 1:
        raise BadInput(
            f"{folder} has answers of the models {listed(models)}: choose one with "
            "--model"
        )
    labelled = [LabelledAnswer(one, labels[id]) for id, one in kept.items()]
    unmatched = len(labels) - len(labelled)
    return RecordedAnswers(labelled, answers, dict(errors), unreadable, unmatched)


def label_recorded(
    folder: Path,
    found: RecordedAnswers,
    index: Index,
    package: Package,
    limit: int | None = None,
    seed: int = 0,
) -> LabelledItems:
    """Return the items that were recorded in a folder, to answer them again.

    At most `limit` are drawn, as `read_labelled` does. Raises BadInput if no item can
    be used.
    """
    rows = []
    for answer, label in drawn(found.labelled, limit, seed):
        item: Any = answer.item(package.kind)
        if item is None:
            item = BadItem(f"it has no {package.kind}")
        rows.append(Row(answer.id, item, label, item))
    return usable(folder, rows, index, package)


def _lines(folder: Path) -> Iterator[bytes]:
    """Yield the lines of all files of a folder, the oldest file of a worker first."""
    if not folder.is_dir():
        raise BadInput(f"--record {folder}: a folder is needed that a server wrote")
    paths = sorted(files_in(folder))
    if not paths:
        raise BadInput(f"--record {folder}: a server has recorded nothing there")
    for path in paths:
        try:
            with _open(path) as file:
                yield from (line for line in file if not line.isspace())
        except FileNotFoundError:  # the server has deleted it since
            continue
        except (OSError, EOFError, zlib.error) as error:
            raise BadInput(f"{path}: {error}") from error


def _open(path: Path) -> BinaryIO | gzip.GzipFile:
    """Open a file, or its compressed copy if a server has put that in its place."""
    if path.suffix != ".gz":
        with contextlib.suppress(FileNotFoundError):
            return path.open("rb")
        path = path.with_name(f"{path.name}.gz")
    return gzip.open(path, "rb")


_decode_told = msgspec.json.Decoder(_Told).decode
_decode_answer = msgspec.json.Decoder(RecordedAnswer).decode
