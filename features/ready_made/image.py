"""Ready-made features of images: few columns each, of very different cost and power.

An image is decoded in two ways. The step `grey` decodes every pixel. The step `small`
always gives 64 x 64 colours, for which a JPEG's decoder can skip most of its work.
Expensive features use the steps `half` and `quarter`, of lower resolution.

All features are finite on every image that can be decoded, also on a single pixel or
colour. Functions import their libraries themselves: users without images need not
install these. A server runs every function before requests come.
"""

import functools
import importlib
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..feature import feature, step

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]

SECTORS = 16  # sectors of gradient direction, over a whole turn
GRID = 4  # cells across and down, in features that tell places in the image
FINE = 4 * GRID  # cells across and down, later spread over GRID cells
FAINT = 1e-3  # mean change of a pixel that is mere noise: weak gradients stay weak
LEVELS = 16  # levels of grey in a co-occurrence matrix
BLOCK = 4  # pixels each way, at quarter resolution, compared for self-similarity
PAIRS = 2**18  # pairs of blocks compared at a time; these fit into a processor's cache


@step(kind="image")
def grey(data: bytes) -> Bytes:
    """Decode an image to upright grey levels (height, width), each side at least 16."""
    from .image_pixels import decode_grey

    return decode_grey(data)


@step(kind="image")
def small(data: bytes) -> Bytes:
    """Decode an image to upright colours (64, 64, 3); cheap for a JPEG."""
    from .image_pixels import decode_small

    return decode_small(data)


@step(needs=[grey])
def levels(grey: Bytes) -> Doubles:
    """Share of pixels at each of the 256 levels of grey."""
    from PIL import Image

    counts = np.array(Image.fromarray(grey).histogram(), np.float64)
    return counts / grey.size


@step(needs=[grey])
def half(grey: Bytes) -> Floats:
    """Grey levels at half resolution: means of 2 x 2 pixels, in [0, 1]."""
    from PIL import Image

    return np.asarray(Image.fromarray(grey).reduce(2), np.float32) / np.float32(255)


@step(needs=[half])
def quarter(half: Floats) -> Floats:
    """Grey levels at a quarter of the resolution: means of 4 x 4 pixels, in [0, 1]."""
    from PIL import Image

    return np.asarray(Image.fromarray(half).reduce(2))


@step(needs=[half])
def gradients(half: Floats) -> tuple[Floats, Bytes]:
    """Strength of change at each inner pixel, and its direction, one of 16 sectors.

    Opposite directions are different sectors.
    """
    return strength_and_sector(half)


@step(needs=[half])
def transform(half: Floats) -> NDArray[np.complex64]:
    """Fourier transform (height, width // 2 + 1) of grey levels minus their mean."""
    from scipy import fft

    return np.asarray(fft.rfft2(half - half.mean()))


@feature(kind="image")
def dimensions(data: bytes) -> list[float]:
    """Logarithms of width, height, aspect, file size; bits per pixel; channels."""
    from .image_header import open_picture

    picture = open_picture(data)
    width, height = picture.size
    return [
        math.log2(width),
        math.log2(height),
        math.log2(width / height),
        math.log2(len(data)),
        8 * len(data) / (width * height),
        len(picture.file.getbands()),
    ]


@feature(needs=[small])
def thumbnail(small: Bytes) -> Floats:
    """Mean brightness of each of 8 x 8 cells."""
    cells: Floats = small.reshape(8, 8, 8, 8, 3).mean(axis=(1, 3, 4), dtype=np.float32)
    return cells.ravel() / np.float32(255)


@feature(needs=[small])
def colour_histogram(small: Bytes) -> Doubles:
    """Share of pixels in each of 4 x 4 x 4 colours."""
    red, green, blue = np.moveaxis(small >> 6, -1, 0)
    colours = (red << 4 | green << 2 | blue).ravel()
    return shares(np.bincount(colours, minlength=64))


@feature(needs=[levels])
def intensity_histogram(levels: Doubles) -> Doubles:
    """Share of pixels in each of 32 ranges of grey."""
    return levels.reshape(32, 8) @ np.ones(8)


