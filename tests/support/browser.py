"""A page in a real browser, and what must not happen while it is open."""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    expect,
    sync_playwright,
)

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
SERVER = "127.0.0.1"
OWN_SCHEMES = ("data", "blob")
WAIT_MS = 15_000
# What the policy refuses is told to pages; they tell it to the console.
TELL_REFUSED = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`refused by ${event.effectiveDirective}: ${event.blockedURI}`));"""

expect.set_options(timeout=WAIT_MS)


def find_browser() -> str | None:
    """Path of a Chromium on this machine."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@contextmanager
def launching(executable: str) -> Iterator[Browser]:
    """A browser.

    Between its calls a loop of asyncio seems to run in this thread, so that tests that
    run loops of their own have to come before it is there, or after it is closed.
    """
    with sync_playwright() as playwright:
        chromium = playwright.chromium
        # in containers the sandbox is not allowed what it needs
        yield chromium.launch(executable_path=executable, args=["--no-sandbox"])


@contextmanager
def visiting(
    context: BrowserContext, address: str, expected: Sequence[str] = ()
) -> Iterator[Page]:
    """A page at an address, in a tab of its own.

    Nothing may go wrong in it but what is `expected`: patterns of which each is found
    in some message of the console, and of which all messages have one.
    """
    with closing(context.new_page()) as page:
        page.set_default_timeout(WAIT_MS)
        told = _listen(page, address)
        page.goto(address)
        yield page
    unexpected = [one for one in told if not any(re.search(p, one) for p in expected)]
    assert not unexpected, unexpected
    missing = [p for p in expected if not any(re.search(p, one) for one in told)]
    assert not missing, f"of {told} none has {missing}"


def _listen(page: Page, address: str) -> list[str]:
    """What goes wrong from now on: messages, errors, requests elsewhere."""
    told: list[str] = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            told.append(f"{message.type}: {message.text} at {message.location['url']}")

    def see(request: Request) -> None:
        to = urlsplit(request.url)
        if to.scheme in OWN_SCHEMES or request.url == address.partition("#")[0]:
            return
        if to.hostname != SERVER or address.startswith("file:"):
            told.append(f"request to {request.url}")

    page.add_init_script(TELL_REFUSED)
    page.on("console", hear)
    page.on(
        "pageerror", lambda error: told.append(f"not caught: {error.stack or error}")
    )
    page.on("request", see)
    return told
