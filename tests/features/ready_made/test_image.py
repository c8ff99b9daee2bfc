"""Image features: finite on everything that decodes, and meaning what they say."""

import contextlib
import io
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from PIL import Image

from polydom.features.errors import BadItem
from polydom.features.extract import Extractor
from polydom.features.items import Item, image_item
from polydom.features.ready_made import image
from polydom.features.ready_made.image_pixels import (
    MIN_SIDE,
    decode_grey,
    decode_small,
    thickened,
)
from tests.support.oracles.image import (
    contrast_of_pairs,
    gradient_cells,
    likeness_of_blocks,
    means_of_bands,
)

Pixels = NDArray[np.uint8]

NOISE = np.random.default_rng(0).integers(0, 256, (200, 200, 4), dtype=np.uint8)
GREY = NOISE[:, :, 0]
RAMP = np.tile(np.arange(128, dtype=np.uint8), (96, 1))


def encode(pixels: NDArray[Any], format: str = "PNG", mode: str | None = None) -> bytes:
    file = io.BytesIO()
    picture = Image.fromarray(pixels)
    (picture.convert(mode) if mode else picture).save(file, format)
    return file.getvalue()


def waves(height: int, width: int) -> Pixels:
    """Smooth colours, which a JPEG keeps nearly as they are."""
    y, x = np.mgrid[:height, :width] * (64 / height)
    colours = [np.sin(x / 9), np.cos(y / 7), np.sin((x + y) / 11)]
    return np.asarray(127 + 100 * np.stack(colours, axis=-1), np.uint8)


def palette_with_transparency() -> bytes:
    file = io.BytesIO()
    picture = Image.fromarray(NOISE[:40, :40, :3]).quantize(16)
    picture.save(file, "PNG", transparency=bytes(range(16)))
    return file.getvalue()


ZOO = {
    "one pixel": encode(GREY[:1, :1]),
    "one row": encode(GREY[:1, :200]),
    "one column": encode(GREY[:200, :1]),
    "two rows of many": encode(np.tile(GREY[:2], (1, 500))),
    "odd sides": encode(GREY[:17, :31]),
    "primes": encode(GREY[:97, :101]),
    "the smallest not stretched": encode(GREY[:16, :16]),
    "black": encode(np.zeros((40, 30), np.uint8)),
    "white": encode(np.full((40, 30, 3), 255, np.uint8), "JPEG"),
    "colours": encode(NOISE[:64, :80, :3], "JPEG"),
    "grey": encode(GREY[:64, :80], "JPEG"),
    "cyan, magenta, yellow and black": encode(NOISE[:64, :80, :3], "JPEG", "CMYK"),
    "transparent colours": encode(NOISE[:64, :80]),
    "transparent grey": encode(NOISE[:64, :80], mode="LA"),
    "a palette": encode(NOISE[:64, :80, :3], mode="P"),
    "a transparent palette": palette_with_transparency(),
    "black and white": encode(GREY[:64, :80], mode="1"),
    "16 bits": encode(np.arange(4096, dtype=np.uint16).reshape(64, 64) * 16),
    "a GIF": encode(GREY[:64, :80], "GIF"),
    "a BMP": encode(NOISE[:64, :80, :3], "BMP"),
    "a WebP": encode(NOISE[:64, :80, :3], "WEBP"),
}
EXTRACTOR = Extractor.probe(image.FEATURES, image_item(ZOO["colours"]))


def compute(name: str, item: Item | bytes | Pixels) -> NDArray[np.float32]:
    """One feature of an item, of encoded bytes, or of pixels."""
    if isinstance(item, np.ndarray):
        item = encode(item)
    if isinstance(item, bytes):
        item = image_item(item)
    (position,) = (k for k, made in enumerate(EXTRACTOR.features) if made.name == name)
    row = np.empty(EXTRACTOR.width, np.float32)
    EXTRACTOR.begin(item, row).compute(position)
    return row[EXTRACTOR.columns(position)]


@pytest.mark.parametrize("name", ZOO)
def test_every_feature_keeps_its_promises_on(name: str) -> None:
    EXTRACTOR.check(image_item(ZOO[name]), name)


def test_features_are_few_columns_each() -> None:
    assert len(image.FEATURES) >= 10
    assert all(4 <= width <= 256 for width in EXTRACTOR.widths)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 2**32 - 1))
