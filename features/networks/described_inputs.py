"""What the inputs of a network get, by its file and by a user's terms."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from ..errors import BadFeature
from ..wording import hint
from .facts import (
    MOST_SIDE,
    MOST_TOKENS,
    ColumnsFacts,
    ImageFacts,
    NetworkFacts,
    OfRecord,
    TextFacts,
    TextInput,
)
from .inputs import read_tokenizer
from .onnx_graph import Graph, Input
from .session import Bytes
from .terms import NetworkTerms
from .vocabulary import refuse_other_words

SIDES = (128, 224)  # pixels a side, if the network leaves them open
TOKENS = (32, 128)
WHOLE = 1 / 255
# Types of the numbers of tokens, and of the mask, which some exports have as floats
NUMBER_TYPES = ("int64", "int32")
MASK_TYPES = (*NUMBER_TYPES, "float32", "bool")
# Words in the names of a text network's inputs, by what the input gets.
TEXT_NAMES: tuple[tuple[TextInput, tuple[str, ...]], ...] = (
    ("mask", ("mask",)),
    ("types", ("type", "segment")),
    ("ids", ("id", "token", "input")),
)


def facts_of_inputs(
    terms: NetworkTerms, graph: Graph, columns: Sequence[str], where: str
) -> tuple[NetworkFacts, Bytes | None]:
    """Return what an index says of a network, without pieces, and its tokenizer.

    `columns` are the names of a record's columns. Raises BadFeature if the inputs do
    not fit the terms, or the tokenizer does not fit the network. `where` begins the
    message.
    """
    facts = NetworkFacts(terms.name, terms.kind, [], [], providers=terms.providers)
    with_inputs: dict[str, Any] = {}
    tokenizer = None
    if terms.kind == "image":
        with_inputs["image"] = _image(terms, graph.inputs, where)
    elif terms.kind == "text":
        tokenizer, words = _tokenizer(terms, where)
        text = _text(terms, graph.inputs, where)
        ids = graph.inputs[text.inputs.index("ids")].name
        refuse_other_words(graph, ids, words, where)
        with_inputs["text"] = text
    else:
        with_inputs["record"] = _record(terms, graph.inputs, columns, where)
    return msgspec.structs.replace(facts, **with_inputs), tokenizer


def _one_input(inputs: Sequence[Input], what: str, where: str) -> Input:
    if len(inputs) == 1:
        return inputs[0]
    described = "; ".join(one.described for one in inputs)
    raise BadFeature(
        f"{where} has {len(inputs)} inputs ({described}); a network of {what} has one"
    )


def _image(terms: NetworkTerms, inputs: Sequence[Input], where: str) -> ImageFacts:
    one = _one_input(inputs, "images", where)
    needed = (
        "images need one input of the form (1, 3, height, width), or with the 3 "
        "channels last, of float32, float16 or uint8; the first axis is open (n) or 1"
    )
    dtype, shape = one.dtype, one.shape
    if dtype not in ("float32", "float16", "uint8") or len(shape) != 4:
        raise BadFeature(f"{where} has the input {one.described}; {needed}")
    last = shape[1] not in (1, 3) and shape[3] in (1, 3)
    channels = shape[3] if last else shape[1]
    if channels is None:
        channels = 3
    if channels not in (1, 3) or shape[0] not in (None, 1):
        raise BadFeature(f"{where} has the input {one.described}; {needed}")
    sizes = _sizes(terms, shape[1:3] if last else shape[2:4], where)
    scale = terms.scale or (1.0 if dtype == "uint8" else WHOLE)
    if dtype == "uint8" and (terms.mean or terms.std or scale != 1.0):
        raise BadFeature(
            f"{where} takes bytes, {one.described}, which are given as they are; "
            "leave out mean, std and scale"
        )
    mean = _each(terms.mean or [0.0], channels, "mean", where)
    std = _each(terms.std or [1.0], channels, "std", where)
    if terms.colours == "bgr":
        mean, std = mean[::-1], std[::-1]
    return ImageFacts(
        sizes,
        1 if channels == 1 else 3,
        last,
        dtype,  # type: ignore[arg-type]
        [scale / own for own in std],
        [-m / s for m, s in zip(mean, std, strict=True)],
        terms.colours,
        terms.resize,
    )


def _sizes(
    terms: NetworkTerms, stated: Sequence[int | None], where: str
) -> list[tuple[int, int]]:
    height, width = stated
    if height is None and width is None:
        return [(side, side) for side in terms.sides or SIDES]
    size = height or width or 0, width or height or 0
    if max(size) > MOST_SIDE:
        raise BadFeature(
            f"{where} takes {size[0]} x {size[1]} pixels; {MOST_SIDE:,} a side is the "
            "most"
        )
    if terms.sides and terms.sides != [size[0]]:
        raise BadFeature(
            f"{where} takes {size[0]} x {size[1]} pixels only, and sides = "
            f"{terms.sides}; leave sides out, or export the network with open sides "
            "(dynamic_axes, or dynamic_shapes)"
        )
    return [size]


def _each(given: Sequence[float], channels: int, key: str, where: str) -> list[float]:
    if len(given) not in (1, channels):
        raise BadFeature(
            f"{where} has {channels} channel{'s' * (channels > 1)} and {key} = "
            f"{[*given]}; as many numbers are needed"
        )
    return [*given] * (channels // len(given))


def _tokenizer(terms: NetworkTerms, where: str) -> tuple[Bytes, int]:
    """Return the tokenizer's file, and one more than its largest number of a token."""
    assert terms.tokenizer is not None
    try:
        content = Path(terms.tokenizer).read_bytes()
        known = read_tokenizer(content).get_vocab().values()
    except OSError as error:
        raise BadFeature(f"{where}: {terms.tokenizer}: {error.strerror}") from None
    except ValueError as error:
        raise BadFeature(
            f"{where}: {terms.tokenizer} is no file of the library tokenizers "
            f"({error}); tokenizer.json is needed, which "
            'AutoTokenizer.from_pretrained(...).save_pretrained("folder") writes'
        ) from None
    return np.frombuffer(content, np.uint8), max(known, default=0) + 1


