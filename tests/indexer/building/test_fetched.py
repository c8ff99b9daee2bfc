"""Builds with fetches: what they keep for each outcome, and how fetches are timed."""

import asyncio
import logging
import re
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadFetch, BadProject, LacksTimes, LacksWork
from polydom.features.items import make_item
from polydom.features.tables.records import column_names
from polydom.indexer.building.build import build
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.costs.arrival_times import FetchTimes, measure_arrivals
from polydom.indexer.building.costs.measure_project import measure_project
from polydom.indexer.building.data.check_data import check_data
from polydom.indexer.building.data.dataset import make_dataset
from polydom.indexer.building.data.fetch_keys import take_keys
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.features.choose_features import choose_features
from polydom.indexer.building.fetched import (
    FEW,
    LEAST,
    MOST_OUTCOMES,
    Fetched,
    likely_outcomes,
)
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.fetches import FetchTerms
from polydom.indexer.index.fetches.arrivals import Arrivals
from polydom.indexer.index.index import Index
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.indexer.progress import Silence
from tests.support.builds.fetched_project import make_project, terms, write_files

TIMES = {
    name: {"key": one["key"], "columns": one["columns"], "times": "arrivals.csv"}
    for name, one in terms()["fetches"].items()
}


def package_of(index: Index) -> Any:
    assert index.package is not None
    return index.package


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Index:
    folder = tmp_path_factory.mktemp("fetched")
    return build(make_project(folder), output=folder / "a.pdx")


def test_the_best_set_for_each_outcome_is_kept(built: Index) -> None:
    package, arrivals = package_of(built), Arrivals(built)
    masks, qualities = package.masks.tolist(), built.qualities.tolist()
    assert [one.name for one in package.features] == ["orders", "score", "age"]
    for came in range(4):
        withheld = arrivals.withheld(came)
        answering = [
            quality
            for mask, quality in zip(masks, qualities, strict=True)
            if not mask & withheld
        ]
        assert 0b111 & ~withheld in masks
        assert max(answering) > qualities[masks.index(0)] + 0.05
    reached = [arrivals.expected(1, 1e-9)]  # too little for any feature
    reached += [arrivals.expected(1, 10.0, sent=sent) for sent in (0b00, 0b01, 0b11)]
    assert all(b > a + 0.05 for a, b in pairwise(reached))


def test_fetches_are_stored_with_joint_draws_of_their_times(built: Index) -> None:
    package = package_of(built)
    orders, score = package.fetches
    assert (orders.key, orders.columns) == (["customer"], ["n_orders", "mean_amount"])
    assert orders.key_kinds == score.key_kinds == ["whole number"]
    assert orders.price == {"usd": 0.002}
    assert score.price == {}
    assert package.arrivals.shape == (200, 2)
    assert (package.arrivals[:, 0] >= 0.001).all()
    # `score` refuses every tenth customer
    refused = int(np.isinf(package.arrivals[:, 1]).sum())
    assert 5 <= refused <= 40
    (warning,) = package.meta["warnings"]
    assert f"'score' came for {200 - refused} of the 200 keys" in warning
    assert "ConnectionError: refused" in warning


