"""Whole builds of small real projects."""

import json
import os
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fastapi.testclient import TestClient
from msgspec import UNSET
from numpy.polynomial.polynomial import polyval
from PIL import Image
from rich.console import Console

from polydom.features.errors import BadFeature, BadProject, NothingFits
from polydom.features.items import text_item
from polydom.indexer import Index, build
from polydom.indexer.building.project import Project
from polydom.indexer.index.facts import facts_of
from polydom.indexer.index.machine_speed import MachineFactors, MachineTimes
from polydom.models.selection.portfolio import installed
from polydom.models.selection.race import Race
from polydom.server.app import create_app
from polydom.server.cli.reports.index_report import show_text
from polydom.server.cli.reports.race_report import plot_race
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.loading import load_planner
from polydom.server.engine.request import Request
from tests.support.builds import few_learners, projects
from tests.support.builds.progresses import Stages
from tests.support.oracles.costs import feature_seconds
from tests.support.processes import servers
from tests.support.waiting import until_ready


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a finished project, its index `my.pdx` and its cache.

    Models are not trained again: they would cost a little more or less than those that
    sets were kept for.
    """
    project = projects.TEXTS + "[search]\nrefit = false\n"
    folder = projects.texts(tmp_path_factory.mktemp("built"), project=project)
    build(folder / "PROJECT.toml", output=folder / "my.pdx", cache=folder / "cache")
    return folder


def test_build_answers_every_budget(built: Path) -> None:
    index = Index.load(built / "my.pdx")
    package = index.package
    assert package is not None
    low, high = index.sizes
    for size in np.linspace(low, high, 7):
        nothing = index.best(size, package.overhead_s)
        everything = index.best(size, 1.0)
        assert package.masks[nothing.row] == 0
        assert nothing.quality < everything.quality
        assert everything.cost_s <= 1.0


def test_build_gives_the_same_bytes_for_the_same_measured_times(built: Path) -> None:
    before = (built / "my.pdx").read_bytes()
    build(built / "PROJECT.toml", output=built / "again.pdx", cache=built / "cache")
    assert (built / "again.pdx").read_bytes() == before


def test_build_packs_how_long_the_samples_took(built: Path) -> None:
    package = Index.load(built / "my.pdx").package
    assert package is not None
    samples = len(package.meta["samples"])
    found = MachineTimes.read(
        package.meta["pace"],
        samples=samples,
        steps=len(package.costs.step_coefficients),
        features=len(package.features),
        rows=len(package.masks),
    )
    # the samples go from small to large, and a median is below a high quantile
    low, high = Index.load(built / "my.pdx").sizes
    for position in range(len(package.features)):
        curve = package.costs.feature_coefficients[position]
        assert np.median(found.feature_s[:, position]) < 3 * polyval(high, curve)
        assert np.median(found.feature_s[:, position]) > polyval(low, curve) / 30


@pytest.mark.parametrize(
    "stage",
    [
        "computing features",
        "training all features",
        "trying features",
        "training on all",
    ],
)
def test_build_goes_on_where_it_was_interrupted(tmp_path: Path, stage: str) -> None:
    folder = projects.texts(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        build(
            folder / "PROJECT.toml",
            output=folder / "my.pdx",
            cache=folder / "cache",
            progress=Stages(stop_in=stage),
        )
    assert not (folder / "my.pdx").exists()
    kept = {path: path.stat().st_mtime_ns for path in (folder / "cache").rglob("*.pdx")}
    assert kept
    build(folder / "PROJECT.toml", output=folder / "my.pdx", cache=folder / "cache")
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert Index.load(folder / "my.pdx").package is not None


def test_build_with_folds_trains_the_kept_models_on_all_items(tmp_path: Path) -> None:
    folder = projects.texts(
        tmp_path, project=projects.TEXTS + "[search]\nfolds = 3\ntolerance = 0.01\n"
    )
    index = build(folder / "PROJECT.toml", cache=folder / "cache")
    assert index.qualities.max() > 0.9


@pytest.mark.parametrize("method", ["greedy", "greedy-acc", "greedy-cost"])
def test_build_searches_as_the_project_says(tmp_path: Path, method: str) -> None:
    search = f'[search]\nmethod = "{method}"\n'
    folder = projects.texts(tmp_path, project=projects.TEXTS + search)
    project, cache = folder / "PROJECT.toml", folder / "cache"
    with pytest.raises(KeyboardInterrupt):
        build(project, cache=cache, progress=Stages(stop_in="training sets"))
    kept = {path: path.stat().st_mtime_ns for path in (cache / "sets").rglob("*.pdx")}
    assert kept
    index = build(project, output=folder / "my.pdx", cache=cache)
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert index.package is not None
    facts = index.package.meta["search"]
    assert facts["method"] == method
    assert len(facts["lambdas"]) == facts["sequences"] >= 1
    for row, order in enumerate(index.package.orders):
        for k, answer in enumerate(index.package.fallbacks[row]):
            done = sum(1 << feature for feature in order[:k])
            assert int(index.package.masks[answer]) & ~done == 0
    # more time never buys a worse answer, and all of it the best there is
    size = float(np.mean(index.sizes))
    gains = [index.best(size, b).quality for b in (1e-4, 3e-4, 1e-3, 1.0)]
    assert gains == sorted(gains)
    assert gains[-1] == index.qualities.max() > 0.9


def for_budgets(built: Path, low_share: float) -> tuple[Index, float, Project]:
    """The index of all budgets, a small one, and the project for budgets up to it."""
    whole = Index.load(built / "my.pdx")
    # not enough for the most accurate set, however short the text
    most = 0.9 * whole.best(whole.sizes[0], 1.0).cost_s
    project = Project.load(built / "PROJECT.toml")
    search = msgspec.structs.replace(project.search, budgets=[low_share * most, most])
    return whole, most, msgspec.structs.replace(project, search=search)


def test_build_for_known_budgets_keeps_what_they_buy_and_serves_it(
    built: Path, tmp_path: Path
) -> None:
    whole, most, project = for_budgets(built, 0.8)
    low, high = whole.sizes
    assert not isinstance(low, tuple)
    assert not isinstance(high, tuple)
    path = tmp_path / "fixed.pdx"
    index = build(project, output=path, cache=built / "cache")
    assert len(index.qualities) < len(whole.qualities)
    assert path.stat().st_size < (built / "my.pdx").stat().st_size
    for size in np.linspace(low, high, 50):
        for budget in np.linspace(0.8 * most, most, 20):
            best = index.best(size, budget)
            assert best.cost_s <= budget
            assert best.quality == whole.best(size, budget).quality
    with TestClient(create_app({"fixed": path})) as client:
        asked = {"text": "WIN a prize " * 20, "budget_ms": 1000}
        until_ready(client)
        answer = client.post("/v1/predict", json=asked).json()
    assert answer["label"] in ("ham", "spam")
    assert answer["expected_accuracy"] == index.qualities.max()
    console = Console(record=True, width=200)
    show_text(index, facts_of(index), console, verbose=True)
    assert "only what is best for budgets of" in console.export_text()


def test_budgets_of_a_slower_machine_are_those_of_the_build_times_as_much(
    built: Path, tmp_path: Path
) -> None:
    whole, most, project = for_budgets(built, 0.4)
    low, high = whole.sizes
    assert not isinstance(low, tuple)
    assert not isinstance(high, tuple)
    index = build(project, cache=built / "cache")
    assert index.package is not None
    m, steps = len(index.package.features), len(index.package.costs.step_coefficients)
    twice = MachineFactors(2.0, np.full(steps, 2.0), np.full(m, 2.0), 2.0)
    slow, slow_whole = (one.rescaled(twice, np.zeros(m)) for one in (index, whole))
    for size in np.linspace(low, high, 20):
        for budget in np.linspace(0.8 * most, 2 * most, 20):
            best = slow.best(size, budget)
            assert best.cost_s <= budget
            assert best.quality == slow_whole.best(size, budget).quality


def test_build_for_one_size_keeps_its_skyline(built: Path, tmp_path: Path) -> None:
    project = Project.load(built / "PROJECT.toml")

    def of(sizes: list[float] | None) -> Index:
        # what is trained again is timed again, after sets were dropped
        terms = {"held_out": 0.25, "refit": False}
        # how much more a set costs, and so what is luck, depends on the sizes
        terms["negligible_us"] = 0.0
        search = msgspec.structs.replace(project.search, sizes=sizes, **terms)
        one = msgspec.structs.replace(project, search=search)
        return build(one, output=tmp_path / "one.pdx", cache=built / "cache")

    whole, index = of(None), of([200.0, 200.0])
    assert set(index.skyline(200.0).tolist()) | {0} == set(range(len(index.qualities)))
    for budget in np.geomspace(1e-5, 1e-1, 50):
        try:
            expected = whole.best(200.0, budget)
        except NothingFits:
            continue
        assert index.best(200.0, budget)[1:] == expected[1:]


OWN = """
from polydom.features import feature

