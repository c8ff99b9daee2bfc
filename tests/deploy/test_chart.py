"""What the Helm chart makes of its values; by Helm itself, where it is here."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.indexes.served import FEATURES_FILE, save_index
from tests.support.kubernetes.manifests import (
    CHART,
    DEPLOY,
    command_of,
    pod_of,
    read,
    refuse_unknown_fields,
    running,
    until_started,
    write,
)

HELM = shutil.which("helm")
by_helm = pytest.mark.skipif(HELM is None, reason="helm is not here")

DIGEST = "0" * 64
FETCHED = {"uri": "https://my.org/my.pdx?key=1", "sha256": DIGEST}
TOKEN = "a-token-for-this-test"
# Every value that adds something, and the plain ones that add most.
FULL: dict[str, Any] = {
    "imagePullSecrets": [{"name": "mine"}],
    "model": "mails",
    "index": {**FETCHED, "envFrom": [{"secretRef": {"name": "bucket"}}]},
    "featureFiles": {"mine.py": FEATURES_FILE.read_text()},
    "options": ["--budget-ms=900"],
    "env": [{"name": "NUMBA_CPU_NAME", "value": "x86-64-v3"}],
    "workers": 2,
    "kernelCache": {"hostPath": {"path": "/k", "type": "Directory"}},
    "tokens": {"secret": "users"},
    "adminTokens": {"secret": "admins", "key": "them"},
    "tls": {"secret": "certificate"},
    "service": {"grpcPort": 8001, "annotations": {"a": "b"}},
    "serviceAccount": {"annotations": {"a": "b"}},
    "autoscaling": {"by": "keda", "authentication": "prometheus"},
    "serviceMonitor": {
        "enabled": True,
        "labels": {"release": "prometheus"},
        "token": {"secret": "scraper"},
    },
    "podLabels": {"team": "mails"},
    "podAnnotations": {"c": "d"},
    "nodeSelector": {"e": "f"},
    "tolerations": [{"key": "g", "operator": "Exists"}],
    "affinity": {"podAntiAffinity": {}},
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "h", "whenUnsatisfiable": "DoNotSchedule"}
    ],
    "priorityClassName": "high",
    "volumes": [{"name": "more", "emptyDir": {}}],
    "volumeMounts": [{"name": "more", "mountPath": "/more"}],
}


def helm(folder: Path, values: dict[str, Any], *arguments: str) -> Any:
    """Run Helm with values; what it says, and whether it agrees."""
    assert HELM is not None
    path = write(folder, "values.json", json.dumps(values))
    return subprocess.run(
        [HELM, *arguments, str(CHART), "--values", path],
        env={**os.environ, "HOME": str(folder)},
        capture_output=True,
        text=True,
    )


def render(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    done = helm(folder, values, "template", "polydom")
    assert done.returncode == 0, done.stderr
    return read(done.stdout)


@by_helm
def test_plain_manifests_are_the_charts_defaults(tmp_path: Path) -> None:
    plain = read((DEPLOY / "kubernetes.yaml").read_text())
    assert render(tmp_path, {}) == plain


@by_helm
@pytest.mark.parametrize(
    "values",
    [
        {},
        FULL,
        {"index": {"uri": "s3://bucket/my.pdx", "sha256": DIGEST}},
        {"index": {"claim": "indexes", "watch": True}, "disruptions": {}},
        {"index": {"hostPath": "/srv", "file": "a/b.pdx"}, "workers": 3},
        {"autoscaling": {"by": "cpu"}, "serviceAccount": {"create": False}},
    ],
)
def test_values_make_what_kubernetes_knows(
    tmp_path: Path, values: dict[str, Any]
) -> None:
    done = helm(tmp_path, values, "lint", "--strict")
    assert done.returncode == 0, done.stdout
    objects = render(tmp_path, values)
    refuse_unknown_fields(objects)
    pod = pod_of(objects)
    volumes = {volume["name"] for volume in pod["volumes"]}
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes
        assert container["securityContext"]["readOnlyRootFilesystem"]
    (server,) = pod["containers"]
    workers = values.get("workers", 1)
    assert server["resources"]["requests"]["cpu"] == str(workers)


@by_helm
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"index": {"claim": "a", "hostPath": "/b"}}, "give one of claim, hostPath"),
        ({"index": {"uri": "https://my.org/my.pdx"}}, "index.sha256 is needed"),
        ({"index": {"uri": "s3://b/x.pdx", "sha256": DIGEST}}, '"x.pdx" is what'),
        ({"index": {"watch": True}}, "can be replaced"),
        ({"index": {"file": "/srv/my.pdx"}}, "/index/file"),
        ({"index": {"sha256": "0" * 63}}, "/index/sha256"),
        ({"model": "a/b"}, "/model"),
        ({"workers": 0}, "/workers"),
        ({"autoscaling": {"by": "hpa"}}, "/autoscaling/by"),
        ({"autoscaling": {"busy": 0}}, "/autoscaling/busy"),
        ({"featureFiles": {"a/b.py": ""}}, "a/b.py"),
        ({"replica": 3}, "replica"),
        (
            {"tokens": {"secret": "a"}, "serviceMonitor": {"enabled": True}},
            "serviceMonitor.token.secret is needed",
        ),
    ],
)
def test_values_that_cannot_be_meant_are_refused(
    tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    done = helm(tmp_path, values, "template", "polydom")
    assert done.returncode != 0
    assert message in done.stderr


@by_helm
def test_a_server_runs_with_all_that_values_give_it(tmp_path: Path) -> None:
    pod = pod_of(render(tmp_path, {**FULL, "tls": {"secret": ""}}))  # probes ask HTTP
    (container,) = pod["containers"]
    tokens = write(tmp_path, "tokens", f"{TOKEN}\n")
    replaced = {
        "/srv/index/my.pdx": str(save_index(tmp_path)),
        "/srv/features/mine.py": write(tmp_path, "mine.py", FEATURES_FILE.read_text()),
        "/etc/polydom/tokens/tokens": tokens,
        "/etc/polydom/admin-tokens/them": tokens,
        "--port=8000": "--port=0",
        "--grpc-port=8001": "--grpc-port=0",
    }
    with running(command_of(container, replaced), lines=2) as server:
        until_started(server)
        assert server.grpc
        assert server.status("/v1/models") == 401


def init_containers(folder: Path, values: dict[str, Any]) -> dict[str, list[str]]:
    """Their commands, with the pod's folders in `folder`."""
    pod = pod_of(render(folder, values))
    return {
        container["name"]: [
            part.replace("/srv/index", f"{folder}/index").replace(
                "/var/cache/polydom", f"{folder}/kernels"
            )
            for part in [*container["command"], *container.get("args", [])]
        ]
        for container in pod["initContainers"]
    }


