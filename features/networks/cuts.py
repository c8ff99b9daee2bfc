"""Cuts a network into pieces where all its work passes through one tensor."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadFeature
from ..wording import hint
from .onnx_graph import Graph, subgraphs
from .pooled import cut_name, input_name
from .session import OUTPUT, Bytes, Tensor, import_library

# Shares of the work after which "auto" cuts, besides the end. Every cut costs some of
# the fusions of ONNX Runtime, so cuts are few.
SHARES = (0.2, 0.4, 0.65, 0.85)
NEAR = 1 / 16  # distance from such a share at which the narrowest tensor is taken
FAR = 1 / 8  # the same where none is near, as in networks of few layers
# Places that differ by less of the work are alike: of them the narrowest is told, and
# of equally narrow ones the last, whose values are normalised.
ALIKE = 0.01
# Most work that a cut may repeat, as a share: of a mask that all layers of a
# transformer read, little is computed again by each piece.
REPEATED = 0.01


class Place(NamedTuple):
    """A tensor at which a network can be cut."""

    tensor: str  # Name of the tensor
    operator: str  # Operator that computes it
    work: float  # Share of the work that is done up to it, in (0, 1]
    shape: tuple[int, ...]  # Shape of the tensor for one item

    @property
    def numbers(self) -> int:
        """Number of numbers in the tensor."""
        return int(np.prod(self.shape))


@dataclass(frozen=True, eq=False)
class Cutter:
    """Finds the places of a graph, and cuts it.

    `work` (N,) is the work of each node; `values` are the values of the graph for one
    item. `tokens` is the number of tokens of this item, if it is a text.
    """

    graph: Graph
    work: Sequence[float]
    values: dict[str, Tensor]
    tokens: int | None = None

    def needed(self, tensor: str, known: Iterable[str] = ()) -> set[int]:
        """Return the nodes that compute a tensor from `known` tensors and inputs."""
        writer, reads = self.graph.writer, self.graph.reads
        stops, found, left = {*known}, set[int](), [tensor]
        while left:
            name = left.pop()
            node = writer.get(name)
            if node is None or node in found or (name in stops and name != tensor):
                continue
            found.add(node)
            left += [read for read in reads[node] if read not in stops]
        return found

    def amount(self, nodes: Iterable[int]) -> float:
        """Return the total work of nodes."""
        return sum(self.work[node] for node in nodes)

    def places(self, end: str) -> list[Place]:
        """Return all places at which the work for the tensor `end` can be cut.

        The places ascend by work, and `end` is the last.
        """
        nodes = self.needed(end)
        total = self.amount(nodes) or 1.0
        found = []
        for node in sorted(nodes):
            for name in self.graph.writes[node]:
                value = self.values.get(name)
                if name == end or value is None or not self._is_place(value):
                    continue
                before = self.amount(self.needed(name))
                if not total * ALIKE < before < total * (1 - ALIKE):
                    continue
                after = self.amount(self.needed(end, [name]))
                if before + after <= total * (1 + REPEATED):
                    operator = self.graph.model.graph.node[node].op_type
                    found.append(Place(name, operator, before / total, value.shape))
        operator = self.graph.model.graph.node[self.graph.writer[end]].op_type
        return [*_unlike(found), Place(end, operator, 1.0, self.values[end].shape)]

    def _is_place(self, value: Tensor) -> bool:
        """Return True if a value can become columns: a vector, a map, or tokens."""
        if value.dtype.kind != "f" or value.shape[:1] != (1,) or value.size < 2:
            return False
        if self.tokens is None:
            return 2 <= value.ndim <= 4
        of_tokens = value.ndim == 3 and value.shape[1] == self.tokens
        return value.ndim == 2 or (of_tokens and value.shape[2] != self.tokens)

    def automatic(self, end: str) -> list[str]:
        """Return the tensors at which "auto" cuts: near `SHARES`, and the end.

        Of the places near a share the narrowest is taken, the output of a block.
        """
        places = self.places(end)[:-1]
        chosen: dict[str, None] = {}
        for share in SHARES:
            away = [(abs(one.work - share), one) for one in places]
            near = [one for one in away if one[0] <= NEAR]
            near = near or [one for one in away if one[0] <= FAR]
            if near:
                _, best = min(near, key=lambda one: (one[1].numbers, one[0]))
                chosen[best.tensor] = None
        return [*chosen, end]

    def cut(self, tensors: Sequence[str], where: str) -> list["CutPiece"]:
        """Cut the graph after each of `tensors`, which are in order of work.

        Raises BadFeature if a tensor is not there, depends on no input, or does not
        come after those before it.
        """
        names = [n for written in self.graph.writes for n in written]
        for tensor in tensors:
            if tensor not in names:
                raise BadFeature(
                    f"{where} has no tensor {tensor!r}; {hint(tensor, names)} "
                    "(`polydom features --network FILE` lists the places to cut)"
                )
            value = self.values.get(tensor)
            if value is None or value.dtype.kind != "f":
                raise BadFeature(
                    f"{where}: {tensor!r} is no tensor of floats of an item; a "
                    "feature needs one"
                )
        pieces, done = [], 0.0
        total = self.amount(set[int]().union(*map(self.needed, tensors))) or 1.0
        for position, tensor in enumerate(tensors):
            earlier = tensors[:position]
            nodes = self.needed(tensor, earlier)
            work = self.amount(nodes)
            done += work
            pieces.append(self._piece(nodes, tensor, earlier, min(done / total, 1.0)))
        if done > total * (1 + REPEATED * len(tensors)):
            raise BadFeature(
                f"{where}: its outputs are not in order, or cannot be cut there: the "
                f"pieces would do {done / total:.2f} times the work of the whole; "
                "`polydom features --network FILE` lists the places to cut"
            )
        return pieces

    def _piece(
        self, nodes: set[int], tensor: str, earlier: Sequence[str], work: float
    ) -> "CutPiece":
        graph = self.graph
        read = {name for node in nodes for name in graph.reads[node]}
        given = {one.name: k for k, one in enumerate(graph.inputs)}
        inputs = sorted(given[name] for name in read if name in given)
        after = [k for k, name in enumerate(earlier) if name in read]
        renamed = {graph.inputs[k].name: input_name(k) for k in inputs}
        renamed |= {earlier[k]: cut_name(k) for k in after}
        content = _extract(self, sorted(nodes), renamed, tensor)
        model = np.frombuffer(content, np.uint8)
        return CutPiece(model, inputs, after, max(work, 1e-6), self.values[tensor])


class CutPiece(NamedTuple):
    """A piece as it was cut."""

    model: Bytes  # (b,) uint8: ONNX model
    inputs: list[int]  # Positions of the network's inputs that it reads
    after: list[int]  # Positions of the earlier pieces whose outputs it reads
    work: float  # Share of the work done after it, in (0, 1]
    output: Tensor  # Its output for one item


def _unlike(places: Sequence[Place]) -> list[Place]:
    """Return one place of each group of places with nearly the same work."""
    chosen: list[Place] = []
    first = -1.0
    for place in sorted(places, key=lambda one: one.work):
        if place.work - first > ALIKE:
            chosen.append(place)
            first = place.work
        elif place.numbers <= chosen[-1].numbers:
            chosen[-1] = place
    return chosen


def _extract(
    cutter: Cutter, nodes: Sequence[int], renamed: dict[str, str], tensor: str
) -> bytes:
    """Return an ONNX model of some nodes, with neutral names and without notes.

    `renamed` maps the names of values that are given to the model's input names.
    """
    onnx, graph = import_library("onnx"), cutter.graph
    names = {**renamed, tensor: OUTPUT}
    made = onnx.ModelProto(ir_version=graph.model.ir_version)
    made.opset_import.extend(graph.model.opset_import)
    made.graph.name = "piece"
    weights = {one.name: one for one in graph.model.graph.initializer}
    sparse = {one.values.name: one for one in graph.model.graph.sparse_initializer}
    read = dict.fromkeys(name for node in nodes for name in graph.reads[node])
    for name in read:
        if name in weights:
            made.graph.initializer.add().CopyFrom(weights[name])
            made.graph.initializer[-1].name = _neutral(names, name)
            made.graph.initializer[-1].doc_string = ""
        elif name in sparse:
            made.graph.sparse_initializer.add().CopyFrom(sparse[name])
            made.graph.sparse_initializer[-1].values.name = _neutral(names, name)
    for position in nodes:
        node = made.graph.node.add()
        node.CopyFrom(graph.model.graph.node[position])
        for place, name in enumerate(node.output):
            if name in renamed:  # it is given, and computed again beside another value
                node.output[place] = f"{name} again"
        _rename(onnx, node, names)
    kinds = {one.name: _type_of(onnx, one.dtype) for one in graph.inputs}
    for name, own in renamed.items():
        kind = kinds.get(name)
        if kind is None:
            kind = _type_of(onnx, cutter.values[name].dtype.name)
        made.graph.input.append(onnx.helper.make_tensor_value_info(own, kind, None))
    kind = _type_of(onnx, cutter.values[tensor].dtype.name)
    made.graph.output.append(onnx.helper.make_tensor_value_info(OUTPUT, kind, None))
    content: bytes = made.SerializeToString(deterministic=True)
    return content


def _type_of(onnx: Any, dtype: str) -> int:
    if dtype in ("string", "object"):
        return int(onnx.TensorProto.STRING)
    return int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))


def _neutral(names: dict[str, str], name: str) -> str:
    if not name:  # an optional value that is left out
        return name
    return names.setdefault(name, f"v{len(names)}")


def _rename(onnx: Any, node: Any, names: dict[str, str]) -> None:
    """Give a node, and graphs inside of it, neutral names; ONNX has no name twice."""
    node.name = node.doc_string = ""
    del node.metadata_props[:]
    for values in (node.input, node.output):
        values[:] = [_neutral(names, name) for name in values]
    for attribute in node.attribute:
        attribute.doc_string = ""
        for graph in subgraphs(onnx, attribute):
            graph.name, graph.doc_string = "inner", ""
            del graph.value_info[:]
            for one in (*graph.input, *graph.output, *graph.initializer):
                one.name, one.doc_string = _neutral(names, one.name), ""
            for inner in graph.node:
                _rename(onnx, inner, names)