@feature(kind="text")
def vowels(text):
    return [sum(text.count(v) for v in "aeiou") / len(text)]

@feature(kind="text")
def {name}(text):
    {body}
"""


def own_project(folder: Path, name: str, body: str) -> Path:
    projects.texts(
        folder,
        project=projects.TEXTS.replace(
            'use = ["text_length", "hashed_words"]',
            'use = ["text_length"]\nfiles = ["own.py"]',
        ),
    )
    (folder / "own.py").write_text(OWN.format(name=name, body=body))
    return folder / "PROJECT.toml"


def test_build_uses_features_of_the_users_own(tmp_path: Path) -> None:
    project = own_project(tmp_path, "bangs", 'return [text.count("!") / len(text)]')
    index = build(project, cache=tmp_path / "cache")
    assert index.package is not None
    assert [f.name for f in index.package.features] == [
        "text_length",
        "vowels",
        "bangs",
    ]
    assert index.package.extractor([tmp_path / "own.py"]).width >= 3
    with pytest.raises(BadFeature, match=r"'vowels' is the user's own .* --features"):
        index.package.extractor()
    changed = (tmp_path / "own.py").read_text().replace('"!"', '"?"')
    (tmp_path / "own.py").write_text(changed)
    with pytest.raises(
        BadFeature, match="'bangs' is not what the index was built with"
    ):
        index.package.extractor([tmp_path / "own.py"])


RUNS = """import os
with open({runs!r}, "a") as file:
    print(os.getpid(), file=file)
