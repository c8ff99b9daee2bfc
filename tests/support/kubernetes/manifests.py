"""Manifests of Kubernetes: read, checked against its schemas, their containers run."""

import contextlib
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import yaml

from tests.support.places import ROOT
from tests.support.processes.servers import STOP_S, ask
from tests.support.waiting import wait_until

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm"
# What the chart asks for at least, and the newest that is known here.
VERSIONS = ("1.27", "1.37")
# Of custom resources nobody ships schemas; the rest must be known.
CUSTOM = {"ScaledObject", "ServiceMonitor"}

Manifest = dict[str, Any]


def read(text: str) -> dict[str, Manifest]:
    """The objects of a file, by their kinds."""
    objects = [found for found in yaml.safe_load_all(text) if found]
    by_kind = {found["kind"]: found for found in objects}
    assert len(by_kind) == len(objects)
    return by_kind


def refuse_unknown_fields(objects: Mapping[str, Manifest]) -> None:
    """Check every object against Kubernetes's own schemas."""
    for kind, found in objects.items():
        for version in VERSIONS if kind not in CUSTOM else ():
            kubernetes_validate.validate(found, version, strict=True)


def pod_of(objects: Mapping[str, Manifest]) -> Manifest:
    """What a Deployment says of its pods."""
    pod: Manifest = objects["Deployment"]["spec"]["template"]["spec"]
    return pod


def command_of(container: Manifest, replaced: Mapping[str, str]) -> list[str]:
    """A container's command for this machine: all paths and ports that differ here."""
    command = [*container["command"], *container["args"]]
    for there, here in replaced.items():
        assert any(there in part for part in command), there
        command = [part.replace(there, here) for part in command]
    assert command[0] == "polydom"
    return [sys.executable, "-m", "polydom.server", *command[1:]]


class Running:
    """A container's process, what it printed, and the ports it listens at."""

    def __init__(self, process: subprocess.Popen[str], printed: str) -> None:
        self.process = process
        ports = re.findall(r":(\d+)$", printed, re.MULTILINE)
        self.http, self.grpc = [*map(int, ports), 0][:2]

    def status(self, path: str) -> int:
        return ask(self.http, "GET", path)[0]


@contextlib.contextmanager
def running(command: list[str], lines: int = 1) -> Iterator[Running]:
    """Run a server's command, which prints so many lines once it listens."""
    process = subprocess.Popen(
        command,
        cwd="/",
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        text=True,
    )
    stuck = threading.Timer(2 * STOP_S, process.kill)
    stuck.start()
    try:
        assert process.stdout is not None
        printed = "".join(process.stdout.readline() for _ in range(lines))
        stuck.cancel()
        yield Running(process, printed)
    finally:
        stuck.cancel()
        process.kill()
        process.communicate(timeout=STOP_S)


def until_started(server: Running) -> None:
    """Wait as the startup probe does."""
    wait_until(lambda: server.status("/readyz") == 200, server.process)


def write(folder: Path, name: str, text: str) -> str:
    """Write a file that a manifest mounts; its path."""
    path = folder / name
    path.write_text(text)
    return str(path)
