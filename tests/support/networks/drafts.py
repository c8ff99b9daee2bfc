"""An ONNX graph that is written down node by node, with drawn weights."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import helper, numpy_helper

Shape = Sequence[int | str | None]


class Draft:
    """Nodes and weights of a graph, in the order in which they are added.

    Every method that adds something returns the name of the value.
    """

    def __init__(self, draw: np.random.Generator, dtype: str = "float32") -> None:
        self.draw, self.dtype = draw, dtype
        self.nodes: list[Any] = []
        self.weights: list[Any] = []
        self.names = 0

    def name(self, word: str = "value") -> str:
        """Return a name that no value has."""
        self.names += 1
        return f"{word}_{self.names}"

    def constant(self, array: NDArray[Any] | np.generic) -> str:
        """Add an array as a weight."""
        name = self.name("weight")
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def weight(self, *shape: int) -> str:
        """Draw a weight whose products stay about as large as what they are of."""
        size = np.sqrt(np.prod(shape[1:]) or 1.0)
        return self.constant((self.draw.normal(size=shape) / size).astype(self.dtype))

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one output."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(
        self, operator: str, count: int, *inputs: str, **attributes: Any
    ) -> list[str]:
        """Add a node of several outputs."""
        outputs = [self.name(operator) for _ in range(count)]
        node = helper.make_node(operator, inputs, outputs, **attributes)
        self.nodes.append(node)
        return outputs

    def model(
        self,
        inputs: Mapping[str, tuple[str, Shape]],
        outputs: Mapping[str, Shape],
        opset: int = 17,
        **changes: Any,
    ) -> Any:
        """Return an ONNX model with these inputs, types and shapes by name.

        `changes` are further arguments of `onnx.helper.make_model`. Outputs have the
        draft's type of number.
        """
        graph = helper.make_graph(
            self.nodes,
            "small",
            [value(name, *one) for name, one in inputs.items()],
            [value(name, self.dtype, shape) for name, shape in outputs.items()],
            self.weights,
        )
        opsets = [helper.make_opsetid("", opset)]
        opsets += [
            helper.make_opsetid(domain, 1)
            for domain in sorted({node.domain for node in self.nodes} - {""})
        ]
        changes = {"opset_imports": opsets, "ir_version": 8} | changes
        return helper.make_model(graph, **changes)


def value(name: str, dtype: str, shape: Shape) -> Any:
    """Describe an input or an output."""
    if dtype == "string":
        kind = onnx.TensorProto.STRING
    else:
        kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    return helper.make_tensor_value_info(name, kind, shape)