def test_every_feature_is_finite_on_images_of_any_shape(
    width: int, height: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    pixels = random.integers(0, 256, (height, width), dtype=np.uint8)
    EXTRACTOR.extract(image_item(encode(pixels)))


@given(st.sampled_from(sorted(ZOO)), st.data())
def test_damaged_files_raise_nothing_but_bad_item(
    name: str, data: st.DataObject
) -> None:
    damaged = bytearray(ZOO[name])
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(damaged) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    damaged = damaged[: data.draw(st.integers(1, len(damaged)))]
    with contextlib.suppress(BadItem):
        item = image_item(bytes(damaged), max_pixels=10**6)
        decode_grey(item.payload)  # type: ignore[arg-type]
        decode_small(item.payload)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [decode_grey, decode_small])
@pytest.mark.parametrize("format", ["JPEG", "PNG"])
def test_decoding_a_truncated_file_names_what_came(
    step: Callable[[bytes], Pixels], format: str
) -> None:
    data = encode(GREY, format)[:5000]
    with pytest.raises(
        BadItem,
        match=rf"5,000 bytes that begin .*, a {format} image, cannot be decoded: ",
    ):
        step(data)


def test_decode_grey_reads_the_pixels() -> None:
    np.testing.assert_array_equal(decode_grey(encode(GREY)), GREY)


def test_decode_grey_of_a_jpeg_is_its_luminance() -> None:
    data = encode(waves(64, 80), "JPEG")
    through_colours = np.asarray(Image.open(io.BytesIO(data)).convert("L"), int)
    assert np.abs(decode_grey(data) - through_colours).max() <= 2


