"""Reads an ONNX file for a build: what it computes, and how much work each node is.

The library `onnx` is needed for builds alone; a server never imports it.
"""

import itertools
import math
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import BadFeature
from .other_formats import other_format
from .session import CPU_ONLY, Tensor, first_line, import_library, open_session

MOST_BYTES = (2 << 30) - 1  # bytes that protobuf can hold
MOST_S = 60  # seconds for one item; no budget is so long
# Sets of operators that come with ONNX Runtime, with the names of their domains.
DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
# Multiplications of an operator for each number of its output, if they are not one.
PRODUCTS = {"Conv", "ConvInteger", "QLinearConv", "ConvTranspose"}
# Operators whose output is another one each time
RANDOM = {
    "Bernoulli",
    "Multinomial",
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
}
MATRICES = {"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul", "DynamicQuantizeMatMul"}


class Input(NamedTuple):
    """An input of a network, as its file states it."""

    name: str
    dtype: str  # Type of its numbers, such as "float32", or "string"
    shape: tuple[int | None, ...]  # Lengths of its axes; None for an axis left open

    @property
    def described(self) -> str:
        """The input in words, such as `image: float32 (n, 3, 224, 224)`."""
        axes = ", ".join("n" if axis is None else str(axis) for axis in self.shape)
        return f"{self.name}: {self.dtype} ({axes})"


@dataclass(frozen=True, eq=False)
class Graph:
    """The graph of an ONNX file: N nodes, each after the nodes that it reads from."""

    model: Any  # The file as `onnx.ModelProto`
    inputs: tuple[Input, ...]  # Inputs that must be given
    outputs: tuple[str, ...]  # Names of the outputs
    reads: tuple[tuple[str, ...], ...]  # (N,): Names of the values that each node reads
    writes: tuple[tuple[str, ...], ...]  # (N,): Names of the values of each node
    constants: frozenset[str]  # Names of weights and of values computed from them alone

    @cached_property
    def writer(self) -> dict[str, int]:
        """Number of the node that computes each value."""
        return {name: k for k, names in enumerate(self.writes) for name in names}


def read_graph(file: Path, where: str) -> Graph:
    """Read and check an ONNX file.

    Raises BadFeature if the file cannot be read or is no ONNX file, if weights are in
    other files, if operators do not come with ONNX Runtime, or if an input or an output
    is no tensor. `where` begins the message.
    """
    onnx = import_library("onnx")
    try:
        size = file.stat().st_size
        content = file.read_bytes() if size <= MOST_BYTES else b""
    except OSError as error:
        raise BadFeature(f"{where}: {file}: {error.strerror}") from None
    if size > MOST_BYTES:
        raise BadFeature(
            f"{where}: {file} has {size:,} bytes; an ONNX file has at most "
            f"{MOST_BYTES:,}"
        )
    where = f"{where}: {file}"
    try:
        model = onnx.load_model_from_string(content)
    except Exception:  # protobuf and onnx have their own kinds of errors
        model = None
    if model is None or not model.graph.node:
        raise BadFeature(f"{where} is no ONNX file{other_format(content)}") from None
    model = _without_functions(model, where)
    _refuse_outside(onnx, model, where)
    _refuse_training(onnx, model, where)
    return _graph_of(onnx, model, where)


def _without_functions(model: Any, where: str) -> Any:
    """Return a model in which the nodes of its own functions are written out."""
    if not model.functions:
        return model
    inline = import_library("onnx.inliner").inline_local_functions
    try:
        return inline(model, convert_version=True)
    except Exception as error:  # the library has its own kinds of errors
        raise BadFeature(
            f"{where} has functions that cannot be written out: {first_line(error)}"
        ) from None


