"""Items: what is to be classified, and the size that its costs depend on.

The size is readable before any feature is computed: pixels (from the header, without
decoding), characters, or 1 for a record. Where it is asked for, it is of two numbers:
an image's width and height, or a text's words and sentences, which are counted.
"""

import io
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from .errors import BadItem
from .sizes import Size

Kind = Literal["image", "text", "record"]
Value = float | int | str | None

MAX_PIXELS = 50_000_000
# Bytes of a usual pixel: red, green and blue; and of the largest usual image.
USUAL_BYTES = 3
MAX_DECODED = USUAL_BYTES * MAX_PIXELS
NAME_TYPES = frozenset({str})
# What the numbers of a size are: where it is of one, and where it is of two.
SIZE_NAMES: Mapping[Kind, tuple[tuple[str, ...], ...]] = {
    "image": (("pixels",), ("width", "height")),
    "text": (("characters",), ("words", "sentences")),
    "record": (("records",),),
}
WORD_ENDS = (" ", "\n", "\t")
SENTENCE_ENDS = (".", "!", "?")
VALUE_TYPES = frozenset({float, int, bool, str, type(None)})
# A made-up text, for running features when no real item is at hand.
SAMPLE_TEXT = (
    "It was the best of times, it was the worst of times. WOW! Call 0800 123456 now, "
    "pay \N{POUND SIGN}5, or see https://example.org; 20% off.\n"
)
NEEDED = "a number, a string, a boolean or nothing is needed"


class ReadRecord(msgspec.Struct, frozen=True, eq=False, gc=False):
    """A record read at once into the full `row` (width,) of its extractor."""

    row: NDArray[np.float32]


class Gaps(msgspec.Struct, frozen=True):
    """What an index cannot tell of a record.

    Attributes
    ----------
    unknown
        Columns that hold a word, or anything but a word, that was never seen in them.
    empty
        Columns that hold nothing: a bit for each, in the order of `KnownColumns.bits`.
    withheld
        Features that cannot be computed for want of columns: a bit for each, as in
        masks of feature sets.
    """

    unknown: tuple[str, ...] = ()
    empty: int = 0
    withheld: int = 0


class Item(msgspec.Struct, frozen=True):
    """One thing to be classified; made by the functions below, which check it.

    Attributes
    ----------
    kind
        What it is.
    payload
        What features without needs receive: encoded bytes, a text, or a record.
    size
        n > 0: pixels, characters (1 for the empty text), or 1 for a record; a pair
        where it was asked for.
    gaps
        Of a record that an index read; None where there are none.
    """

    kind: Kind
    payload: bytes | str | Mapping[str, Value] | ReadRecord
    size: Size
    gaps: Gaps | None = None

    @property
    def pair(self) -> bool:
        """Whether the size is of two numbers."""
        return isinstance(self.size, tuple)

    @property
    def withheld(self) -> int:
        """Features that cannot be computed of it: a bit for each, 0 for none."""
        return 0 if self.gaps is None else self.gaps.withheld


def make_item(
    content: Any,
    kind: Kind | None = None,
    *,
    pair: bool = False,
    max_decoded: int = MAX_DECODED,
) -> Item:
    """Make an item of bytes (an image), a string (a text) or a mapping (a record).

    Parameters
    ----------
    content
        An item is one already.
    kind
        What it must be; None for what it is.
    pair
        Let the size be of two numbers, if it is no record.
    max_decoded
        Bytes that an image may have when it is decoded.

    Raises
    ------
    BadItem
        If `content` is none, or of another kind.
    """
    if isinstance(content, bytes) and kind in ("image", None):
        return image_item(content, max_decoded=max_decoded, pair=pair)
    if isinstance(content, str) and kind in ("text", None):
        return text_item(content, pair=pair)
    if isinstance(content, Mapping) and kind in ("record", None):
        return record_item(content)
    came = type(content).__name__
    if kind is not None:
        raise BadItem(f"a {kind} was expected, not {came}")
    if not isinstance(content, Item):
        raise BadItem(f"an item is bytes, str or a mapping; this is {came}")
    return content if content.pair == pair else make_item(content.payload, pair=pair)


def image_item(
    data: bytes,
    *,
    max_pixels: int = MAX_PIXELS,
    max_decoded: int = MAX_DECODED,
    pair: bool = False,
) -> Item:
    """Make an item of an encoded image; only its header is read.

    Parameters
    ----------
    data
        A JPEG, PNG, GIF, BMP or WebP file. Of an animation the first frame counts.
    max_pixels
        Largest width * height accepted, so that a small file cannot ask for much
        memory. Above 89 million Pillow itself warns, and refuses twice that.
    pair
        Let the size be (width, height), not their product.

    Raises
    ------
    BadItem
        If `data` is no such image, has more than `max_pixels` pixels, or more pieces
        than images have.
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
    """Make an item of a text; its size is its characters, 1 where it is empty.

    Parameters
    ----------
    text
    pair
        Let the size be (words, sentences): one more than there are spaces and line
        ends, and than there are full stops and other marks that end a sentence. They
        tell lengths apart and are counted in a fraction of the time of finding words.

    Raises
    ------
    BadItem
        If `text` is no string.
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

    None and NaN mean that a value is missing. NumPy's numbers and strings, as rows of
    tables hold them, become Python's, decimal numbers floats, and dates texts.

    Raises
    ------
    BadItem
        If `columns` is no mapping, a name is no string, or a value is neither
        number, string nor None.
    """
    if not isinstance(columns, Mapping):
        raise BadItem(f"a record must come as a mapping, not {type(columns).__name__}")
    if not NAME_TYPES.issuperset(map(type, columns)):
        name = next(name for name in columns if type(name) is not str)
        raise BadItem(f"column names must be strings; {name!r} came")
    if not VALUE_TYPES.issuperset(map(type, columns.values())):
        columns = {
            name: value if type(value) in VALUE_TYPES else _plain(value)
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


def _plain(value: Any) -> Any:
    """Make a value that records hold of one that tables hold, where there is one."""
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
    """Items of a kind that take every path through ready-made features.

    None for records, whose columns nobody knows; their features import nothing.
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
