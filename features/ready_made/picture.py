"""Encoded images: their header, their pixels, and every way in which they are broken.

Imported only where an image is handled, since it loads Pillow.
"""

import io
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, WebPImagePlugin
from PIL.ImageFile import ImageFile

from ..errors import BadItem
from ..file_kinds import START, cure_for, format_of
from .image_pieces import header_of, pixels_of
from .orientation import SIDEWAYS

Image.preinit()  # JPEG, PNG, GIF and BMP; Pillow would load them at the first image
FORMATS = ("JPEG", "PNG", "GIF", "BMP") + ("WEBP",) * WebPImagePlugin.SUPPORTED

# By EXIF's number of how the pixels are stored.
TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

MIN_SIDE = 16
SMALL_SIDE = 64


class Picture(NamedTuple):
    """An encoded image whose header was read.

    Attributes
    ----------
    file
        As it is stored; loading it decodes its pixels.
    orientation
        How these are to be turned to be seen upright, 1 to 8 as in EXIF.
    """

    file: ImageFile
    orientation: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height as it is seen."""
        width, height = self.file.size
        return (height, width) if self.orientation >= SIDEWAYS else (width, height)


def read_header(data: bytes) -> tuple[Picture, float]:
    """Read what an encoded image says of itself; it cannot be decoded from this.

    Returns
    -------
    What was read, and how many times as long as usual a pixel takes, at least 1.

    Raises
    ------
    BadItem
        If the bytes are no image in one of FORMATS, ask for absurd dimensions, or have
        more pieces than images have.
    """
    start, dearer, orientation = header_of(data)
    return Picture(_opened(start, data), orientation), dearer


def open_picture(data: bytes) -> Picture:
    """Read the header of an encoded image that may be decoded next; as `read_header`.

    What says nothing of its pixels is left out, such as comments.
    """
    kept, orientation = pixels_of(data)
    return Picture(_opened(kept, data), orientation)


def _opened(kept: bytes, data: bytes) -> ImageFile:
    try:
        return Image.open(io.BytesIO(kept), formats=FORMATS)
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise BadItem(f"{describe(data)} ask for far too many pixels") from error
    except Exception as error:  # broken headers raise nearly anything inside Pillow
        names = f"{', '.join(FORMATS[:-1])} or {FORMATS[-1]}"
        cure = cure_for(format_of(data[:START]))
        why = f"{describe(data)} are no {names} image{cure and f': {cure}'}"
        raise BadItem(why) from error


def bytes_of_pixel(picture: Picture, data: bytes) -> int:
    """Read of an opened picture's header how many bytes a pixel is decoded from.

    A PNG says so itself: of two bytes a channel Pillow keeps one, after as much work.
    """
    file = picture.file
    if file.format == "PNG" and data[24:25] == b"\x10":
        return 2 * {0: 1, 2: 3, 4: 2, 6: 4}.get(data[25], 4)
    return len(file.getbands()) * (4 if file.mode in ("I", "F") else 1)


def decode_grey(data: bytes) -> NDArray[np.uint8]:
    """Decode to luminance (height, width), at least MIN_SIDE on each side.

    Thinner images are stretched to MIN_SIDE and, where they are long, shortened to the
    number of pixels they had. Images are turned as they are to be seen. Transparency is
    ignored.
    """
    picture = open_picture(data)
    # A JPEG decoder can leave its colours out; this is no change of scale.
    picture.file.draft("L", picture.file.size)
    grey = turned(to_grey(load(picture.file, data)), picture.orientation)
    if min(grey.size) < MIN_SIDE:
        grey = grey.resize(thickened(*grey.size), Image.Resampling.BOX)
    return np.asarray(grey)


def decode_small(data: bytes) -> NDArray[np.uint8]:
    """Decode to colours (SMALL_SIDE, SMALL_SIDE, 3), whatever the proportions were.

    Images are turned as they are to be seen. A JPEG is decoded at the smallest of the
    scales 1, 1/2, 1/4 and 1/8 that still has SMALL_SIDE pixels each way, which leaves
    out most of the inverse transforms.
    """
    picture = open_picture(data)
    picture.file.draft("RGB", (SMALL_SIDE, SMALL_SIDE))
    loaded = load(picture.file, data)
    colours = loaded if loaded.mode == "RGB" else to_colours(loaded)
    colours = turned(colours, picture.orientation)
    side = (SMALL_SIDE, SMALL_SIDE)
    return np.asarray(colours.resize(side, Image.Resampling.BOX))


def load(picture: ImageFile, data: bytes) -> Image.Image:
    """Decode the pixels of an opened picture, of which `data` are the bytes."""
    try:
        picture.load()
    except Exception as error:  # broken streams raise nearly anything inside Pillow
        raise BadItem(
            f"{describe(data)}, a {picture.format} image, cannot be decoded: {error}"
        ) from error
    # Pillow warns, on conversion, of a palette's transparency, which we do not use.
    picture.info.pop("transparency", None)
    return picture


def turned(picture: Image.Image, orientation: int) -> Image.Image:
    """Turn a decoded image as it is to be seen; upright ones are given back."""
    method = TURNS.get(orientation)
    return picture if method is None else picture.transpose(method)


def to_grey(picture: Image.Image) -> Image.Image:
    """Convert any mode to 8-bit luminance."""
    if picture.mode.startswith("I"):
        return Image.fromarray(high_bytes(picture))
    return picture if picture.mode == "L" else picture.convert("L")


def to_colours(picture: Image.Image) -> Image.Image:
    """Convert any mode to 8-bit red, green and blue."""
    if picture.mode.startswith("I"):
        picture = Image.fromarray(high_bytes(picture))
    return picture.convert("RGB")


def high_bytes(picture: Image.Image) -> NDArray[np.uint8]:
    """Scale 16-bit greys to 8 bits; Pillow's own conversion clips them at 255."""
    return (np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8)


def thickened(width: int, height: int) -> tuple[int, int]:
    """Smallest allowed dimensions near these, with at most as many pixels if long."""
    longest = max(MIN_SIDE, width * height // MIN_SIDE)
    return (
        min(max(width, MIN_SIDE), longest),
        min(max(height, MIN_SIDE), longest),
    )


def describe(data: bytes) -> str:
    """Name what came: how many bytes, and how they begin."""
    return f"{len(data):,} bytes that begin {data[:8].hex(' ') or 'with nothing'}"
