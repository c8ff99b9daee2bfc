"""Images of very different sizes that need no download, made of scikit-learn's digits.

Each of the 1,797 scans of 8 x 8 pixels is enlarged, turned by any angle, put somewhere
on a black square of one of four sizes in turn, and written as JPEG. So no feature alone
tells all, and what each costs is as with photographs.
"""

import io
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits

EDGES = (96, 192, 384, 768)
FEW_EDGES, EVERY = (16, 32), 6
INK = 16  # darkest value of the scans
LEAST = 0.6  # of the edge that a digit's own square has
QUALITY = 90

Labelled = tuple[bytes, str, str]
Wanted = Callable[[str], bool]


def load(wanted: Wanted) -> Iterator[Labelled]:
    """Yield (JPEG bytes, digit, number of the scan) for each wanted, at one size."""
    return _placed(wanted, EDGES, 1)


def few(wanted: Wanted) -> Iterator[Labelled]:
    """Do so for a sixth of them, at two small sizes."""
    return _placed(wanted, FEW_EDGES, EVERY)


def _placed(wanted: Wanted, edges: Sequence[int], every: int) -> Iterator[Labelled]:
    digits = load_digits()
    pairs = zip(digits.images[::every], digits.target[::every], strict=True)
    for number, (scan, digit) in enumerate(pairs):
        if wanted(str(number)):
            edge = edges[number % len(edges)]
            yield place(scan, edge, number), str(digit), str(number)


def place(scan: NDArray[np.float64], edge: int, seed: int) -> bytes:
    """Draw the angle, the size and the place of a scan; the image as JPEG."""
    draw = np.random.default_rng(seed)
    pixels = Image.fromarray(np.rint(scan * (255 / INK)).astype(np.uint8))
    large = pixels.resize((edge, edge), Image.Resampling.BICUBIC)
    turned = large.rotate(draw.uniform(0, 360), Image.Resampling.BILINEAR)
    own = round(edge * draw.uniform(LEAST, 1))
    square, file = Image.new("L", (edge, edge)), io.BytesIO()
    corner = draw.integers(0, edge - own + 1, 2).tolist()
    square.paste(turned.resize((own, own), Image.Resampling.BILINEAR), tuple(corner))
    square.save(file, "jpeg", quality=QUALITY)
    return file.getvalue()
