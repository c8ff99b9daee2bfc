"""Sets that a smaller set's slow model hides are trained while there are seconds."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.machine import Measured
from polydom.features.costs.stopwatch import Load
from polydom.indexer.building.candidates import keep_candidates
from polydom.indexer.building.costs.arrival_times import NO_FETCHES
from polydom.indexer.building.costs.measure_costs import MeasuredCosts, measure_costs
from polydom.indexer.building.fetched import Fetched
from polydom.indexer.building.project import Project
from polydom.indexer.building.training.search.hidden_sets import train_past_slow_models
from polydom.indexer.building.training.search.search_sets import SearchedSets
from polydom.models.scoring.model import Model
from tests.support.builds.staged_build import StagedBuild

FINE, BOTH = 0b001, 0b011
ROWS = 1600


class ByNodes:
    """A stopwatch of models on which each node of a tree takes a millisecond."""

    quantile = 0.99

    def models(
        self, models: Mapping[str, Callable[[], Model]], values: NDArray[np.float32]
    ) -> tuple[NDArray[np.float64], Measured]:
        nodes = [nodes_of(make()) for make in models.values()]
        return 1e-3 * np.array(nodes), Measured(Load(0.0, None, 1), ())


def nodes_of(model: Model) -> int:
    return max(array.size for array in model.arrays().values())


def builder(folder: Path) -> StagedBuild:
    """Classes that `fine` tells by a deep tree, and `fine` and `bit` by a shallow one.

    `fine` has 32 steps. The class is whether `bit`, the last bit of the step, equals
    the first bit. The column `noise` tells nothing.
    """
    rng = np.random.default_rng(3)
    step, noise = rng.integers(0, 32, ROWS), rng.integers(0, 2, ROWS)
    lines = ["fine,bit,noise,label"]
    for row in range(ROWS):
        bit, label = step[row] % 2, "ab"[step[row] % 2 ^ step[row] // 16]
        lines.append(f"{step[row]},{bit},{noise[row]},{label}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")
    content = {
        "data": {"table": "rows.csv"},
        "learner": {"name": "tree"},
        "search": {
            "method": "poly-dom",
            "alpha": 1.05,
            "budget_s": 30.0,
            "held_out": 0.25,
            "negligible_us": 0.0,
        },
        "exits": "off",
        "workers": 1,
    }
    made = Project.from_mapping(content, folder=folder)
    return StagedBuild(made, folder / "cache")


def trained(
    made: StagedBuild, costs: MeasuredCosts, **search: float | None
) -> SearchedSets:
    asked = msgspec.structs.replace(made.project.search, **search)
    project = msgspec.structs.replace(made.data.project, search=asked)
    data = replace(made.data, terms=replace(made.data.terms, project=project))
    return train_past_slow_models(
        made.searched, data, made.trainer, costs, made.own.progress
    )


def test_set_hidden_by_a_deep_tree_is_trained(tmp_path: Path) -> None:
    made = builder(tmp_path)
    costs = measure_costs(made.data, made.own)
    costs = replace(costs, measurer=ByNodes())  # type: ignore[arg-type]
    proven = made.searched
    assert proven.facts["complete"]
    assert proven.facts["alpha"] == 1.05
    assert FINE in proven.sets
    assert BOTH not in proven.sets
    # nothing is trained where nothing is left, or where nobody feels the difference
    for search in (
        {"budget_s": 1e-9},
        {"budget_s": None},  # no limit: every hidden set would be trained
        {"trainings": 6},
        {"negligible_us": 1e9},
    ):
        assert trained(made, costs, **search) is proven
    found = trained(made, costs)
    assert set(found.sets) == {*proven.sets, BOTH, 0b101}
    assert found.facts["expanded"] == 8
    assert found.facts["violations"]["pairs"] == 19
    models = {mask: partial(made.trainer.model, mask) for mask in found.sets}
    model_s, _ = costs.of_models("", models, made.table.values)
    total_s = {
        mask: costs.of_set(mask) + seconds
        for mask, seconds in zip(found.sets, model_s.tolist(), strict=True)
    }
    # what would have answered at the hidden set's cost: no better than the prior
    cheaper = [s for s in proven.sets if total_s[s] <= total_s[BOTH]]
    assert found.qualities[BOTH] > 1.9 * max(found.qualities[s] for s in cheaper)
    fetched = Fetched.of({}, NO_FETCHES, [])
    assert BOTH in keep_candidates(found, made.data, made.trainer, costs, fetched).masks
    # the same times open the same sets again
    assert trained(made, costs).facts == found.facts
