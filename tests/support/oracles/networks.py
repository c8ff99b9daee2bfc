"""Slow twins of networks: the whole network, run without any optimisation."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.inliner
import onnxruntime
from numpy.typing import NDArray


def whole(
    model: Any, names: Sequence[str], inputs: Mapping[str, NDArray[Any]]
) -> list[NDArray[Any]]:
    """Run a network at once, as its file has it; return the named values."""
    known = onnx.inliner.inline_local_functions(model)
    outputs = {one.name for one in known.graph.output}
    for name in names:
        if name not in outputs:
            known.graph.output.add().name = name
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    none = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.graph_optimization_level = none
    session = onnxruntime.InferenceSession(
        known.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    found: list[NDArray[Any]] = session.run([*names], dict(inputs))
    return found


def mean_over_places(values: NDArray[Any]) -> NDArray[np.float64]:
    """Return the mean of each channel of a map (1, channels, height, width)."""
    _, channels, height, width = values.shape
    means = [
        sum(
            float(values[0, channel, row, column])
            for row in range(height)
            for column in range(width)
        )
        / (height * width)
        for channel in range(channels)
    ]
    return np.array(means)
