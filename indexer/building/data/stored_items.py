"""Items where they lie: read when they are asked for, and known by where that is.

An item of a data set is a file, a line of a file of JSON objects, or, where it came
from neither, a piece of a file that the build wrote it to. What is in memory is under
100 bytes an item, however large items are; and what another process is told of them is
where the table of these bytes lies.
"""

import hashlib
import os
from array import array
from collections.abc import Iterator, Mapping, Sequence
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

from ...index.safe_write import replace_when_done
from ..cache import Cache, digest

Array = NDArray[Any]
Rows = NDArray[np.int64]
Form = Literal["file", "line", "piece"]

DIGEST = 16  # bytes
BLOCK = 1024  # items whose places are looked up at a time


class Place(msgspec.Struct, frozen=True):
    """Where the items of one source lie, and how they are read there.

    Attributes
    ----------
    form
        Each a file, a line that is a JSON object, or a piece of msgpack.
    path
        The folder of the files, or the file that holds them all; bytes, as names may
        be no UTF-8.
    shown
        What an item's name begins with, before its number; None where each has a name
        of its own, as files have, which is their path within the folder.
    text
        The encoding of files that are texts, empty where they tell it themselves; or
        the text's key in a line.
    """

    form: Form
    path: bytes
    shown: str | None = None
    text: str | None = None


class Reference(NamedTuple):
    """Where an item lies; of one that is to be a piece, what it is called.

    Attributes
    ----------
    number
        Of the line or piece, in its name.
    offset, length
        Bytes before it, and of it.
    own_name
        Where its place shows none.
    """

    place: Place
    number: int = 0
    offset: int = 0
    length: int = 0
    own_name: str = ""

    @property
    def name(self) -> str:
        """What the item is called in messages."""
        shown = self.place.shown
        return readable(self.own_name) if shown is None else f"{shown}{self.number}"


class StoredItems(Sequence[Item]):
    """Items of one kind that are read when they are asked for.

    One that is no more what it was when its digest was taken is refused with
    `BadProject`. Sent to another process these are small if they are `shared`; else
    they are read, and go along.

    Parameters
    ----------
    table
        Of all N items of a data set: `places` (N,) numbers of places, `numbers`,
        `offsets` and `lengths` (N,), `sizes` (N,) or (N, 2), `digests` (N, 16);
        names that are items' own, `names` from `name_starts` on; and `facts`, the kind
        and the places.
    order
        `rows` (n,), which of them these are.
    start, stop
        From where to where in that.
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
        """Pass on where the items lie, or where no other process sees that, them."""
        if not self.is_shared:
            return tuple, ([*self],)
        return StoredItems, (self.table, self._order, self._start, self._stop)

    @property
    def is_shared(self) -> bool:
        """Whether other processes see where they lie."""
        return not any(type(own) is dict for own in (self.table, self._order))

    @property
    def rows(self) -> Rows:
        """Which of all items these are."""
        rows: Rows = self._order["rows"][self._start : self._stop]
        return rows

    @cached_property
    def _facts(self) -> tuple[Kind, list[Place]]:
        facts = self.table["facts"].tobytes()
        return msgspec.msgpack.decode(facts, type=tuple[Kind, list[Place]])

    @property
    def kind(self) -> Kind:
        """What all of them are."""
        return self._facts[0]

    @property
    def are_files(self) -> bool:
        """Whether each is a file of its own."""
        return all(place.form == "file" for place in self._facts[1])

    @property
    def sizes(self) -> NDArray[np.float64]:
        """(n,) or (n, 2)."""
        sizes: NDArray[np.float64] = self.table["sizes"][self.rows]
        return sizes

    @property
    def digests(self) -> NDArray[np.uint8]:
        """(n, 16), each by `digest_of` the item's payload."""
        digests: NDArray[np.uint8] = self.table["digests"][self.rows]
        return digests

    @property
    def names(self) -> "StoredNames":
        """Names for messages, made when they are asked for."""
        return StoredNames(self)

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> "StoredItems": ...
    def __getitem__(self, place: int | slice) -> "Item | StoredItems":
        """Read an item; of a slice, give items that are not read yet."""
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
        """Keep these, in this order."""
        return StoredItems(self.table, {"rows": self.rows[places]})

    def shared(self, cache: Cache) -> "StoredItems":
        """Put what tells where they lie where other processes read it, if they can."""
        if not cache.seen:
            return self
        table, rows = self.table, self.rows
        if type(table) is dict:
            name = digest(table["facts"].tobytes(), table["digests"].tobytes())
            table = cache.share(f"items/{name}", table)
        name = digest(self.digests.tobytes(), rows.tobytes())
        return StoredItems(table, cache.share(f"items/{name}", {"rows": rows}))

    def name(self, row: int) -> str:
        """Name one of all items, for messages."""
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

    def _item(self, row: int, file: IO[bytes]) -> Item:
        """Read one of all items in its file."""
        table = self.table
        file.seek(int(table["offsets"][row]))
        data = file.read(int(table["lengths"][row]))
        with suppress(ValueError, LookupError, TypeError, msgspec.MsgspecError):
            payload = _decode(self._place(row), data)
            if digest_of(payload) == table["digests"][row].tobytes():
                size = table["sizes"][row].tolist()
                own = tuple(size) if isinstance(size, list) else size
                return Item(self.kind, payload, own)
        raise BadProject(
            f"{self.name(row)} was changed since the data was read; run the same again"
        )


class StoredNames(Sequence[str]):
    """Names of stored items: `mails.jsonl, line 7`, or `spam/3.txt`."""

    def __init__(self, items: StoredItems) -> None:
        self._items = items

    def __reduce__(self) -> tuple[Any, ...]:
        """Pass on what the items do: where they lie, or these names."""
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
        """Name an item, or some of them when they are asked for."""
        if isinstance(place, slice):
            return StoredNames(self._items[place])
        return self._items.name(int(self._items.rows[place]))

    def take(self, places: Rows) -> "StoredNames":
        """Keep these, in this order."""
        return StoredNames(self._items.take(places))


class StoredItemsWriter:
    """Notes where items lie, one after the other, and writes those that lie nowhere.

    What it writes is there when its block has ended without an error.
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
        """Note an item; one that is to be a piece is written."""
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
        """Write an item that lies nowhere; its offset and length."""
        if path not in self._pieces:
            path.parent.mkdir(parents=True, exist_ok=True)
            opened = replace_when_done(path)
            self._pieces[path] = self._opened.enter_context(opened)
        offset = self._pieces[path].tell()
        return offset, self._pieces[path].write(msgspec.msgpack.encode(item.payload))

    def items(self) -> StoredItems:
        """Give all of them, of which there must be one, and all of one kind."""
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
    """Write items that are in memory into a file; their names stay as they are."""
    place = Place("piece", os.fsencode(path.absolute()))
    with StoredItemsWriter() as writer:
        for item, name in zip(items, names, strict=True):
            writer.add(item, Reference(place, own_name=name))
        return writer.items()


def digest_of(payload: Any) -> bytes:
    """Identify what an item holds: 16 bytes."""
    content = msgspec.msgpack.encode(payload)
    return hashlib.blake2b(content, digest_size=DIGEST).digest()


def _decode(place: Place, data: bytes) -> Any:
    """Give the payload that bytes hold."""
    if place.form == "piece":
        return msgspec.msgpack.decode(data)
    if place.form == "line":
        assert place.text is not None
        return msgspec.json.decode(data, type=dict[str, Any])[place.text]
    return data if place.text is None else decode_text(data, place.text)
