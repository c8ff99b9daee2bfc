"""Items that stay in their files and are read when they are accessed.

A stored item is a file, a line of a JSON Lines file, or a byte range of a file that the
build wrote. Memory holds only a table of where items are stored, with less than 100
bytes for each item. Other processes receive the path of this table.
"""

import hashlib
import os
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, Self, overload

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.features.items import Item, Kind
from polydom.features.readers.encodings import decode_text
from polydom.features.readers.folders import readable

from ...index.file.safe_write import replace_when_done
from ..cache import Cache, digest

Array = NDArray[Any]
Rows = NDArray[np.int64]
Form = Literal["file", "line", "piece"]

DIGEST = 16  # bytes of a digest
ENCODING_OPTION = '; [data] encoding says what it is, such as "latin-1"'
BLOCK = 1024  # items looked up in the table at a time


class Place(msgspec.Struct, frozen=True):
    """A folder or file that contains items, and the format of its items."""

    # Form of an item: a file, a line with a JSON object, or a piece of msgpack
    form: Form
    # Folder of the files, or file of the items, as bytes, since names need not be UTF-8
    path: bytes
    # Beginning of an item's name, before its number; None if paths name the items
    shown: str | None = None
    # Encoding of text files, empty to detect it; or key of the text in a line
    text: str | None = None


class Reference(NamedTuple):
    """Where one item is stored: its `Place`, and its position or file name there."""

    place: Place  # Folder or file of the item
    number: int = 0  # Number of the line or piece, for the item's name
    offset: int = 0  # Position of the first byte
    length: int = 0  # Number of bytes
    own_name: str = ""  # Name of the item if its place has no names

    @property
    def name(self) -> str:
        """Name of the item for messages."""
        shown = self.place.shown
        return readable(self.own_name) if shown is None else f"{shown}{self.number}"


class Row(NamedTuple):
    """An item as its source yields it, with its label, group, time and weight."""

    reference: Reference
    content: Any
    label: Any
    group: Any = None
    time: Any = None
    weight: Any = None

    @property
    def name(self) -> str:
        """Name of the item for messages."""
        return self.reference.name


class Source(NamedTuple):
    """The labelled items of a file or folder; yielding a row reads its item."""

    rows: Iterable[Row]  # Rows, read one after the other
    most: int | None = None  # Upper bound on the number of rows; None if unknown
    # Examples of files that are no items, with reasons
    left_out: Sequence[tuple[str, str]] = ()


