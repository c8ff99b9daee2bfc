"""Items: the things to classify, and the sizes on which their costs depend.

The size of an item is known before any feature is computed: the pixels of an image,
read from its header; the characters of a text; 1 for a record. On request the size is
two numbers: width and height of an image, words and sentences of a text.
"""

import io
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from .errors import BadItem
from .sizes import Size

Kind = Literal["image", "text", "record"]
Value = float | int | str | None

MAX_PIXELS = 50_000_000
# Bytes of a decoded pixel in red, green and blue, and of the largest decoded image.
USUAL_BYTES = 3
MAX_DECODED = USUAL_BYTES * MAX_PIXELS
NAME_TYPES = frozenset({str})
# Names of the numbers in a size, for sizes of one number and for sizes of two.
SIZE_NAMES: Mapping[Kind, tuple[tuple[str, ...], ...]] = {
    "image": (("pixels",), ("width", "height")),
    "text": (("characters",), ("words", "sentences")),
    "record": (("records",),),
}
WORD_ENDS = (" ", "\n", "\t")
SENTENCE_ENDS = (".", "!", "?")
# dictionaries first, as to recognise another mapping takes longer
MAPPINGS = (dict, Mapping)
VALUE_TYPES = frozenset({float, int, bool, str, type(None)})
# A made-up text, for running features when no real item is at hand.
SAMPLE_TEXT = (
    "It was the best of times, it was the worst of times. WOW! Call 0800 123456 now, "
    "pay \N{POUND SIGN}5, or see https://example.org; 20% off.\n"
)
NEEDED = "a number, a string, a boolean or nothing is needed"


