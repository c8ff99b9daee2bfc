"""Opens an ONNX file for a build: checks that it fits, tries it, and cuts it."""

import hashlib
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadFeature
from ..items import SAMPLE_TEXT
from ..wording import hint
from .cuts import CutPiece, Cutter
from .facts import (
    MOST_SIDE,
    MOST_TOKENS,
    MOST_WIDTH,
    ColumnsFacts,
    ImageFacts,
    NetworkFacts,
    OfRecord,
    PieceFacts,
    TextFacts,
    TextInput,
)
from .inputs import Tensors, TextTokens, read_tokenizer
from .network import Network
from .onnx_graph import Graph, Input, read_graph, run_whole, work_of
from .session import Bytes, File, Tensor, refuse_absent
from .terms import NetworkTerms, Pool
from .trial import try_network
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


class ReadNetwork(NamedTuple):
    """A network of a file that was run on one item, and not yet cut."""

    facts: NetworkFacts  # Its inputs; it has no pieces yet
    tokenizer: Bytes | None  # (b,) uint8: File of a tokenizer, of texts
    tensors: Tensors  # Inputs on which it was run
    cutter: Cutter  # Finds the places at which it can be cut
    end: str  # Name of its last tensor


def read_network(terms: NetworkTerms, columns: Sequence[str] = ()) -> ReadNetwork:
    """Read the file of a network, and run it on one item.

    `columns` are the names of a record's columns. Raises BadFeature if the file is no
    ONNX file, needs other files or operators, or does not fit the terms; the message
    says what came and what is needed.
    """
    where = f"network {terms.name!r}"
    graph = _read(terms, where)
    facts, tokenizer = _facts(terms, graph, columns, where)
    tensors = _sample(facts, tokenizer, graph)
    names = [one.name for one in graph.inputs]  # a text's tensors are one more
    named = dict(zip(names, tensors, strict=False))
    try:
        values = run_whole(graph, named, where)
    except BadFeature as error:
        if facts.image is None or terms.sides:
            raise
        cure = "; if it takes images of one size, name that: sides = [384]"
        raise BadFeature(f"{error}{cure}") from None
    tokens = tensors[0].shape[1] if terms.kind == "text" else None
    cutter = Cutter(graph, work_of(graph, values), values, tokens)
    return ReadNetwork(facts, tokenizer, tensors, cutter, _end(graph, values, where))


def check_file(terms: NetworkTerms) -> None:
    """Raise BadFeature as `read_network` does, but do not run the network.

    The columns of a record are not known yet, and not checked.
    """
    where = f"network {terms.name!r}"
    _facts(terms, _read(terms, where), (), where)


def open_network(terms: NetworkTerms, columns: Sequence[str] = ()) -> Network:
    """Read the file of a network, and cut it as its terms say.

    Raises BadFeature as `read_network` does, and if the network cannot be cut so.
    """
    where = f"network {terms.name!r}"
    facts, tokenizer, tensors, cutter, end = read_network(terms, columns)
    pieces = cutter.cut(_tensors(terms, cutter, end), where)
    facts = _with_pieces(facts, terms, pieces, tensors, where)
    models = tuple(piece.model for piece in pieces)
    network = Network(facts, models, tokenizer)
    network.check()
    try_network(network, where)
    return network


def _read(terms: NetworkTerms, where: str) -> Graph:
    """Read the graph of a network's file, if the file has the right checksum."""
    refuse_absent(terms.providers, f"{where}: ")
    if terms.sha256 is not None:
        try:
            found = checksum_of(Path(terms.file))
        except OSError as error:
            raise BadFeature(f"{where}: {terms.file}: {error.strerror}") from None
        if found != terms.sha256.lower():
            raise BadFeature(
                f"{where}: the SHA-256 of {terms.file} is {found}; {terms.sha256} is "
                "needed"
            )
    return read_graph(Path(terms.file), where)