def _refuse_outside(onnx: Any, model: Any, where: str) -> None:
    for tensor in _tensors(onnx, model.graph):
        if tensor.external_data or tensor.data_location == tensor.EXTERNAL:
            raise BadFeature(
                f"{where} keeps the weight {tensor.name!r} in another file; save "
                "all in one file: onnx.save(onnx.load(FILE), ONE_FILE), or "
                "torch.onnx.export(..., external_data=False)"
            )
    for node in _nodes(onnx, model.graph):
        if node.domain not in DOMAINS:
            raise BadFeature(
                f"{where} needs the operator {node.domain}:{node.op_type}, which does "
                "not come with ONNX Runtime"
            )
        if node.op_type == "EPContext":
            raise BadFeature(
                f"{where} is compiled for one device (EPContext); the network before "
                "that is needed"
            )


def _refuse_training(onnx: Any, model: Any, where: str) -> None:
    """Raise BadFeature if an operator gives another output for the same item."""
    weights = {one.name: one for one in model.graph.initializer}
    for node in _nodes(onnx, model.graph):
        if node.op_type == "Constant" and node.attribute[0].HasField("t"):
            weights[node.output[0]] = node.attribute[0].t
    for node in _nodes(onnx, model.graph):
        trains = any(one.name == "training_mode" and one.i for one in node.attribute)
        if node.op_type == "Dropout" and len(node.input) > 2 and node.input[2]:
            given = weights.get(node.input[2])
            trains = given is None or bool(onnx.numpy_helper.to_array(given).any())
        if node.op_type in RANDOM or trains:
            raise BadFeature(
                f"{where} has {node.op_type}{' in training mode' * trains}, which "
                "gives other numbers for the same item each time; export the network "
                "after model.eval()"
            )


def _tensors(onnx: Any, graph: Any) -> Iterator[Any]:
    """Yield all weights: of the graph, of its nodes, and of graphs inside nodes."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield sparse.values
        yield sparse.indices
    for node in graph.node:
        for attribute in node.attribute:
            yield from attribute.tensors
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t
            for inner in subgraphs(onnx, attribute):
                yield from _tensors(onnx, inner)


def _nodes(onnx: Any, graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            for inner in subgraphs(onnx, attribute):
                yield from _nodes(onnx, inner)


def subgraphs(onnx: Any, attribute: Any) -> list[Any]:
    """Return the graphs in an attribute of a node, such as the branches of an If."""
    one = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else []
    return [*one, *attribute.graphs]


def read_names(onnx: Any, node: Any) -> list[str]:
    """Return the values that a node reads, also in graphs inside of it."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for graph in subgraphs(onnx, attribute):
            own = {one.name for one in (*graph.input, *graph.initializer)}
            for inner in graph.node:
                names += [name for name in read_names(onnx, inner) if name not in own]
                own.update(inner.output)
            names += [one.name for one in graph.output if one.name not in own]
    return names


def _graph_of(onnx: Any, model: Any, where: str) -> Graph:
    weights = {one.name for one in model.graph.initializer}
    weights |= {one.values.name for one in model.graph.sparse_initializer}
    inputs = tuple(
        _input(onnx, one, where) for one in model.graph.input if one.name not in weights
    )
    if not inputs:
        raise BadFeature(f"{where} has no input")
    reads = tuple(tuple(read_names(onnx, node)) for node in model.graph.node)
    writes = tuple(tuple(filter(None, node.output)) for node in model.graph.node)
    constants = {*weights}
    for read, written in zip(reads, writes, strict=True):
        if constants.issuperset(read):
            constants.update(written)
    outputs = tuple(one.name for one in model.graph.output)
    names = [*outputs, *constants, *(one.name for one in inputs)]
    for name in itertools.chain(names, *reads, *writes):
        if not isinstance(name, str):  # bytes, as protobuf gives what is no UTF-8
            raise BadFeature(f"{where} has the name {name!r}, which is no UTF-8")
    return Graph(model, inputs, outputs, reads, writes, frozenset(constants))


