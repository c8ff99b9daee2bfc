"""What tests of batches in parts share: an index that knows its machine, and items."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from polydom.features.extract import Extractor
from polydom.features.items import text_item
from polydom.features.loading import load_features
from polydom.indexer.index.index import Index
from polydom.indexer.index.machine_speed import (
    compared_models,
    finish,
    medians_of,
    time_features,
    time_models,
)
from polydom.server.batch.batch_plan import Assigner, BatchPlan
from polydom.server.offline_scoring.checkpoint import NAME
from tests.support.indexes.served import HAM, SPAM, WIDTHS, save_with

UNEVEN_FILE = Path(__file__).with_name("uneven_features.py")


def save_uneven(folder: Path) -> Path:
    """The tiny index at a fifth of its costs, with times of this machine."""
    path = save_with(UNEVEN_FILE, folder / "uneven.pdx", scale=0.2)
    index = Index.load(path)
    package = index.package
    assert package is not None
    extractor = Extractor(load_features([], [UNEVEN_FILE]), WIDTHS)
    items = [text_item(text) for text in (HAM, SPAM)]
    rows = [extractor.extract(item) for item in items]
    parts = finish(time_features(extractor, items))
    rows_compared = compared_models(len(package.models))
    models = finish(time_models([package.models[k] for k in rows_compared], rows))
    facts = medians_of(parts, models, len(extractor.steps)).facts()
    timed = replace(package, meta={**package.meta, "pace": facts})
    replace(index, package=timed).save(path)
    return path


def texts(count: int) -> list[str]:
    """Texts of many lengths, all different."""
    return [f"{'free win ' * (k * 7 % 30)}{k}" for k in range(count)]


def write_lines(path: Path, given: list[str]) -> Path:
    """JSON Lines with ids that are no positions."""
    rows = ({"text": text, "id": f"id-{k}"} for k, text in enumerate(given))
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def rows_in(folder: Path) -> list[dict[str, Any]]:
    """All rows of a folder of parts, as any reader of tables finds them."""
    from pyarrow import dataset

    rows: list[dict[str, Any]] = dataset.dataset(folder).to_table().to_pylist()
    return rows


def assert_by_price(index: Path, folder: Path, given: list[str]) -> None:
    """Every answer is what the price says that its part began with, whoever gave it."""
    from pyarrow import parquet

    loaded = Index.load(index)
    numbers = {f"id-{k}": k for k in range(len(given))}
    lines = (folder / NAME).read_bytes().splitlines()[1:]
    begun = [line for line in map(json.loads, lines) if "plan" in line]
    assert len(begun) == len({one["part"] for one in begun})
    for one in begun:
        assigner = Assigner(loaded, msgspec.convert(one["plan"], BatchPlan))
        answers = parquet.read_table(folder / f"part-{one['part']:05d}.parquet")
        for row in answers.to_pylist():
            assignment = assigner.assign(text_item(given[numbers[row["id"]]]))
            assert row["expected_quality"] == loaded.qualities[assignment.row]


def assert_once(rows: list[dict[str, Any]], count: int) -> None:
    """Every id of `write_lines` is there once."""
    found = Counter(row["id"] for row in rows)
    assert found == Counter(f"id-{k}" for k in range(count))
