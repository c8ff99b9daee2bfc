"""/docs in a browser: every route, tried out, and with tokens."""

import json
import urllib.request
from pathlib import Path

from playwright.sync_api import BrowserContext, expect

from tests.support.accessibility import find_faults
from tests.support.browser import visiting
from tests.support.indexes.page_models import PageModels
from tests.support.indexes.records import PEOPLE, save_index
from tests.support.processes.servers import serving

TOKEN = "a-token-of-some-user-of-models"


def test_docs_show_every_route_and_try_it(
    context: BrowserContext, models: PageModels
) -> None:
    address = f"http://127.0.0.1:{models.port}/docs"
    with urllib.request.urlopen(address.replace("docs", "openapi.json")) as reply:
        paths = json.load(reply)["paths"]
    routes = [f"{way.upper()} {path}" for path, ways in paths.items() for way in ways]
    with visiting(context, address) as page:
        shown = page.locator("#routes > details > summary code")
        expect(shown).to_have_text(routes)
        route = page.locator("details", has=page.get_by_text("POST /v1/predict"))
        route.locator("summary").first.click()
        route.get_by_text("Try", exact=True).click()
        route.get_by_label("Path and query").fill("/v1/predict?model=people")
        route.get_by_label("Content type").fill("application/json")
        route.get_by_role("textbox", name="Body").fill(
            json.dumps({"record": PEOPLE[1]})
        )
        route.get_by_role("button", name="Send").click()
        expect(route.get_by_label("reply")).to_contain_text('"label":"flies"')


def test_docs_have_no_fault_of_accessibility(
    context: BrowserContext, models: PageModels
) -> None:
    with visiting(context, f"http://127.0.0.1:{models.port}/docs") as page:
        expect(page.locator("#routes h2")).to_have_count(2)
        page.evaluate(
            "document.querySelectorAll('details').forEach((d) => d.open = true)"
        )
        faults = find_faults(page)
    assert not faults, "\n".join(faults)


def test_docs_ask_for_a_token_and_show_nothing_before(
    context: BrowserContext, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    options = f"--token-file={tmp_path}/tokens"
    with (
        serving(save_index(tmp_path), options) as (_, port),
        visiting(context, f"http://127.0.0.1:{port}/docs", ["401"]) as page,
    ):
        expect(page.locator("#said")).to_contain_text("token")
        assert page.locator("#routes").inner_text() == ""
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        expect(page.locator("#routes")).to_contain_text("POST /v1/predict")
