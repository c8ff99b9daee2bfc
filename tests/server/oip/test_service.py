"""KServe's own clients, unchanged and with their defaults, are answered."""

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from tests.support.indexes.served import FEATURES_FILE
from tests.support.indexes.three_kinds import save_three
from tests.support.places import ROOT
from tests.support.processes.servers import serving


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What KServe's clients got, over HTTP and over gRPC."""
    if find_spec("kserve") is None:
        pytest.skip("kserve is not for this Python")
    paths = save_three(tmp_path_factory.mktemp("indexes"))
    first, *others = (f"{name}={path}" for name, path in paths.items())
    options = (f"--features={FEATURES_FILE}", "--grpc-port=0", "--budget-ms=900")
    with serving(first, *others, *options) as (process, port):
        assert process.stdout is not None
        grpc_port = process.stdout.readline().rsplit(":", 1)[1].strip()
        command = [
            sys.executable,
            "-m",
            "tests.support.kubernetes.kserve_calls",
            str(port),
            grpc_port,
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_kserve_learns_that_the_server_is_ready(said: Any, transport: str) -> None:
    assert said[transport]["live"] is True
    assert said[transport]["ready"] is True
    assert said[transport]["model"] is True
    assert said["rest"]["other"] is False


@pytest.mark.parametrize("transport", ["rest", "grpc"])
@pytest.mark.parametrize("form", ["typed", "binary"])
def test_kserve_classifies_texts(said: Any, transport: str, form: str) -> None:
    assert said[transport][form] == {
        "model": "texts",
        "label": ["spam", "ham"],
        "scores": [2, 2],
        "met": True,
    }


@pytest.mark.parametrize("transport", ["rest", "grpc"])
def test_kserve_classifies_records(said: Any, transport: str) -> None:
    assert said[transport]["records"]["label"] == ["no", "yes"]


def test_kserve_is_told_what_is_wrong(said: Any) -> None:
    assert "no model is called 'novels'" in said["rest"]["error"]
    assert "404 Not Found" in said["rest"]["error"]
    assert "no model is called 'novels'" in said["grpc"]["error"]
    assert "NOT_FOUND" in said["grpc"]["error"]
