"""Images, texts and records as a network's input, beside slow twins."""

import io
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from polydom.features.errors import BadItem
from polydom.features.items import image_item, record_item
from polydom.features.networks.facts import ColumnsFacts, ImageFacts, TextFacts
from polydom.features.networks.inputs import (
    Colours,
    ColumnTensors,
    ImageTensor,
    TextTokens,
)
from polydom.features.networks.session import File
from tests.support.networks.small_networks import WORDS, tokenizer
from tests.support.oracles.networks import image_tensor

SCALE, SHIFT = [0.1, 0.2, 0.3], [1.0, -1.0, 0.5]


def facts_of(size: tuple[int, int], **changes: Any) -> ImageFacts:
    usual: dict[str, Any] = {
        "channels": 3,
        "channels_last": False,
        "dtype": "float32",
        "factors": SCALE,
        "offsets": SHIFT,
        "colours": "rgb",
        "resize": "stretch",
    }
    return ImageFacts([size], **(usual | changes))


def tensor_of(data: bytes, facts: ImageFacts) -> NDArray[Any]:
    image_item(data)  # an item that may come
    (tensor,) = ImageTensor(facts, 0)(Colours(max(facts.sizes[0]))(data))
    return tensor


def encoded(picture: Image.Image, format: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    picture.save(file, format, **options)
    return file.getvalue()


def drawn(height: int, width: int, seed: int = 0) -> NDArray[np.uint8]:
    draw = np.random.default_rng(seed)
    return draw.integers(0, 256, (height, width, 3), dtype=np.uint8)


@pytest.mark.parametrize("resize", ["stretch", "crop"])
@pytest.mark.parametrize(
    ("shape", "size"),
    [
        ((9, 14), (9, 14)),
        ((9, 14), (6, 5)),
        ((14, 9), (5, 11)),
        ((1, 1), (4, 6)),
        ((1, 40), (3, 3)),
        ((40, 1), (3, 5)),
        ((3, 2), (8, 8)),
        ((23, 31), (7, 12)),
    ],
)
def test_an_image_is_resized_as_its_slow_twin(
    shape: tuple[int, int], size: tuple[int, int], resize: str
) -> None:
    pixels = drawn(*shape)
    found = tensor_of(encoded(Image.fromarray(pixels)), facts_of(size, resize=resize))
    expected = image_tensor(
        pixels, size, crops=resize == "crop", scale=SCALE, shift=SHIFT
    )
    assert found.shape == (1, 3, *size)
    assert found.dtype == np.float32
    # Pillow rounds in between, and first reduces a much larger image.
    most = 4 if max(shape) >= 4 * max(size) else 1.1
    levels = np.array(SCALE)[:, None, None] * most
    assert (np.abs(found[0] - expected) <= levels).all()


@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_is_turned_upright(orientation: int) -> None:
    """EXIF says where the first row and the first column of the upright image are."""
    stored = drawn(5, 8)
    turned = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.swapaxes(0, 1),
        6: stored[::-1].swapaxes(0, 1),
        7: stored[::-1, ::-1].swapaxes(0, 1),
        8: stored[:, ::-1].swapaxes(0, 1),
    }
    exif = Image.Exif()
    exif[0x0112] = orientation
    data = encoded(Image.fromarray(stored), exif=exif)
    upright = turned[orientation]
    found = tensor_of(data, facts_of(upright.shape[:2]))
    for channel in range(3):
        expected = upright[:, :, channel] * SCALE[channel] + SHIFT[channel]
        np.testing.assert_allclose(found[0, channel], expected, rtol=1e-6)


PICTURES = {
    "grey": lambda: Image.fromarray(drawn(6, 6)[:, :, 0]),
    "palette": lambda: Image.fromarray(drawn(6, 6)).quantize(9),
    "black and white": lambda: Image.fromarray(drawn(6, 6)[:, :, 0] > 99),
    "alpha": lambda: Image.fromarray(np.dstack([drawn(6, 6), drawn(6, 6)[:, :, 0]])),
    "grey and alpha": lambda: Image.fromarray(drawn(6, 6)[:, :, :2], "LA"),
}


@pytest.mark.parametrize("name", PICTURES)
def test_images_of_every_mode_are_colours(name: str) -> None:
    """Transparency is ignored, and grey is equal red, green and blue."""
    picture = PICTURES[name]()
    found = tensor_of(encoded(picture), facts_of((6, 6), dtype="uint8"))
    expected = np.asarray(picture.convert("RGB")).astype(int)
    assert found.dtype == np.uint8
    assert np.array_equal(np.moveaxis(found[0], 0, 2), expected)