"""


@pytest.mark.parametrize("workers", [1, 2])
def test_build_runs_the_users_file_once_and_once_more_to_compare(
    tmp_path: Path, workers: int
) -> None:
    """And once in each worker process."""
    path = own_project(tmp_path, "bangs", 'return [text.count("!") / len(text)]')
    runs = tmp_path / "runs"
    own = tmp_path / "own.py"
    own.write_text(RUNS.format(runs=str(runs)) + own.read_text())
    text = path.read_text().replace("workers = 1", f"workers = {workers}")
    path.write_text(text)
    build(path, cache=tmp_path / "cache")
    counts = Counter(map(int, runs.read_text().split()))
    assert counts.pop(os.getpid()) == 2
    assert set(counts.values()) <= {1}
    assert len(counts) <= (workers if workers > 1 else 0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 / 0", "raiser.*ZeroDivisionError"),
        ("return [float('nan')]", "raiser.*(NaN|nan|finite)"),
        ("return list(range(len(text) % 3 + 1))", "raiser.*columns"),
        ("import random; return [random.random()]", "raiser.*(same|twice|determin)"),
        (
            "import random; return [random.random() if len(text) > 2000 else 0.5]",
            "raiser.*determin",
        ),
    ],
    ids=["raises", "gives NaN", "changes width", "is not deterministic", "of long"],
)
def test_build_names_a_feature_that_breaks_its_promise(
    tmp_path: Path, body: str, message: str
) -> None:
    project = own_project(tmp_path, "raiser", body)
    with pytest.raises(BadFeature, match=message):
        build(project, output=tmp_path / "my.pdx", cache=tmp_path / "cache")
    assert not (tmp_path / "my.pdx").exists()


SHAKY = """\
from polydom import feature

@feature(kind="text", fails="without")
def shaky(text):
    if len(text) % 7 == 0:
        raise LookupError("down")
    return [text.count("!") / len(text), float("nan") if len(text) % 5 == 0 else 1.0]

@feature(kind="text")
def half(text):
    return [text.count("!") if len(text) % 2 else 0]
