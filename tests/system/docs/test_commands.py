"""reference/commands.md: every command, with the options that its help has."""

import re

import pytest

from tests.support.pages import first_cells, read
from tests.support.processes.commands import run

PAGE = read("reference/commands.md")
SECTIONS = dict(
    re.findall(r"^## `polydom (\w+)`\n(.*?)(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
)


def test_every_command_has_a_section(capsys: pytest.CaptureFixture[str]) -> None:
    _, described, _ = run(capsys, "--help")
    listed = re.findall(r"^  ([a-z]+)  ", described.split("Commands:")[1], re.MULTILINE)
    assert sorted(listed) == sorted(SECTIONS)
    for name in listed:
        assert f"[`{name}`](#polydom-{name})" in PAGE


@pytest.mark.parametrize("name", SECTIONS)
def test_options_are_those_of_its_help(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, described, _ = run(capsys, name, "--help")
    head = r"^  (-[^ ]+(?:,? (?:/ )?--?[a-z-]+)*)"
    helped = {
        option
        for line in re.findall(head, described, re.MULTILINE)
        for option in re.findall(r"--?[a-z][a-z-]*", line)
    }
    rows = re.findall(r"^\| (`-.*?) \|", SECTIONS[name], re.MULTILINE)
    listed = {option for row in rows for option in re.findall(r"`(-[a-z-]+)`", row)}
    assert listed == helped - {"--help"}
    example = re.search(r"^  Example: (.*)$", described, re.MULTILINE)
    assert example
    assert f"```sh\n{example[1]}\n```" in SECTIONS[name]
    assert set(re.findall(r" (--?[a-z-]+)", example[1])) <= listed


def test_exit_codes_are_those_that_commands_end_with() -> None:
    codes = PAGE.split("## Exit codes")[1]
    assert re.findall(r"^\| (\d+) \|", codes, re.MULTILINE) == [
        "0",
        "1",
        "2",
        "3",
        "130",
    ]
    assert "NUMBA_CACHE_DIR" in first_cells(codes)