def test_a_build_again_reads_the_times_it_measured(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    first = build(project, output=tmp_path / "a.pdx")
    build(project, output=tmp_path / "b.pdx")
    assert (tmp_path / "a.pdx").read_bytes() == (tmp_path / "b.pdx").read_bytes()
    calls = tmp_path / "calls.py"
    calls.write_text(calls.read_text().replace("0.001", "0.02"))
    other = package_of(build(project)).arrivals
    assert (other[:, 0] >= 0.02).all()
    assert package_of(first).arrivals[:, 0].min() < 0.02


def test_fetches_are_timed_in_a_notebook_too(tmp_path: Path) -> None:
    project = make_project(tmp_path)

    async def cell() -> FetchTimes:
        rows = [{"customer": k} for k in (1, 2, 3)]
        return measure_arrivals(project, rows, Cache(tmp_path / "cache"), Silence())

    assert np.isfinite(asyncio.run(cell()).draws).all()


def test_times_may_come_from_a_file(tmp_path: Path) -> None:
    project = make_project(tmp_path, fetches=TIMES)
    (tmp_path / "calls.py").unlink()
    (tmp_path / "arrivals.csv").write_text("score,orders\n1.5,2\n,3.25\n")
    package = package_of(build(project))
    expected = [[0.002, 0.0015], [0.00325, np.inf]]
    np.testing.assert_allclose(package.arrivals, expected)
    (tmp_path / "arrivals.csv").write_text("score,orders\n,2\n,3\n")
    with pytest.raises(BadProject, match="no time at which 'score' came"):
        build(project)


@pytest.mark.parametrize("method", ["greedy", "poly-dom"])
def test_other_searches_keep_sets_for_all_outcomes(tmp_path: Path, method: str) -> None:
    search = {"held_out": 0.25, "method": method}
    project = make_project(tmp_path, search=search, fetches=TIMES)
    (tmp_path / "arrivals.csv").write_text("score,orders\n1,2\n")
    index = build(project)
    masks = set(package_of(index).masks.tolist())
    assert masks >= {0b100, 0b101, 0b110, 0b111}


def test_a_search_without_time_still_trains_what_remains(tmp_path: Path) -> None:
    search = {"held_out": 0.25, "budget_s": 1e-6}
    project = make_project(tmp_path, search=search, fetches=TIMES)
    (tmp_path / "arrivals.csv").write_text("score,orders\n1,2\n")
    masks = set(package_of(build(project)).masks.tolist())
    assert masks >= {0b100, 0b101, 0b110, 0b111}


def test_another_machine_can_time_fetches(tmp_path: Path) -> None:
    costs = {"items": 8, "repeats": 2, "measured": "later"}
    project = make_project(tmp_path, costs=costs)
    with pytest.raises(LacksTimes):
        build(project)
    with pytest.raises(LacksWork):
        measure_project(project)
    (tmp_path / "calls.py").write_text("raise RuntimeError('no fetch is made here')\n")
    with pytest.raises(LacksTimes):  # other calls, so other times
        build(project)
    write_files(tmp_path)
    for _ in range(4):  # one after the other until nothing is missing
        with suppress(LacksTimes):
            build(project)
            break
        with suppress(LacksWork):
            measure_project(project)
    index = build(project)
    assert package_of(index).arrivals.shape == (200, 2)


BROKEN = {
    "raises": (
        "raise ConnectionError('refused')",
        "came for none of 200 keys: fetch 'orders' raised ConnectionError: refused",
    ),
    "too late": (
        "await asyncio.sleep(60)",
        "came for none of 200 keys: it took longer than 5 ms",
    ),
    "too few": ("return []", "returned 0 answers to 1 keys"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_fetch_that_never_comes_stops_the_build(tmp_path: Path, name: str) -> None:
    line, message = BROKEN[name]
    project = make_project(tmp_path)
    calls = tmp_path / "calls.py"
    text = calls.read_text().replace("await asyncio.sleep(0.001)", line)
    text = text.replace('"mean_amount"])', '"mean_amount"], at_most_ms=5)')
    calls.write_text(text)
    with pytest.raises(BadProject, match=re.escape(message)):
        build(project)


def test_a_fetch_that_finds_nothing_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    project = make_project(tmp_path)
    calls = tmp_path / "calls.py"
    nothing = "return [None for _ in keys]\n"
    calls.write_text(calls.read_text().replace("return [[0.5] for _ in keys]", nothing))
    caplog.set_level(logging.WARNING, "polydom")
    warnings = package_of(build(project)).meta["warnings"]
    (told,) = (one for one in warnings if "found nothing" in one)
    assert re.search(r"'score' found nothing .* such as customer = \d+$", told)
    assert told in caplog.messages


def test_files_are_read_before_the_data(tmp_path: Path) -> None:
    project = make_project(tmp_path)
    (tmp_path / "table.csv").write_text("")
    (tmp_path / "calls.py").unlink()
    with pytest.raises(BadFetch, match=r"calls\.py: No such file"):
        build(project)
    (tmp_path / "calls.py").write_text(
        "from polydom.features import fetch\n\n\n"
        '@fetch(key=["customer"], columns=["n_orders", "mean_amount"])\n'
        "async def order(keys, left_s):\n    return []\n"
    )
    with pytest.raises(BadProject, match=r"no fetch 'orders'; did you mean 'order'\?"):
        build(project)


KEYS: dict[str, tuple[str, list[Any]]] = {
    "numbers": ("17,18,19", [17, 18, 19]),
    "numbers with a gap": ("17,,19", [17, 19]),
    "words": ("a7,b8,c9", ["a7", "b8", "c9"]),
}


@pytest.mark.parametrize(
    ("option", "name"),
    [
        *((None, name) for name in KEYS),
        *(("ignore", name) for name in KEYS),
        ("group", "numbers"),
        ("group", "words"),
        ("time", "numbers"),
    ],
)
def test_keys_are_asked_for_as_the_table_has_them(
    tmp_path: Path, name: str, option: str | None
) -> None:
    written, keys = KEYS[name]
    lines = [f"{key},1,{k % 2}" for k, key in enumerate(written.split(","))]
    (tmp_path / "t.csv").write_text("\n".join(["id,n,label", *lines]))
    data = {"table": "t.csv"}
    more: dict[str, Any] = {
        "group": {"group": "id"},
        "ignore": {"ignore": ["id"]},
        "time": {"time": "id", "split": "time"},
    }
    fetch = {"key": ["id"], "columns": ["n"], "from": "f.py"}
    content = {"data": data | more.get(option or "", {}), "fetches": {"f": fetch}}
    project = Project.from_mapping(content, folder=tmp_path)
    dataset, rows = take_keys(project, load_data(project, lambda *_: None, tmp_path))
    assert column_names(dataset.items) == ["n"]
    found = [row["id"] for row in rows]
    assert sorted(found, key=str) == keys
    assert {*map(type, found)} == {type(keys[0])}


def test_keys_of_records_in_memory_are_found() -> None:
    fetch = {"key": ["id", "day"], "columns": ["n"], "from": "f.py"}
    project = Project.from_mapping({"fetches": {"f": fetch}})
    records = [
        {"id": 1.0, "day": "mon", "n": 2.0, "own": 1},
        {"id": None, "day": "tue", "n": 3.0, "own": 2},
        {"id": 3.0, "n": 3.0, "own": 2},
    ]
    items = [make_item(record) for record in records]
    dataset = make_dataset(items, "abc", "xyx", [None] * 3)
    same, rows = take_keys(project, dataset)
    assert same is dataset
    assert rows == [{"id": 1, "day": "mon"}]
    lacking = make_dataset(items[1:2] * 2, "ab", "xy", [None] * 2)
    with pytest.raises(BadProject, match=r"no row has; .*"):
        take_keys(project, make_dataset(items[2:] * 2, "ab", "xy", [None] * 2))
    with pytest.raises(BadProject, match="every row lacks a key, of id, day"):
        take_keys(project, lacking)


GROUP = {"name": "risk and age", "columns": ["risk", "age"]}
CHOICES: dict[str, tuple[dict[str, Any], list[str]]] = {
    "by default": ({}, ["orders", "score", "age"]),
    "in a group with a request's column": (
        {"features": {"columns": [GROUP]}},
        ["risk and age", "orders"],
    ),
    "in parts": (
        {"features": {"columns": [{"name": "n", "columns": ["n_orders"]}]}},
        ["n", "orders", "score"],
    ),
    "with all others": (
        {
            "features": {
                "columns": [{"name": "n", "columns": ["n_orders"]}],
                "others": True,
            }
        },
        ["n", "orders", "score", "age"],
    ),
    "with the key": (
        {
            "features": {"columns": [{"name": "who", "columns": ["customer"]}]},
            "data": {"table": "table.csv"},
        },
        ["who", "orders", "score"],
    ),
}


@pytest.mark.parametrize("name", CHOICES)
def test_columns_of_a_fetch_are_one_feature_unless_they_are_grouped(
    tmp_path: Path, name: str
) -> None:
    change, features = CHOICES[name]
    project = make_project(tmp_path, **change)
    dataset, _ = take_keys(project, load_data(project, lambda *_: None, tmp_path))
    found = choose_features(project, dataset)
    assert [one.name for one in found.stored] == features


def test_free_text_of_a_fetch_has_features_of_texts(tmp_path: Path) -> None:
    text = "the parcel came late and was open so the customer is angry"
    words = text.split()
    rng = np.random.default_rng(0)
    notes = [" ".join(rng.choice(words, rng.integers(8, 30))) for _ in range(60)]
    lines = [f"{k},{note},{k % 7},{k % 2}" for k, note in enumerate(notes)]
    (tmp_path / "t.csv").write_text("\n".join(["id,note,n,label", *lines]))
    fetch = {"key": ["id"], "columns": ["note", "n"], "times": "times.csv"}
    content = {"data": {"table": "t.csv"}, "fetches": {"notes": fetch}}
    project = Project.from_mapping(content, folder=tmp_path)
    dataset, _ = take_keys(project, load_data(project, lambda *_: None, tmp_path))
    found = choose_features(project, dataset)
    names = [one.name for one in found.stored] + [one.name for one in found.recipes]
    assert names[0] == "notes"
    assert names[1:]
    assert all(name.startswith("note: ") for name in names[1:])
    times = FetchTimes(np.array([[1.0]]), [])
    fetched = Fetched.of(project.fetches, times, found.stored)
    assert fetched.withheld == [(1 << len(found.stored)) - 1, 0]


def test_check_says_what_would_be_fetched(tmp_path: Path) -> None:
    found = check_data(make_project(tmp_path), Silence())
    assert "fetch 'score' brings 'risk' by 'customer'" in found.lines()
    told = found.facts()["fetches"]
    assert told[0] == {
        "name": "orders",
        "key": ["customer"],
        "columns": ["n_orders", "mean_amount"],
    }


def outcomes_slowly(draws: Any) -> dict[int, float]:
    """The largest share of draws that each outcome has, of all waits."""
    most: dict[int, float] = {}
    for wait in {-1.0, *draws.ravel().tolist()} - {np.inf}:
        own = [
            sum(1 << u for u, time in enumerate(row) if time <= wait)
            for row in draws.tolist()
        ]
        for outcome in own:
            share = own.count(outcome) / len(draws)
            most[outcome] = max(most.get(outcome, 0.0), share)
    return most


@given(st.sampled_from([1, 2, FEW, FEW + 1, 9]), st.integers(1, 40), st.data())
def test_likely_outcomes_are_those_of_trying_all_waits(
    fetches: int, count: int, data: st.DataObject
) -> None:
    times = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, np.inf])
    row = st.lists(times, min_size=fetches, max_size=fetches)
    draws = np.array(data.draw(st.lists(row, min_size=count, max_size=count)))
    found, every = likely_outcomes(draws), (1 << fetches) - 1
    assert len({*found}) == len(found) <= MOST_OUTCOMES
    assert {0, every} <= {*found}
    if fetches <= FEW:
        assert sorted(found) == [*range(every + 1)]
        return
    likely = outcomes_slowly(draws)
    wanted = {one for one, share in likely.items() if share >= LEAST} | {0, every}
    assert {*found} <= wanted
    assert len(found) == min(len(wanted), MOST_OUTCOMES)
    shares = [likely.get(one, 0.0) for one in found if one not in (0, every)]
    assert shares == sorted(shares, reverse=True)


def test_columns_that_no_feature_reads_are_not_fetched(
    caplog: pytest.LogCaptureFixture,
) -> None:
    named = {
        "a": FetchTerms(["id"], ["x", "y"], "f.py"),
        "b": FetchTerms(["id"], ["z"], "f.py"),
    }
    group = StoredFeature("g", 1, "", True, StoredColumns(["y"]))
    times = FetchTimes(np.array([[1.0, 2.0], [3.0, 4.0]]), [])
    found = Fetched.of(named, times, [group])
    assert [one.columns for one in found.stored] == [["y"]]
    assert found.draws.tolist() == [[1.0], [3.0]]
    assert found.withheld == [1, 0]
    assert found.warnings == caplog.messages
    assert "'b' brings no column that a feature reads" in found.warnings[0]
    function = StoredFeature("own", 1, "", False)
    assert len(Fetched.of(named, times, [function]).stored) == 2


MANY = {f"f{k}": {"key": ["id"], "columns": [f"c{k}"], "from": "f"} for k in range(17)}
ONE = MANY["f0"]
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "two units": (
        {
            "fetches": {
                "f": ONE | {"price": {"usd": 1.0}},
                "g": MANY["f1"] | {"price": {"eur": 2.0, "usd": 0.0}},
            }
        },
        "[fetches] has prices in eur and usd; one unit is needed",
    ),
    "too many": ({"fetches": MANY}, "has 17 fetches; 16 are the most"),
    "images": (
        {"fetches": {"f": ONE}, "data": {"images": "photos"}},
        "[fetches.f] has a key and columns, which are of records; of texts and images",
    ),
    "money": (
        {"fetches": {"f": ONE}, "costs": {"weights": {"s": 1.0, "usd": 1.0}}},
        "[fetches] is for budgets of seconds, and costs.weights counts usd",
    ),
    "no source": (
        {"fetches": {"f": {"key": ["id"], "columns": ["n"]}}},
        "[fetches.f] needs exactly one of `from`",
    ),
    "two sources": (
        {"fetches": {"f": ONE | {"times": "t.csv"}}},
        "[fetches.f] needs exactly one of `from`",
    ),
    "two ways": (
        {
            "fetches": {
                "f": ONE,
                "g": {"key": ["id"], "columns": ["n"], "times": "t.csv"},
            }
        },
        "their times must be taken together",
    ),
    "column of two": (
        {"fetches": {"f": ONE, "g": ONE}},
        "[fetches.g] brings column 'c0', and so does [fetches.f]",
    ),
    "column twice": (
        {"fetches": {"f": ONE | {"columns": ["n", "n"]}}},
        "[fetches.f] brings column 'n' twice",
    ),
    "key twice": (
        {"fetches": {"f": ONE | {"key": ["id", "id"]}}},
        "[fetches.f] key has a column twice",
    ),
    "own key": (
        {"fetches": {"f": ONE | {"columns": ["id"]}}},
        "[fetches.f] key has 'id', which [fetches.f] brings",
    ),
    "key of another": (
        {"fetches": {"f": ONE | {"columns": ["id"], "key": ["n"]}, "g": MANY["f1"]}},
        "[fetches.g] key has 'id', which [fetches.f] brings",
    ),
    "label": (
        {"fetches": {"f": ONE | {"columns": ["label"]}}},
        "[fetches.f] brings column 'label', which [data] label names",
    ),
    "ignored": (
        {"fetches": {"f": ONE}, "data": {"table": "t.csv", "ignore": ["c0"]}},
        "[fetches.f] brings column 'c0', which [data] ignore names",
    ),
    "label as key": (
        {"fetches": {"f": ONE | {"key": ["label"]}}},
        "[fetches.f] key has the label, 'label', which no request has",
    ),
    "name of a group": (
        {
            "fetches": {"f": ONE},
            "features": {"columns": [{"name": "f", "columns": ["n"]}]},
        },
        "a group is named 'f', too",
    ),
    "unknown key": (
        {"fetches": {"f": ONE | {"form": "x"}}},
        "unknown key 'fetches.f.form'; did you mean 'from'?",
    ),
    "no name": ({"fetches": {"": ONE}}, '[fetches.""] has no name'),
    "no table": ({"fetches": {"f": 3}}, "fetches[...]: expected table, got int"),
    "negative price": (
        {"fetches": {"f": ONE | {"price": {"usd": -1}}}},
        "expected float >= 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_contradictions_are_refused_with_a_sentence(name: str) -> None:
    change, message = REFUSED[name]
    with pytest.raises(BadProject, match=re.escape(message)):
        Project.from_mapping({"data": {"table": "t.csv"}} | change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"key": ["custommer"]},
            "key has 'custommer', which no row has; there are",
        ),
        ({"columns": ["risks"]}, "columns has 'risks', which no row has; did you mean"),
    ],
)
def test_columns_that_the_table_lacks_are_refused(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    fetches = {"score": TIMES["score"] | change}
    project = make_project(tmp_path, fetches=fetches)
    with pytest.raises(BadProject, match=re.escape(message)):
        build(project)