@feature(needs=[levels, half])
def moments(levels: Doubles, half: Floats) -> Doubles:
    """Mean, deviation, skewness and kurtosis of greys; Hu's seven moments of shape."""
    grey = np.linspace(0, 1, 256)
    mean = levels @ grey
    deviation = math.sqrt(levels @ (grey - mean) ** 2)
    standard = (grey - mean) / max(deviation, 1e-3)
    measure = skimage("measure")
    shape = measure.moments_normalized(measure.moments_central(half + 0.01))
    hu = measure.moments_hu(shape)
    scaled = np.sign(hu) * np.log10(1 + np.abs(hu) * 1e9)
    return np.array(
        [mean, deviation, levels @ standard**3, levels @ standard**4, *scaled]
    )


@feature(needs=[grey])
def projections(grey: Bytes) -> Doubles:
    """Mean brightness of each of 16 horizontal and 16 vertical bands."""
    rows = grey.sum(axis=1, dtype=np.uint32) / (255 * grey.shape[1])
    columns = grey.sum(axis=0, dtype=np.uint32) / (255 * grey.shape[0])
    return np.concatenate([in_bands(rows, 16), in_bands(columns, 16)])


@feature(needs=[gradients])
def edge_density(gradients: tuple[Floats, Bytes]) -> Floats:
    """Mean gradient, and share of pixels with a strong one, in each of 4 x 4 cells."""
    strength, _ = gradients
    strong = (strength > 0.2).astype(np.float32)
    return np.concatenate([in_cells(strength), in_cells(strong)])


@feature(needs=[gradients])
def hog(gradients: tuple[Floats, Bytes]) -> Doubles:
    """Strength of change in each of 16 directions and each of 4 x 4 cells.

    After Dalal and Triggs, Histograms of Oriented Gradients (2005). A pixel is shared
    among the nearest cells, by its distances from them. The strengths of a cell are
    divided by the total strength in and around it. scikit-image's function does not
    share pixels, treats opposite directions as one, and takes several times as long.
    """
    return in_soft_cells(*gradients)


@feature(needs=[small])
def small_hog(small: Bytes) -> Doubles:
    """Columns of `hog`, computed at low cost from the image at 64 x 64 pixels."""
    # Three passes over strided bytes take less than one weighted sum of three.
    grey = small[:, :, 1].astype(np.float32)
    grey += grey
    grey += small[:, :, 0]
    grey += small[:, :, 2]
    grey *= np.float32(1 / (4 * 255))
    return in_soft_cells(*strength_and_sector(grey))


@feature(needs=[half])
def dct(half: Floats) -> Floats:
    """Lowest 8 x 8 frequencies of the cosine transform of the greys."""
    from scipy import fft

    lowest = fft.dct(half, axis=0)[:8]
    lowest = fft.dct(lowest, axis=1)[:, :8]
    return np.asarray(lowest / half.size, np.float32).ravel()