@pytest.mark.parametrize("size", [(9, 14), (6, 5), (1, 1), (20, 30)])
@pytest.mark.parametrize("resize", ["stretch", "crop"])
@pytest.mark.parametrize("change", [{}, {"colours": "bgr"}, {"channels_last": True}])
def test_greys_are_what_equal_colours_are(
    size: tuple[int, int], resize: str, change: dict[str, Any]
) -> None:
    """Greys are resized once, and equal colours each for itself."""
    greys = Image.fromarray(drawn(9, 14)[:, :, 0])
    facts = facts_of(size, resize=resize, **change)
    found = tensor_of(encoded(greys), facts)
    assert np.array_equal(found, tensor_of(encoded(greys.convert("RGB")), facts))


def test_grey_levels_of_16_bits_lose_their_low_bytes() -> None:
    levels = np.random.default_rng(0).integers(0, 1 << 16, (6, 6), dtype=np.uint16)
    found = tensor_of(encoded(Image.fromarray(levels)), facts_of((6, 6), dtype="uint8"))
    for channel in range(3):
        assert np.array_equal(found[0, channel], levels >> 8)


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "L"])
def test_a_photo_is_about_itself_at_every_scale_of_its_decoder(mode: str) -> None:
    """A JPEG of 8 times the side is decoded at an eighth."""
    ramp = np.linspace(20, 230, 256)
    pixels = np.dstack([np.tile(ramp, (256, 1)), np.tile(ramp[:, None], (1, 256))])
    pixels = np.dstack([pixels, np.full((256, 256), 128)]).astype(np.uint8)
    picture = Image.fromarray(pixels).convert(mode)
    data = encoded(picture, "JPEG", quality=95)
    small = np.asarray(picture.convert("RGB").reduce(8)).astype(int)
    found = tensor_of(data, facts_of((32, 32), dtype="uint8"))
    assert np.abs(np.moveaxis(found[0], 0, 2) - small).max() <= 6


def test_channels_are_in_the_networks_order() -> None:
    pixels = drawn(4, 6)
    data = encoded(Image.fromarray(pixels))
    usual = tensor_of(data, facts_of((4, 6)))
    assert usual.flags.c_contiguous
    bgr = tensor_of(data, facts_of((4, 6), colours="bgr", dtype="uint8"))
    assert np.array_equal(np.moveaxis(bgr[0], 0, 2), pixels[:, :, ::-1])
    last = tensor_of(data, facts_of((4, 6), channels_last=True))
    assert last.flags.c_contiguous
    assert np.array_equal(last[0], np.moveaxis(usual[0], 0, 2))
    half = tensor_of(data, facts_of((4, 6), dtype="float16"))
    assert np.array_equal(half, usual.astype(np.float16))
    one = {"channels": 1, "factors": [1.0], "offsets": [0.0]}
    grey = tensor_of(data, facts_of((4, 6), **one))
    levels = pixels @ np.array([0.299, 0.587, 0.114])
    assert grey.shape == (1, 1, 4, 6)
    assert np.abs(grey[0, 0] - levels).max() <= 1


def test_a_large_image_is_resized() -> None:
    data = encoded(Image.new("RGB", (2400, 1600), (10, 20, 30)))
    found = tensor_of(data, facts_of((32, 32), dtype="uint8"))
    assert {*found[0, 0].flat, *found[0, 2].flat} == {10, 30}


def tokens_of(text: str, most: int, **changes: Any) -> list[Any]:
    usual: dict[str, Any] = {
        "padded": False,
        "inputs": ["ids", "mask", "types"],
        "dtypes": ["int64", "int32", "int64"],
    }
    facts = TextFacts([most], **(usual | changes))
    content = np.frombuffer(changes.pop("content", tokenizer()), np.uint8)
    return [*TextTokens(facts, 0, File(content))(text)]


