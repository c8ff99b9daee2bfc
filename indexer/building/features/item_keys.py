"""Hashes of what each feature reads of each item; they name the values that are kept.

A value depends on the feature's code and on what the feature reads of the item. So it
is used again in whatever data set, and at whatever position, the item occurs.
"""

import hashlib
from collections.abc import Container, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from polydom.features.fingerprint import fingerprint
from polydom.features.tables.records import Column, Records, trim
from polydom.features.tables.text_columns import alone

from ...index.stored_features import StoredFeature, StoredText
from ..cache import digest
from ..cache_keys import feature_keys
from ..data.dataset import Dataset
from ..data.stored_items import DIGEST, StoredItems, digest_of
from .choose_features import ProjectFeatures

Bytes = NDArray[np.uint8]
Rows = NDArray[np.int64]

BLOCK = 2**14  # items whose bytes are joined at a time


class ItemKeys(NamedTuple):
    """Names of one feature's values, for N items."""

    group: str  # Folder in the cache; another feature or library has another
    items: "Distinct"  # Hashes of what the feature reads of the items


class Distinct:
    """Hashes of N items, and which of the items have equal hashes.

    `hashes` (U,) has the different hashes, ascending; `first` (U,) the position of the
    first item with each of them, and `own` (N,) the position in `hashes` of each item.
    """

    def __init__(self, digests: Bytes) -> None:
        self.hashes, self.first, self.own = np.unique(
            as_texts(digests), return_index=True, return_inverse=True
        )

    def find(self, digests: Bytes) -> tuple[NDArray[np.bool_], Rows]:
        """Return which of n hashes (n, 16) are among these, and where each first is.

        The positions (n,) of hashes that are not there mean nothing.
        """
        wanted = as_texts(digests)
        places = np.searchsorted(self.hashes, wanted)
        places[places == len(self.hashes)] = 0
        return self.hashes[places] == wanted, self.first[places]


def as_texts(digests: Bytes) -> NDArray[np.bytes_]:
    """View hashes (N, 16) as an array (N,) that NumPy sorts and compares by bytes."""
    return np.ascontiguousarray(digests).view(f"S{DIGEST}").ravel()


def item_keys(
    dataset: Dataset, features: ProjectFeatures, at_once: Container[int]
) -> list[ItemKeys | None]:
    """Return, for each feature, the names of its values for all items of a data set.

    They are None for a feature at a position in `at_once`, which is read from a table.
    """
    stored = [
        _without_length(one, features, place)
        for place, one in enumerate(features.stored)
    ]
    keys = feature_keys(stored, features.files)
    known: dict[bytes, Distinct] = {}
    found: list[ItemKeys | None] = []
    for place, (one, key) in enumerate(zip(stored, keys, strict=True)):
        if place in at_once:
            found.append(None)
            continue
        reads = msgspec.msgpack.encode([_reads(one, dataset), one.text or None])
        if reads not in known:
            known[reads] = Distinct(_digests(dataset, one))
        group = f"values/{digest('by item', one.name, key)}"
        found.append(ItemKeys(group, known[reads]))
    return found


def _without_length(
    one: StoredFeature, features: ProjectFeatures, place: int
) -> StoredFeature:
    """Return a feature of a column's text with the fingerprint of it on texts alone.

    Else one longer text among new items would change the values' names of all items.
    """
    if one.text is UNSET:
        return one
    made_of = fingerprint(alone(features.extractor.features[place]))
    return msgspec.structs.replace(one, fingerprint=made_of)


def _reads(one: StoredFeature, dataset: Dataset) -> list[str] | None:
    """Return the columns or the fetches that a feature reads; None for a whole record.

    Of texts and images, every feature reads the item itself, too.
    """
    if dataset.kind == "record":
        return one.reads if isinstance(dataset.items, Records) else None
    return [] if one.fetched is UNSET else one.fetched


