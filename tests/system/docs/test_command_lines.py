"""Every `polydom COMMAND --option` of the documents is one that there is."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer

from polydom.server.cli.app import app
from tests.support.places import DOCS, ROOT

PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
    *sorted(DOCS.rglob("*.md")),
]
GROUP = typer.main.get_command(app)
OPTIONS = {
    name: {"--help", *(o for p in command.params for o in (*p.opts, *p.secondary_opts))}
    for name, command in GROUP.commands.items()  # type: ignore[attr-defined]
}
# Of other programs, which pages name beside ours.
OTHERS = {
    "--cpus",
    "--cpuset-cpus",
    "--format",
    "--nthreads",
    "--root-path",
    "--set-file",
}

FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`([^`\n]+(?:\n[^`\n]+)?)`")
# A command, and what follows it until the line or the program ends.
CALL = re.compile(r"(?<![\w.:-])polydom ([a-z][\w-]*)([^|;&#\n]*)")
OPTION = re.compile(r"(?<=[\s\[(])(--?[a-z][a-z-]*)")


def calls(text: str) -> Iterator[tuple[str, str]]:
    """What is called in fenced blocks and inline code: command, and the rest."""
    for language, block in FENCED.findall(text):
        if language not in ("python", "toml", "yaml"):
            yield from CALL.findall(re.sub(r"\\\n\s*", "", block))
    for code in INLINE.findall(FENCED.sub("", text)):
        yield from CALL.findall(code.replace("\n", " "))


def test_some_are_found() -> None:
    text = "`polydom plan my.pdx`\n```sh\npolydom serve a \\\n  --port 1 | x --y\n```\n"
    assert list(calls(text)) == [("serve", " a --port 1 "), ("plan", " my.pdx")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_and_options_are_there(page: Path) -> None:
    text = page.read_text("utf-8")
    for command, rest in calls(text):
        assert command in OPTIONS, f"polydom {command}{rest}"
        for option in OPTION.findall(rest):
            assert option in OPTIONS[command], f"polydom {command}{rest}"


@pytest.mark.parametrize(
    "page", sorted((DOCS / "how-to").glob("*.md")), ids=lambda page: page.name
)
def test_options_alone_are_of_some_command(page: Path) -> None:
    known = OTHERS.union(*OPTIONS.values())
    for code in INLINE.findall(FENCED.sub("", page.read_text("utf-8"))):
        if found := re.match(r"--[a-z][a-z-]*", code):
            assert found[0] in known, code
