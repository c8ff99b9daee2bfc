"""reference/metrics.md and the dashboard: the metrics that a server shows."""

import json
import re
from collections.abc import Callable

import pytest
import yaml

from tests.support.pages import blocks, read
from tests.support.places import ROOT
from tests.support.processes.exposed_metrics import exposed_labels


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Labels of every sample that a server shows, by the sample's name."""
    return exposed_labels(tmp_path_factory.mktemp("index"))


def of_the_dashboard() -> list[str]:
    board = json.loads((ROOT / "deploy/grafana.json").read_text(encoding="utf-8"))
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [*asked, board["templating"]["list"][1]["query"]]


def of_how_to() -> list[str]:
    """Queries and alarms of pages."""
    pages = ["monitor", "kubernetes", "size-a-machine", "why-the-prior"]
    asked = [query for page in pages for query in blocks(f"how-to/{page}.md", "promql")]
    for text in blocks("how-to/monitor.md", "yaml"):
        for group in yaml.safe_load(text).get("groups", []):
            asked += [rule["expr"] for rule in group["rules"]]
    return asked


@pytest.mark.parametrize("queries", [of_the_dashboard, of_how_to])
def test_queries_name_metrics_and_labels_that_there_are(
    queries: Callable[[], list[str]], exposed: dict[str, set[str]]
) -> None:
    asked = queries()
    assert len(asked) > 12
    for expression in asked:
        names = re.findall(r"polydom_[a-z_]+", expression)
        labels = {label for name in names for label in exposed[name]}
        used = re.findall(r"([a-z_]+)(?:=~?\")", expression)
        for group in re.findall(r"by \(([^)]*)\)", expression):
            used += group.split(", ")
        assert names
        assert set(used) <= labels, expression


def test_every_metric_is_listed_with_its_labels(
    exposed: dict[str, set[str]],
) -> None:
    page = read("reference/metrics.md")
    rows = re.findall(r"^\| `(polydom_[a-z_]+)` \| \w+ \|(.*?)\|", page, re.MULTILINE)
    listed = {name: set(re.findall(r"`([a-z_]+)`", labels)) for name, labels in rows}
    parts = ("_bucket", "_count", "_sum")
    shown = {
        name.removesuffix(next((p for p in parts if name.endswith(p)), ""))
        for name in exposed
        if not name.endswith("_created")
    }
    assert listed.keys() == shown
    for name in shown & exposed.keys():
        assert exposed[name] == listed[name], name
