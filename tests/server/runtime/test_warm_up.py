"""Everything runs once before anything is asked, and costs become this machine's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from polydom.features.errors import BadIndexFile
from polydom.features.extract import Extractor
from polydom.indexer.index.index import Index
from polydom.server.app import create_app
from polydom.server.engine.planning.planner import Planner
from polydom.server.runtime.describe_index import describe_index
from polydom.server.runtime.warm_up import WarmUp
from polydom.server.schema.facts import Rescaling
from tests.support.indexes.free_records import save_records
from tests.support.indexes.served import (
    FEATURES_FILE,
    SPAM,
    WIDTHS,
    make_index,
    save_index,
)
from tests.support.indexes.three_kinds import picture, save_images
from tests.support.planners import MACHINE_TIMES, planner_of, timed_index
from tests.support.processes.servers import ask, serving
from tests.support.waiting import until_ready


def test_warm_up_rescales_an_index_that_knows_its_machine_times() -> None:
    warm_up = WarmUp(planner := planner_of(timed_index()))
    built = planner.index
    assert warm_up.rescaling == Rescaling("not_yet")
    warm_up.run()
    assert warm_up.rescaling.state == "rescaled"
    # the features take microseconds, whatever the index says
    assert warm_up.rescaling.features["words"] < 0.5
    assert planner.index.cost_s(3, 100) < built.cost_s(3, 100)
    facts = describe_index(planner.index, warm_up.rescaling)
    assert facts.rescaling == warm_up.rescaling
    assert facts.sets[3].cost == planner.index.coefficients[3].tolist()


@pytest.mark.parametrize(
    ("index", "wanted", "state"),
    [
        (make_index(), True, "no_samples"),
        (make_index("usd"), True, "no_samples"),
        (timed_index(weights={"usd": 2.0}), True, "no_time"),
        (timed_index(), False, "off"),
    ],
    ids=["an old file", "old, of money", "no time", "not wanted"],
)
def test_costs_stay_where_they_cannot_or_shall_not_be_rescaled(
    index: Index, wanted: bool, state: str
) -> None:
    warm_up = WarmUp(planner := planner_of(index), rescales=wanted)
    warm_up.run()
    assert warm_up.rescaling == Rescaling(state)  # type: ignore[arg-type]
    assert planner.index is index


@pytest.mark.parametrize(
    "machine_times", [[], {}, {**MACHINE_TIMES, "overhead": [0.0, 1.0]}]
)
def test_machine_times_that_are_none_are_refused(machine_times: Any) -> None:
    with pytest.raises(BadIndexFile, match="sample time"):
        WarmUp(planner_of(timed_index(machine_times)))


def test_declared_costs_are_not_rescaled() -> None:
    index = timed_index(weights={"s": 1.0, "usd": 1.0}, unit="s + usd")
    planner = planner_of(index)
    features = [replace(f, declared={"usd": 1e-3}) for f in planner.extractor.features]
    declaring = Planner(index, Extractor(features, WIDTHS))
    WarmUp(declaring).run()
    # of length's 1 ms, all is declared
    costs = declaring.package.costs
    assert costs.feature_coefficients[0, 0] == pytest.approx(1e-3)
    assert costs.feature_coefficients[1, 0] < 2e-3


def test_a_server_says_how_it_rescaled(tmp_path: Path) -> None:
    timed_index().save(tmp_path / "tiny.pdx")
    app = create_app(tmp_path / "tiny.pdx", features=[FEATURES_FILE])
    with TestClient(app) as client:
        until_ready(client)
        facts = client.get("/v1/index").json()
        metrics = client.get("/metrics").text
        answer = client.post("/v1/predict", json={"text": SPAM, "budget_ms": 900})
    assert facts["rescaling"]["state"] == "rescaled"
    assert set(facts["rescaling"]["features"]) == {"length", "marks", "words"}
    assert facts["drift"] == 1
    factor = facts["rescaling"]["features"]["words"]
    line = (
        f'polydom_rescale_factor{{model="tiny",name="words",part="feature"}} {factor}'
    )
    assert line in metrics
    assert 'polydom_cost_factor{model="tiny"} 1.0' in metrics
    assert 'polydom_cost_factor_bound_hits_total{model="tiny"} 0.0' in metrics
    assert answer.json()["label"] == "spam"


def test_serve_leaves_costs_as_they_are_where_it_is_told_to(tmp_path: Path) -> None:
    timed_index().save(tmp_path / "tiny.pdx")
    own = f"--features={FEATURES_FILE}"
    with serving(tmp_path / "tiny.pdx", own, "--no-rescale") as (_, port):
        _, facts = ask(port, "GET", "/v1/index")
    assert facts["rescaling"]["state"] == "off"  # type: ignore[index]


@pytest.mark.parametrize(("text", "said"), [("x", None), ("x" * 10_001, False)])
def test_an_answer_says_where_its_size_was_never_seen(
    text: str, said: bool | None, tmp_path: Path
) -> None:
    make_index().save(tmp_path / "tiny.pdx")
    app = create_app(tmp_path / "tiny.pdx", features=[FEATURES_FILE])
    with TestClient(app) as client:
        until_ready(client)
        answer = client.post("/v1/predict", json={"text": text, "budget_ms": 900})
    assert answer.json().get("size_in_range") is said


@pytest.mark.parametrize(
    ("kind", "sample", "said"),
    [
        ("text", 5, "a text was expected, not int"),
        ("text", b"bytes", "a text was expected, not bytes"),
        ("image", b"noise", "5 bytes that begin 6e 6f"),
        ("image", picture(20)[:-30], "cannot be decoded"),
        ("record", ["age"], "a record was expected, not list"),
        ("record", {"age": [1]}, "column 'age' holds a list"),
        ("record", {"age": "old"}, "column 'age' holds 'old'; a number is needed"),
    ],
)
def test_samples_that_are_no_items_are_refused_at_once(
    tmp_path: Path, kind: str, sample: Any, said: str
) -> None:
    """Only an edited file has such; its features would fail while it warms up."""
    save = {"text": save_index, "image": save_images, "record": save_records}[kind]
    index = Index.load(save(tmp_path))
    assert index.package is not None
    meta = {**index.package.meta, "samples": [*index.package.meta["samples"], sample]}
    edited = replace(index, package=replace(index.package, meta=meta))
    edited.save(tmp_path / "edited.pdx")
    number = len(meta["samples"]) - 1
    with pytest.raises(BadIndexFile) as raised:
        create_app(tmp_path / "edited.pdx", features=[FEATURES_FILE])
    assert f"damaged: sample {number} is no item: " in str(raised.value)
    assert said in str(raised.value)
