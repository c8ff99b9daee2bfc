"""The input of a network: an image, a text or a record as tensors.

Each class here is the function of a step. Its result is a tuple of arrays, one for each
input of the network, with a first axis of length 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadFeature, BadItem
from ..items import Value
from .facts import ColumnsFacts, ImageFacts, TextFacts
from .session import File, Tensor, import_library

Tensors = tuple[Tensor, ...]

# Characters of a text that are read for each token; usual tokens have four or five. A
# tokenizer would read the whole of a long text before it cuts it.
CHARACTERS = 16
FLOAT_TYPES = ("float32", "float64")
# Usual words of a token that fills up a text; of others, a tokenizer says its number.
FILLERS = ("[PAD]", "<pad>")


@dataclass(frozen=True)
class Colours:
    """Decodes an image to upright colours, with at least `side` pixels a side.

    A JPEG is decoded at the smallest of the scales 1, 1/2, 1/4 and 1/8 that has so many
    pixels; another image at its own size.
    """

    side: int

    def __call__(self, data: bytes) -> Any:
        """Return an image of Pillow, of the mode RGB, or L if all is grey."""
        from ..ready_made.image_pixels import decode_colours

        return decode_colours(data, self.side)


@dataclass(frozen=True, eq=False)
class ImageTensor:
    """Resizes a decoded image, and scales its pixels."""

    facts: ImageFacts
    variant: int  # Position of the size among `facts.sizes`

    def __call__(self, picture: Any) -> Tensors:
        """Return a tensor (1, channels, height, width), or with the channels last."""
        from ..ready_made.image_pixels import resized

        facts = self.facts
        height, width = facts.sizes[self.variant]
        if facts.channels == 1:
            picture = picture.convert("L")
        # Greys are resized once, and not once for each of the channels.
        small = resized(picture, width, height, crops=facts.resize == "crop")
        levels = np.asarray(small).reshape(height, width, -1)
        pixels = np.broadcast_to(levels, (height, width, facts.channels))
        if facts.colours == "bgr":
            pixels = pixels[:, :, ::-1]
        if facts.dtype == "uint8":
            scaled: Tensor = np.moveaxis(pixels, -1, 0)
        else:
            scaled = np.empty((facts.channels, height, width), np.float32)
            for channel, plane in enumerate(scaled):
                factor, offset = facts.factors[channel], facts.offsets[channel]
                np.multiply(pixels[:, :, channel], np.float32(factor), out=plane)
                plane += np.float32(offset)
        if facts.channels_last:
            scaled = np.moveaxis(scaled, 0, -1)
        return (np.ascontiguousarray(scaled, facts.dtype)[np.newaxis],)


@dataclass(frozen=True, eq=False)
class TextTokens:
    """Divides a text into tokens, by a tokenizer of the library `tokenizers`."""

    facts: TextFacts
    variant: int  # Position of the number of tokens among `facts.tokens`
    tokenizer: File  # The tokenizer's file, JSON in UTF-8

    @cached_property
    def ready(self) -> tuple[Any, int]:
        """Function that divides a text, and the number of the token that fills up."""
        try:
            tokenizer = read_tokenizer(self.tokenizer.content.tobytes())
        except ValueError as error:
            raise BadFeature(f"it cannot be read: {error}") from error
        filler = (tokenizer.padding or {}).get("pad_id")
        for word in FILLERS:
            filler = tokenizer.token_to_id(word) if filler is None else filler
        tokenizer.no_padding()
        tokenizer.enable_truncation(self.facts.tokens[self.variant])
        return tokenizer.encode, filler or 0

    def __call__(self, text: str) -> Tensors:
        """Return numbers, mask or types of the tokens (1, t), as the network reads.

        The last tensor is always the mask (1, t) float32: 1 for a token of the text, 0
        for one that fills up.
        """
        encode, filler = self.ready
        most = self.facts.tokens[self.variant]
        found = _divided(encode, text[: CHARACTERS * most])
        count = len(found.ids)
        length = most if self.facts.padded else max(count, 1)
        parts = {
            "ids": (found.ids, filler),
            "mask": (found.attention_mask, 0),
            "types": (found.type_ids, 0),
        }
        tensors = []
        dtypes = [*self.facts.dtypes, np.float32]
        for part, dtype in zip([*self.facts.inputs, "mask"], dtypes, strict=True):
            own, rest = parts[part]
            tensor = np.full((1, length), rest, dtype)
            tensor[0, :count] = own
            tensors.append(tensor)
        return tuple(tensors)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the tokenizer's object out of a pickle."""
        return {n: getattr(self, n) for n in ("facts", "variant", "tokenizer")}


def _divided(encode: Any, text: str) -> Any:
    try:
        return encode(text)
    except TypeError:  # it has halves of characters, which no text in UTF-8 has
        return encode(whole_characters(text))
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # of Rust; it is no Exception
            raise BadFeature(f"its tokenizer fails: {error}") from None
        raise


def whole_characters(text: str) -> str:
    """Join halves of characters (UTF-16), and replace those that have no other half."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def read_tokenizer(content: bytes) -> Any:
    """Return a `tokenizers.Tokenizer` of a JSON file; ValueError if it is none."""
    tokenizers = import_library("tokenizers")
    try:
        return tokenizers.Tokenizer.from_str(content.decode())
    except Exception as error:  # the library raises Exception itself
        raise ValueError(str(error).partition("\n")[0]) from error


@dataclass(frozen=True, eq=False)
class ColumnTensors:
    """Takes the columns of a record that are the inputs of a network."""

    facts: list[ColumnsFacts]

    def __call__(self, record: Mapping[str, Value]) -> Tensors:
        """Return a tensor (1, columns) for each input, or (1,) if the input is flat.

        A missing number is NaN, a missing text is empty. Raises BadItem if a column
        holds a text where a number is needed.
        """
        return tuple(_tensor_of(one, record) for one in self.facts)


def _tensor_of(facts: ColumnsFacts, record: Mapping[str, Value]) -> Tensor:
    made: NDArray[Any]
    if facts.dtype == "string":
        made = np.array([_text(record.get(name)) for name in facts.columns], object)
    else:
        numbers = [_number(name, record.get(name)) for name in facts.columns]
        if facts.dtype not in FLOAT_TYPES:
            _refuse_fractions(facts, numbers)
        with np.errstate(over="ignore"):
            made = np.array(numbers).astype(facts.dtype)
    return made if facts.flat else made[np.newaxis]


def _refuse_fractions(facts: ColumnsFacts, numbers: Sequence[float]) -> None:
    limits = np.iinfo(facts.dtype)
    for name, number in zip(facts.columns, numbers, strict=True):
        if not (number.is_integer() and limits.min <= number < limits.max):
            raise BadItem(
                f"column {name!r} is {number:g}, and a network's input of whole "
                f"numbers ({facts.dtype})"
            )


def _text(value: Value) -> str:
    """Return a value as people write it, such as `12` for 12.0."""
    if value is None or value != value:
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value)
    return text if text.isascii() else whole_characters(text)


def _number(name: str, value: Value) -> float:
    if isinstance(value, str):
        raise BadItem(
            f"column {name!r} holds a text and is a number in a network's input"
        )
    return np.nan if value is None else float(value)