def _input(onnx: Any, value: Any, where: str) -> Input:
    kind = value.type
    if kind.WhichOneof("value") != "tensor_type":
        raise BadFeature(f"{where}: its input {value.name!r} is no tensor")
    elements = kind.tensor_type.elem_type
    dtype = "string"
    if elements != onnx.TensorProto.STRING:
        try:
            dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(elements)).name
        except KeyError:
            raise BadFeature(
                f"{where}: its input {value.name!r} is of no type that ONNX has"
            ) from None
    if not kind.tensor_type.HasField("shape"):
        raise BadFeature(
            f"{where}: its input {value.name!r} has no shape; "
            "onnx.shape_inference, or another export, states it"
        )
    shape = tuple(
        axis.dim_value if axis.HasField("dim_value") and axis.dim_value > 0 else None
        for axis in kind.tensor_type.shape.dim
    )
    return Input(value.name, dtype, shape)


def run_whole(graph: Graph, inputs: dict[str, Tensor], where: str) -> dict[str, Tensor]:
    """Run a network, and return all values that it computes, by name.

    Of computed constants only the kernels of convolutions are there, whose shapes say
    how much work these are. Values that are no tensors are left out. Raises BadFeature
    if the network cannot be run on these inputs.
    """
    model = type(graph.model)()
    model.CopyFrom(graph.model)
    products = (node for node in model.graph.node if node.op_type in PRODUCTS)
    left_out = graph.constants.difference(*(node.input for node in products))
    names = [n for written in graph.writes for n in written if n not in left_out]
    given = {*graph.outputs}
    for name in names:
        if name not in given:
            model.graph.output.add().name = name
    try:
        session = open_session(model.SerializeToString(), CPU_ONLY)
    except BadFeature as error:
        raise BadFeature(f"{where}: {error}") from None
    names = [*dict.fromkeys([*graph.outputs, *names])]
    values = _run_in_time(session, names, inputs, where)
    return {
        name: value
        for name, value in zip(names, values, strict=True)
        if isinstance(value, np.ndarray)
    }


def _run_in_time(
    session: Any, names: Sequence[str], inputs: dict[str, Tensor], where: str
) -> list[Any]:
    """Run a session, and return named values; raise BadFeature after `MOST_S`."""
    options = import_library("onnxruntime").RunOptions()
    limit = threading.Timer(MOST_S, setattr, (options, "terminate", True))
    limit.start()
    try:
        values: list[Any] = session.run(names, inputs, options)
    except Exception as error:  # the library has its own kinds of errors
        shapes = ", ".join(f"{name} {one.shape}" for name, one in inputs.items())
        reason = f"cannot be run on inputs of the shapes {shapes}: {first_line(error)}"
        if options.terminate:
            reason = f"takes more than {MOST_S} s for one item"
        raise BadFeature(f"{where} {reason}") from None
    finally:
        limit.cancel()
        limit.join()
    return values


def work_of(graph: Graph, values: dict[str, Tensor]) -> list[float]:
    """Return the work of each node (N,): its multiplications, or numbers that it makes.

    `values` are those of `run_whole`. Nodes that compute constants are no work.
    """
    shapes = {one.name: tuple(one.dims) for one in graph.model.graph.initializer}
    shapes |= {name: value.shape for name, value in values.items()}
    return [
        0.0
        if graph.constants.issuperset(written)
        else _work(node.op_type, [shapes.get(n, ()) for n in node.input], size)
        for node, written, size in zip(
            graph.model.graph.node, graph.writes, _sizes(graph, shapes), strict=True
        )
    ]


def _sizes(graph: Graph, shapes: dict[str, tuple[int, ...]]) -> Iterator[float]:
    for written in graph.writes:
        yield float(sum(math.prod(shapes.get(name, ())) for name in written))


def _work(operator: str, inputs: Sequence[tuple[int, ...]], size: float) -> float:
    """Return the multiplications of an operator that writes `size` numbers."""
    if operator in PRODUCTS:
        kernels = [shape for shape in inputs[1:] if len(shape) >= 3]
        return size * math.prod(kernels[0][1:]) if kernels else size
    if operator in MATRICES:
        return size * (inputs[0][-1] if inputs and inputs[0] else 1)
    return size
