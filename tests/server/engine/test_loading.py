"""From an index file to what answers with it."""

from pathlib import Path

import pytest

from polydom.features.errors import BadFeature, BadIndexFile
from polydom.features.items import text_item
from polydom.indexer import Index
from polydom.server.engine.budget import MoneyBudget
from polydom.server.engine.execution import execute
from polydom.server.engine.loading import load_index, load_planner, package_of
from polydom.server.engine.request import Request
from polydom.server.settings import Settings
from tests.support.served import FEATURES_FILE, make_index, save_index

BARE = Index.from_candidates([[1e-3]], [0.5], (1, 10))


def test_a_planner_comes_of_an_index_or_its_file(tmp_path: Path) -> None:
    path = save_index(tmp_path)
    request = Request(text_item("free money"), MoneyBudget(1.0))
    settings = Settings(correct=False, audit=0.5)
    for index in (path, str(path), Index.load(path)):
        planner = load_planner(index, [FEATURES_FILE], settings)
        assert execute(planner, request).row == 3
        assert (planner.corrects, planner.audit.share) == (False, 0.5)
    assert not load_planner(make_index("usd"), [FEATURES_FILE]).corrects


def test_bare_candidates_are_refused_by_the_name_of_their_file(tmp_path: Path) -> None:
    path = tmp_path / "bare.pdx"
    BARE.save(path)
    for load in (load_index, load_planner):
        with pytest.raises(BadIndexFile, match=r"bare\.pdx: candidates without models"):
            load(path)
    with pytest.raises(BadIndexFile, match="this index: candidates without models"):
        load_planner(BARE)
    with pytest.raises(BadIndexFile, match="this index: candidates without models"):
        package_of(BARE)


def test_a_feature_whose_code_is_not_given_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFeature):
        load_planner(save_index(tmp_path))
