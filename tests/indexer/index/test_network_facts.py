"""What an index and a project tell of their networks."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from polydom.features.items import Kind
from polydom.indexer.index.facts import facts_of
from polydom.indexer.index.network_facts import networks_of, told_network
from polydom.indexer.index.stored_features import StoredReduction
from tests.support.indexes.with_networks import make_index, open_small, stored_features


@pytest.mark.parametrize(
    ("kind", "inputs"),
    [
        ("image", ["32 x 32", "64 x 64"]),
        ("text", ["4", "8"]),
        ("record", ["a", "b", "c", "d"]),
    ],
)
def test_an_index_tells_of_its_networks(kind: Kind, inputs: Sequence[str]) -> None:
    index = make_index(kind, keeps=True)
    networks = facts_of(index).networks
    assert index.package is not None
    assert networks
    (told,) = networks
    (network,) = index.package.networks
    assert (told.name, told.kind, told.inputs) == ("net", kind, inputs)
    assert [one.columns for one in told.pieces] == [
        one.width for one in network.facts.pieces
    ]
    assert told.bytes == sum(array.nbytes for array in network.arrays().values())
    assert all(one.kept and one.reduced is None for one in told.pieces)


def test_what_was_reduced_or_left_out_is_said() -> None:
    network = open_small("image")
    first, last = network.facts.pieces
    stored = stored_features(network)
    reduced = StoredReduction(stored[1].width, 0.9, 40)
    stored[1] = replace(stored[1], width=2, reduced=reduced)
    (told,) = networks_of([network], stored)
    assert [one.reduced for one in told.pieces] == [None, 2]
    assert told.line() == (
        "network 'net' reads images of 32 x 32, 64 x 64 pixels; pieces, with their "
        f"columns: 1 ({first.width}), 2 ({last.width}, reduced to 2); "
        f"{told.bytes / 1e6:.2g} MB"
    )
    left = told_network(network.keeping([0]), {})
    assert [one.kept for one in left.pieces] == [True, False]
    assert f"2 ({last.width}; left out, since no set needs it)" in left.line()
