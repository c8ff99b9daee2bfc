"""The metrics that a server shows, by their names and labels."""

from dataclasses import replace
from pathlib import Path

from prometheus_client import parser
from starlette.testclient import TestClient

from polydom.server.app import create_app
from tests.support.indexes.served import FEATURES_FILE, make_index, save
from tests.support.waiting import until_ready


def exposed_labels(folder: Path) -> dict[str, set[str]]:
    """Labels of every sample that a server shows, by the sample's name."""
    index = make_index()
    assert index.package is not None
    shares = {"alpha": 0.1, "alphas": [0.1, 0.1]}
    exits = {**shares, "fitted": 9, "calibrated": 9, "plans": []}
    meta = {**index.package.meta, "exits": exits}
    path = folder / "tiny.pdx"
    replace(index, package=replace(index.package, meta=meta)).save(path)
    candidate = {"tiny": save(folder / "tiny.next.pdx", 0.9)}
    app = create_app(path, features=[FEATURES_FILE], candidates=candidate)
    labels: dict[str, set[str]] = {}
    with TestClient(app) as client:
        until_ready(client)
        client.post("/v1/predict", json={"text": "hi", "budget_ms": 900})
        client.post("/v1/predict", json={"text": "hi", "budget_ms": -1})
        client.post("/v1/predict", json={"text": "a\0", "budget_ms": 900})  # fails
        text = client.get("/metrics").text
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            labels.setdefault(sample.name, set()).update(sample.labels)
    # parts have factors once they were measured, which takes samples and their times
    labels["polydom_rescale_factor"] = {"model", "part", "name"}
    labels["polydom_cpu_throttled_seconds_total"] = set()  # where there are quotas
    labels["polydom_version_errors_total"] = {"model", "version", "code"}
    # a server has it if it writes lines about its answers
    labels["polydom_record_dropped_total"] = {"file"}
    # features of texts read no columns
    for name in ("missing_values_total", "unknown_values_total"):
        labels[f"polydom_{name}"] = {"model", "column"}
    # a server has them if an index says how the build's items are distributed
    labels["polydom_input_psi"] = {"model", "column"}
    for name in ("input_sampled_items", "unseen_words_share"):
        labels[f"polydom_{name}"] = {"model"}
    # a server has them if it has fetches
    labels["polydom_fetch_seconds_bucket"] = {"fetch", "state", "le"}
    for name in ("fetch_seconds_count", "fetch_seconds_sum"):
        labels[f"polydom_{name}"] = {"fetch", "state"}
    labels["polydom_fetch_hedges_total"] = {"fetch", "won"}
    for name in (
        "fetches_in_flight",
        "fetch_kept_total",
        "fetch_not_sent_total",
        "fetch_down",
    ):
        labels[f"polydom_{name}"] = {"fetch"}
    return labels
