"""reference/server.md: options and limits that there are."""

import re

import pytest

from polydom.server.http.bearer_tokens import OPEN_PATHS
from polydom.server.http.protocol import HttpProtocol
from polydom.server.settings import DRAIN_S, KEEP_ALIVE_S, UNREAD_LIMIT, Settings
from tests.support.pages import read
from tests.support.places import ROOT
from tests.support.processes.commands import run

PAGE = read("reference/server.md")


def test_options_and_limits_are_those_of_the_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, described, _ = run(capsys, "serve", "--help")
    for option in set(re.findall(r"`(--[a-z-]+)", PAGE)):
        assert option in described, option
    settings, protocol = Settings(), HttpProtocol
    for limit in (
        f"{settings.budget_s * 1e3:g} ms",
        f"{settings.max_budget_s * 1e3:,g} ms",
        f"{settings.body_limit >> 20} MiB (`--body-limit`) |",
        f"{settings.intake_limit >> 20} MiB (`--intake-limit`) |",
        f"{settings.image_limit // 10**6} MB (`--image-limit`) |",
        f"{settings.queue_limit:,} (`--queue-limit`) |",
        f"{protocol.receive_s:g} s |",
        f"{protocol.head_limit >> 10} KiB",
        f"{protocol.connection_limit:,} |",
        f"| {protocol.header_limit} |",
        f"{protocol.unread_s:g} s |",
        f"{UNREAD_LIMIT >> 20} MiB |",
        f"{KEEP_ALIVE_S} s |",
        f"{DRAIN_S} s |",
    ):
        assert limit in PAGE, limit
    for path in OPEN_PATHS:
        assert f"`{path}`" in PAGE


def test_events_are_those_that_are_logged() -> None:
    logs = PAGE.split("| `event` | when |")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \|", logs, re.MULTILINE)
    listed = {event for row in rows for event in re.findall(r"`(\w+)`", row)}
    logged = {
        event
        for path in (ROOT / "server").rglob("*.py")
        for event in re.findall(r'"event": "(\w+)"', path.read_text("utf-8"))
    }
    assert listed == logged
