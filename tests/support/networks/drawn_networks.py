"""Networks whose graph is drawn: operators of every form that files have."""

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import helper

from .drafts import Draft, value

WIDTH = 6
TO_FLOAT, TO_HALF = 1, 10


def drawn_network(seed: int, nodes: int = 10) -> Any:
    """Return a network of the input `rows` (n, WIDTH) with drawn operators.

    Some of its values are read twice, some not at all. Its output is `end` (n, WIDTH),
    and it may have a second, `other`.
    """
    draw = np.random.default_rng(seed)
    draft = Draft(draw)
    shared = draft.weight(WIDTH, WIDTH)
    values = ["rows", draft.add("MatMul", "rows", shared)]
    forms = [*FORMS]
    for _ in range(nodes):
        recent = values[-3:] if draw.random() < 0.8 else values
        a, b = (str(draw.choice(recent)) for _ in range(2))
        values.append(forms[draw.integers(len(forms))](draft, shared, a, b))
    draft.add("Add", values[-1], values[-2])
    draft.nodes[-1].output[0] = "end"
    outputs = {"end": ("n", WIDTH)}
    if draw.random() < 0.5:
        draft.add("Tanh", values[len(values) // 2])
        draft.nodes[-1].output[0] = "other"
        outputs = outputs | {"other": ("n", WIDTH)}
    model = draft.model({"rows": ("float32", ("n", WIDTH))}, outputs, 18)
    _with_default(model)
    if any(node.domain == "local" for node in model.graph.node):
        model.functions.append(_gate())
    return model


def _with_default(model: Any) -> None:
    """Let a weight be an input too, as files of old exporters have it."""
    one = model.graph.initializer[0]
    model.graph.input.append(value(one.name, "float32", [*one.dims]))


def _product(draft: Draft, shared: str, a: str, b: str) -> str:
    return draft.add("Gemm", a, draft.weight(WIDTH, WIDTH), draft.weight(WIDTH))


def _shared(draft: Draft, shared: str, a: str, b: str) -> str:
    return draft.add("Tanh", draft.add("MatMul", a, shared))


def _residual(draft: Draft, shared: str, a: str, b: str) -> str:
    return draft.add("Add", a, draft.add("Relu", b))


def _constant_node(draft: Draft, shared: str, a: str, b: str) -> str:
    tensor = helper.make_tensor("", TO_FLOAT, [WIDTH], draft.draw.normal(size=WIDTH))
    return draft.add("Mul", a, draft.add("Constant", value=tensor))


def _computed_weight(draft: Draft, shared: str, a: str, b: str) -> str:
    """Add a product with a weight that is computed of weights."""
    turned = draft.add("Transpose", shared, perm=[1, 0])
    return draft.add("Tanh", draft.add("MatMul", a, turned))


def _left_out(draft: Draft, shared: str, a: str, b: str) -> str:
    """Add a node whose optional input is left out."""
    return draft.add("Clip", a, "", draft.constant(np.float32(0.5)))


def _parts(draft: Draft, shared: str, a: str, b: str) -> str:
    """Add a node of several outputs, of which one may be read by nobody."""
    sizes = draft.constant(np.array([2, 1, WIDTH - 3]))
    parts = draft.several("Split", 3, a, sizes, axis=1)
    order = [parts[2], parts[0], parts[1]]
    if draft.draw.random() < 0.5:
        order = [parts[2], parts[2]]
    return draft.add("Concat", *order, axis=1)


def _dropout(draft: Draft, shared: str, a: str, b: str) -> str:
    return draft.several("Dropout", 2, a)[0]


def _half(draft: Draft, shared: str, a: str, b: str) -> str:
    half = draft.add("Sigmoid", draft.add("Cast", a, to=TO_HALF))
    return draft.add("Cast", half, to=TO_FLOAT)


def _branches(draft: Draft, shared: str, a: str, b: str) -> str:
    """Add an If, whose branches read values of the graph around it."""
    large = draft.add("Greater", draft.add("ReduceSum", a, keepdims=0), _zero(draft))
    branches = {}
    for branch, other in (("then_branch", b), ("else_branch", shared)):
        name = draft.name("inside")
        inner = helper.make_node("Add", [a, other], [f"{name}_sum"])
        if other is shared:
            inner = helper.make_node("MatMul", [a, other], [f"{name}_sum"])
        last = helper.make_node("Tanh", [f"{name}_sum"], [name])
        own = [value(name, "float32", ["n", WIDTH])]
        branches[branch] = helper.make_graph([inner, last], branch, [], own)
    return draft.add("If", large, **branches)


def _loop(draft: Draft, shared: str, a: str, b: str) -> str:
    """Add a Loop, whose body has the names of the others' bodies."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_on"], ["goes_on"]),
            helper.make_node("MatMul", ["carried", shared], ["product"]),
            helper.make_node("Tanh", ["product"], ["next"]),
        ],
        "body",
        [
            value("step", "int64", []),
            value("go_on", "bool", []),
            value("carried", "float32", ["n", WIDTH]),
        ],
        [value("goes_on", "bool", []), value("next", "float32", ["n", WIDTH])],
    )
    return draft.add("Loop", draft.constant(np.array(2)), "", a, body=body)


def _quantised(draft: Draft, shared: str, a: str, b: str) -> str:
    """Add the nodes of a quantised product, of which one has several outputs."""
    quantised, scale, zero = draft.several("DynamicQuantizeLinear", 3, a)
    weight = draft.draw.integers(-9, 9, (WIDTH, WIDTH)).astype(np.int8)
    product = draft.add("MatMulInteger", quantised, draft.constant(weight), zero)
    scaled = draft.add("Mul", draft.add("Cast", product, to=TO_FLOAT), scale)
    return draft.add("Mul", scaled, draft.constant(np.float32(0.05)))


def _microsoft(draft: Draft, shared: str, a: str, b: str) -> str:
    weight = draft.weight(WIDTH, WIDTH)
    gates = {"domain": "com.microsoft", "alpha": 0.5}
    return draft.add("Tanh", draft.add("FusedMatMul", a, weight, **gates))


def _local(draft: Draft, shared: str, a: str, b: str) -> str:
    return draft.add("Gate", a, b, domain="local")


def _zero(draft: Draft) -> str:
    return draft.constant(np.float32(0))


def _gate() -> Any:
    """Return the function local:Gate, x * sigmoid(y)."""
    return helper.make_function(
        "local",
        "Gate",
        ["x", "y"],
        ["z"],
        [
            helper.make_node("Sigmoid", ["y"], ["share"]),
            helper.make_node("Mul", ["x", "share"], ["z"]),
        ],
        [helper.make_opsetid("", 18)],
    )


FORMS: tuple[Callable[[Draft, str, str, str], str], ...] = (
    _product,
    _shared,
    _residual,
    _constant_node,
    _computed_weight,
    _left_out,
    _parts,
    _dropout,
    _half,
    _branches,
    _loop,
    _quantised,
    _microsoft,
    _local,
)
