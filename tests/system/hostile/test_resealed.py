"""Index files edited and sealed again are refused, or hold what they promise."""

import io
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from polydom.features.errors import BadIndexFile, BadRow, PolydomError
from polydom.indexer.building.build import build
from polydom.indexer.index.facts import facts_of
from polydom.indexer.index.file.pdx_file import read_file
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.models.trees.nodes import NODE
from polydom.models.trees.self_test import TRUST
from polydom.server.__main__ import main
from polydom.server.cli.reports.index_report import show_text
from polydom.server.runtime.describe_index import describe_curves, describe_index
from tests.support.builds.vector_project import make_project
from tests.support.edited_files.edits import edited, sealed
from tests.support.edited_files.exercise import extractor_of, lies
from tests.support.edited_files.systematic_edits import edits_of
from tests.support.indexes import told
from tests.support.indexes.zoo import save_zoo

EDITS = 300
SYSTEMATIC = 180
Arrays = dict[str, NDArray[Any]]
Edit = Callable[[Arrays], None]


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    return save_zoo(tmp_path_factory.mktemp("zoo"))


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of texts with two fetched vectors, of which one was reduced."""
    folder = tmp_path_factory.mktemp("vectors")
    bought = {"from": "calls.py", "price": {"usd": 1e-5}, "most_columns": 2}
    fetches = {"embedding": bought, "mood": {"from": "calls.py"}}
    project = make_project(folder, features={"use": ["text_length"]}, fetches=fetches)
    build(project, output=folder / "vectors.pdx")
    return folder / "vectors.pdx"


def package_of(index: Index) -> Package:
    assert index.package is not None
    return index.package


def content(path: Path) -> tuple[dict[str, Any], Arrays]:
    meta, arrays, _ = read_file(path)
    return meta, {name: array.copy() for name, array in arrays.items()}


def resealed(path: Path, folder: Path, *edits: Edit) -> Path:
    meta, arrays = content(path)
    for edit in edits:
        edit(arrays)
    (folder / "edited.pdx").write_bytes(sealed(meta, arrays))
    return folder / "edited.pdx"


def put(name: str, at: Any, value: Any) -> Edit:
    def edit(arrays: Arrays) -> None:
        arrays[name][at] = value

    return edit


def add(name: str, at: Any, value: Any) -> Edit:
    def edit(arrays: Arrays) -> None:
        arrays[name][at] += value

    return edit


def repeat_stays(arrays: Arrays) -> None:
    """List everybody on the first skylines a hundred times."""
    stays, offsets = arrays["lookup/stays"], arrays["lookup/offsets"]
    again = np.repeat(stays, 100, axis=0)
    arrays["lookup/stays"] = again
    arrays["lookup/offsets"] = (offsets * 100).astype(np.int32)


def no_stays(arrays: Arrays) -> None:
    arrays["lookup/stays"] = arrays["lookup/stays"][:0]
    arrays["lookup/offsets"][:] = 0


def late_stays(arrays: Arrays) -> None:
    """Leave the first range without anybody."""
    stays = arrays["lookup/stays"]
    stays[:, 1] = np.maximum(stays[:, 1], 1)
    stays[:, 2] = np.maximum(stays[:, 2], 2)


def share_children(arrays: Arrays) -> None:
    """Let the root of a tree have the children of another node."""
    nodes = arrays["models/4/nodes"].reshape(-1).view(NODE)
    inner = np.flatnonzero(nodes["column"][: arrays["models/4/roots"][1]] >= 0)
    nodes["child"][inner[-2]] = nodes["child"][inner[-1]]


def no_class(arrays: Arrays) -> None:
    """Leave a model of one class, whose scores are two."""
    arrays["models/4/classes"] = np.zeros(1, np.int64)
    arrays["models/4/head"][1] = 2.0


def other_column(arrays: Arrays) -> None:
    """Let a model of one feature read the column of another."""
    arrays["models/1/columns"][0] = 4
    nodes = arrays["models/1/nodes"].reshape(-1).view(NODE)
    nodes["column"][nodes["column"] == 0] = 4


def untaken_column(arrays: Arrays) -> None:
    """Let nodes test a column that the model says it does not read."""
    nodes = arrays["models/1/nodes"].reshape(-1).view(NODE)
    nodes["column"][nodes["column"] == 0] = 3


def more_axes(name: str) -> Edit:
    def edit(arrays: Arrays) -> None:
        arrays[name] = arrays[name][np.newaxis]

    return edit


def no_values(arrays: Arrays) -> None:
    arrays["models/4/leaves"] = arrays["models/4/leaves"][:, :0].copy()


def no_trees(arrays: Arrays) -> None:
    for name in ("nodes", "targets", "leaves"):
        arrays[f"models/4/{name}"] = arrays[f"models/4/{name}"][:0]
    arrays["models/4/roots"] = arrays["models/4/roots"][:1]


def turn_rows(arrays: Arrays) -> None:
    arrays["lookup/rows"] = arrays["lookup/rows"][::-1].copy()


def huge_units(arrays: Arrays) -> None:
    arrays["models/4/unit"][0] = 2.0**1000
    arrays["models/4/bias"][:] = 0.0


REFUSED: list[tuple[str, Edit, str]] = [
    ("bare", repeat_stays, "stays are in no order, or overlap"),
    ("bare", no_stays, "stays are in no order"),
    ("bare", late_stays, "stays are"),
    ("bare", put("lookup/stays", (0, 1), -1), "stays are no triples"),
    ("bare", add("lookup/stays", (0, 2), 99), "stays are no triples"),
    ("bare", put("lookup/blocks", 0, 1), "blocks do not fit"),
    ("bare", add("lookup/coefficients", (3, 0), 1e-9), "costs are not those"),
    ("bare", turn_rows, "rows are not the index's"),
    ("bare", put("qualities", 0, 1.0), "most accurate"),
    ("bare", put("qualities", 0, 1.1), "candidate 0 has an accuracy outside"),
    ("bare", put("coefficients", (0, 1), -1e6), "candidate 0 has a negative cost"),
    ("bare", add("lookup/spacing", 1, 1e-3), "guide does not fit|not of the index's"),
    ("bare pairs", add("lookup/coefficients", (0, 0), 1.0), "costs are not those"),
    ("bare pairs", add("lookup/levels", -1, 1), "levels are not"),
    ("bare pairs", put("lookup/nodes", (0, 1), 2), "nodes are no tree"),
    ("bare pairs", put("lookup/entries", 1, 0), "entries do not descend"),
    ("texts", put("coefficients", (3, 0), 1e-9), "costs are not|less than its parts"),
    ("texts", put("costs/features", (1, 1), 1.0), "costs less than its parts"),
    ("texts", put("model_s", 2, 1.0), "costs less than its parts"),
    ("texts", put("costs/overhead", 0, 1e-3), "overhead is not"),
    ("texts", put("fallbacks", (3, 3), 1), "fallbacks are no better"),
    ("texts", put("margins", (3, 1), -1.0), "'margins' holds a number below zero"),
    ("texts", put("models/3/weights", (0, 0), 1e300), "leave the range"),
    ("texts", put("models/3/columns", 0, 1), "reads a column twice"),
    ("texts", put("models/3/head", 3, 1e308), "leave the range"),
    ("texts", put("models/3/head", 3, -1.0), "multiplied by -1"),
    ("tree", share_children, "has no parent, or several"),
    ("tree", no_class, "cannot choose between 1 classes"),
    ("tree", other_column, "candidate 1's model reads other features"),
    ("tree", untaken_column, "tests none of its 2 columns"),
    ("tree", no_values, "its leaves have no value"),
    ("tree", no_trees, "0 trees and 0 targets|leaves"),
    ("tree", put("models/4/sum", 0, 1e-310), "leave the range"),
    ("boosting", put("models/4/leaves", (0, 0), 1e308), "leave the range"),
    ("gaussian", put("models/4/variances", (0, 0), 1e-300), "leave the range"),
    ("pipeline", put("models/4/preparation", (0, 2, 0), 1e-300), "leave the range"),
    ("pipeline", put("models/4/preparation", (0, 5, 0), np.inf), "leave the range"),
    ("lattices", huge_units, "leave the range"),
    ("texts", put("costs/features", (1, 1), -1.0), "'costs/features' .* below zero"),
    ("network", more_axes("networks/0/1"), "1 is no file"),
]


# What may be another and the file be true, and why: nothing in it tells otherwise.
TRUE_OTHERWISE = {
    r"models/\d+/\w+": "other numbers are another model; that they are safe is checked",
    r"schedules/\d+/(lower|upper|margin|order|promise)": "it was fitted to other items",
    r"qualities|accuracies|intervals": "measured on other items",
    r"costs/\w+|model_s|whole_s|mean_s": "measured on another machine",
    r"ends": "files may lack them",
    r"lookup/\w+": "skylines that leave somebody out, whose choice is not the best",
    r"sizes(\.\d)+": "for other sizes",
    r"package": "without it these are bare candidates",
    r"fetches/arrivals": "other arrival times",
    r"gains/\w+": "items gain other amounts by what has a price",
    r"package\.fetches.*": "other calls bring columns, by other keys",
    r"package\.labels(\.\d+)?": "classes may be called anything",
    r"package\.measure": "accuracy, where it is not said",
    r"package\.features\.\d+\.(width|ready_made|columns.*)": "the code tells this",
    r"package\.features\.\d+\.stage\.columns": "a network of other items reads none",
    r"package\.networks\.\d+\.(image(\.shared)?|text|record|providers)": "the default",
    r"package\.networks\.\d+\.pieces\.\d+\.work": "another share of the work",
    r"package\.meta(\.(unit|weights.*|quantile|coverage))?": "built for another end",
    r"package\.meta\.(curves|pace|measured).*": "measured on another machine",
    r"package\.meta\.samples.*": "other items; those that are none stop the warm-up",
    r"package\.meta\.exits.*": "fitted to other items, or not told of",
    r"package\.meta\.(items|tested|skipped|remarks|observed|refitted).*": "other data",
    r"package\.meta\.found.*": "a threshold finds other shares of other data",
    r"package\.meta\.(learner|selection|search|testing|seed).*": "built in another way",
    r"package\.meta\.(calibration|columns|gaps|inputs|warnings).*": "other data",
    r"package\.meta\.positive": "the other class may be the one to find",
}


def test_every_edit_is_refused_or_could_be_true(
    zoo: Mapping[str, Path], vectors: Path, tmp_path: Path
) -> None:
    """`systematic_edits` makes each array and each fact another, one at a time."""
    told.make_index().save(tmp_path / "told.pdx")
    paths = {**zoo, "told": tmp_path / "told.pdx", "vectors": vectors}
    path, loaded, console = tmp_path / "edited.pdx", 0, Console(file=io.StringIO())
    names = ("told", "told", "texts", "balanced", "numbers", "bare pairs", "network")
    edits = [
        (name, edit)
        for name in (*names, "text network", "fetched", "vectors")
        for edit in edits_of(*content(paths[name]))
    ]
    for name, edit in edits[:: max(len(edits) // SYSTEMATIC, 1)]:
        try:
            path.write_bytes(sealed(*edit.content()))
            index = Index.load(path)
            extractor = extractor_of(index)
        except (BadIndexFile, TypeError, OverflowError):  # msgpack has no such number
            continue
        if extractor is None and index.package is not None:
            continue  # the features' code is not that
        loaded += 1
        what = f"{name}: {edit.where} {edit.what}"
        assert any(re.fullmatch(k, edit.where) for k in TRUE_OTHERWISE), what
        facts = facts_of(index)
        show_text(index, facts, console, verbose=True)
        if index.package is None:
            continue
        for said in (describe_index(index), describe_curves(index)):
            assert _finite(msgspec.to_builtins(said)), what
        draw = np.random.default_rng(0)
        # what is no item, and what exp cannot take, is refused in time
        if "samples" not in edit.where and ".width" not in edit.where:
            with suppress(BadRow):
                assert list(lies(index, draw, extractor)) == [], what
    assert SYSTEMATIC // 20 < loaded < SYSTEMATIC // 2


def _finite(plain: Any) -> bool:
    """Whether every number in plain data is one that JSON has."""
    if isinstance(plain, dict):
        return all(map(_finite, plain.values()))
    if isinstance(plain, list | tuple):
        return all(map(_finite, plain))
    return not isinstance(plain, float) or math.isfinite(plain)


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"columns": ["mood"]}, "a fetch is not for text items"),
        ({"key": ["text"]}, "a fetch is not for text items"),
        ({"width": 3}, "need vectors of other fetches"),
        ({"width": 1 << 40}, "width"),
        ({"name": "other", "columns": ["other"]}, "no feature reads"),
    ],
)
def test_a_fetch_of_other_vectors_is_refused(
    vectors: Path, tmp_path: Path, facts: Mapping[str, Any], message: str
) -> None:
    meta, arrays = content(vectors)
    first, second = meta["package"]["fetches"]
    first.update(facts)
    if facts.get("columns") == ["mood"]:  # each is taken for the other
        second["columns"] = ["embedding"]
    (tmp_path / "edited.pdx").write_bytes(sealed(meta, arrays))
    with pytest.raises(BadIndexFile, match=message):
        package_of(Index.load(tmp_path / "edited.pdx")).extractor()


@pytest.mark.parametrize(
    ("name", "edit", "message"), REFUSED, ids=[f"{n}-{e[:20]}" for n, _, e in REFUSED]
)
def test_what_could_lead_kernels_or_budgets_astray_is_refused(
    zoo: Mapping[str, Path], tmp_path: Path, name: str, edit: Edit, message: str
) -> None:
    path = resealed(zoo[name], tmp_path, edit)
    with pytest.raises(BadIndexFile, match=message) as caught:
        Index.load(path)
    assert "edited.pdx: " in str(caught.value)
    assert len(str(caught.value)) - len(str(tmp_path)) < 150


def test_inspect_refuses_a_look_up_with_more_stays_than_ranks(
    zoo: Mapping[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = resealed(zoo["texts"], tmp_path, repeat_stays)
    assert main(["inspect", str(path)]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "stays" in line


def test_a_refused_model_leaves_the_processor_trusted(
    zoo: Mapping[str, Path], tmp_path: Path
) -> None:
    held = TRUST.held
    with pytest.raises(BadIndexFile, match=r"models/4: stored trees model"):
        Index.load(resealed(zoo["tree"], tmp_path, share_children))
    assert TRUST.held == held


def test_every_kind_of_index_holds_what_it_promises(zoo: Mapping[str, Path]) -> None:
    draw = np.random.default_rng(0)
    for name, path in zoo.items():
        index = Index.load(path)
        extractor = extractor_of(index)
        assert (extractor is None) == name.startswith("bare")
        assert list(lies(index, draw, extractor)) == [], name


def test_drawn_edits_are_refused_or_hold_what_they_promise(
    zoo: Mapping[str, Path], tmp_path: Path
) -> None:
    """Edits are drawn by a seed of their own number, so that each can be made again."""
    contents = [content(path) for path in zoo.values()]
    path, served = tmp_path / "edited.pdx", 0
    for number in range(EDITS):
        draw = np.random.default_rng([1, number])
        path.unlink(missing_ok=True)
        path.write_bytes(edited(contents[number % len(contents)], draw))
        try:
            index = Index.load(path)
            assert list(lies(index, draw, extractor_of(index))) == [], number
        except PolydomError:
            continue
        served += 1
    assert EDITS // 20 < served < EDITS // 2
