"""The work of nodes, and where it says that a network is cut."""

from pathlib import Path
from typing import Any

import pytest
from onnx import helper

from polydom.features.networks.open_network import read_network
from polydom.features.networks.terms import network
from tests.support.networks.small_networks import of_images


def convolutions(model: Any, folder: Path) -> list[float]:
    """The work of the convolutions of a network, in their order."""
    file = folder / "some.onnx"
    file.write_bytes(model.SerializeToString())
    cutter = read_network(network("x", file, kind="image", sides=[32])).cutter
    nodes = cutter.graph.model.graph.node
    return [
        work
        for node, work in zip(nodes, cutter.work, strict=True)
        if node.op_type == "Conv"
    ]


def test_convolutions_with_computed_kernels_are_the_same_work(tmp_path: Path) -> None:
    """As in quantised files, which compute floats from the bytes of each kernel."""
    plain, computed = of_images(2), of_images(2)
    for node in [*computed.graph.node]:
        if node.op_type == "Conv":
            (kernel,) = node.input[1:]
            node.input[1] = f"{kernel} computed"
            made = helper.make_node("Identity", [kernel], [node.input[1]])
            computed.graph.node.insert(0, made)
    own = convolutions(plain, tmp_path)
    assert own == convolutions(computed, tmp_path)
    # channels, places, colours or channels, places of a kernel
    assert own == [4 * 16 * 16 * 3 * 9] + [4 * 16 * 16 * 4 * 9] * 4


@pytest.mark.parametrize("blocks", range(3, 9))
def test_networks_of_few_blocks_are_cut_too(blocks: int, tmp_path: Path) -> None:
    """At the ends of two blocks or more, in their order."""
    file = tmp_path / "some.onnx"
    file.write_bytes(of_images(blocks).SerializeToString())
    cutter = read_network(network("x", file, kind="image", sides=[32])).cutter
    *cuts, end = cutter.automatic("scores")
    assert end == "scores"
    ends = [f"block_{k + 1}" for k in range(blocks)]
    found = [name for name in cuts if name in ends]
    assert len(found) >= 2
    assert found == [name for name in ends if name in cuts]
