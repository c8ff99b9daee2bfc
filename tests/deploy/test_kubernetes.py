"""The plain manifests, and the server that their container runs."""

import signal
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

from polydom.server.settings import DRAIN_S
from tests.support.indexes.free_records import save_records
from tests.support.kubernetes.manifests import (
    CHART,
    DEPLOY,
    Running,
    command_of,
    pod_of,
    read,
    refuse_unknown_fields,
    running,
    until_started,
)
from tests.support.places import ROOT
from tests.support.waiting import wait_until

OBJECTS = read((DEPLOY / "kubernetes.yaml").read_text())
POD = pod_of(OBJECTS)
(CONTAINER,) = POD["containers"]
PROBES = ("startupProbe", "livenessProbe", "readinessProbe")
LEAVE_S = 10


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """The container's command, with an index, free ports and a shorter farewell."""
    index = save_records(tmp_path)
    replaced = {
        "/srv/index/my.pdx": str(index),
        "--port=8000": "--port=0",
        f"--leave-s={LEAVE_S}": "--leave-s=1",
    }
    with running(command_of(CONTAINER, replaced)) as server:
        yield server


def test_manifests_have_only_what_kubernetes_knows() -> None:
    refuse_unknown_fields(OBJECTS)
    kinds = {"Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"}
    assert OBJECTS.keys() == kinds


def test_everything_selects_the_same_pods() -> None:
    spec = OBJECTS["Deployment"]["spec"]
    labels = spec["template"]["metadata"]["labels"].items()
    for selector in (
        spec["selector"]["matchLabels"],
        OBJECTS["Service"]["spec"]["selector"],
        OBJECTS["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"],
    ):
        assert selector
        assert selector.items() <= labels
    assert POD["serviceAccountName"] == OBJECTS["ServiceAccount"]["metadata"]["name"]
    (port,) = OBJECTS["Service"]["spec"]["ports"]
    names = {port["name"]: port["containerPort"] for port in CONTAINER["ports"]}
    assert names[port["targetPort"]] == 8000
    assert "--port=8000" in CONTAINER["args"]
    assert "EXPOSE 8000" in (ROOT / "deploy/Containerfile").read_text()


def test_a_pod_answers_its_probes_and_when_told_to_stop_answers_on(
    server: Running,
) -> None:
    until_started(server)
    for probe in PROBES:
        asked = CONTAINER[probe]["httpGet"]
        assert asked["port"] == "http"
        assert server.status(asked["path"]) == 200
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: server.status("/readyz") == 503, server.process)
    assert server.status("/livez") == 200
    assert server.process.wait(timeout=20) == 0


def test_a_pod_is_given_time_to_leave_and_to_finish() -> None:
    assert f"--leave-s={LEAVE_S}" in CONTAINER["args"]
    readiness = CONTAINER["readinessProbe"]
    # unready before it stops, even where only the probe says so
    assert readiness["periodSeconds"] * readiness["failureThreshold"] < LEAVE_S
    assert POD["terminationGracePeriodSeconds"] > LEAVE_S + DRAIN_S


def test_a_pod_keeps_to_the_restricted_security_standard() -> None:
    security = POD["securityContext"]
    assert security["runAsNonRoot"]
    assert security["seccompProfile"]["type"] == "RuntimeDefault"
    own = CONTAINER["securityContext"]
    assert not own["allowPrivilegeEscalation"]
    assert own["readOnlyRootFilesystem"]
    assert own["capabilities"] == {"drop": ["ALL"]}
    assert (
        f"USER {security['runAsUser']}" in (ROOT / "deploy/Containerfile").read_text()
    )


def test_a_core_is_asked_for_each_worker_and_none_is_taken_away() -> None:
    assert "--workers=1" in CONTAINER["args"]
    assert CONTAINER["resources"]["requests"]["cpu"] == "1"
    assert "cpu" not in CONTAINER["resources"]["limits"]


def test_every_manifest_names_the_image_of_this_version() -> None:
    image = f"polydom:{version('polydom')}"
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    runtime = read((DEPLOY / "kserve-runtime.yaml").read_text())[
        "ClusterServingRuntime"
    ]
    assert chart["version"] == chart["appVersion"] == version("polydom")
    assert CONTAINER["image"] == image
    assert [c["image"] for c in runtime["spec"]["containers"]] == [image]
