"""Images of very different sizes that need no download: scikit-learn's digits, enlarged.

Each of the 1,797 scans of 8 x 8 pixels is enlarged to one of four sizes in turn and
written as PNG. What they show is easy to tell; how much time it takes is what varies.
"""

import io
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

EDGES = (64, 128, 256, 512)
FEW_EDGES, EVERY = (16, 32), 6
INK = 16  # darkest value of the scans

Labelled = tuple[bytes, str, str]
Wanted = Callable[[str], bool]


def load(wanted: Wanted) -> Iterator[Labelled]:
    """Yield (PNG bytes, digit, number of the scan) for each scan wanted, at one size."""
    return _enlarged(wanted, EDGES, 1)


def few(wanted: Wanted) -> Iterator[Labelled]:
    """Do so for a sixth of them, at two small sizes."""
    return _enlarged(wanted, FEW_EDGES, EVERY)


def _enlarged(wanted: Wanted, edges: Sequence[int], every: int) -> Iterator[Labelled]:
    digits = load_digits()
    pairs = zip(digits.images[::every], digits.target[::every], strict=True)
    for number, (scan, digit) in enumerate(pairs):
        if not wanted(str(number)):
            continue
        pixels = np.rint(scan * (255 / INK)).astype(np.uint8)
        edge = edges[number % len(edges)]
        image = Image.fromarray(pixels).resize((edge, edge), Image.Resampling.BICUBIC)
        file = io.BytesIO()
        image.save(file, "png")
        yield file.getvalue(), str(digit), str(number)
