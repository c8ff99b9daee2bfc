"""The how-to about following a request, carried out on a small index of records."""

import re
import subprocess
from pathlib import Path

import pytest

from tests.support.indexes import records
from tests.support.otel import needs_otel
from tests.support.pages import blocks, read
from tests.support.processes.servers import STOP_S, serving

PAGE = "how-to/follow-a-request.md"
CURLS = [block for block in blocks(PAGE, "sh") if block.startswith("curl")]
SHOWN = blocks(PAGE, "text")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    path = tmp_path / "my.pdx"
    records.save_index(tmp_path).rename(path)
    return path


def shown(block: str) -> list[re.Pattern[str]]:
    """What each line of a block says must come; `...` stands for anything."""
    lines = block.strip().splitlines()
    return [re.compile(re.escape(line).replace(r"\.\.\.", ".*")) for line in lines]


def curl(command: str, port: int) -> str:
    command = command.replace("curl ", "curl -s ").replace(":8000", f":{port}")
    asked = subprocess.run(
        command, shell=True, capture_output=True, text=True, timeout=STOP_S, check=True
    )
    return asked.stdout


def test_an_id_comes_back_and_an_answer_is_explained(index: Path) -> None:
    with serving(index) as (_, port):
        for command, block in zip(CURLS[:2], SHOWN[:2], strict=True):
            reply = curl(command, port)
            for line in shown(block):
                assert line.search(reply), (line, reply)


def test_a_trace_is_printed(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs_otel()
    serve = next(block for block in blocks(PAGE, "sh") if "console" in block)
    variable, _, command = serve.strip().partition(" ")
    monkeypatch.setenv(*variable.split("="))
    assert command.split() == ["polydom", "serve", "my.pdx", "--traces"]
    with serving(index, "--traces") as (process, port):
        reply = curl(CURLS[2], port)
        (traceparent,) = shown(SHOWN[2])
        assert traceparent.search(reply), reply
        process.terminate()
        printed, _ = process.communicate(timeout=STOP_S)
    names = [line.strip() for line in printed.splitlines() if '"name"' in line]
    (expected,) = blocks(PAGE, "json")
    assert names == expected.strip().splitlines()
    told = read(PAGE).partition("The attributes of `predict` are")[2]
    for attribute in re.findall(r"`(polydom\.\w+)`,", told.partition(". ")[0]):
        assert f'"{attribute}"' in printed, attribute