"""


def test_an_index_answers_items_on_which_a_feature_fails_as_in_the_build(
    tmp_path: Path,
) -> None:
    path, own = own_project(tmp_path, "shaky", "return 1"), tmp_path / "own.py"
    own.write_text(SHAKY)
    text = path.read_text().replace('["text_length"]', '["shaky", "half"]')
    path.write_text(text)
    index = build(path, output=tmp_path / "my.pdx", cache=tmp_path / "cache")
    assert index.package is not None
    stored = {one.name: one for one in index.package.features}
    gaps = {name: one.gaps for name, one in stored.items() if one.gaps is not UNSET}
    assert gaps == {"shaky": [0, 1]}
    assert any("'shaky' failed on" in line for line in index.package.meta["warnings"])
    shaky = 1 << [*stored].index("shaky")
    needs = [bool(mask & shaky) for mask in index.package.masks.tolist()]
    assert needs.count(False) > 1, "a set without the feature is kept"
    planner = load_planner(tmp_path / "my.pdx", [own])
    assert needs[planner.top(100.0)[0]]
    for length, reason in ((98, "feature_failed"), (100, None), (101, None)):
        item = text_item(("see you " * 20)[:length])
        outcome = execute(planner, Request(item, Deadline(planner.now(), 60.0)))
        assert (outcome.reason, needs[outcome.row]) == (reason, reason is None)


def test_build_refuses_columns_that_no_row_has(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,label\n" + "1,a\n2,b\n" * 4)
    content = {
        "data": {"table": "rows.csv"},
        "features": {"columns": [{"name": "x", "columns": ["aeg"]}]},
    }
    with pytest.raises(BadProject, match=r"'aeg', which no row has; .*'age'"):
        build(Project.from_mapping(content, folder=tmp_path), cache=tmp_path / "c")


def test_build_refuses_a_learner_before_any_work(tmp_path: Path) -> None:
    content = {"data": {"texts": "absent.jsonl"}, "learner": "logistik"}
    with pytest.raises(BadProject, match="did you mean 'logistic'"):
        build(Project.from_mapping(content, folder=tmp_path), cache=tmp_path / "c")


@pytest.mark.parametrize(
    ("use", "message"),
    [
        ('["hog"]', "'hog' is for image items; the data's items are texts"),
        ('["casing", "casing"]', "'casing' twice"),
        ('["casin"]', "casing"),
    ],
)
def test_build_refuses_features_that_do_not_suit(
    tmp_path: Path, use: str, message: str
) -> None:
    text = projects.TEXTS.replace('["text_length", "hashed_words"]', use)
    folder = projects.texts(tmp_path, project=text)
    with pytest.raises((BadProject, BadFeature), match=message):
        build(folder / "PROJECT.toml", cache=folder / "cache")


MONEY = {
    "data": {"table": "rows.csv"},
    "features": {
        "columns": [
            {"name": "free", "columns": ["a"], "cost": {"usd": 0}},
            {"name": "dear", "columns": ["b", "town"], "cost": {"usd": 7}},
        ]
    },
    "learner": {"name": "tree"},
    "costs": {"weights": {"usd": 1.0}, "items": 4, "repeats": 1},
    "workers": 1,
}


def test_build_counts_money_where_the_project_says_so(tmp_path: Path) -> None:
    rows = ["a,b,town,label"]
    for i in range(80):
        rows.append(f"{i % 5},{i % 2},{'Rome' if i % 4 < 2 else 'Oslo'},{i % 2}")
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    project = Project.from_mapping(MONEY, folder=tmp_path)
    index = build(project, cache=tmp_path / "cache")
    assert index.package is not None
    assert index.package.meta["unit"] == "usd"
    assert index.best(1, 6.99).quality < index.best(1, 7).quality == 1
    assert index.best(1, 7).cost_s == 7


AUTO = projects.TEXTS.replace("logistic", "auto")


def test_build_chooses_a_learner_where_asked_and_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_learners.use(monkeypatch)
    folder = projects.texts(tmp_path, count=240, project=AUTO)
    trained: list[str] = []

    def watch(race: Race) -> None:
        trained.append(race.log[-1].learner)

    with pytest.raises(KeyboardInterrupt):
        build(
            folder / "PROJECT.toml",
            cache=folder / "c",
            watch=watch,
            progress=Stages(stop_in="choosing a learner"),
        )
    index = build(
        folder / "PROJECT.toml",
        output=folder / "a.pdx",
        cache=folder / "c",
        watch=watch,
    )
    assert index.package is not None
    race = index.package.meta["selection"]
    assert set(trained) == {*race["curves"], *race["failed"]}
    assert race["learner"] in race["curves"]
    assert index.package.meta["learner"] == installed()[race["learner"]]
    assert index.qualities.max() > 0.9
    build(folder / "PROJECT.toml", output=folder / "b.pdx", cache=folder / "c")
    assert (folder / "a.pdx").read_bytes() == (folder / "b.pdx").read_bytes()
    facts = facts_of(index)
    console = Console(record=True, width=200)
    show_text(index, facts, console, verbose=True)
    shown = console.export_text()
    assert f"learner chosen by knockout: {race['learner']}" in shown
    amount, score, _ = race["curves"][race["learner"]][-1]
    assert "  its curve: " in shown
    assert f"{score:.4f} on {amount:,} examples" in shown
    plot_race(index.package.meta["selection"], folder / "race.png")
    assert (folder / "race.png").read_bytes().startswith(b"\x89PNG")


def image_project(folder: Path, on_bad_item: str) -> Project:
    """Twelve photos in two classes, one of which breaks off in the middle."""
    for number in range(12):
        path = folder / "photos" / "ab"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        pixels = np.random.default_rng(number).integers(0, 99 + 99 * (number % 2), 900)
        Image.fromarray(pixels.astype(np.uint8).reshape(30, 30)).save(path)
    broken = folder / "photos" / "a" / "4.png"
    broken.write_bytes(broken.read_bytes()[:200])
    return Project.from_mapping(
        {
            "data": {"images": "photos", "on_bad_item": on_bad_item},
            "features": {"use": ["intensity_histogram"]},
            "search": {"held_out": 0.4},
            "costs": {"items": 4, "repeats": 1},
            "workers": 1,
        },
        folder=folder,
    )


def test_build_leaves_out_an_image_that_breaks_off_and_names_it(tmp_path: Path) -> None:
    index = build(image_project(tmp_path, "skip"), cache=tmp_path / "cache")
    assert index.package is not None
    ((name, why),) = index.package.meta["skipped"]
    assert name == str(Path("a", "4.png"))
    assert "image" in why
    assert index.package.meta["items"] == 11


def test_build_stops_at_an_image_that_breaks_off_where_asked(tmp_path: Path) -> None:
    with pytest.raises(BadProject, match=r"a.4\.png: "):
        build(
            image_project(tmp_path, "stop"),
            output=tmp_path / "my.pdx",
            cache=tmp_path / "cache",
        )
    assert not (tmp_path / "my.pdx").exists()


def test_build_by_width_and_height_tells_rows_from_columns(tmp_path: Path) -> None:
    folder = projects.shapes(tmp_path, '["width", "height"]')
    index = build(
        folder / "PROJECT.toml", output=tmp_path / "my.pdx", cache=tmp_path / "cache"
    )
    package = index.package
    assert package is not None
    assert index.sizes == ((8, 8), (1024, 1024))
    assert [feature.name for feature in package.features] == ["rows", "columns"]
    costs, sizes = package.costs, [(1024.0, 8.0), (8.0, 1024.0)]
    rows_s, columns_s = (
        [float(feature_seconds(costs, [position], size)[0]) for size in sizes]
        for position in (0, 1)
    )
    # Their loops are 128 times as long on one as on the other; a busy machine adds to
    # both.
    assert rows_s[1] > 2 * rows_s[0]
    assert columns_s[0] > 2 * columns_s[1]
    projects.shapes(tmp_path, '"pixels"')
    other = build(folder / "PROJECT.toml", cache=tmp_path / "cache").package
    assert other is not None
    assert feature_seconds(other.costs, [0], 8 * 1024.0)[0] > 1.5 * rows_s[0]
    facts = facts_of(index)
    console = Console(record=True, width=200)
    show_text(index, facts, console, verbose=True)
    assert "sizes 8 x 8 to 1024 x 1024" in console.export_text()
    check_serving(tmp_path / "my.pdx", folder)


def check_serving(index: Path, folder: Path) -> None:
    """Ask a real server for a wide image and for a high one."""
    with servers.serving(index, "--features", str(folder / "sides.py")) as (_, port):
        code, facts = servers.ask(port, "GET", "/v1/index")
        assert code == 200
        assert facts["size"] == ["width", "height"]
        assert facts["smallest_size"] == [8, 8]
        for kind in ("wide", "high"):
            image = sorted((folder / "photos" / kind).iterdir())[-1].read_bytes()
            code, answer = servers.ask(
                port,
                "POST",
                "/v1/predict?budget_ms=1000",
                image,
                **{"Content-Type": "image/png"},
            )
            assert code == 200, answer
            assert answer["expected_accuracy"] == facts["accuracy"]
            assert answer["features"]
    plan = ["plan", str(index), "--size", "8x1024", "--budget-ms", "1000", "--json"]
    assert json.loads(servers.polydom(plan, folder))["size"] == [8, 1024]


def test_build_by_words_and_sentences(tmp_path: Path) -> None:
    size = 'size = ["words", "sentences"]\n'
    folder = projects.texts(tmp_path, project=projects.TEXTS + size)
    index = build(folder / "PROJECT.toml", cache=tmp_path / "cache")
    assert index.pairs
    low, high = index.sizes
    assert np.greater(high, low).all()
    nothing = index.best(low, index.cost_s(0, low))
    assert index.best(high, 1.0).quality > nothing.quality


def test_build_refuses_a_size_that_its_items_do_not_have(tmp_path: Path) -> None:
    project = projects.TEXTS + 'size = ["width", "height"]\n'
    folder = projects.texts(tmp_path, project=project)
    with pytest.raises(BadProject, match=r"'words', 'sentences'\] is what there is"):
        build(folder / "PROJECT.toml", cache=tmp_path / "cache")
