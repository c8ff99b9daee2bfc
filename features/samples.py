"""Small made-up items, for running features when no real item is at hand."""

import io

import numpy as np

from .items import Item, Kind, image_item, text_item

TEXT = (
    "It was the best of times, it was the worst of times. WOW! Call 0800 123456 now, "
    "pay \N{POUND SIGN}5, or see https://example.org; 20% off.\n"
)


def sample_items(kind: Kind) -> tuple[Item, ...]:
    """Items of a kind that take every path through ready-made features.

    None for records, whose columns nobody knows; their features import nothing.
    """
    if kind == "record":
        return ()
    if kind == "text":
        return (text_item(TEXT),)
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (64, 96, 3), dtype=np.uint8)
    files = []
    for format in ("JPEG", "PNG"):
        file = io.BytesIO()
        Image.fromarray(noise).save(file, format)
        files.append(file.getvalue())
    return tuple(map(image_item, files))
