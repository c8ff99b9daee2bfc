"""The site, built strictly: it asks no other host, finds pages, describes the API."""

import inspect
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import BrowserContext, expect

import polydom
from tests.support.browser import visiting
from tests.support.places import DOCS, ROOMS, ROOT

# What a browser loads by itself; links that a reader follows may lead anywhere.
LOADED = {
    ".html": [
        r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*\bsrc=[\"']?([^\"'\s>]+)",
        r"<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preload|icon|preconnect|modulepreload))"
        r"[^>]*\bhref=[\"']?([^\"'\s>]+)",
        r"url\([\"']?([^\"')]+)",
        r"@import\s+[\"']([^\"']+)",
    ],
    ".css": [r"url\([\"']?([^\"')]+)", r"@import\s+[\"']([^\"']+)"],
    ".js": [
        r"\bimport\s*\(?\s*[\"'`]([^\"'`]+)",
        r"\b(?:fetch|importScripts|Worker)\(\s*[\"'`]([^\"'`]+)",
        r"\.src\s*=\s*[\"'`]([^\"'`]+)",
    ],
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a site that was built with every warning an error."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(DOCS, folder / "docs")
    for name in ("polydom", *ROOMS):
        (folder / name).symlink_to(ROOT / name)
    done = subprocess.run(
        [Path(sys.executable).with_name("zensical"), "build", "--strict"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build/site"


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Where the site is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None: ...

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Quiet, directory=site)
    ) as server:
        serve = partial(server.serve_forever, poll_interval=0.01)
        Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_pages_ask_no_other_host_and_search_finds(
    context: BrowserContext, address: str
) -> None:
    with visiting(context, f"{address}/reference/python/") as page:
        page.locator("dialog[aria-label=Search]").wait_for(state="attached")
        page.keyboard.press("Control+k")
        page.get_by_role("combobox").fill("polydom_cost_factor")
        expect(page.get_by_role("listbox")).to_contain_text("Metrics")
    with visiting(context, f"{address}/explanation/architecture/") as page:
        expect(page.get_by_role("heading", level=1)).to_be_visible()


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    files = [path for path in site.rglob("*") if path.suffix in LOADED]
    assert {path.suffix for path in files} == LOADED.keys()
    for path in files:
        text = path.read_text("utf-8")
        for pattern in LOADED[path.suffix]:
            for target in re.findall(pattern, text):
                assert not re.match(r"(?:\w+:)?//", target), (path, target)


def test_every_page_is_found(site: Path) -> None:
    search = json.loads((site / "search.json").read_text("utf-8"))
    found = {item["location"].partition("#")[0] for item in search["items"]}
    for page in DOCS.rglob("*.md"):
        place = page.relative_to(DOCS).with_suffix("")
        where = place.parent if place.name == "index" else place
        assert f"{where}/".removeprefix("./") in found


def test_names_of_python_have_signatures_and_descriptions(site: Path) -> None:
    page = (site / "reference/python/index.html").read_text("utf-8")
    plain = re.sub(r"<[^>]+>", "", page)
    for name in ("polydom.BudgetClassifier", "polydom.build", "polydom.models.select"):
        assert f'id="{name}"' in page
    assert "search_budget_s: float | None" in plain  # a constructor's, of a lazy name
    described = inspect.getdoc(polydom.BudgetClassifier) or ""
    summary, held_out = described.split("\n")[0], described.partition("held_out\n")[2]
    for text in (summary, held_out.split("\n")[0].strip()):
        assert text in plain
        assert len(text) > 20