def twin_of_tokens(text: str, most: int) -> list[int]:
    """Look each word up, between the first and the last token."""
    words = text[: 16 * most].split()[: most - 2]
    known = {word: k for k, word in enumerate(WORDS)}
    return [1, *(known.get(word, 3) for word in words), 2]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \n\t",
        "win cash now",
        "win " * 1000,
        "x" * 5000,
        "hello \N{GRINNING FACE} you",
        "nul\0nul you",
        "[CLS] [SEP]",
    ],
)
@pytest.mark.parametrize("most", [2, 3, 8])
def test_a_text_is_divided_as_its_slow_twin(text: str, most: int) -> None:
    ids, mask, types, own = tokens_of(text, most)
    expected = twin_of_tokens(text, most)
    assert ids.tolist() == [expected]
    assert mask.tolist() == own.tolist() == [[1] * len(expected)]
    assert types.tolist() == [[0] * len(expected)]
    assert [one.dtype for one in (ids, mask, types, own)] == [
        np.int64,
        np.int32,
        np.int64,
        np.float32,
    ]
    padded, mask, types, own = tokens_of(text, most, padded=True)
    rest = [0] * (most - len(expected))
    assert padded.tolist() == [expected + rest]
    assert mask.tolist() == own.tolist() == [[1] * len(expected) + rest]


def test_halves_of_characters_are_joined_or_replaced() -> None:
    """JSON may write them, and UTF-8 cannot; the library refuses them."""
    whole = tokens_of("win \N{GRINNING FACE} \N{REPLACEMENT CHARACTER} you", 8)
    halves = tokens_of("win \ud83d\ude00 \ude00 you", 8)
    assert [a.tolist() for a in whole] == [b.tolist() for b in halves]


def test_a_text_is_filled_up_with_the_tokenizers_own_token() -> None:
    """Of some tokenizers it is not 0, and a network finds its mask by it."""
    words = ("<s>", "[CLS]", "[SEP]", "[UNK]", "win", "<pad>")
    facts = TextFacts([6], True, ["ids"], ["int64"])

    def ids(content: bytes) -> list[int]:
        own = File(np.frombuffer(content, np.uint8))
        return list(TextTokens(facts, 0, own)("win")[0][0].tolist())

    assert ids(tokenizer(words)) == [1, 4, 2, 5, 5, 5]
    said = tokenizer(words).replace(
        b'"padding":null',
        b'"padding":{"strategy":{"Fixed":9},"direction":"Left","pad_to_multiple_of":'
        b'null,"pad_id":3,"pad_type_id":0,"pad_token":"[UNK]"}',
    )
    assert said != tokenizer(words)
    assert ids(said) == [1, 4, 2, 3, 3, 3]
    assert ids(tokenizer(("a", "[CLS]", "[SEP]", "[UNK]", "win"))) == [1, 4, 2, 0, 0, 0]


def columns_of(record: Any, dtype: str, *names: str, flat: bool = False) -> Any:
    facts = ColumnsFacts([*names], dtype, flat)  # type: ignore[arg-type]
    (tensor,) = ColumnTensors([facts])(record_item(record).payload)  # type: ignore[arg-type]
    assert tensor.dtype == (object if dtype == "string" else dtype)
    return tensor


def test_numbers_of_records_are_taken_in_order() -> None:
    record = {"a": 1, "b": 2.5, "c": True, "d": Decimal("0.25"), "e": np.int16(7)}
    found = columns_of(record, "float64", "e", "d", "c", "b", "a")
    assert found.tolist() == [[7, 0.25, 1, 2.5, 1]]
    assert columns_of(record, "float32", "b", flat=True).tolist() == [2.5]
    gaps = columns_of({"a": None, "b": float("nan")}, "float32", "a", "b", "c")
    assert np.isnan(gaps).all()
    assert gaps.shape == (1, 3)
    whole = columns_of({"a": 3, "b": 4.0, "c": True}, "int64", "a", "b", "c")
    assert whole.tolist() == [[3, 4, 1]]
    with np.errstate(all="raise"):
        assert np.isinf(columns_of({"a": 1e300}, "float32", "a")).all()


def test_words_of_records_are_taken_as_people_write_them() -> None:
    record = {"a": "x", "b": 12345678.0, "c": 12, "d": 0.1, "e": None, "f": "\ud800"}
    found = columns_of(record, "string", *"abcdefg")
    assert found.tolist() == [
        ["x", "12345678", "12", "0.1", "", "\N{REPLACEMENT CHARACTER}", ""]
    ]


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ("12", "float32", "column 'a' holds a text and is a number"),
        (2.5, "int64", "column 'a' is 2.5"),
        (None, "int64", "column 'a' is nan"),
        (float("inf"), "int32", "column 'a' is inf"),
        (3e9, "int32", "column 'a' is 3e[+]09"),
        (1e19, "int64", "column 'a' is 1e[+]19"),
        (2**63, "int64", "column 'a' is"),
    ],
)
def test_values_that_are_no_input_of_the_network_are_refused(
    value: Any, dtype: str, message: str
) -> None:
    with pytest.raises(BadItem, match=message):
        columns_of({"a": value}, dtype, "a")
