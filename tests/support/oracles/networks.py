"""Slow twins of networks: run whole, cut node by node, fed pixel by pixel."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx.inliner
import onnxruntime
from numpy.typing import NDArray

from polydom.features.networks.onnx_graph import Graph


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


def repeated_work(graph: Graph, work: Sequence[float], tensor: str, end: str) -> float:
    """Return the work that is done twice if a network is cut after a tensor.

    Each node is asked, one by one, whether the tensor needs it, and whether the end
    needs it although the tensor is known.
    """
    return sum(
        own
        for node, own in enumerate(work)
        if leads(graph, node, tensor, None) and leads(graph, node, end, tensor)
    )


def leads(graph: Graph, node: int, target: str, removed: str | None) -> bool:
    """Return True if a path leads from a node to a value, without a removed value."""
    values, seen = set(graph.writes[node]) - {removed}, set[str]()
    while values - seen:
        name = (values - seen).pop()
        seen.add(name)
        if name == target:
            return True
        for reads, writes in zip(graph.reads, graph.writes, strict=True):
            if name in reads:
                values |= set(writes) - {removed}
    return False


def image_tensor(
    pixels: NDArray[np.uint8],
    size: tuple[int, int],
    *,
    crops: bool,
    scale: Sequence[float],
    shift: Sequence[float],
) -> NDArray[np.float64]:
    """Resize upright colours (h, w, 3) pixel by pixel, and scale them: (3, H, W).

    Every pixel is a mean weighted by a triangle: as wide as two pixels of the result,
    or of the image if that is smaller (Pillow's bilinear filter).
    """
    height, width = size
    rows, columns = float(len(pixels)), float(len(pixels[0]))
    ratio = min(columns / width, rows / height)
    box = (height * ratio, width * ratio) if crops else (rows, columns)
    down = _weights(len(pixels), (rows - box[0]) / 2, box[0], height)
    across = _weights(len(pixels[0]), (columns - box[1]) / 2, box[1], width)
    resized = np.empty((3, height, width))
    for channel in range(3):
        plane = pixels[:, :, channel].astype(float)
        for y in range(height):
            for x in range(width):
                value = float(down[y] @ plane @ across[x])
                resized[channel, y, x] = value * scale[channel] + shift[channel]
    return resized


def _weights(
    count: int, first: float, length: float, made: int
) -> list[NDArray[np.float64]]:
    """Return for each pixel made the weights of `count` pixels."""
    ratio = length / made
    support = max(ratio, 1.0)
    found = []
    for place in range(made):
        centre = first + (place + 0.5) * ratio
        near = np.abs(np.arange(count) + 0.5 - centre) / support
        weights = np.maximum(1.0 - near, 0.0)
        found.append(weights / weights.sum())
    return found
