"""docs/how-to/kubernetes.md names values and files that there are."""

import re
from typing import Any

import yaml

from tests.support.manifests import CHART
from tests.support.places import DOCS, ROOT

KUBERNETES = (DOCS / "how-to/kubernetes.md").read_text(encoding="utf-8")
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())


def has(values: Any, name: str) -> bool:
    first, _, rest = name.partition(".")
    if not isinstance(values, dict) or first not in values:
        return False
    return not rest or not values[first] or has(values[first], rest)


def test_values_are_those_of_the_chart() -> None:
    groups = "|".join(name for name, value in VALUES.items() if isinstance(value, dict))
    named = set(re.findall(rf"\b(?:{groups})\.[a-zA-Z]\w*", KUBERNETES))
    assert len(named) > 5
    for name in named:
        assert has(VALUES, name), name
    for setting in re.findall(r"--set ([\w.]+)=", KUBERNETES):
        assert has(VALUES, setting), setting


def test_files_are_there() -> None:
    files = re.findall(r"(?<![\w./])(?:deploy|docs)/[\w./-]*\w", KUBERNETES)
    for file in {"deploy/helm", *files}:
        assert (ROOT / file).exists(), file
    assert "deploy/kserve-example.yaml" in files