class StoredItems(Sequence[Item]):
    """A sequence of items of one kind that are read from files when they are accessed.

    Accessing an item raises BadProject if it has changed since the items were stored.
    Pickling writes only where the items are stored, or the items themselves if other
    processes cannot read the files.

    `table` has arrays about all N items of a data set: `places` (N,), the number of
    each item's `Place`; `numbers`, `offsets` and `lengths` (N,), as in `Reference`;
    `sizes` (N,) or (N, 2); and `digests` (N, 16). It also has the items' file names, as
    bytes `names` with their `name_starts`, and `facts`, the kind and all places as
    msgpack. `order["rows"]` has positions among the N items; those from `start` to
    `stop` are the n items of this sequence. If fetches brought vectors, `fetches` has
    the fetches' names as msgpack, and `vectors_0`, `vectors_1` and so on (N, width) the
    vectors of each; NaN stands for a vector that did not come.
    """

    def __init__(
        self,
        table: Mapping[str, Array],
        order: Mapping[str, Array],
        start: int = 0,
        stop: int | None = None,
    ) -> None:
        self.table, self._order = table, order
        self._start = start
        self._stop = len(order["rows"]) if stop is None else stop

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the items are stored, or the items if they are not shared."""
        if not self.is_shared:
            return tuple, ([*self],)
        return StoredItems, (self.table, self._order, self._start, self._stop)

    @property
    def is_shared(self) -> bool:
        """True if other processes can read the items from their files."""
        return not any(type(own) is dict for own in (self.table, self._order))

    @property
    def rows(self) -> Rows:
        """Positions (n,) of these items among all N items of the table."""
        rows: Rows = self._order["rows"][self._start : self._stop]
        return rows

    @cached_property
    def _facts(self) -> tuple[Kind, list[Place]]:
        facts = self.table["facts"].tobytes()
        return msgspec.msgpack.decode(facts, type=tuple[Kind, list[Place]])

    @property
    def kind(self) -> Kind:
        """Kind of the items."""
        return self._facts[0]

    @property
    def are_files(self) -> bool:
        """True if each item is a file of its own."""
        return all(place.form == "file" for place in self._facts[1])

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Sizes of the items: shape (n,), or (n, 2) if a size has two numbers."""
        sizes: NDArray[np.float64] = self.table["sizes"][self.rows]
        return sizes

    @property
    def digests(self) -> NDArray[np.uint8]:
        """Hashes of the items' contents, shape (n, 16); see `digest_of`."""
        digests: NDArray[np.uint8] = self.table["digests"][self.rows]
        return digests

    @property
    def names(self) -> "StoredNames":
        """Names of the items for messages; each name is made when it is accessed."""
        return StoredNames(self)

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> "StoredItems": ...
    def __getitem__(self, place: int | slice) -> "Item | StoredItems":
        """Read and return an item; for a slice, return stored items without reading."""
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            if step != 1:
                return self.take(np.arange(start, stop, step))
            start += self._start
            stop = max(self._start + stop, start)
            return StoredItems(self.table, self._order, start, stop)
        within = range(self._start, self._stop)[place]
        (item,) = StoredItems(self.table, self._order, within, within + 1)
        return item

    def __iter__(self) -> Iterator[Item]:
        for path, rows in groupby(self._in_order(), self._path):
            try:
                with open(path, "rb") as file:
                    for row in rows:
                        yield self._item(row, file)
            except OSError as error:
                why = f"{error.strerror}; it was there when the data was read"
                raise BadProject(f"{readable(path)}: {why}") from error

    def _in_order(self) -> Iterator[int]:
        for at in range(self._start, self._stop, BLOCK):
            rows = self._order["rows"][at : min(at + BLOCK, self._stop)]
            yield from rows.tolist()

    def take(self, places: Rows) -> "StoredItems":
        """Return the stored items at `places`, in that order."""
        return StoredItems(self.table, {"rows": self.rows[places]})

    def shared(self, cache: Cache) -> "StoredItems":
        """Return these items in a form that other processes can read.

        The table is written to the cache. If other processes cannot see the cache, the
        items are returned unchanged.
        """
        if not cache.seen:
            return self
        table, rows = self.table, self.rows
        if type(table) is dict:
            vectors = {name: own.tobytes() for name, own in self._vectors.items()}
            facts = table["facts"].tobytes(), table["digests"].tobytes()
            name = digest(*facts, vectors) if vectors else digest(*facts)
            table = cache.share(f"items/{name}", table)
        name = digest(self.digests.tobytes(), rows.tobytes())
        return StoredItems(table, cache.share(f"items/{name}", {"rows": rows}))

    def with_vectors(self, vectors: Mapping[str, NDArray[np.float32]]) -> "StoredItems":
        """Return these n items with vectors (n, width), by the names of fetches."""
        if not vectors:
            return self
        names = msgspec.msgpack.encode([*vectors])
        table = {**self.table, "fetches": np.frombuffer(names, np.uint8)}
        for k, own in enumerate(vectors.values()):
            every = np.full((len(table["numbers"]), own.shape[1]), np.nan, np.float32)
            every[self.rows] = own
            table[f"vectors_{k}"] = every
        return StoredItems(table, {"rows": self.rows})

    def vectors(self) -> dict[str, NDArray[np.float32]]:
        """Return the items' vectors (n, width), by the names of fetches."""
        return {name: own[self.rows] for name, own in self._vectors.items()}

    @cached_property
    def _vectors(self) -> dict[str, Array]:
        if "fetches" not in self.table:
            return {}
        names = msgspec.msgpack.decode(self.table["fetches"].tobytes(), type=list[str])
        return {name: self.table[f"vectors_{k}"] for k, name in enumerate(names)}

    def name(self, row: int) -> str:
        """Return the name of the item at position `row` among all N items."""
        number, shown = int(self.table["numbers"][row]), self._place(row).shown
        if shown is not None:
            return f"{shown}{number}"
        return readable(self._own_name(number))

    def _own_name(self, number: int) -> bytes:
        start, stop = self.table["name_starts"][number : number + 2].tolist()
        return self.table["names"][start:stop].tobytes()

    def _place(self, row: int) -> Place:
        _, places = self._facts
        return places[int(self.table["places"][row])]

    def _path(self, row: int) -> bytes:
        place = self._place(row)
        if place.form == "file":
            number = int(self.table["numbers"][row])
            return os.path.join(place.path, self._own_name(number))
        return place.path

    def _brought(self, row: int) -> dict[str, NDArray[np.float32]] | None:
        """Return the vectors of the item at position `row` of all N items."""
        if not self._vectors:
            return None
        own = {name: vectors[row] for name, vectors in self._vectors.items()}
        return {name: one for name, one in own.items() if not np.isnan(one[0])}

    def _item(self, row: int, file: IO[bytes]) -> Item:
        """Read the item at position `row` of all N items; `file` is its open file."""
        table = self.table
        file.seek(int(table["offsets"][row]))
        data = file.read(int(table["lengths"][row]))
        with suppress(ValueError, LookupError, TypeError, msgspec.MsgspecError):
            payload = _decode(self._place(row), data)
            if digest_of(payload) == table["digests"][row].tobytes():
                size = table["sizes"][row].tolist()
                own = tuple(size) if isinstance(size, list) else size
                return Item(self.kind, payload, own, brought=self._brought(row))
        raise BadProject(
            f"{self.name(row)} was changed since the data was read; run the same again"
        )


