"""Every benchmark runs from end to end, on little of everything and without data."""

import importlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks import places, report
from benchmarks.__main__ import benchmarks

pytestmark = pytest.mark.jit
MODULES = benchmarks()


@pytest.fixture(autouse=True)
def _without_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No data sets, no files in the checkout, and the cores that there were."""
    monkeypatch.setenv(places.VARIABLE, str(tmp_path / "nothing"))
    yield
    report.unpin()


def numbers(value: Any) -> Iterator[float]:
    """Every number in an object."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from numbers(one)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        module = importlib.import_module(MODULES[name])
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if missing.split(".")[0] in ("benchmarks", "polydom", "tests"):
            raise
        pytest.skip(f"{missing} is not here")
    module.main(["--quick", "--json"])
    facts = json.loads(capsys.readouterr().out)
    tables = {key: value for key, value in facts.items() if key not in report.ABOUT}
    found = [*numbers(tables)]
    assert found
    assert not any(map(math.isnan, found))