def test_decode_grey_keeps_the_high_bits_of_16() -> None:
    deep = np.arange(0, 65536, 16, dtype=np.uint16).reshape(64, 64)
    np.testing.assert_array_equal(decode_grey(encode(deep)), deep >> 8)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((1, 1), (16, 16)),
        ((1, 100), (16, 16)),
        ((1, 10_000), (16, 625)),
        ((10_000, 1), (625, 16)),
        ((15, 15), (16, 16)),
        ((16, 16), (16, 16)),
        ((3, 40), (16, 16)),
        ((16, 1000), (16, 1000)),
    ],
)
def test_decode_grey_thickens_without_adding_many_pixels(
    shape: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert decode_grey(encode(np.zeros(shape, np.uint8))).shape == expected


@given(st.integers(1, 10**7), st.integers(1, 10**7))
def test_thickened_is_thick_enough_and_no_larger(width: int, height: int) -> None:
    wide, high = thickened(width, height)
    assert min(wide, high) >= MIN_SIDE
    assert wide * high <= max(width * height, MIN_SIDE**2)


@pytest.mark.parametrize("scale", [1, 2, 5, 13])
def test_decode_small_is_close_to_shrinking_the_whole_image(scale: int) -> None:
    pixels = waves(64 * scale, 64 * scale)
    small = decode_small(encode(pixels, "JPEG"))
    blocks = pixels.reshape(64, scale, 64, scale, 3).mean(axis=(1, 3))
    assert small.shape == (64, 64, 3)
    assert np.abs(small - blocks).mean() < 4


def test_decode_small_decodes_a_fraction_of_a_large_jpeg() -> None:
    picture = Image.open(io.BytesIO(encode(np.tile(GREY, (4, 4)), "JPEG")))
    picture.draft("RGB", (64, 64))
    assert picture.size == (100, 100)


def test_steps_make_a_pyramid() -> None:
    half = image.half(RAMP)
    np.testing.assert_allclose(
        half, RAMP.reshape(48, 2, 64, 2).mean(axis=(1, 3)) / 255, atol=0.501 / 255
    )
    np.testing.assert_allclose(
        image.quarter(half), half.reshape(24, 2, 32, 2).mean(axis=(1, 3)), atol=1e-6
    )


def test_dimensions_tell_the_header_without_decoding() -> None:
    data = encode(NOISE[:64, :128, :3], "JPEG")[:3000]
    columns = compute("dimensions", data)
    assert columns[:3].tolist() == [7, 6, 1]
    assert columns[3] == pytest.approx(math.log2(3000))
    assert columns[4] == pytest.approx(8 * 3000 / (64 * 128))
    assert columns[5] == 3


def test_thumbnail_is_the_mean_of_64_cells() -> None:
    expected = GREY[:192, :192].reshape(8, 24, 8, 24).mean(axis=(1, 3)) / 255
    found = compute("thumbnail", GREY[:192, :192])
    np.testing.assert_allclose(found, expected.ravel(), atol=0.01)


def test_colour_histogram_counts_colours() -> None:
    pixels = np.zeros((64, 64, 3), np.uint8)
    pixels[:, :16] = [255, 0, 128]
    columns = compute("colour_histogram", pixels)
    assert columns[0] == pytest.approx(0.75)
    assert columns[3 * 16 + 0 * 4 + 2] == pytest.approx(0.25)
    assert columns.sum() == pytest.approx(1)


def test_intensity_histogram_counts_greys() -> None:
    expected = np.histogram(GREY, 32, (0, 256))[0] / GREY.size
    np.testing.assert_allclose(compute("intensity_histogram", GREY), expected)


def test_moments_are_those_of_the_pixels() -> None:
    from scipy import stats

    dark = GREY // 2 * (GREY > 99)
    grey = dark.ravel() / 255
    expected = [grey.mean(), grey.std(), stats.skew(grey), stats.kurtosis(grey) + 3]
    found = compute("moments", dark)[:4]
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_moments_of_shape_do_not_change_with_its_place_or_size() -> None:
    def square(side: int, x: int, y: int) -> Pixels:
        pixels = np.zeros((128, 128), np.uint8)
        pixels[y : y + side, x : x + 2 * side] = 255
        return pixels

    here, there = (compute("moments", square(20, *p))[4:] for p in [(10, 20), (60, 90)])
    turned = compute("moments", square(20, 10, 20).T)[4:]
    np.testing.assert_allclose(here[0], there[0], rtol=0.1)
    np.testing.assert_allclose(here[:2], turned[:2], rtol=1e-3)


@pytest.mark.parametrize("side", [16, 17, 31, 100])
def test_projections_are_the_means_of_bands(side: int) -> None:
    pixels = GREY[:side, : side + 5]
    expected = means_of_bands((pixels / 255).mean(axis=1).tolist(), 16)
    expected += means_of_bands((pixels / 255).mean(axis=0).tolist(), 16)
    np.testing.assert_allclose(compute("projections", pixels), expected, rtol=1e-5)


def stripes(angle: float, period: float = 12) -> Pixels:
    """Waves whose brightness changes along `angle`, in radians from the right down."""
    y, x = np.mgrid[:128, :128]
    wave = np.sin((x * math.cos(angle) + y * math.sin(angle)) * 2 * math.pi / period)
    return np.asarray(127 + 120 * wave, np.uint8)


HOGS = ("hog", "small_hog")


@pytest.mark.parametrize("name", HOGS)
@pytest.mark.parametrize("eighth", range(8))
def test_a_hog_finds_the_direction_of_change(name: str, eighth: int) -> None:
    wave = stripes(eighth * math.pi / 8, 16)
    cells = compute(name, wave).reshape(16, 16)
    assert set(cells.argmax(axis=1) % 8) == {eighth}


@pytest.mark.parametrize("name", HOGS)
def test_a_hog_tells_brighter_from_darker(name: str) -> None:
    ramp = np.tile(np.arange(128, dtype=np.uint8), (128, 1))
    rising, falling, down = (
        compute(name, np.ascontiguousarray(one)).reshape(16, 16)
        for one in (ramp, ramp[:, ::-1], ramp.T)
    )
    assert set(rising.argmax(axis=1)) == {0}
    assert set(falling.argmax(axis=1)) == {8}
    assert set(down.argmax(axis=1)) == {4}


@pytest.mark.parametrize("name", HOGS)
def test_a_hog_finds_the_place_of_change(name: str) -> None:
    pixels = np.zeros((128, 128), np.uint8)
    pixels[40:56, 104:120] = 255
    cells = (compute(name, pixels).reshape(4, 4, 16) ** 4).sum(axis=2)
    assert cells[1, 3] == cells.max()
    assert not cells[:, 0].any()


@pytest.mark.parametrize("name", HOGS)
def test_a_hog_of_a_flat_image_is_nothing(name: str) -> None:
    assert not compute(name, np.full((64, 64), 77, np.uint8)).any()


@pytest.mark.parametrize("shape", [(8, 8), (3, 3), (3, 21), (33, 20)])
def test_a_hog_agrees_with_sharing_out_every_pixel(shape: tuple[int, int]) -> None:
    grey = np.asarray(GREY[: shape[0], : shape[1]] / 255, np.float32)
    grey[: shape[0] // 2] *= np.float32(0.01)
    sizes = (image.GRID, image.FINE, image.SECTORS, image.FAINT)
    expected = gradient_cells(grey, *sizes)
    found = image.hog(image.strength_and_sector(grey))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def test_small_hog_agrees_with_sharing_out_every_pixel() -> None:
    small = NOISE[:64, :64, :3]
    grey = (small @ np.array([1, 2, 1]) / 1020).astype(np.float32)
    sizes = (image.GRID, image.FINE, image.SECTORS, image.FAINT)
    expected = gradient_cells(grey, *sizes)
    # a direction at the border of two sectors may fall to either
    assert np.abs(image.small_hog(small) - expected).max() < 0.02


def test_edge_density_is_high_where_the_edges_are() -> None:
    pixels = np.full((128, 128), 100, np.uint8)
    pixels[:64, :64] = GREY[:64, :64]
    mean, strong = compute("edge_density", pixels).reshape(2, 4, 4)
    assert mean[:2, :2].min() > 10 * mean[2:, 2:].max()
    assert strong[:2, :2].min() > 0.1
    assert strong[2:, 2:].max() == 0


@pytest.mark.parametrize(("down", "right"), [(0, 3), (2, 0), (5, 7)])
def test_dct_finds_the_frequency_of_a_wave(down: int, right: int) -> None:
    y, x = (np.arange(128) + 0.5) * math.pi / 128, (np.arange(96) + 0.5) * math.pi / 96
    wave = np.outer(np.cos(y * down), np.cos(x * right))
    columns = np.abs(compute("dct", (127 + 100 * wave).astype(np.uint8)).reshape(8, 8))
    columns[0, 0] = 0
    assert columns.argmax() == 8 * down + right


def test_local_binary_patterns_know_flat_from_noise() -> None:
    flat = compute("local_binary_patterns", np.full((64, 64), 9, np.uint8))
    noise = compute("local_binary_patterns", GREY)
    assert flat.reshape(5, 10).sum(axis=1) == pytest.approx(np.ones(5))
    assert flat[8] > 0.9
    assert flat[9] == 0
    assert noise[9] > 0.2


def test_local_binary_patterns_tell_the_quarters_apart() -> None:
    pixels = np.full((64, 64), 9, np.uint8)
    pixels[:32, 32:] = GREY[:32, :32]
    whole, *quarters = compute("local_binary_patterns", pixels).reshape(5, 10)
    assert [quarter[8] > 0.9 for quarter in quarters] == [True, False, True, True]
    np.testing.assert_allclose(whole, np.mean(quarters, axis=0), atol=1e-6)


def test_cooccurrence_agrees_with_counting_pairs() -> None:
    pixels = GREY[:20, :24]
    contrast = contrast_of_pairs(pixels // 16, 2)
    assert compute("cooccurrence", pixels)[4] == pytest.approx(contrast, rel=1e-4)


def test_spectrum_finds_the_scale_of_a_texture() -> None:
    def loudest_ring(period: float) -> int:
        rings = compute("spectrum", stripes(0.1, period)).reshape(8, 4).sum(axis=1)
        return int(rings.argmax())

    rings = [loudest_ring(period) for period in (64, 32, 16, 8)]
    assert rings == sorted(set(rings))


@pytest.mark.parametrize("quarter", range(4))
def test_gabor_finds_orientation_and_scale(quarter: int) -> None:
    fine = compute("gabor", stripes(quarter * math.pi / 4, 8)).reshape(2, 4, 16)
    coarse = compute("gabor", stripes(quarter * math.pi / 4, 22)).reshape(2, 4, 16)
    assert fine[0].sum(axis=1).argmax() == quarter
    assert coarse[1].sum(axis=1).argmax() == quarter
    assert fine[0].sum() > fine[1].sum()
    assert coarse[1].sum() > coarse[0].sum()


def test_lines_finds_the_direction_of_a_straight_edge() -> None:
    upright = np.zeros((128, 128), np.uint8)
    upright[:, 64:] = 255
    longest = compute("lines", upright)[:18]
    level = compute("lines", upright.T)[:18]
    assert longest.argmax() == 9
    assert level.argmax() == 0
    assert longest.max() > 0.5


def test_self_similarity_agrees_with_comparing_every_pair() -> None:
    pixels = np.kron(GREY[:7, :9], np.ones((16, 16), np.uint8))
    pixels[:40, :60] = GREY[:40, :60]
    blocks = image.quarter(image.half(pixels))
    expected = likeness_of_blocks(blocks, 4)
    found = compute("self_similarity", pixels).reshape(2, 16)
    np.testing.assert_allclose(found, expected, atol=2 / 63)


def test_self_similarity_is_the_same_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = compute("self_similarity", GREY)
    monkeypatch.setattr(image, "PAIRS", 700)  # four and a bit of 144 blocks
    np.testing.assert_allclose(compute("self_similarity", GREY), whole)


def test_self_similarity_knows_a_pattern_from_noise() -> None:
    pattern = compute("self_similarity", np.tile(GREY[:16, :16], (8, 8)))
    noise = compute("self_similarity", GREY)
    assert pattern[31] == 1
    assert noise[31] < 0.2


def test_importing_features_loads_no_library_of_images() -> None:
    code = (
        "import sys, polydom.features\n"
        "from polydom.features.ready_made import image, text\n"
        "print({'PIL', 'skimage', 'scipy', 'sklearn'} & sys.modules.keys() or 'light')"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "light\n"