@feature(needs=[grey])
def local_binary_patterns(grey: Bytes) -> Doubles:
    """Shares of the 10 uniform patterns of 8 neighbours, in the image and its quarters.

    Ojala, Pietikainen and Maenpaa, Multiresolution Gray-Scale and Rotation Invariant
    Texture Classification with Local Binary Patterns (2002).
    """
    patterns = skimage("feature").local_binary_pattern(grey, 8, 1, "uniform")
    patterns = patterns.astype(np.uint8)
    middle = (grey.shape[0] // 2, grey.shape[1] // 2)
    quarters = [
        np.bincount(part.ravel(), minlength=10)
        for rows in np.split(patterns, middle[:1])
        for part in np.split(rows, middle[1:], axis=1)
    ]
    return shares(np.array([np.sum(quarters, axis=0), *quarters])).ravel()


@feature(needs=[grey])
def cooccurrence(grey: Bytes) -> Doubles:
    """Five properties of the co-occurrence of greys, at 3 distances in 4 directions.

    Haralick, Shanmugam and Dinstein, Textural Features for Image Classification (1973).
    """
    texture = skimage("feature")
    directions = [0, math.pi / 4, math.pi / 2, 3 * math.pi / 4]
    coarse = grey // (256 // LEVELS)
    pairs = texture.graycomatrix(coarse, [1, 2, 4], directions, LEVELS, True, True)
    properties = ("contrast", "homogeneity", "energy", "correlation", "entropy")
    return np.concatenate(
        [texture.graycoprops(pairs, name).ravel() for name in properties]
    )


@feature(needs=[transform])
def spectrum(transform: NDArray[np.complex64]) -> Doubles:
    """Logarithms of the mean power in each of 8 octaves and each of 4 directions."""
    radius, angle = polar(transform.shape)
    ring = np.clip(8 + np.log2(np.maximum(radius, 1e-6) * 2), 0, 7).astype(np.int64)
    sector = (angle * (4 / math.pi)).astype(np.int64) % 4
    power = np.abs(transform) ** 2
    place = (ring * 4 + sector).ravel()
    return np.log1p(np.bincount(place, power.ravel(), 32) / transform.size)


@feature(needs=[transform])
def gabor(transform: NDArray[np.complex64]) -> Floats:
    """Energies of 2 scales and 4 orientations in each of 4 x 4 cells: a scene's gist.

    Oliva and Torralba, Modeling the Shape of the Scene (2001), with log-Gabor filters.
    """
    from scipy import fft

    radius, angle = polar(transform.shape)
    octaves = np.log2(np.maximum(radius, 1e-6))
    energies = []
    for centre in (-2.0, -3.5):
        ring = transform * np.exp(-((octaves - centre) ** 2))
        for orientation in range(4):
            away = np.abs(angle - orientation * np.float32(math.pi / 4))
            away = np.minimum(away, np.float32(math.pi) - away)
            response = fft.irfft2(ring * np.exp(-4 * away**2))
            energies.append(in_cells(np.abs(response)))
    return np.concatenate(energies)


@feature(needs=[half])
def lines(half: Floats) -> Doubles:
    """Edge pixels on straight lines, in each of 18 directions.

    Edges are found by Canny's method, lines by Hough's transform. Each direction has
    two columns: the number of edge pixels on its strongest line, and the standard
    deviation of that number among all its parallel lines. Both are divided by the
    image's diagonal.
    """
    edges = skimage("feature").canny(half, low_threshold=0.05, high_threshold=0.15)
    angles = np.arange(18) * (math.pi / 18) - math.pi / 2
    votes, _, _ = skimage("transform").hough_line(edges, angles)
    diagonal = math.hypot(*half.shape)
    return np.concatenate([votes.max(axis=0), votes.std(axis=0)]) / diagonal


@feature(needs=[quarter])
def self_similarity(quarter: Floats) -> Doubles:
    """Histograms of the correlations between blocks of 16 x 16 pixels.

    Each histogram has the shares of 16 ranges of correlation. The first counts all
    pairs of blocks; the second counts each block with its most similar block. The time
    grows with the square of the number of pixels.
    """
    height, width = (side // BLOCK * BLOCK for side in quarter.shape)
    blocks = quarter[:height, :width].reshape(
        height // BLOCK, BLOCK, width // BLOCK, BLOCK
    )
    flat = np.moveaxis(blocks, 2, 1).reshape(-1, BLOCK * BLOCK)
    flat = flat - flat.mean(axis=1, keepdims=True)
    flat /= np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 0.05)
    counts = np.zeros((2, 16))
    at_once = max(1, PAIRS // len(flat))
    for start in range(0, len(flat), at_once):
        alike = flat[start : start + at_once] @ flat.T
        own = np.arange(len(alike))
        alike[own, start + own] = -1
        bins = np.clip((alike + 1) * 8, 0, 15).astype(np.uint8)
        counts[0] += np.bincount(bins.ravel(), minlength=16)
        counts[1] += np.bincount(bins.max(axis=1), minlength=16)
    return shares(counts).ravel()


def skimage(module: str) -> Any:
    """Import a module of scikit-image, which has no type annotations."""
    return importlib.import_module(f"skimage.{module}")


def shares(counts: NDArray[Any]) -> Doubles:
    """Divide counts by their sums over the last axis."""
    portions: Doubles = counts / counts.sum(axis=-1, keepdims=True)
    return portions


def in_cells(values: Floats) -> Floats:
    """Return the mean of an image in each of GRID x GRID cells, (GRID * GRID,)."""
    from PIL import Image

    cells = Image.fromarray(values).resize((GRID, GRID), Image.Resampling.BOX)
    return np.asarray(cells).ravel()


def strength_and_sector(grey: Floats) -> tuple[Floats, Bytes]:
    """Return the strength of change at inner pixels, and the sector of the change."""
    down = grey[2:, 1:-1] - grey[:-2, 1:-1]
    right = grey[1:-1, 2:] - grey[1:-1, :-2]
    turns = np.arctan2(down, right) * np.float32(SECTORS / (2 * math.pi))
    turns += np.float32(SECTORS + 0.5)  # sectors lie around the axes
    sector = turns.astype(np.uint8) % np.uint8(SECTORS)
    down *= down
    right *= right
    down += right
    return np.sqrt(down, out=down), sector


def in_soft_cells(strength: Floats, sector: Bytes) -> Doubles:
    """Return the columns of `hog`: each cell's strength of change in each direction.

    A pixel is shared among the nearest cells. The strengths of each cell are divided by
    the total strength in and around the cell. The columns are the square roots of these
    quotients.
    """
    height, width = strength.shape
    row = np.arange(height) * FINE // height * (FINE * SECTORS)
    column = np.arange(width) * FINE // width * SECTORS
    place = (row[:, np.newaxis] + column + sector).ravel()
    fine = np.bincount(place, strength.ravel(), FINE * FINE * SECTORS)
    share, around = soft_cells()
    rows = (share @ fine.reshape(FINE, -1)).reshape(GRID, FINE, SECTORS)
    cells = (share @ rows) * (GRID * GRID / strength.size)
    energy = np.square(cells).sum(axis=2)
    loud = np.sqrt(around @ energy @ around.T + FAINT**2)
    normal: Doubles = cells / loud[:, :, np.newaxis]
    return np.sqrt(normal, out=normal).ravel()


@functools.cache
def soft_cells() -> tuple[Doubles, Doubles]:
    """Return the weights of `in_soft_cells` along one axis, as two matrices.

    `in_soft_cells` first sums the pixels of FINE narrow cells. Entry (i, j) of the
    first matrix, (GRID, FINE), is the share of narrow cell j that cell i receives.
    Entry (i, j) of the second, (GRID, GRID), is the weight of cell j in the strength in
    and around cell i.
    """
    cell = np.arange(GRID)
    centre = (np.arange(FINE) + 0.5) * (GRID / FINE) - 0.5
    share = np.maximum(0, 1 - np.abs(centre - cell[:, np.newaxis]))
    # A cell and half of each neighbour; at the border the cell replaces a neighbour.
    beside = np.clip(np.stack([cell - 1, cell, cell, cell + 1]), 0, GRID - 1)
    around = 0.5 * np.eye(GRID)[beside].sum(axis=0)
    return share, around


def in_bands(values: Doubles, count: int) -> Doubles:
    """Divide values (N,) into `count` equal bands, and return the mean of each band.

    A value on the border of two bands is divided between them.
    """
    edges = np.linspace(0, len(values), count + 1)
    below = np.interp(
        edges, np.arange(len(values) + 1), np.cumsum(np.append(0.0, values))
    )
    means: Doubles = np.diff(below) / np.diff(edges)
    return means


def polar(shape: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return the frequency and the angle of each bin of a Fourier transform.

    Frequencies are in cycles per pixel, angles in [0, pi]. The transform has `shape`.
    """
    down = np.fft.fftfreq(shape[0]).astype(np.float32)[:, np.newaxis]
    right = np.linspace(0, 0.5, shape[1], dtype=np.float32)
    angle = np.arctan2(down, right)
    return np.hypot(down, right), np.where(
        angle < 0, angle + np.float32(math.pi), angle
    )


FEATURES = (
    dimensions,
    thumbnail,
    colour_histogram,
    intensity_histogram,
    moments,
    projections,
    edge_density,
    hog,
    small_hog,
    dct,
    local_binary_patterns,
    cooccurrence,
    spectrum,
    gabor,
    lines,
    self_similarity,
)