def checksum_of(file: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _facts(
    terms: NetworkTerms, graph: Graph, columns: Sequence[str], where: str
) -> tuple[NetworkFacts, Bytes | None]:
    """Return what the index says of a network, without pieces, and its tokenizer."""
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
    return _replaced(facts, **with_inputs), tokenizer


def _replaced(facts: NetworkFacts, **changes: Any) -> NetworkFacts:
    own = {name: getattr(facts, name) for name in facts.__struct_fields__}
    return NetworkFacts(**(own | changes))


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


def _sample(facts: NetworkFacts, tokenizer: Bytes | None, graph: Graph) -> Tensors:
    """Return inputs on which the network is tried: noise, a text, or ones."""
    if facts.image is not None:
        image = facts.image
        noise = np.random.default_rng(0).random((1, image.channels, *image.sizes[-1]))
        noise = np.moveaxis(noise, 1, -1) if image.channels_last else noise
        scaled = noise * 255 if image.dtype == "uint8" else noise
        return (np.ascontiguousarray(scaled.astype(image.dtype)),)
    if facts.text is not None:
        assert tokenizer is not None
        return TextTokens(facts.text, 0, File(tokenizer))(SAMPLE_TEXT)
    assert facts.record is not None
    return tuple(
        np.full(
            (1,) if own.flat else (1, len(own.columns)),
            "" if own.dtype == "string" else 1,
            object if own.dtype == "string" else own.dtype,
        )
        for own in facts.record
    )


def _end(graph: Graph, values: dict[str, Tensor], where: str) -> str:
    """Return the first output that is a tensor of floats, with an axis of items.

    Of an output that is a map from classes to scores, it is the tensor of the scores.
    """
    for name in graph.outputs:
        tensor = _scores(graph, name)
        value = values.get(tensor)
        computed = tensor in graph.writer and tensor not in graph.constants
        if computed and value is not None and value.dtype.kind == "f" and value.ndim:
            return tensor
    described = ", ".join(map(partial(_described, values), graph.outputs))
    raise BadFeature(
        f"{where} has the outputs {described or 'none'}; a tensor of floats that is "
        "computed from the item is needed, whose first axis is the items'"
    )


def _scores(graph: Graph, name: str) -> str:
    """Return the tensor that a ZipMap, as of scikit-learn, makes a map of."""
    node = graph.model.graph.node[graph.writer[name]] if name in graph.writer else None
    return node.input[0] if node is not None and node.op_type == "ZipMap" else name


def _described(values: dict[str, Tensor], name: str) -> str:
    if name not in values:
        return f"{name} (no tensor)"
    return f"{name}: {values[name].dtype} {values[name].shape}"


def _tensors(terms: NetworkTerms, cutter: Cutter, end: str) -> list[str]:
    if terms.outputs == "end":
        return [end]
    return cutter.automatic(end) if terms.outputs == "auto" else [*terms.outputs]


def _with_pieces(
    facts: NetworkFacts,
    terms: NetworkTerms,
    pieces: Sequence[CutPiece],
    tensors: Tensors,
    where: str,
) -> NetworkFacts:
    names = terms.names or [str(k + 1) for k in range(len(pieces))]
    if len(names) != len(pieces):
        raise BadFeature(
            f"{where} is cut into {len(pieces)} pieces, and names = {terms.names}; as "
            "many are needed"
        )
    described = [_piece_facts(facts, terms, piece, tensors, where) for piece in pieces]
    return _replaced(facts, stages=names, pieces=described)


def _piece_facts(
    facts: NetworkFacts,
    terms: NetworkTerms,
    piece: CutPiece,
    tensors: Tensors,
    where: str,
) -> PieceFacts:
    shape = piece.output.shape
    axes, of_tokens, width = pooling_of(facts, terms.pool, shape)
    if of_tokens and facts.kind == "text" and shape[1] != tensors[0].shape[1]:
        raise BadFeature(
            f"{where} gives {shape[1]} vectors for {tensors[0].shape[1]} tokens"
        )
    if shape[:1] != (1,):
        raise BadFeature(
            f"{where} gives an output of the shape {shape} for one item; the first "
            "axis must be the items'"
        )
    if not 0 < width <= MOST_WIDTH:
        raise BadFeature(
            f"{where} gives {width:,} columns; 1 to {MOST_WIDTH:,} are possible: name "
            "an earlier tensor in outputs"
        )
    return PieceFacts(piece.inputs, piece.after, axes, of_tokens, width, piece.work)


class Pooling(NamedTuple):
    """How a tensor of one item becomes columns; see `PieceFacts`."""

    axes: list[int]  # Axes over which columns are means
    of_tokens: Pool | None  # How vectors of tokens become one; None for other tensors
    width: int  # Number of columns


def pooling_of(facts: NetworkFacts, pool: Pool, shape: Sequence[int]) -> Pooling:
    """Return how a network's tensor of a shape (1, ...) becomes columns."""
    axes: list[int] = []
    if facts.image is not None and len(shape) == 4:
        axes = _places(shape, facts.image.sizes[-1])
    elif len(shape) == 3 and facts.kind != "record":
        return Pooling([], pool, shape[2])
    kept = [n for axis, n in enumerate(shape) if axis and axis not in axes]
    return Pooling(axes, None, math.prod(kept))


def _places(shape: Sequence[int], size: tuple[int, int]) -> list[int]:
    """Return the axes of height and width: those with the proportions of the image."""
    height, width = size
    first, last = (
        abs(shape[axis] * width - shape[axis + 1] * height) for axis in (1, 2)
    )
    return [1, 2] if first < last else [2, 3]
