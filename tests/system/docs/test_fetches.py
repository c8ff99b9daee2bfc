"""reference/fetches.md: every term, and examples that are files of fetches."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from polydom.features.fetches.load import CONNECTORS, load_fetches
from tests.support.pages import blocks, first_cells, read

PAGE = "reference/fetches.md"


def test_every_term_is_there() -> None:
    told = {*first_cells(read(PAGE))}
    for form, _ in CONNECTORS.values():
        assert told.issuperset(field.name for field in msgspec.structs.fields(form))


def test_the_toml_example_is_a_file_of_fetches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HISTORY_URL", "postgresql://localhost/history")
    monkeypatch.setenv("SCORE_TOKEN", "secret")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    (example,) = blocks(PAGE, "toml")
    file = tmp_path / "fetches.toml"
    file.write_text(example, "utf-8")
    names = ["orders", "history", "score", "driver", "embedding"]
    assert [*load_fetches([file])] == names


def test_the_python_example_brings_what_its_lists_say(tmp_path: Path) -> None:
    (example,) = blocks(PAGE, "python")
    file = tmp_path / "orders.py"
    file.write_text(example, "utf-8")
    orders = load_fetches([file])["orders"]
    assert asyncio.run(orders.bring([(17,), (18,), (19,)], 1.0)) == [
        {"n_orders": 3, "mean_amount": 12.5},
        {"n_orders": 1, "mean_amount": None},
        None,
    ]
