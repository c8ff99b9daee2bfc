"""Pages carried out as a reader would: their files, commands and what they show.

Of the fenced blocks of a page, in their order:

* `python` or `toml` with a first line such as `# mine.py` is written to that file;
* `sh` is run command by command, but for what installs; `polydom serve` stays up until
  the next one or the page's end, at a port of its own, which replaces `:8000`;
* `text` or `json` is what the last block of commands printed. Each line must have come
  out, in that order; numbers, units of time, names of features and which sets a table
  shows may differ, and `...` stands for anything. Of JSON keys and types are the same.
  The row of the cheapest plan may be missing, as few items may leave a single plan.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.processes import servers
from tests.support.processes.forked_process import PROGRAMS, run_forked

FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# (\S+\.\w+)\n")
INSTALLS = ("pip install", "python -m venv", ". venv/", "source ")
CUT = "..."
CHEAPEST = "cheapest plan"
FETCH_STATE = re.compile(r'("state": "\w+")(, "ms": [\d.]+)?}')

NUMBER = r"\d[\d,]*(?:\.\d+)?(?:e-?\d+)?"
PRIOR = (
    "no feature: the prior answers",
    "no feature (the prior)",
)
TIME = re.compile(rf"({NUMBER}) (?:us|ms|s)\b")
PLAN = re.compile(r"(cheaper|bought|dearer) (?:-|N s N NAMES)")
CELL = re.compile(rf"(?<!\S)(?:-|[A-Z]) {NUMBER}(?: {NUMBER} (?:s|usd))?(?!\S)")


class Block(NamedTuple):
    """A fenced block: its language and text."""

    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """Fenced blocks of a page, in their order."""
    return [Block(*found) for found in FENCED.findall(page)]


def with_any_fetch_state(page: str) -> str:
    """Let each shown fetch have come or not: only one that came has a time."""
    return FETCH_STATE.sub(r"\1, ...}", page)


def commands(page: str) -> list[str]:
    """The shell commands of a page."""
    return [command for block in blocks(page) for command in _commands(block)]


def _commands(block: Block) -> Iterator[str]:
    """Commands of a block for the shell, which may go over several lines."""
    command = ""
    for line in block.text.splitlines() if block.language == "sh" else ():
        command += line
        try:
            words = shlex.split(command, comments=True)
        except ValueError:  # a quotation or a line goes on
            command += "\n"
            continue
        if words:
            yield command
        command = ""


class Reader(AbstractContextManager["Reader"]):
    """Who follows a page in a folder.

    Parameters
    ----------
    folder
        Where files are written and commands run.
    names
        Features, which of them pay differs from machine to machine.
    changes
        What is replaced once in the files that the page writes, to make less of them.
    """

    def __init__(
        self,
        folder: Path,
        names: Sequence[str] = (),
        changes: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.names = names
        self.changes = dict(changes or {})
        self.ran: list[str] = []
        self.shown = 0
        self._printed = ""
        self._server = ExitStack()
        self._port = 0

    def __exit__(self, *raised: object) -> None:
        self._server.close()

    def follow(self, page: str) -> None:
        """Carry out a page from top to bottom."""
        for block in blocks(page):
            named = FILE_NAME.match(block.text)
            if block.language == "sh":
                self._printed = "".join(map(self._run, _commands(block)))
            elif named:
                self._write(named[1], block.text)
            elif block.language in ("json", "text"):
                self.shown += 1
                self._compare(block)
        assert not self.changes, f"the page has nothing of {self.changes}"

    def _write(self, name: str, text: str) -> None:
        for old in [old for old in self.changes if old in text]:
            text = text.replace(old, self.changes.pop(old))
        (self.folder / name).write_text(text, encoding="utf-8")

    def _run(self, command: str) -> str:
        """Run one command, which must succeed; what it printed."""
        if command.startswith(INSTALLS):
            return ""
        self.ran.append(command)
        if command.startswith("polydom serve "):
            self._serve(command)
            return ""
        if ":8000" in command:
            command = command.replace(":8000", f":{self._port}")
        done = _completed(command, self.folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        if command.startswith("polydom init"):
            project = self.folder / "PROJECT.toml"
            self._write(project.name, project.read_text("utf-8"))
        return done.stdout

    def _serve(self, command: str) -> None:
        self._server.close()
        arguments = shlex.split(command.removesuffix("&"), comments=True)[2:]
        server = servers.serving(arguments[0], *arguments[1:], folder=self.folder)
        _, self._port = self._server.enter_context(server)

    def _compare(self, block: Block) -> None:
        if block.language == "json":
            shown = json.loads(re.sub(r",\s*\.\.\.", f', "{CUT}": null', block.text))
            assert alike(json.loads(self._printed), shown), self._printed
            return
        came = loosened(self._printed, self.names)
        at = 0
        for part in parts(block.text):
            if part.startswith(CHEAPEST) and CHEAPEST not in came:
                continue
            wanted = loosened(part, self.names)
            found = came.find(wanted, at)
            assert found >= 0, f"{part!r} ({wanted!r}) did not come out of\n{came}"
            at = found


def _completed(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one command, as a shell would."""
    words = shlex.split(command.replace("\\\n", ""), comments=True)
    if words[0] in PROGRAMS and not set(command) & set("|<>$"):
        return run_forked(words, folder)
    here = Path(sys.executable).parent
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": f"{here}{os.pathsep}{os.environ['PATH']}"},
        capture_output=True,
        text=True,
    )


def parts(shown: str) -> Iterator[str]:
    """What a shown output says, line by line, without what is left out."""
    for line in shown.splitlines():
        cut = (part.strip().rstrip(",") for part in line.split(CUT))
        yield from (part for part in cut if part)


def loosened(printed: str, names: Sequence[str]) -> str:
    """Say with one space, and one sign for each, what differs from run to run."""
    text = " ".join(" ".join(map(_with_cells, printed.splitlines())).split())
    for prior in PRIOR:
        text = text.replace(prior, "NAMES")
    if names:
        one = "|".join(sorted(map(re.escape, names), key=len, reverse=True))
        text = re.sub(rf"(?:\b[A-Z] )?\b(?:{one})(?:, (?:{one}))*\b", "NAMES", text)
    text = TIME.sub(r"\1 s", text)  # what a line's end parts from its unit
    return PLAN.sub(r"\1 PLAN", re.sub(NUMBER, "N", text))


def _with_cells(line: str) -> str:
    """Replace the cells of one line.

    Lines are joined afterwards: the budget that begins the next line would else be
    taken for the time of this line's last cell.
    """
    return CELL.sub("CELL", TIME.sub(r"\1 s", " ".join(line.split())))


def alike(came: Any, shown: Any) -> bool:
    """Whether JSON has the keys and types that are shown; null may be anything."""
    if isinstance(came, dict) and isinstance(shown, dict):
        wanted = [key for key in shown if key != CUT]
        there = [key for key in came if key in shown] if CUT in shown else [*came]
        return there == wanted and all(alike(came[key], shown[key]) for key in wanted)
    numbers = (int, float)
    return (
        came is None
        or shown is None
        or type(came) is type(shown)
        or (type(came) in numbers and type(shown) in numbers)
    )
