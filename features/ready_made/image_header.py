"""The header of an encoded image: its size, and whether it can be decoded.

The import loads Pillow, so other modules import this one only to handle an image.
"""

import io
from typing import NamedTuple

from PIL import Image, WebPImagePlugin
from PIL.ImageFile import ImageFile

from ..errors import BadItem
from ..file_kinds import START, cure_for, format_of
from .image_chunks import SIDEWAYS, header_of, pixels_of

Image.preinit()  # JPEG, PNG, GIF and BMP; Pillow would load them at the first image
FORMATS = ("JPEG", "PNG", "GIF", "BMP") + ("WEBP",) * WebPImagePlugin.SUPPORTED


class Picture(NamedTuple):
    """An encoded image whose header was read."""

    file: ImageFile  # Image as it is stored; `load` decodes its pixels
    orientation: int  # How to turn the pixels upright: 1 to 8, as in EXIF

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the upright image."""
        width, height = self.file.size
        return (height, width) if self.orientation >= SIDEWAYS else (width, height)


def read_header(data: bytes) -> tuple[Picture, float]:
    """Read the header of an encoded image; return the image and a factor.

    The factor, at least 1, is the time to decode a pixel, relative to most images. The
    returned image has no pixels. Raises BadItem if the bytes are no image in one of
    `FORMATS`, state absurd dimensions, or have implausibly many pieces.
    """
    start, dearer, orientation = header_of(data)
    return Picture(_opened(start, data), orientation), dearer


def open_picture(data: bytes) -> Picture:
    """Read the header of an encoded image; return an image whose pixels can be decoded.

    The pieces that say nothing about the pixels, such as comments, are removed first.
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
    """Return the number of bytes that each pixel takes while the image is decoded.

    In a PNG with 16 bits per channel, a channel takes two bytes: Pillow decodes both,
    although it may keep only one.
    """
    file = picture.file
    if file.format == "PNG" and data[24:25] == b"\x10":
        return 2 * {0: 1, 2: 3, 4: 2, 6: 4}.get(data[25], 4)
    return len(file.getbands()) * (4 if file.mode in ("I", "F") else 1)


def describe(data: bytes) -> str:
    """Describe bytes for a message: their number, and the first few."""
    return f"{len(data):,} bytes that begin {data[:8].hex(' ') or 'with nothing'}"
