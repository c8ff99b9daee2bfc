"""What `polydom serve` refuses, and what each online command says of itself."""

import socket
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.indexes.served import FEATURES_FILE
from tests.support.processes.commands import run

OWN = ["--features", str(FEATURES_FILE)]


@pytest.mark.parametrize("option", ["--budget-ms", "--max-budget-ms"])
@pytest.mark.parametrize("value", ["-3", "0", "nan", "inf"])
def test_serve_names_the_option_that_is_out_of_range(
    index: Path, capsys: pytest.CaptureFixture[str], option: str, value: str
) -> None:
    code, _, err = run(capsys, "serve", index, *OWN, option, value)
    assert (code, err) == (
        1,
        f"polydom: {option} {value}: a finite number above 0 is needed\n",
    )


def test_serve_says_which_address_it_cannot_have(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, _, err = run(capsys, "serve", index, *OWN, "--port", port)
    assert code == 1
    assert f"cannot listen at 127.0.0.1, port {port}: Address already in use" in err


@pytest.mark.parametrize("command", ["serve", "plan", "predict"])
def test_help_has_an_example_that_names_the_command(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"Example: polydom {command} my.pdx" in out


def test_version_is_the_installed_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "--version") == (0, f"polydom {version('polydom')}\n", "")


def test_help_says_what_polydom_is(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--help")
    assert code == 0
    assert "Answer predictions inside a time budget" in out
    assert "--version" in out


def test_wrong_usage_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "plan", "--siez", 3)
    assert code == 2
    assert "--siez" in err
