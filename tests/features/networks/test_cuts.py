"""Where a network can be cut, and what the pieces are."""

from pathlib import Path

import numpy as np
import pytest

from polydom.features.extract import Extractor
from polydom.features.items import record_item
from polydom.features.networks.cuts import ALIKE, REPEATED
from polydom.features.networks.open_network import open_network, read_network
from polydom.features.networks.terms import network
from tests.support.networks.drafts import Draft
from tests.support.networks.drawn_networks import WIDTH, drawn_network
from tests.support.oracles.networks import repeated_work, whole

COLUMNS = [f"c{k}" for k in range(WIDTH)]


@pytest.mark.parametrize("seed", range(8))
def test_a_place_is_a_tensor_without_which_the_end_is_cut_off(
    tmp_path: Path, seed: int
) -> None:
    """But for work that is cheap enough to be done again."""
    file = tmp_path / "x.onnx"
    file.write_bytes(drawn_network(100 + seed, 12).SerializeToString())
    read = read_network(network("x", file, kind="record", columns=COLUMNS), COLUMNS)
    graph, work = read.cutter.graph, read.cutter.work
    total = read.cutter.amount(read.cutter.needed(read.end))
    found = {place.tensor: place.work for place in read.cutter.places(read.end)}
    for name, value in read.cutter.values.items():
        share = read.cutter.amount(read.cutter.needed(name)) / total
        if name not in graph.writer or not ALIKE < share < 1 - ALIKE:
            continue
        again = repeated_work(graph, work, name, read.end)
        could_be = value.dtype.kind == "f" and value.ndim == 2 and len(value) == 1
        needed = graph.writer[name] in read.cutter.needed(read.end)
        if could_be and needed and again <= REPEATED * total * 0.999:
            assert any(abs(share - own) <= 2 * ALIKE for own in found.values()), name
        elif name in found:
            assert again <= REPEATED * total * 1.001, name


def test_a_node_of_several_outputs_may_be_in_two_pieces(tmp_path: Path) -> None:
    """The later piece computes the other output, and is given the first."""
    draft = Draft(np.random.default_rng(0))
    x = draft.add("MatMul", "rows", draft.weight(4, 4000))
    x = first = draft.add("MatMul", x, draft.weight(4000, 4))
    parts = draft.several("Split", 2, x, draft.constant(np.array([2, 2])), axis=1)
    x = draft.add("Concat", draft.add("Tanh", parts[0]), parts[1], axis=1)
    draft.add("MatMul", x, draft.weight(4, 4))
    draft.nodes[-1].output[0] = "end"
    model = draft.model({"rows": ("float32", ("n", 4))}, {"end": ("n", 4)}, 18)
    file = tmp_path / "x.onnx"
    file.write_bytes(model.SerializeToString())
    row = np.arange(4, dtype=np.float32)
    item = record_item(dict(zip("abcd", row.tolist(), strict=True)))
    for outputs in ([first, parts[0], "end"], [first, *parts, "end"]):
        terms = network("x", file, kind="record", columns=[*"abcd"], outputs=outputs)
        made = open_network(terms, [*"abcd"])
        features = [made.feature(0, piece) for piece in range(len(outputs))]
        extractor = Extractor(features, [piece.width for piece in made.facts.pieces])
        expected = np.concatenate(whole(model, outputs, {"rows": row[None]}), axis=1)
        np.testing.assert_allclose(extractor.extract(item), expected[0], rtol=1e-4)
