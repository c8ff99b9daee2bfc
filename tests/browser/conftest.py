"""A browser, and a server of models of every kind that it asks."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.support.absent import absent
from tests.support.browser import find_browser, launching
from tests.support.indexes.page_models import PageModels, serving_models


# closed before tests of other packages: see `launching`
@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    executable = find_browser()
    if executable is None:
        absent("no Chromium is here: `make browser` installs Debian's")
    with launching(executable) as browser:
        yield browser


@pytest.fixture(scope="package")
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Where tabs of tests are opened that need no clock or screen of their own."""
    with browser.new_context() as context:
        yield context


@pytest.fixture(scope="package")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageModels]:
    with serving_models(tmp_path_factory.mktemp("models")) as models:
        yield models