class ReadRecord(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A record that an extractor has read: `row` (width,) has all its columns."""

    row: NDArray[np.float32]


class Gaps(msgspec.Struct, frozen=True):
    """An item's columns that lack a usable value, and the features that need them.

    The columns of an image or a text are the fetches that bring vectors for it.
    """

    # Names of the columns with a value that no training item had
    unknown: tuple[str, ...] = ()
    # Bit mask of the columns without a value, in the order of `KnownColumns.bits`.
    empty: int = 0
    # Bit mask of the features that cannot be computed, as in masks of feature sets
    withheld: int = 0
    # Bit mask of the columns that the record does not name and that fetches bring
    unfetched: int = 0
    # The record as it came, if `unfetched` is not 0; else None
    record: Mapping[str, Value] | None = None


class Item(msgspec.Struct, frozen=True):
    """One thing to classify. `make_item` checks its content and makes it."""

    kind: Kind
    # Encoded image, text or record: the argument of features without needs
    payload: bytes | str | Mapping[str, Value] | ReadRecord
    # Pixels, characters or 1, above 0; the empty text has size 1. A pair of numbers on
    # request.
    size: Size
    gaps: Gaps | None = None  # Gaps of an item that an index read; None without gaps
    # What fetches have brought for an image or a text, by the fetches' names: vectors
    brought: Mapping[str, NDArray[np.float32]] | None = None

    @property
    def pair(self) -> bool:
        """Return True if the size is two numbers."""
        return isinstance(self.size, tuple)

    @property
    def withheld(self) -> int:
        """Bit mask of the features that cannot be computed for the item."""
        return 0 if self.gaps is None else self.gaps.withheld


def make_item(
    content: Any,
    kind: Kind | None = None,
    *,
    pair: bool = False,
    max_decoded: int = MAX_DECODED,
) -> Item:
    """Make an item of bytes (an image), a string (a text) or a mapping (a record).

    `content` may also be an item. If `pair` is True, the size of an image or a text is
    two numbers, and otherwise one. Raises BadItem if the item is not of the given
    `kind`, or if the decoded image takes more than `max_decoded` bytes.
    """
    if isinstance(content, bytes) and kind in ("image", None):
        return image_item(content, max_decoded=max_decoded, pair=pair)
    if isinstance(content, str) and kind in ("text", None):
        return text_item(content, pair=pair)
    if isinstance(content, MAPPINGS) and kind in ("record", None):
        return record_item(content)
    if not isinstance(content, Item) or kind not in (content.kind, None):
        came = type(content).__name__
        if kind is not None:
            raise BadItem(f"a {kind} was expected, not {came}")
        raise BadItem(f"an item is bytes, str or a mapping; this is {came}")
    if content.pair == pair:
        return content
    made = make_item(content.payload, pair=pair)
    return replace(made, brought=content.brought)


def image_item(
    data: bytes,
    *,
    max_pixels: int = MAX_PIXELS,
    max_decoded: int = MAX_DECODED,
    pair: bool = False,
) -> Item:
    """Make an item of an encoded image; only its header is read.

    `data` is a JPEG, PNG, GIF, BMP or WebP file; only the first frame of an animation
    counts. If `pair` is True, the size is (width, height), and otherwise their product.
    If a pixel takes f times as long to decode as in most images, the width or the
    product is multiplied by f.

    Raises BadItem if the image has more than `max_pixels` pixels, more than
    `max_decoded` decoded bytes, or implausibly many pieces. Without these limits, a
    small file could demand very much memory.
    """
    if not isinstance(data, bytes):
        raise BadItem(f"an image must come as bytes, not {type(data).__name__}")
    from .ready_made.image_header import bytes_of_pixel, read_header

    picture, dearer = read_header(data)
    width, height = picture.size
    if not 0 < width * height <= max_pixels:
        raise BadItem(
            f"the image has {width} x {height} = {width * height:,} pixels; "
            f"between 1 and {max_pixels:,} are accepted"
        )
    decoded = bytes_of_pixel(picture, data)
    if width * height * decoded > max_decoded:
        raise BadItem(
            f"the image has {width} x {height} pixels of {decoded} bytes = "
            f"{width * height * decoded:,} bytes; up to {max_decoded:,} are accepted"
        )
    dearer = max(dearer, decoded / USUAL_BYTES)
    if pair:
        return Item("image", data, (width * dearer, float(height)))
    return Item("image", data, width * height * dearer)


def text_item(text: str, *, pair: bool = False) -> Item:
    """Make an item of a text; its size is the number of characters, or 1 if empty.

    If `pair` is True, the size is (words, sentences), estimated from the numbers of
    spaces, tabs and line ends, and of `.`, `!` and `?`. To split the text would take
    much longer.
    """
    if not isinstance(text, str):
        raise BadItem(f"a text must come as str, not {type(text).__name__}")
    if pair:
        words, sentences = (
            1 + sum(map(text.count, ends)) for ends in (WORD_ENDS, SENTENCE_ENDS)
        )
        return Item("text", text, (float(words), float(sentences)))
    return Item("text", text, float(len(text) or 1))


def record_item(columns: Mapping[str, Value]) -> Item:
    """Make an item of a record: numbers and strings by column name; its size is 1.

    None and NaN mean that a value is missing. NumPy's numbers and strings are converted
    to Python's, decimal numbers to floats, and dates and times to texts. Raises BadItem
    for any other value.
    """
    if not isinstance(columns, MAPPINGS):
        raise BadItem(f"a record must come as a mapping, not {type(columns).__name__}")
    if not NAME_TYPES.issuperset(map(type, columns)):
        name = next(name for name in columns if type(name) is not str)
        raise BadItem(f"column names must be strings; {name!r} came")
    if not VALUE_TYPES.issuperset(map(type, columns.values())):
        columns = {
            name: value if type(value) in VALUE_TYPES else plain_value(value)
            for name, value in columns.items()
        }
    if not VALUE_TYPES.issuperset(map(type, columns.values())):
        name, value = next(
            (name, value)
            for name, value in columns.items()
            if type(value) not in VALUE_TYPES
        )
        raise BadItem(f"column {name!r} holds a {type(value).__name__}; {NEEDED}")
    return Item("record", columns, 1.0)


def plain_value(value: Any) -> Any:
    """Convert a table's value to a number, a string or None, if possible."""
    if isinstance(value, np.datetime64):  # in nanoseconds it would become a number
        value = value.astype("M8[us]").item()
    elif isinstance(value, np.timedelta64):
        value = value.astype("m8[us]").item()
    elif isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, date | time):
        return value.isoformat() if value == value else None
    if isinstance(value, timedelta):
        return str(value) if value == value else None
    return float(value) if isinstance(value, Decimal) else value


def sample_items(kind: Kind) -> tuple[Item, ...]:
    """Make small items for a first run of the ready-made features of a kind.

    Their run imports everything that the features need. Records need no such items,
    since their features import nothing.
    """
    if kind == "record":
        return ()
    if kind == "text":
        return (text_item(SAMPLE_TEXT),)
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    files = []
    for format in ("JPEG", "PNG"):
        file = io.BytesIO()
        Image.fromarray(noise).save(file, format)
        files.append(file.getvalue())
    return tuple(map(image_item, files))
