"""reference/errors.md: every code that anything of polydom raises or answers with."""

import re

from polydom.server.errors import STATUSES
from tests.support.pages import first_cells, read
from tests.support.places import ROOT

PAGE = read("reference/errors.md")


def test_every_code_is_there_once() -> None:
    raised = {"internal", "not_found", "method_not_allowed"}
    for room in ("features", "models", "indexer", "server"):
        for path in (ROOT / room).rglob("*.py"):
            found = re.findall(r'^ +code = "(\w+)"$', path.read_text("utf-8"), re.M)
            raised.update(found)
    assert sorted(first_cells(PAGE)) == sorted(raised - {"polydom_error"})


def test_statuses_are_those_of_the_server() -> None:
    for status in STATUSES:
        for error in status.errors:
            row = f"| `{error.code}` | {status.number} | "
            assert row + (f"`{status.grpc}` |" if status.grpc else "|") in PAGE
