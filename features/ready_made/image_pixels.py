"""Decoding of an image's pixels to grey or to colours.

The import loads Pillow, so other modules import this one only to handle an image.
"""

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.ImageFile import ImageFile

from ..errors import BadItem
from .image_header import describe, open_picture

# Operation that turns an image upright, by the orientation in EXIF.
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


def decode_grey(data: bytes) -> NDArray[np.uint8]:
    """Decode an image to grey levels (height, width), upright.

    Both sides have at least MIN_SIDE pixels: a shorter side is stretched, and the other
    is then shortened, if it is long, so that the number of pixels stays about the same.
    Transparency is ignored.
    """
    picture = open_picture(data)
    # A JPEG decoder can leave the colours out; this does not change the scale.
    picture.file.draft("L", picture.file.size)
    grey = turned(to_grey(load(picture.file, data)), picture.orientation)
    if min(grey.size) < MIN_SIDE:
        grey = grey.resize(thickened(*grey.size), Image.Resampling.BOX)
    return np.asarray(grey)


def decode_small(data: bytes) -> NDArray[np.uint8]:
    """Decode an image to colours (SMALL_SIDE, SMALL_SIDE, 3), upright.

    Its proportions are lost. A JPEG is decoded at the smallest scale of 1, 1/2, 1/4 and
    1/8 that still has SMALL_SIDE pixels each way. That saves most of the inverse
    transforms.
    """
    picture = open_picture(data)
    picture.file.draft("RGB", (SMALL_SIDE, SMALL_SIDE))
    loaded = load(picture.file, data)
    colours = loaded if loaded.mode == "RGB" else to_colours(loaded)
    colours = turned(colours, picture.orientation)
    side = (SMALL_SIDE, SMALL_SIDE)
    return np.asarray(colours.resize(side, Image.Resampling.BOX))


def decode_colours(data: bytes, side: int) -> Image.Image:
    """Decode an image to upright colours, each side of at least `side` pixels.

    A JPEG is decoded at the smallest scale of 1, 1/2, 1/4 and 1/8 that has so many
    pixels each way. An image that is smaller keeps its size. Transparency is ignored.
    The image returned is of Pillow's mode RGB, or L if the file stores only greys.
    """
    picture = open_picture(data)
    picture.file.draft("RGB", (side, side))
    loaded = load(picture.file, data)
    colours = loaded if loaded.mode in ("RGB", "L") else to_colours(loaded)
    return turned(colours, picture.orientation)


def decoded_size(data: bytes, side: int) -> tuple[int, int]:
    """Return width and height of what `decode_colours` decodes, before it is turned."""
    picture = open_picture(data)
    picture.file.draft("RGB", (side, side))
    return picture.file.size


def resized(
    picture: Image.Image, width: int, height: int, *, crops: bool
) -> Image.Image:
    """Resize an image to `width` x `height` pixels, with linear interpolation.

    If `crops` is True, the largest centred part with these proportions is resized, and
    otherwise the whole image, whose proportions are lost.
    """
    box = None
    if crops:
        scale = min(picture.width / width, picture.height / height)
        left = (picture.width - scale * width) / 2
        top = (picture.height - scale * height) / 2
        box = (left, top, picture.width - left, picture.height - top)
    # Pillow first reduces a much larger image by a whole factor, which is fast.
    return picture.resize(
        (width, height), Image.Resampling.BILINEAR, box, reducing_gap=2.0
    )


def load(picture: ImageFile, data: bytes) -> Image.Image:
    """Decode the pixels of an opened picture; `data` are the bytes of its file."""
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
    """Turn a decoded image upright by its orientation in EXIF, 1 to 8."""
    method = TURNS.get(orientation)
    return picture if method is None else picture.transpose(method)


def to_grey(picture: Image.Image) -> Image.Image:
    """Convert an image of any mode to grey levels of 8 bits."""
    if picture.mode.startswith("I"):
        return Image.fromarray(high_bytes(picture))
    return picture if picture.mode == "L" else picture.convert("L")


def to_colours(picture: Image.Image) -> Image.Image:
    """Convert an image of any mode to red, green and blue of 8 bits."""
    if picture.mode.startswith("I"):
        picture = Image.fromarray(high_bytes(picture))
    return picture.convert("RGB")


def high_bytes(picture: Image.Image) -> NDArray[np.uint8]:
    """Scale 16-bit grey levels to 8 bits; Pillow's own conversion clips them at 255."""
    return (np.asarray(picture).astype(np.uint32) >> 8).astype(np.uint8)


def thickened(width: int, height: int) -> tuple[int, int]:
    """Return the width and height of a thin image after resizing, at least MIN_SIDE.

    If one side is raised, the other is lowered so that the number of pixels stays about
    the same.
    """
    longest = max(MIN_SIDE, width * height // MIN_SIDE)
    return (
        min(max(width, MIN_SIDE), longest),
        min(max(height, MIN_SIDE), longest),
    )
