"""KServe's runtime: its container's command, asked by KServe's own clients."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from polydom.indexer.index.file.pdx_file import FORMAT_VERSION
from tests.support.indexes.free_records import save_records
from tests.support.kubernetes.manifests import (
    DEPLOY,
    command_of,
    read,
    running,
    until_started,
)
from tests.support.places import ROOT
from tests.support.processes.servers import ask

RUNTIME = read((DEPLOY / "kserve-runtime.yaml").read_text())["ClusterServingRuntime"]
SERVICE = read((DEPLOY / "kserve-example.yaml").read_text())["InferenceService"]
(CONTAINER,) = RUNTIME["spec"]["containers"]
PREDICTOR = "tests.support.kubernetes.kserve_predictor"
by_kserve = pytest.mark.skipif(
    find_spec("kserve") is None, reason="kserve is not for this Python"
)


@by_kserve
def test_container_answers_kserves_clients(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    save_records(models)
    name = SERVICE["metadata"]["name"]
    replaced = {
        "{{.Name}}": name,
        "/mnt/models": str(models),
        "--port=8080": "--port=0",
        "--grpc-port=9000": "--grpc-port=0",
    }
    with running(command_of(CONTAINER, replaced), lines=2) as server:
        until_started(server)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            assert server.status(CONTAINER[probe]["httpGet"]["path"]) == 200
        _, metadata = ask(server.http, "GET", f"/v2/models/{name}")
        ports = [str(server.http), str(server.grpc)]
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "tests.support.kubernetes.kserve_predictor",
                name,
                *ports,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "rest": ["no", "yes"],
        "grpc": ["no", "yes"],
        "ready": [True] * 4,
    }
    assert metadata["name"] == name


def unknown_fields(given: list[tuple[dict[str, Any], str]]) -> list[list[str]]:
    """Of each manifest, which is of a type, the fields that KServe does not know."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kubernetes.kserve_fields"],
        cwd=ROOT,
        input=json.dumps(given),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: list[list[str]] = json.loads(done.stdout)
    return found


def misspelt(given: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(given).replace('"resources"', '"resource"')
    wrong: dict[str, Any] = json.loads(text.replace('"query"', '"promql"'))
    return wrong


@by_kserve
def test_manifests_have_only_what_kserve_knows() -> None:
    runtime, service = "V1alpha1ClusterServingRuntime", "V1beta1InferenceService"
    right = [(RUNTIME, runtime), (SERVICE, service)]
    wrong = [(misspelt(given), type_name) for given, type_name in right]
    found = unknown_fields([*right, *wrong])
    assert found[:2] == [[], []]
    assert all(found[2:])


def test_the_example_is_for_the_runtime() -> None:
    (served,) = RUNTIME["spec"]["supportedModelFormats"]
    model = SERVICE["spec"]["predictor"]["model"]
    assert served["autoSelect"]
    assert served["name"] == model["modelFormat"]["name"]
    assert served["version"] == str(FORMAT_VERSION)
    assert model["protocolVersion"] in RUNTIME["spec"]["protocolVersions"]
    assert model["storageUri"].endswith(".pdx")
    annotations = RUNTIME["spec"]["annotations"]
    port = annotations["prometheus.kserve.io/port"]
    assert f"--port={port}" in CONTAINER["args"]
    assert annotations["prometheus.kserve.io/path"] == "/metrics"
    assert CONTAINER["name"] == "kserve-container"  # by which KServe finds it
