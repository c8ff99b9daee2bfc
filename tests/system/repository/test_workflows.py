"""The workflows of GitHub: parsed and looked through, as nothing here can run them."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.places import ROOT

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def jobs(workflow: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.safe_load(workflow.read_text())["jobs"]
    return found


def commands(workflow: Path) -> list[str]:
    """What its steps run."""
    steps = (step for job in jobs(workflow).values() for step in job["steps"])
    return [step["run"] for step in steps if "run" in step]


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_calls_targets_and_files_that_there_are(workflow: Path) -> None:
    run = "\n".join(commands(workflow))
    called = re.findall(r"\bmake ([a-z]+)", run)
    assert called
    assert set(called) <= TARGETS
    for path in re.findall(r"\btests/\S+", run):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_may_little_and_names_what_it_runs_by_content(workflow: Path) -> None:
    text = workflow.read_text()
    assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
    for used in re.findall(r"uses: (\S+)", text):
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", used), used
    for job in jobs(workflow).values():
        assert job["timeout-minutes"] <= 60


def test_pythons_that_are_tested_are_those_that_are_named() -> None:
    (tested,) = (w for w in WORKFLOWS if w.stem == "test")
    linux = jobs(tested)["linux"]["strategy"]["matrix"]["python"]
    classifier = r'"Programming Language :: Python :: (3\.\d+)"'
    project = (ROOT / "pyproject.toml").read_text()
    assert linux == re.findall(classifier, project)
    assert f'requires-python = ">={linux[0]}"' in project


def test_workflows_have_no_weak_places() -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "zizmor", "--offline", "--quiet", GITHUB],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", sorted(GITHUB.rglob("*.yml")), ids=lambda p: p.name)
def test_forms_and_settings_are_yaml(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)
