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
    listed = [code for code in first_cells(PAGE) if code.islower()]
    assert sorted(listed) == sorted(raised - {"polydom_error"})


def test_statuses_are_those_of_the_server() -> None:
    for status in STATUSES:
        for error in status.errors:
            assert f"| `{error.code}` | {status.number} | " in PAGE
        if status.grpc:
            assert re.search(rf"^\| `{status.grpc}` .*\b{status.number}\b", PAGE, re.M)
