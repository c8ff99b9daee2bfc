"""The metrics that a server shows, by their names and labels."""

from pathlib import Path

from prometheus_client import parser
from starlette.testclient import TestClient

from polydom.server.app import create_app
from tests.support.indexes.served import FEATURES_FILE, save_index
from tests.support.waiting import until_ready


def exposed_labels(folder: Path) -> dict[str, set[str]]:
    """Labels of every sample that a server shows, by the sample's name."""
    app = create_app(save_index(folder), features=[FEATURES_FILE])
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
    return labels