def _text(terms: NetworkTerms, inputs: Sequence[Input], where: str) -> TextFacts:
    roles: list[TextInput] = []
    for one in inputs:
        role = _role(one.name) if len(inputs) > 1 else "ids"
        types = MASK_TYPES if role == "mask" else NUMBER_TYPES
        if role is None or role in roles or one.dtype not in types:
            described = "; ".join(each.described for each in inputs)
            raise BadFeature(
                f"{where} has the inputs {described}; a network of texts needs whole "
                "numbers named like input_ids, and may have attention_mask and "
                "token_type_ids"
            )
        roles.append(role)
        if len(one.shape) != 2 or one.shape[0] not in (None, 1):
            raise BadFeature(
                f"{where} has the input {one.described}; texts need (1, tokens), "
                "with the first axis open (n) or 1"
            )
    if "ids" not in roles:
        raise BadFeature(f"{where} has no input of numbers of tokens, like input_ids")
    lengths = {one.shape[1] for one in inputs} - {None}
    if not lengths:
        tokens, padded = terms.tokens or [*TOKENS], False
    else:
        tokens, padded = [max(one for one in lengths if one)], True
        if tokens[0] > MOST_TOKENS:
            raise BadFeature(
                f"{where} takes {tokens[0]:,} tokens; {MOST_TOKENS:,} is the most"
            )
        if terms.tokens and terms.tokens != tokens:
            raise BadFeature(
                f"{where} takes {tokens[0]} tokens only, and tokens = {terms.tokens}; "
                "leave tokens out, or export the network with an open length"
            )
    dtypes = [one.dtype for one in inputs]
    return TextFacts(tokens, padded, roles, dtypes)  # type: ignore[arg-type]


def _role(name: str) -> TextInput | None:
    lower = name.casefold()
    for role, words in TEXT_NAMES:
        if any(word in lower for word in words):
            return role
    return None


def _record(
    terms: NetworkTerms, inputs: Sequence[Input], columns: Sequence[str], where: str
) -> list[ColumnsFacts]:
    if not terms.columns:
        return [_column(one, columns, where) for one in inputs]
    one = _one_input(inputs, "the named columns", where)
    for name in terms.columns:
        if columns and name not in columns:
            raise BadFeature(
                f"{where} names the column {name!r}, which no row has; "
                f"{hint(name, columns, 0.4)}"
            )
    if len(one.shape) != 2 or one.shape[1] not in (None, len(terms.columns)):
        raise BadFeature(
            f"{where} has the input {one.described}, and {len(terms.columns)} columns "
            "are named; as many as the input has are needed, in its order"
        )
    return [ColumnsFacts(terms.columns, _of_record(one, where), flat=False)]


def _column(one: Input, columns: Sequence[str], where: str) -> ColumnsFacts:
    if columns and one.name not in columns:
        raise BadFeature(
            f"{where} has the input {one.described}, and no row has a column of that "
            "name; name the columns in the order of the input: columns = "
            f'["{columns[0]}", ...]'
        )
    if len(one.shape) not in (1, 2) or one.shape[1:] not in ((), (None,), (1,)):
        raise BadFeature(
            f"{where} has the input {one.described}; a column is (1,) or (1, 1)"
        )
    return ColumnsFacts([one.name], _of_record(one, where), flat=len(one.shape) == 1)


def _of_record(one: Input, where: str) -> OfRecord:
    if one.dtype not in ("float32", "float64", "int64", "int32", "string"):
        raise BadFeature(
            f"{where} has the input {one.described}; columns are float32, float64, "
            "int64, int32 or string"
        )
    return one.dtype  # type: ignore[return-value]
