"""Compares the words of a tokenizer with the table of words in a network."""

import logging
from collections.abc import Iterator
from typing import Any

from ..errors import BadFeature
from .onnx_graph import Graph

log = logging.getLogger("polydom")

# Operators that give the numbers of tokens on, in another form or type
SAME = {"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"}
# Operators that give a table of weights on
KEPT = {"Cast", "DequantizeLinear", "Identity"}
# Operators that look tokens up, with the positions of the table and of the tokens
LOOK_UPS = {"Gather": (0, 1), "EmbedLayerNormalization": (2, 0)}
# Least share of a table that a tokenizer uses; tables are rounded up, and have spares.
USED = 0.9


def refuse_other_words(graph: Graph, ids: str, words: int, where: str) -> None:
    """Raise BadFeature if a tokenizer has more words than a network.

    `words` is one more than the largest number of a token, and `ids` the input of such
    numbers. Warns if the network has many more words than the tokenizer.
    """
    rows = min(_rows_of_tables(graph, ids), default=None)
    if rows is None:
        return
    if words > rows:
        raise BadFeature(
            f"{where} knows {rows:,} words, and its tokenizer has {words:,}; the "
            "tokenizer that was published with the network is needed"
        )
    if words < rows * USED:
        log.warning(
            "%s knows %d words, and its tokenizer has %d; is it the tokenizer that was "
            "published with the network?",
            where,
            rows,
            words,
        )


def _rows_of_tables(graph: Graph, ids: str) -> Iterator[int]:
    """Yield the numbers of rows of the tables in which an input is looked up."""
    weights = {one.name: tuple(one.dims) for one in graph.model.graph.initializer}
    same = {ids}
    for node in graph.model.graph.node:
        inputs = [*node.input]
        if node.op_type in SAME and same.intersection(inputs[:1]):
            same.update(node.output)
        elif node.op_type in KEPT and inputs and inputs[0] in weights:
            weights[node.output[0]] = weights[inputs[0]]
        elif node.op_type in LOOK_UPS and len(inputs) > max(LOOK_UPS[node.op_type]):
            table, tokens = (inputs[k] for k in LOOK_UPS[node.op_type])
            if tokens in same and _axis(node) == 0:
                yield from weights.get(table, ())[:1]


def _axis(node: Any) -> int:
    return next((one.i for one in node.attribute if one.name == "axis"), 0)
