"""Pictures of the page: for README and docs of the index that POLYDOM_PICTURES names.

POLYDOM_PICTURES=my.pdx pytest tests/browser/test_pictures.py
"""

import contextlib
import http.client
import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from PIL import Image
from playwright.sync_api import Browser, FloatRect, Page, expect

from polydom.indexer.index.index import Index
from tests.support.browser import visiting
from tests.support.indexes.page_models import page_of
from tests.support.indexes.three_kinds import picture, save_images
from tests.support.places import DOCS
from tests.support.processes.meanwhile import meanwhile
from tests.support.processes.servers import serving

WANTED = os.environ.get("POLYDOM_PICTURES")
WIDTH = 1200
BUDGETS_MS = (2, 4, 6, 8, 12, 20, 35)
BUSY_S = 90.0  # of requests before the picture, so that there is something to see
IMAGE = {"Content-Type": "application/octet-stream"}
# What is on each, by the scheme that it is taken in; the first has the head, too.
PICTURES: dict[str, dict[str, tuple[str, ...]]] = {
    "light": {"page.png": ("header", "#buys"), "page-try.png": ("#try",)},
    "dark": {"page-live.png": ("#live", "#curves")},
}


@contextlib.contextmanager
def asking(port: int, samples: list[Any]) -> Iterator[None]:
    """Ask about samples at changing budgets, some thirty times a second."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    asked = zip(itertools.cycle(BUDGETS_MS), itertools.cycle(samples), strict=True)

    def ask() -> None:
        budget, sample = next(asked)
        connection.request("POST", f"/v1/predict?budget_ms={budget}", sample, IMAGE)
        connection.getresponse().read()

    with contextlib.closing(connection), meanwhile(ask, 0.02):
        yield


def show(page: Page, file: Path | None) -> None:
    """Ask about an image: a sample, or where there is none a file."""
    if file is None:
        page.get_by_role("button", name="Sample").last.click()
    else:
        page.locator("#image-file").set_input_files(file)
        page.locator(".ask").click()
    expect(page.locator(".answer .label")).to_be_visible()
    if file is None:
        page.wait_for_timeout(500)  # the browser is done with drawing the image
    page.locator(".ask").click()
    expect(page.locator(".answer[aria-busy]")).to_have_count(0)
    page.locator(".ladder").click()
    expect(page.locator(".rungs table")).to_be_visible()


def take(page: Page, path: Path, sections: tuple[str, ...]) -> None:
    """Take the picture of some sections that follow each other."""
    boxes = [page.locator(one).bounding_box() for one in sections]
    tops = [box["y"] for box in boxes if box]
    ends = [box["y"] + box["height"] for box in boxes if box]
    height = max(ends) - min(tops)
    clip = FloatRect(x=0.0, y=min(tops), width=float(WIDTH), height=height)
    page.screenshot(path=path, full_page=True, clip=clip)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, int]]:
    """The index, and the port where it is served."""
    index = Path(WANTED) if WANTED else save_images(tmp_path_factory.mktemp("index"))
    with serving(index) as (_, port):
        yield index, port


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_picture_of_the_page_can_be_taken(
    browser: Browser,
    served: tuple[Path, int],
    tmp_path: Path,
    scheme: Literal["light", "dark"],
) -> None:
    (index, port), wanted, file = served, WANTED, None
    if not wanted:
        (file := tmp_path / "dark.png").write_bytes(picture(20))
    paths = [(DOCS if wanted else tmp_path) / name for name in PICTURES[scheme]]
    options: dict[str, Any] = {"color_scheme": scheme}
    options["viewport"] = {"width": WIDTH, "height": 900}
    with browser.new_context(**options) as context:
        address = page_of(port, **({"size": 120000, "budget": 8} if wanted else {}))
        with visiting(context, address) as page:
            expect(page.locator("#content")).to_be_visible()
            show(page, file)
            if wanted and scheme == "dark":
                package = Index.load(index).package
                assert package is not None
                with asking(port, package.meta["samples"]):
                    page.wait_for_timeout(BUSY_S * 1e3)
                page.locator("h1").click()
            page.evaluate("scrollTo(0, 0)")
            for path, sections in zip(paths, PICTURES[scheme].values(), strict=True):
                take(page, path, sections)
    for path in paths:
        with Image.open(path) as drawn:
            assert drawn.width == WIDTH
            assert len(drawn.convert("RGB").getcolors(1 << 24) or []) > 20
