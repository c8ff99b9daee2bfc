"""How items differ from the build's is told, and words only where items are shown."""

from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.engine.monitoring.input_sketch import LEAST, Shift
from polydom.server.runtime.describe_shifts import name_bins
from polydom.server.settings import Settings
from tests.support.indexes import compared, records
from tests.support.waiting import until_ready


def shift(words: tuple[str, ...] | None = None, **ends: list[float]) -> Shift:
    edges, values = ends.get("edges", []), ends.get("values", [])
    return Shift("a", words, 9, 0.0, 0.0, [1.0], [1.0], edges, values)


def test_bins_have_names() -> None:
    assert name_bins(shift(edges=[1.23456, 2e6]), shows_words=True) == [
        "missing",
        "up to 1.23",
        "1.23 to 2e+06",
        "above 2e+06",
    ]
    assert name_bins(shift(values=[0.5, 3.0]), shows_words=False) == [
        "missing",
        "0.5",
        "3",
        "others",
    ]
    jobs = shift(("clerk", "nurse"), values=[1.0, 7.0])
    assert name_bins(jobs, shows_words=True)[1:3] == ["nurse", "word 7"]
    assert name_bins(jobs, shows_words=False)[1:3] == ["word 1", "word 7"]
    assert name_bins(shift(), shows_words=True) == ["missing", "others"]


def ask_all(client: TestClient, people: list[dict[str, Any]]) -> dict[str, Any]:
    """Send people in batches, and one by one; return what is said of them."""
    for k in range(0, len(people), 50):
        items = [{"record": one} for one in people[k : k + 50]]
        body = {"items": items, "budget_ms": 9000}
        assert client.post("/v1/batch", json=body).status_code == 200
    told: dict[str, Any] = client.get("/v1/index/inputs").json()
    return told


@pytest.mark.parametrize("samples", ["nobody", "everybody"])
def test_shifts_are_told_by_column(tmp_path: Path, samples: Any) -> None:
    path = compared.save(tmp_path / "people.pdx")
    app = create_app(path, settings=Settings(samples=samples))
    with TestClient(app) as client:
        until_ready(client)
        assert client.get("/v1/index/inputs").json()["items"] == 0
        app.state.repository.get().sketch._gap_s = 0.0  # each item is sampled
        told = ask_all(client, compared.draw_people(300, 8))
        assert told["built_items"] == 3000
        assert told["items"] == 300 >= LEAST
        assert {one["name"] for one in told["columns"]} == {"age", "height", "job"}
        assert all(one["psi"] < 0.1 for one in told["columns"])
        assert told["answers"]["psi"] is None
        assert sum(told["answers"]["now"]) == pytest.approx(1.0)
        job = next(one for one in told["columns"] if one["name"] == "job")
        assert ("nurse" in job["bins"]) == (samples == "everybody")
        moved = [one | {"age": 1e12} for one in compared.draw_people(300, 9)]
        first, *others = ask_all(client, moved)["columns"]
        assert (first["name"], first["bins"][-1][:5]) == ("age", "above")
        assert first["psi"] > 0.5
        assert first["now"][-1] == pytest.approx(0.5, abs=0.1)
        assert all(one["psi"] < 0.1 for one in others)
        text = client.get("/metrics").text
        assert (
            f'polydom_input_psi{{column="age",model="people"}} {first["psi"]}' in text
        )
        assert 'polydom_input_sampled_items{model="people"} 600.0' in text


def test_an_index_without_distributions_and_a_switch_compare_nothing(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / "old.pdx", compared.save(tmp_path / "new.pdx")
    records.make_index().save(old)
    for path, settings in ((old, Settings()), (new, Settings(input_drift=False))):
        with TestClient(create_app(path, settings=settings)) as client:
            until_ready(client)
            told = ask_all(client, compared.draw_people(20, 3))
            assert (told["items"], told["built_items"]) == (0, 0)
            assert (told["columns"], told["answers"]) == ([], None)
            assert "polydom_input_psi{" not in client.get("/metrics").text
