"""What axe-core finds wrong with a page, in both ways that people look at it."""

from typing import Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

# Colours do not hang on the width, nor what is where on the colours.
WAYS: tuple[tuple[Literal["light", "dark"], int], ...] = (
    ("light", 320),
    ("dark", 1280),
)
HEIGHT = 800
VIOLATIONS = """async () =>
  (await axe.run({resultTypes: ["violations"]})).violations"""


def find_faults(page: Page) -> list[str]:
    """Faults in light and narrow, dark and wide, without motion; also text too wide."""
    found = []
    page.evaluate(AXE_SCRIPT)
    for scheme, width in WAYS:
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        page.set_viewport_size({"width": width, "height": HEIGHT})
        way = f"{scheme}, {width} px"
        for fault in page.evaluate(VIOLATIONS):
            places = [node["target"] for node in fault["nodes"]]
            found.append(f"{way}: {fault['id']} at {places}: {fault['help']}")
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > width:
            found.append(f"{way}: the page is {wide} px wide")
    return found