@pytest.fixture
def files(tmp_path: Path) -> Iterator[str]:
    """An index at an address; `index` beside it is a pod's empty folder."""
    (tmp_path / "index").mkdir()
    save_index(tmp_path)
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/tiny.pdx"
        server.shutdown()
        thread.join()


@by_helm
@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_an_index_is_fetched_and_another_is_refused(tmp_path: Path, files: str) -> None:
    index = (tmp_path / "tiny.pdx").read_bytes()
    right = hashlib.sha256(index).hexdigest()
    for digest in (right, DIGEST):
        given = {"uri": files, "sha256": digest}
        commands = init_containers(tmp_path, {"index": given})
        assert [*commands] == ["fetch", "check"]
        subprocess.run(commands["fetch"], check=True)
        assert (tmp_path / "index" / "my.pdx").read_bytes() == index
        checked = subprocess.run(commands["check"], capture_output=True)
        assert (checked.returncode == 0) == (digest == right)
    commands = init_containers(
        tmp_path, {"index": {"uri": f"{files}.none", "sha256": right}}
    )
    assert subprocess.run(commands["fetch"], capture_output=True).returncode != 0


@by_helm
def test_kernels_of_the_image_are_copied_where_others_will_be_kept(
    tmp_path: Path,
) -> None:
    image, kept = tmp_path / "image" / "polydom", tmp_path / "kernels"
    image.mkdir(parents=True)
    kept.mkdir()
    (image / "old.nbi").write_text("of the image")
    commands = init_containers(tmp_path, {"kernelCache": {"emptyDir": {}}})
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(image.parent)}
    for own in ("of the image", "of this node, too"):
        subprocess.run(commands["kernels"], env=environment, check=True)
        assert (kept / "polydom" / "old.nbi").read_text() == own
        (kept / "polydom" / "old.nbi").write_text("of this node, too")


@by_helm
def test_another_feature_file_makes_other_pods(tmp_path: Path) -> None:
    def template(source: str) -> Any:
        objects = render(tmp_path, {"featureFiles": {"mine.py": source}})
        return objects["Deployment"]["spec"]["template"]

    assert template("a = 1") == template("a = 1") != template("a = 2")


def differing(values: dict[str, Any], schema: dict[str, Any]) -> set[str]:
    """Names that only one of the two has."""
    known = schema["properties"]
    # every chart may be given that
    found: set[str] = values.keys() ^ (known.keys() - {"global"})
    for name in values.keys() & known.keys():
        if "properties" in known[name]:
            found |= differing(values[name], known[name])
    return found


def test_every_value_is_in_the_schema_and_used_by_a_template() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert not differing(values, schema)
    templates = "".join(path.read_text() for path in CHART.glob("templates/*"))
    assert set(re.findall(r"\.Values\.(\w+)", templates)) == values.keys()
