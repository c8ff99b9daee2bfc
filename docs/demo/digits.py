"""Real images of many sizes without a network: scikit-learn's handwritten digits.

The 1,797 scans of 8 x 8 pixels are enlarged to four sizes, as ICSP rescaled its scenes,
and written as PNG. A digit's four images share a group, so that none of them is trained
on while another is tested.
"""

import io
from collections.abc import Iterator

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

EDGES = (32, 64, 128, 256)
INK = 16  # darkest value of the scans


def load() -> Iterator[tuple[bytes, int, int]]:
    """Yield (PNG bytes, digit, number of the scan) for every scan at one of the sizes.

    The sizes take turns, so each has a quarter of the scans.
    """
    digits = load_digits()
    for number, (scan, digit) in enumerate(
        zip(digits.images, digits.target, strict=True)
    ):
        pixels = np.rint(scan * (255 / INK)).astype(np.uint8)
        edge = EDGES[number % len(EDGES)]
        yield enlarge(pixels, edge), int(digit), number


def enlarge(pixels: np.ndarray, edge: int) -> bytes:
    """Write the scan as a PNG of `edge` x `edge` pixels."""
    image = Image.fromarray(pixels).resize((edge, edge), Image.Resampling.BICUBIC)
    file = io.BytesIO()
    image.save(file, "png")
    return file.getvalue()
