"""Values of a table's rows are the same read at once as computed item by item."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadProject
from polydom.features.tables.records import Records
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.choose_features import choose_features
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.feature_values import FeatureTable, compute_values
from polydom.indexer.building.project import Project
from polydom.indexer.cluster.workers import Workers
from tests.support.progresses import Stages

ROWS = """\
age,job,since,paid,label
31,cook,2024-05-01,true,no
,baker,2024-06-02T07:30,false,yes
1e39,cook,,true,no
-inf,,2024-05-01,,yes
7,cook,2023-01-01,TRUE,no
5,nurse,2024-05-01,false,yes
"""
OWN = """\
from polydom.features.feature import feature

@feature(kind="record")
def is_old(record):
    return [(record["age"] or 0) > 30]
"""


def values(folder: Path, at_once: bool, features: dict[str, Any]) -> FeatureTable:
    content = {"data": {"table": "rows.csv"}, "features": features}
    project = Project.from_mapping(content, folder=folder)
    dataset = load_data(project)
    assert isinstance(dataset.items, Records)
    if not at_once:
        dataset = replace(dataset, items=tuple(dataset.items))
    stages = Stages()
    table = compute_values(
        dataset,
        choose_features(project, dataset),
        on_bad_item=project.data.on_bad_item,
        workers=Workers.here(1),
        cache=Cache(folder / str(at_once)),
        progress=stages,
    )
    return table


@pytest.mark.parametrize("own", [False, True])
def test_rows_read_at_once_have_the_values_of_their_items(
    tmp_path: Path, own: bool
) -> None:
    (tmp_path / "rows.csv").write_text(ROWS)
    (tmp_path / "mine.py").write_text(OWN)
    features: dict[str, Any] = {
        "columns": [
            {"name": "person", "columns": ["age", "job"]},
            {"name": "paid", "columns": ["since", "paid"]},
        ]
    }
    if own:
        features["files"] = ["mine.py"]
    once, slowly = (values(tmp_path, at_once, features) for at_once in (True, False))
    np.testing.assert_array_equal(once.values, slowly.values)
    assert once.dataset.skipped == slowly.dataset.skipped
    assert [name for name, _ in once.dataset.skipped] == [
        "rows.csv, row 3",
        "rows.csv, row 4",
    ]
    person, paid = once.features.stored[own:]
    assert (person.width, paid.width) == (2, 5)
    assert paid.columns is not None
    assert paid.columns.dates == {"since": ["day", "month", "weekday", "hour"]}
    # what is read at once need not be kept
    assert (tmp_path / "True").exists() == own


def test_tables_of_unusable_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,label\ninf,a\n1e39,b\n")
    with pytest.raises(BadProject, match="all 2 items are unusable"):
        values(tmp_path, True, {})
