"""Pieces of networks that an index needs, and those that it leaves out."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from polydom.features.errors import BadIndexFile
from polydom.features.extract import Extractor
from polydom.features.items import Item, Kind, make_item
from polydom.indexer import Index
from polydom.indexer.building.costs.remeasure import carried_items, remeasure
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.features.choose_features import ProjectFeatures
from polydom.indexer.building.features.feature_values import FeatureTable
from polydom.indexer.building.features.network_features import sharing_images
from polydom.indexer.building.package_index import count_gaps
from polydom.indexer.index.built_facts import BuiltGaps
from polydom.indexer.index.column_needs import ColumnNeeds
from polydom.indexer.index.package import Package
from polydom.indexer.progress import Silence
from polydom.server.engine.loading import load_planner
from polydom.server.runtime.warm_up import WarmUp
from tests.support.indexes import with_networks

# Masks of candidates, and the pieces that they need: of images there are two chains of
# two pieces, of records one chain and two columns.
NEEDS = [
    ("image", (0, 0b0001), {0}),
    ("image", (0, 0b0100), {0}),  # the first piece of the other chain
    ("image", (0, 0b1000), {0, 1}),  # the end of a chain needs all before it
    ("image", (0,), set()),
    ("text", (0, 0b0001), {0}),
    ("text", (0,), set()),
    ("record", (0, 0b0100), set()),
    ("record", (0, 0b0101), {0}),
]


def package_of(path: Path) -> Package:
    package = Index.load(path).package
    assert package is not None
    return package


@pytest.mark.parametrize(("kind", "masks", "needed"), NEEDS)
def test_an_index_holds_only_pieces_that_its_candidates_need(
    tmp_path: Path, kind: Kind, masks: tuple[int, ...], needed: set[int]
) -> None:
    all_kept = with_networks.make_index(kind, masks, keeps=True)
    all_kept.save(tmp_path / "all.pdx")
    with_networks.make_index(kind, masks).save(tmp_path / "a.pdx")
    before, package = package_of(tmp_path / "all.pdx"), package_of(tmp_path / "a.pdx")
    (network,) = package.networks
    assert {k for k, one in enumerate(network.models) if len(one)} == needed
    if kind == "text":
        assert network.tokenizer is not None
        assert bool(len(network.tokenizer)) == bool(needed)
    # what was left out is still told of, and what is there computes the same
    assert [one.name for one in package.features] == [
        one.name for one in before.features
    ]
    used = package.used
    for given in with_networks.ITEMS[kind]:
        item = make_item(given, kind)
        np.testing.assert_array_equal(
            package.extractor().extract(item, features=used),
            before.extractor().extract(item, features=used),
        )


def test_an_index_without_a_needed_piece_is_refused(tmp_path: Path) -> None:
    index = with_networks.make_index("text", (0, 0b0001))
    assert index.package is not None
    (network,) = index.package.networks
    for other in (
        network.keeping(()),
        replace(network, tokenizer=network.models[0][:0]),
    ):
        package = replace(index.package, networks=(other,))
        replace(index, package=package).save(tmp_path / "a.pdx")
        with pytest.raises(BadIndexFile, match=r"what computes .*'net_4_1' is not"):
            Index.load(tmp_path / "a.pdx")


def test_serving_needs_no_library_for_networks_that_the_search_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = with_networks.make_index("record", (0, 0b0100), timed=True)
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    planner = load_planner(index)
    warm_up = WarmUp(planner)
    warm_up.run()
    assert warm_up.rescaling.state == "rescaled"
    assert warm_up.rescaling.features["net_1"] == 1.0  # not timed


def test_measure_keeps_the_costs_of_features_that_no_candidate_computes() -> None:
    index = with_networks.make_index("record", (0, 0b0100), timed=True)
    new = remeasure(index, carried_items(index), Silence(), repeats=1).package
    old = index.package
    assert new is not None
    assert old is not None
    assert new.used == (2,)
    changed = new.costs.feature_coefficients[:, 0] != with_networks.COST_S
    assert changed.tolist() == [False, False, True, False]
    assert (new.costs.step_coefficients[:, 0] == with_networks.COST_S).all()
    assert np.isnan(new.meta["pace"]["feature"]).all(axis=0).tolist() == [
        *[True, True, False, True]
    ]
    own = index.coefficients, index.qualities, index.sizes
    planner = load_planner(Index.from_candidates(*own, new))
    WarmUp(planner).run()  # can read the times


def test_cells_that_only_networks_read_are_counted_as_gaps() -> None:
    network = with_networks.open_small("record")
    stored = with_networks.stored_features(network)
    given: list[dict[str, Any]] = [*with_networks.RECORDS, {"a": 1.0}, {"e": 1.0}]
    dataset = dataset_of([make_item(one, "record") for one in given])
    features = ProjectFeatures(stored, (), networks=[network])
    gaps = count_gaps(FeatureTable(dataset, features, np.zeros((6, 11), np.float32)))
    assert gaps.columns == {"a": 1 / 6, "b": 2 / 6, "c": 2 / 6, "d": 2 / 6}
    assert gaps.features == {"net_1": 1 / 6, "net_2": 1 / 6}
    needs = ColumnNeeds(stored, gaps)
    assert needs.withheld(needs.empty_in({"a": 1.0})) == 0
    assert needs.withheld(needs.empty_in({"e": 1.0})) == 0  # a sixth is usual
    never = ColumnNeeds(stored, BuiltGaps({}, {}))
    assert never.withheld(never.empty_in({"a": 1.0, "b": 1.0, "c": 1.0})) == 0b11


def dataset_of(items: list[Item]) -> Dataset:
    names, numbers = [str(k) for k in range(len(items))], np.zeros(len(items), np.int64)
    return Dataset(items, names, ("no", "yes"), numbers, np.arange(len(items)))


# For sides of 32, 64 and 96, a JPEG of 80 pixels is decoded at a half and twice at its
# own size, and one of 800 pixels always at an eighth.
@pytest.mark.parametrize(
    ("pictures", "sides"),
    [
        ([(80, "PNG")], [96]),
        ([(800, "JPEG")], [96]),
        ([(80, "JPEG")], [32, 64, 96]),
        ([(80, "JPEG")] * 2 + [(80, "PNG")] * 3, [96]),
        ([(80, "JPEG")] * 3 + [(80, "PNG")] * 2, [32, 64, 96]),
    ],
)
def test_sides_share_one_decoded_image_where_most_are_decoded_alike(
    pictures: list[tuple[int, str]], sides: list[int]
) -> None:
    first = with_networks.open_small("image")
    assert first.facts.image is not None
    image = msgspec.structs.replace(first.facts.image, sizes=[(96, 48)])
    facts = msgspec.structs.replace(first.facts, name="other", image=image)
    networks = [first, replace(first, facts=facts), with_networks.open_small("text")]
    made = [with_networks.picture(60, side, form) for side, form in pictures]
    dataset = dataset_of([make_item(one, "image") for one in made])
    one, other, text = sharing_images(networks, dataset)
    assert text is networks[2]
    features = [one.feature(0, 0), one.feature(1, 1), other.feature(0, 1)]
    extractor = Extractor.probe(features, dataset.items[0])
    names = [step.name for step in extractor.steps if step.name.startswith("colours")]
    assert names == [f"colours {side}" for side in sides]
