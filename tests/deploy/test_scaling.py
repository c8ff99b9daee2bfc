"""What scales pods asks Prometheus for metrics that servers have."""

import re
from pathlib import Path
from typing import get_args

import pytest

from polydom.server.errors import Overloaded
from polydom.server.schema.wire import Reason
from tests.support.kubernetes.manifests import CHART, DEPLOY
from tests.support.processes.exposed_metrics import exposed_labels

SCALED_OBJECT = CHART / "templates" / "scaledobject.yaml"
# Labels that the Prometheus operator gives targets.
TARGET = {"namespace", "service"}


@pytest.fixture(scope="module")
def exposed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    return exposed_labels(tmp_path_factory.mktemp("index"))


@pytest.mark.parametrize("path", [SCALED_OBJECT, DEPLOY / "kserve-example.yaml"])
def test_scaling_asks_for_metrics_and_labels_that_there_are(
    path: Path, exposed: dict[str, set[str]]
) -> None:
    selectors = re.findall(r"(polydom_\w+)\{([^\n\[]*)\}\[?", path.read_text())
    assert len(selectors) >= 5
    for name, selector in selectors:
        found = re.findall(r'(\w+)([!=]~?)"([^"]*)"', selector)
        labels = {label: value for label, _, value in found}
        assert labels.keys() <= exposed[name], (name, selector)
        assert labels.get("code", Overloaded.code) == Overloaded.code
        assert labels.get("budget_met", "false") == "false"
        reasons = labels.get("reason", "waited|pressure").split("|")
        assert set(reasons) <= set(get_args(Reason))


def test_other_labels_are_those_of_targets() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    (default,) = re.findall(r'printf "(namespace=.*?)"', helpers)
    assert set(re.findall(r"(\w+)=", default)) == TARGET
