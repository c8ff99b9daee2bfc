"""Opens an ONNX file for a build: checks that it fits, tries it, and cuts it."""

import hashlib
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from ..errors import BadFeature
from ..items import SAMPLE_TEXT
from .cuts import CutPiece, Cutter
from .described_inputs import facts_of_inputs
from .facts import MOST_WIDTH, ImageFacts, NetworkFacts, PieceFacts
from .inputs import Tensors, TextTokens
from .network import Network
from .onnx_graph import Graph, read_graph, run_whole, work_of
from .session import Bytes, File, Tensor, refuse_absent
from .terms import NetworkTerms, Pool
from .trial import try_network


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
    facts, tokenizer = facts_of_inputs(terms, graph, columns, where)
    if facts.image is not None and len(facts.image.sizes) > 1 and not terms.sides:
        image = _with_possible_sizes(facts.image, graph, where)
        facts = msgspec.structs.replace(facts, image=image)
    tensors = _sample(facts, tokenizer, graph)
    names = [one.name for one in graph.inputs]  # a text's tensors are one more
    named = dict(zip(names, tensors, strict=False))
    values = run_whole(graph, named, where)
    tokens = tensors[0].shape[1] if terms.kind == "text" else None
    cutter = Cutter(graph, work_of(graph, values), values, tokens)
    return ReadNetwork(facts, tokenizer, tensors, cutter, _end(graph, values, where))


def check_file(terms: NetworkTerms) -> None:
    """Raise BadFeature as `read_network` does, but do not run the network.

    The columns of a record are not known yet, and not checked.
    """
    where = f"network {terms.name!r}"
    facts_of_inputs(terms, _read(terms, where), (), where)


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


def _with_possible_sizes(image: ImageFacts, graph: Graph, where: str) -> ImageFacts:
    """Leave out sizes that a network cannot take, although its file leaves them open.

    Raises BadFeature if it can take none.
    """
    possible, failed = list[tuple[int, int]](), BadFeature(where)
    for size in image.sizes:
        try:
            run_whole(graph, {graph.inputs[0].name: _noise(image, size)}, where)
            possible.append(size)
        except BadFeature as error:
            failed = error
    if not possible:
        cure = "if it takes images of one size, name that: sides = [384]"
        raise BadFeature(f"{failed}; {cure}") from None
    return msgspec.structs.replace(image, sizes=possible)


def _noise(image: ImageFacts, size: tuple[int, int]) -> Tensor:
    noise = np.random.default_rng(0).random((1, image.channels, *size))
    noise = np.moveaxis(noise, 1, -1) if image.channels_last else noise
    scaled = noise * 255 if image.dtype == "uint8" else noise
    return np.ascontiguousarray(scaled.astype(image.dtype))


def _sample(facts: NetworkFacts, tokenizer: Bytes | None, graph: Graph) -> Tensors:
    """Return inputs on which the network is tried: noise, a text, or ones."""
    if facts.image is not None:
        return (_noise(facts.image, facts.image.sizes[-1]),)
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
    return msgspec.structs.replace(facts, stages=names, pieces=described)


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
