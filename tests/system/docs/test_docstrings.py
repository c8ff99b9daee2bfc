"""Examples in docstrings, which reference/python.md shows, hold."""

import doctest
import importlib

import pytest

from tests.support.places import ROOT

EXAMPLES = [
    ".".join(("polydom", *path.relative_to(ROOT).with_suffix("").parts))
    for room in ("features", "models", "indexer", "server")
    for path in sorted((ROOT / room).rglob("*.py"))
    if ">>> " in path.read_text("utf-8")
]


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_in_docstrings_hold(module: str) -> None:
    found = doctest.testmod(importlib.import_module(module))
    assert found.failed == 0
    assert found.attempted > 0