class StoredNames(Sequence[str]):
    """Names of stored items for messages: `mails.jsonl, line 7`, or `spam/3.txt`."""

    def __init__(self, items: StoredItems) -> None:
        self._items = items

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the stored items, or the names themselves if items are not shared."""
        if not self._items.is_shared:
            return tuple, ([*self],)
        return StoredNames, (self._items,)

    def __len__(self) -> int:
        return len(self._items)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> "StoredNames": ...
    def __getitem__(self, place: int | slice) -> "str | StoredNames":
        """Make an item's name; for a slice, return names that are made on access."""
        if isinstance(place, slice):
            return StoredNames(self._items[place])
        return self._items.name(int(self._items.rows[place]))

    def take(self, places: Rows) -> "StoredNames":
        """Return the names at `places`, in that order."""
        return StoredNames(self._items.take(places))


class StoredItemsWriter:
    """Makes `StoredItems` of items that are added one by one.

    Items that are not in a file yet are written to new files. These appear only if the
    `with` block ends without an error.
    """

    def __init__(self) -> None:
        self.kinds: set[Kind] = set()
        self._places: dict[Place, int] = {}
        self._places_of = bytearray()
        self._numbers, self._offsets, self._lengths = (array("q") for _ in range(3))
        self._sizes, self._pair = array("d"), False
        self._digests, self._names = bytearray(), bytearray()
        self._name_starts = array("q", [0])
        self._pieces: dict[Path, IO[bytes]] = {}
        self._opened = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opened.__exit__(*error)

    def __len__(self) -> int:
        return len(self._places_of)

    def add(self, item: Item, reference: Reference) -> None:
        """Add an item; write its content to a file if it is not in one yet."""
        place, number, offset, length, own_name = reference
        if place.form == "piece":
            offset, length = self._write(item, Path(os.fsdecode(place.path)))
        if place.shown is None:
            number = len(self._name_starts) - 1
            self._names += os.fsencode(own_name)
            self._name_starts.append(len(self._names))
        self.kinds.add(item.kind)
        self._places_of.append(self._places.setdefault(place, len(self._places)))
        self._numbers.append(number)
        self._offsets.append(offset)
        self._lengths.append(length)
        self._pair = isinstance(item.size, tuple)
        self._sizes.extend(item.size if isinstance(item.size, tuple) else (item.size,))
        self._digests += digest_of(item.payload)

    def _write(self, item: Item, path: Path) -> tuple[int, int]:
        if path not in self._pieces:
            path.parent.mkdir(parents=True, exist_ok=True)
            opened = replace_when_done(path)
            self._pieces[path] = self._opened.enter_context(opened)
        offset = self._pieces[path].tell()
        return offset, self._pieces[path].write(msgspec.msgpack.encode(item.payload))

    def items(self) -> StoredItems:
        """Return all added items: at least one, and all of the same kind."""
        (kind,) = self.kinds
        digests = np.frombuffer(self._digests, np.uint8).reshape(-1, DIGEST)
        sizes = np.array(self._sizes)
        table = {
            "places": np.frombuffer(self._places_of, np.uint8),
            "numbers": np.array(self._numbers),
            "offsets": np.array(self._offsets),
            "lengths": np.array(self._lengths),
            "sizes": sizes.reshape(-1, 2) if self._pair else sizes,
            "digests": digests,
            "names": np.frombuffer(self._names, np.uint8),
            "name_starts": np.array(self._name_starts),
            "facts": np.frombuffer(
                msgspec.msgpack.encode((kind, [*self._places])), np.uint8
            ),
        }
        return StoredItems(table, {"rows": np.arange(len(self))})


def store_items(items: Sequence[Item], names: Sequence[str], path: Path) -> StoredItems:
    """Write items and their names to the file `path`; return them as stored items."""
    place = Place("piece", os.fsencode(path.absolute()))
    with StoredItemsWriter() as writer:
        for item, name in zip(items, names, strict=True):
            writer.add(item, Reference(place, own_name=name))
        stored = writer.items()
    return stored.with_vectors(stacked_vectors(items))


def stacked_vectors(items: Sequence[Item]) -> dict[str, NDArray[np.float32]]:
    """Return the vectors (N, width) of N items; NaN where an item has none."""
    brought = [item.brought or {} for item in items]
    widths = {name: len(vector) for one in brought for name, vector in one.items()}
    return {
        name: np.stack(
            [one.get(name, np.full(width, np.nan, np.float32)) for one in brought]
        )
        for name, width in widths.items()
    }


def digest_of(payload: Any) -> bytes:
    """Return a 16-byte hash of an item's content."""
    content = msgspec.msgpack.encode(payload)
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


def _decode(place: Place, data: bytes) -> Any:
    if place.form == "piece":
        return msgspec.msgpack.decode(data)
    if place.form == "line":
        assert place.text is not None
        return msgspec.json.decode(data, type=dict[str, Any])[place.text]
    return data if place.text is None else decode_text(data, place.text)