def _digests(dataset: Dataset, one: StoredFeature) -> Bytes:
    """Return hashes (N, 16) of what a feature reads of the N items."""
    items, reads = dataset.items, _reads(one, dataset)
    if isinstance(items, Records):
        if one.text is not UNSET and items.columns[one.text.column].kind == "text":
            return _of_texts(items, one.text)
        return _of_rows(items, [*items.columns] if reads is None else reads)
    if dataset.kind == "record" and one.text is not UNSET:
        text = one.text
        cells = [_cell(item.payload, text) for item in items]
        return np.frombuffer(b"".join(cells), np.uint8).reshape(-1, DIGEST)
    if isinstance(items, StoredItems):
        own: Bytes = items.digests
    else:
        joined = b"".join(digest_of(item.payload) for item in items)
        own = np.frombuffer(joined, np.uint8).reshape(-1, DIGEST)
    vectors = [v for name, v in dataset.vectors.items() if name in (reads or ())]
    if not vectors:
        return own
    parts = [own, *(np.ascontiguousarray(v).view(np.uint8) for v in vectors)]
    return _hashed(b"", _blocks(parts))


def _blocks(parts: Sequence[Bytes]) -> Iterator[Bytes]:
    for start in range(0, len(parts[0]), BLOCK):
        block = [part[start : start + BLOCK] for part in parts]
        yield np.concatenate(block, axis=1)


def _hashed(form: bytes, blocks: Iterator[Bytes]) -> Bytes:
    """Return a hash (16 bytes) of each row of blocks (n, W), and of `form`."""
    begun, found = hashlib.blake2b(form, digest_size=DIGEST), bytearray()
    for block in blocks:
        data, width = block.tobytes(), block.shape[1]
        for at in range(0, len(data), width):
            own = begun.copy()
            own.update(data[at : at + width])
            found += own.digest()
    return np.frombuffer(found, np.uint8).reshape(-1, DIGEST)


def _of_rows(records: Records, names: Sequence[str]) -> Bytes:
    """Return hashes (N, 16) of the cells of N rows in some columns.

    Columns of numbers differ if one has whole numbers and the other has not, since a
    function may tell 3 from 3.0.
    """
    known = {name: records.columns[name] for name in names if name in records.columns}
    if not known:
        return np.zeros((len(records), DIGEST), np.uint8)
    cells = [_CellBytes(column) for column in known.values()]
    form = [
        (name, column.kind, cell.form)
        for (name, column), cell in zip(known.items(), cells, strict=True)
    ]

    def blocks() -> Iterator[Bytes]:
        for start in range(0, len(records), BLOCK):
            rows = records.rows[start : start + BLOCK]
            yield np.concatenate([cell.of(rows) for cell in cells], axis=1)

    return _hashed(msgspec.msgpack.encode(form), blocks())


class _CellBytes:
    """The cells of a column as bytes of one width; equal cells have equal bytes."""

    def __init__(self, column: Column) -> None:
        self.form: str
        self._codes: Rows | None = None
        if column.kind == "number":
            numbers = column.numbers()
            self.form = numbers.dtype.kind
            if self.form in "iub":
                self._cells = numbers
                return
            numbers = numbers.astype(np.float64)
            self._cells = np.where(numbers != numbers, np.nan, numbers)
        elif column.kind == "date":
            self.form = "days" if column.whole_days else "times"
            self._cells = column.micros()
        else:
            self.form = "words"
            self._codes, words = column.words()
            # the last one is for a code of -1, an empty cell
            hashes = [*map(_word, words), _word(None)]
            joined = np.frombuffer(b"".join(hashes), np.uint8)
            self._cells = joined.reshape(-1, DIGEST)

    def of(self, rows: Rows) -> Bytes:
        """Return the bytes (n, W) of the cells in n rows."""
        if self._codes is not None:
            found: Bytes = self._cells[self._codes[rows]]
            return found
        own = self._cells[rows]
        wide = own.astype(f"{self.form}8") if self.form in "iu" else own
        return np.ascontiguousarray(wide).reshape(-1, 1).view(np.uint8)


def _of_texts(records: Records, text: StoredText) -> Bytes:
    """Return hashes (N, 16) of what features read of a column's texts."""
    codes, texts = records.columns[text.column].words()
    read = text.begin
    hashes = [*(_word(trim(one)[: read.most]) for one in texts), _word("")]
    table = np.frombuffer(b"".join(hashes), np.uint8).reshape(-1, DIGEST)
    return table[codes[records.rows]]


def _cell(record: Any, text: StoredText) -> bytes:
    value = record.get(text.column)
    if value is None or isinstance(value, str):
        return _word(trim(value or "")[: text.most])
    return digest_of([value])  # no text: the feature refuses it


def _word(word: str | None) -> bytes:
    content = b"" if word is None else b"=" + word.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(content, digest_size=DIGEST).digest()
