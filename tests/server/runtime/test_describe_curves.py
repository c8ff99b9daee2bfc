"""What a server says of what features cost, also of an index that says little."""

import copy
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from polydom.features.costs.polynomials import cost_at
from polydom.indexer.index.index import Index
from polydom.indexer.index.machine_speed import MachineFactors
from polydom.server.runtime.describe_index import POINTS, describe_curves
from polydom.server.schema.facts import CurvesFacts, Rescaling
from tests.support.indexes import records
from tests.support.indexes.served import make_index, make_pair_index

NAMES = ("length", "marks", "words", "lowered")
STEPS = ("lowered",)


def told(**more: Any) -> list[dict[str, Any]]:
    """What a build says of the four parts of the small text index."""
    measured = {"sizes": [[1.0, 50.0]], "seconds": [1e-3, 2e-3]}
    own = {"coefficients": [1e-3, 1e-6], "covered": 0.5, "measured": measured, **more}
    return [{"name": name, **copy.deepcopy(own)} for name in NAMES]


def saying(curves: Any, index: Index | None = None) -> Index:
    index = index or make_index()
    assert index.package is not None
    meta = {**index.package.meta, "curves": curves}
    return replace(index, package=replace(index.package, meta=meta))


def test_parts_are_what_sets_cost() -> None:
    for index in (make_index(), make_index("usd"), make_pair_index()):
        facts, package = describe_curves(index, steps=STEPS), index.package
        assert package is not None
        size = (30.0, 4.0) if index.pairs else 120.0
        parts = {(one.part, one.name): one for one in facts.parts}
        for row in range(1, len(package.masks)):
            features = [parts["feature", name] for name in package.names(row)]
            steps = {name for feature in features for name in feature.steps}
            whole = cost_at(facts.overhead, size)
            whole += sum(cost_at(one.cost, size) for one in features)
            whole += sum(cost_at(parts["step", name].cost, size) for name in steps)
            assert index.cost_s(row, size) == pytest.approx(whole + 1e-4)


def test_what_was_measured_is_told() -> None:
    facts = describe_curves(saying(told()), steps=STEPS)
    assert [(one.part, one.name) for one in facts.parts] == [
        *(("feature", name) for name in NAMES[:3]),
        ("step", "lowered"),
    ]
    for part in facts.parts:
        assert part.fitted == [1e-3, 1e-6]
        assert part.covered == 0.5
        assert part.measured == [(1.0, 1e-3), (50.0, 2e-3)]
    assert [one.steps for one in facts.parts] == [[], ["lowered"], ["lowered"], []]
    decoded = msgspec.json.decode(msgspec.json.encode(facts), type=CurvesFacts)
    assert decoded == facts


def test_sizes_of_two_numbers_stay_two() -> None:
    curves = told(measured={"sizes": [[3.0], [2.0]], "seconds": [0.5]})
    facts = describe_curves(saying(curves, make_pair_index()))
    assert facts.parts[0].measured == [((3.0, 2.0), 0.5)]


def test_steps_have_the_names_of_the_build_where_nobody_knows_the_code() -> None:
    assert describe_curves(saying(told())).parts[3].name == "lowered"
    assert describe_curves(make_index()).parts[3].name == "step 1"


def test_many_times_are_thinned_out_evenly() -> None:
    count = 10 * POINTS
    sizes = np.arange(1.0, count + 1).tolist()
    found = {"sizes": [sizes], "seconds": [0.5] * count}
    facts = describe_curves(saying(told(measured=found)))
    kept = [size for size, _ in facts.parts[0].measured]
    assert len(kept) == POINTS
    assert (kept[0], kept[-1]) == (1, count)
    assert set(np.diff(kept)) <= {10, 11}


def test_an_older_index_that_kept_no_times_still_has_its_curves() -> None:
    curves = told()
    for curve in curves:
        del curve["measured"]
    for part in describe_curves(saying(curves)).parts:
        assert (part.fitted, part.covered) == ([1e-3, 1e-6], 0.5)
        assert part.measured == []


def test_nothing_is_fitted_to_what_declares_its_seconds() -> None:
    curves = told()
    curves[0]["measured"] = None
    declared, measured, *_ = describe_curves(saying(curves)).parts
    assert (declared.fitted, declared.covered, declared.measured) == (None, None, [])
    assert measured.fitted == [1e-3, 1e-6]


def test_factors_are_those_of_the_machine_that_serves() -> None:
    rescaling = Rescaling("rescaled", 2.0, 3.0, {"lowered": 4.0}, {"length": 0.5})
    index = make_index()
    factors = MachineFactors(2.0, np.array([4.0]), np.array([0.5, 1, 1]), 3.0)
    facts = describe_curves(index.rescaled(factors, [0, 0, 0]), rescaling, STEPS)
    assert [one.factor for one in facts.parts] == [0.5, 1, 1, 4]
    assert facts.parts[0].cost[0] == pytest.approx(0.5e-3)
    assert facts.parts[3].cost[0] == pytest.approx(4e-3)
    assert facts.overhead[0] == pytest.approx(2e-4)


def test_records_have_parts_too() -> None:
    facts = describe_curves(records.make_index())
    assert [one.name for one in facts.parts] == ["person", "work"]
