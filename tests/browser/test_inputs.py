"""Items beside the build's, on the page: which columns moved, and from what to what."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from playwright.sync_api import BrowserContext, expect

from polydom.server.engine.monitoring.input_sketch import LEAST
from tests.support.accessibility import find_faults
from tests.support.browser import visiting
from tests.support.indexes import compared, records
from tests.support.indexes.page_models import page_of
from tests.support.processes.servers import ask, serving
from tests.support.waiting import wait_until


def feed(port: int, change: dict[str, Any]) -> Callable[[], bool]:
    """Return a function that sends some people; True when enough were sampled."""
    seeds = iter(range(100, 10_000))

    def send() -> bool:
        items = [
            {"record": one | change} for one in compared.draw_people(50, next(seeds))
        ]
        for body in [json.dumps(one).encode() for one in items]:
            kind = "application/json"
            assert ask(port, "POST", "/v1/predict", body, content_type=kind)[0] == 200
        told = ask(port, "GET", "/v1/index/inputs")[1]
        return int(str(told["items"])) >= 2 * LEAST

    return send


def test_a_column_that_moved_is_shown_with_its_shares(
    context: BrowserContext, tmp_path: Path
) -> None:
    path = compared.save(tmp_path / "people.pdx")
    with serving(path, "--no-rescale") as (process, port):
        with visiting(context, page_of(port)) as page:
            inputs = page.locator("#inputs")
            expect(inputs.locator(".sentence")).to_contain_text("to be compared")
        wait_until(feed(port, {"age": 1e12}), process)
        with visiting(context, page_of(port)) as page:
            inputs = page.locator("#inputs")
            expect(inputs.locator(".sentence")).to_contain_text("age moved much")
            rows = inputs.locator(".columns tbody tr")
            expect(rows).to_have_count(3)
            expect(rows.first).to_contain_text("age")
            age = inputs.locator(".shifts table").first
            last = age.locator("tbody tr").last
            expect(last).to_contain_text(re.compile("above.*100 %"))
            expect(inputs.locator("caption", has_text="answers")).to_be_visible()
            assert find_faults(page) == []


def test_an_index_that_is_not_compared_has_no_such_section(
    context: BrowserContext, tmp_path: Path
) -> None:
    with (
        serving(records.save_index(tmp_path), "--no-rescale") as (_, port),
        visiting(context, page_of(port)) as page,
    ):
        expect(page.locator("#buys .sentence")).to_contain_text("For a record")
        expect(page.locator(".tile").first).to_be_visible()
        expect(page.locator("#inputs")).to_be_hidden()
