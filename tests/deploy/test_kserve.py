"""KServe's runtime: its container's command, asked by KServe's own clients."""

import json
import re
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


def unknown_fields(given: Any, type_name: str) -> list[str]:
    """Fields of a manifest that KServe's and Kubernetes's own classes do not have.

    `type_name` is as in their `openapi_types`: a class, or `list[...]` of one.
    """
    import kserve.models
    import kubernetes.client.models

    if inner := re.fullmatch(r"list\[(.*)\]", type_name):
        return [field for item in given for field in unknown_fields(item, inner[1])]
    name = type_name.removeprefix("K8sIoApiCore").removeprefix("K8sIoApi")
    known = next(
        (
            found
            for module in (kserve.models, kubernetes.client.models)
            if (found := getattr(module, name, None)) is not None
        ),
        None,
    )
    if known is None or not isinstance(given, dict):
        return []
    keys = {key: attribute for attribute, key in known.attribute_map.items()}
    unknown = [f"{name}.{key}" for key in given.keys() - keys.keys()]
    for key in given.keys() & keys.keys():
        unknown += unknown_fields(given[key], known.openapi_types[keys[key]])
    return unknown


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
