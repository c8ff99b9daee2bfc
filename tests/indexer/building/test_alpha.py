"""Alpha where most items are of one class: a factor of gains, not of accuracies."""

from pathlib import Path

import numpy as np

from polydom.indexer.building.project import Project
from tests.support.builds.staged_build import StagedBuild

ROWS = 2000


def table(folder: Path) -> None:
    """Write a table like a bank's: 88 % "no"; three columns tell a little each."""
    rng = np.random.default_rng(11)
    yes = rng.random(ROWS) < 0.12
    columns = [yes * 1.5 + rng.normal(size=ROWS) for _ in range(3)]
    lines = ["a,b,c,label"]
    for row in range(ROWS):
        cells = ",".join(f"{column[row]:.3f}" for column in columns)
        lines.append(f"{cells},{'yes' if yes[row] else 'no'}")
    (folder / "rows.csv").write_text("\n".join(lines) + "\n")


def builder(folder: Path, alpha_of: str) -> StagedBuild:
    content = {
        "data": {"table": "rows.csv"},
        "learner": {"name": "tree", "max_depth": 4},
        "search": {
            "method": "poly-dom",
            "alpha": 1.1,
            "alpha_of": alpha_of,
            "held_out": 0.25,
        },
        "quality": {"measure": "accuracy"},
        "exits": "off",
        "workers": 1,
    }
    return StagedBuild(Project.from_mapping(content, folder=folder), folder / alpha_of)


def test_alpha_of_gains_trains_what_alpha_of_accuracies_closes(
    tmp_path: Path,
) -> None:
    table(tmp_path)
    by_accuracy = builder(tmp_path, "accuracy").searched
    assert by_accuracy.facts["complete"]
    assert by_accuracy.sets == (0, 7)  # nothing between the prior and all features
    made = builder(tmp_path, "gain")
    assert made.searched.facts["complete"]
    assert len(made.searched.sets) > 2
    # a set of some features answers better than the prior, and is in the index
    index = made.index()
    masks = index.package.masks.tolist()  # type: ignore[union-attr]
    prior = index.qualities[masks.index(0)]
    assert (
        max(index.qualities[masks.index(s)] for s in masks if s not in (0, 7)) > prior
    )
