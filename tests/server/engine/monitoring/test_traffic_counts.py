"""Answers by class, and what items lack, counted as one by one, and shown."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import parser
from starlette.testclient import TestClient

from polydom.features.items import Gaps
from polydom.server.app import create_app
from polydom.server.engine.monitoring import traffic_counts
from polydom.server.engine.monitoring.traffic_counts import (
    MOST,
    OTHERS,
    PATTERNS,
    TrafficCounts,
)
from tests.support.indexes import records
from tests.support.waiting import until_ready

COLUMNS = [f"c{k}" for k in range(120)]
WORDS = COLUMNS[::2]
LABELS = [f"l{k}" for k in range(MOST + 3)]
ITEMS = st.lists(
    st.tuples(
        st.sampled_from(LABELS),
        st.sets(st.integers(0, len(COLUMNS) - 1), max_size=4),
        st.sets(st.sampled_from(WORDS), max_size=2),
        st.booleans(),
        st.booleans(),
    ),
    max_size=30,
)


def named(mask: int) -> list[str]:
    return [name for k, name in enumerate(COLUMNS) if mask >> k & 1]


def one_by_one(items: Any) -> Counter[tuple[str, str]]:
    """Count items as plainly as can be."""
    total = Counter({("outside", ""): 0})
    for name, known in {
        "labels": LABELS,
        "missing": COLUMNS,
        "unknown": WORDS,
    }.items():
        for place, one in enumerate(known):
            total[name, one if place < MOST else OTHERS] += 0
    for label, empty, unknown, outside, _ in items:
        total["labels", label if LABELS.index(label) < MOST else OTHERS] += 1
        for k in empty:
            total["missing", COLUMNS[k] if k < MOST else OTHERS] += 1
        for name in unknown:
            total["unknown", name] += 1
        total["outside", ""] += outside
    return total


@given(items=ITEMS, patterns=st.sampled_from([1, 3, PATTERNS]))
def test_items_are_counted_as_one_by_one(items: Any, patterns: int) -> None:
    traffic = TrafficCounts(LABELS, COLUMNS, WORDS, named)
    before, traffic_counts.PATTERNS = traffic_counts.PATTERNS, patterns
    try:
        batch = traffic.like()
        for label, empty, unknown, outside, is_of_batch in items:
            own = batch if is_of_batch else traffic
            own.labels[label] += 1
            own.lacks(Gaps(tuple(unknown), sum(1 << k for k in empty)))
            own.outside += outside
            if len(unknown) == 2:
                traffic.take(batch)
        traffic.take(batch)
        assert +batch.counts() == Counter()
        assert dict(traffic.counts()) == dict(one_by_one(items))
    finally:
        traffic_counts.PATTERNS = before


SENT: tuple[dict[str, Any], ...] = (
    {"age": 20, "height": 1.8, "job": "nurse"},
    {"age": 20, "job": "nurse"},
    {"age": None, "height": 1.8, "job": "pirate"},
    {"age": 20, "height": float("1e12"), "job": ""},
)


def test_requests_and_batches_are_counted_in_the_metrics(tmp_path: Path) -> None:
    path = tmp_path / "people.pdx"
    records.make_index().save(path)
    with TestClient(create_app(path)) as client:
        until_ready(client)
        labels: Counter[str] = Counter()
        for record in SENT:
            reply = client.post("/v1/predict", json={"record": record})
            labels[reply.json()["label"]] += 1
        items = [{"record": record} for record in SENT]
        body = {"items": items, "budget_ms": 9000}
        for entry in client.post("/v1/batch", json=body).json()["answers"]:
            labels[entry["label"]] += 1
        text = client.get("/metrics").text
    found: dict[str, dict[str, float]] = {}
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            for name in ("label", "column"):
                if name in sample.labels:
                    own = found.setdefault(sample.name, {})
                    own[sample.labels[name]] = sample.value
    counted = found["polydom_labels_total"]
    assert {label: count for label, count in counted.items() if count} == labels
    missing = found["polydom_missing_values_total"]
    assert missing == {"age": 2, "height": 2, "job": 0}
    assert found["polydom_unknown_values_total"] == {"job": 4}
    assert json.dumps(found)  # no number is NaN or infinite
