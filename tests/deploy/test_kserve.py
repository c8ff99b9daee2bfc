"""KServe's runtime: its container's command, asked by KServe's own clients."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from polydom.indexer.index.pdx_file import FORMAT_VERSION
from tests.support.free_records import save_records
from tests.support.manifests import DEPLOY, command_of, read, running, until_started
from tests.support.places import ROOT
from tests.support.servers import ask

RUNTIME = read((DEPLOY / "kserve-runtime.yaml").read_text())["ClusterServingRuntime"]
SERVICE = read((DEPLOY / "kserve-example.yaml").read_text())["InferenceService"]
(CONTAINER,) = RUNTIME["spec"]["containers"]
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
            [sys.executable, "-m", "tests.support.kserve_predictor", name, *ports],
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


def unknown_fields(given: dict[str, Any], type_name: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.kserve_fields", type_name],
        cwd=ROOT,
        input=json.dumps(given),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


@by_kserve
@pytest.mark.parametrize(
    ("given", "type_name"),
    [
        (RUNTIME, "V1alpha1ClusterServingRuntime"),
        (SERVICE, "V1beta1InferenceService"),
    ],
)
def test_manifests_have_only_what_kserve_knows(
    given: dict[str, Any], type_name: str
) -> None:
    assert unknown_fields(given, type_name) == []
    misspelt = json.dumps(given).replace('"resources"', '"resource"')
    misspelt = misspelt.replace('"query"', '"promql"')
    assert unknown_fields(json.loads(misspelt), type_name)


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
