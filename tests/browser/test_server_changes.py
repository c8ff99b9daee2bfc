"""The page while its server changes: tokens, models, workers, reloads, restarts."""

import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, Page, Request, expect

from tests.support.browser import visiting
from tests.support.indexes import served
from tests.support.indexes.page_models import AS_BUILT, PageModels, page_of
from tests.support.indexes.served import HAM, SPAM, save
from tests.support.processes.servers import ADMIN, ask, reload, serving, version_of
from tests.support.waiting import wait_until

TOKEN = "a-token-of-some-user-of-models"
POLL_MS = 2_000
POLLS = 50
# The page remembers five minutes: with longer steps, as many polls are soon forgotten.
STEP_MS, REMEMBERED = 16_000, 20
# A poll brings 60,000 bytes; code that becomes compiled takes some hundreds a poll. Of
# nodes there is now and then a table more, which is not yet collected.
KEPT_BYTES, MOST_NODES = 2_000, 200
# A first feature that waits until a file is there.
WAITING = """
import time
from pathlib import Path
from polydom.features import feature, step

@step(kind="text")
def lowered(text): return text.lower()

@feature(kind="text")
def length(text):
    while not Path({go!r}).exists(): time.sleep(0.01)
    return [len(text)]

@feature(needs=[lowered])
def marks(text): return [text.count("!"), text.count("$")]

@feature(needs=[lowered])
def words(text): return [text.count("free") + text.count("win")]
"""


def shows(page: Page, sentence: str) -> None:
    expect(page.locator("#buys .sentence")).to_contain_text(sentence)


@contextmanager
def with_clock(browser: Browser) -> Iterator[BrowserContext]:
    """A context whose tabs have a clock that tests advance."""
    with browser.new_context() as context:
        context.clock.install()
        yield context


def is_polled(page: Page, place: str, pattern: str) -> None:
    """Advance the page's clock, poll after poll, until it shows this at a place."""

    def shown() -> bool:
        page.clock.run_for(POLL_MS)
        return bool(re.search(pattern, page.locator(place).inner_text()))

    wait_until(shown)


def test_a_token_is_asked_for_and_kept_until_the_tab_is_closed(
    context: BrowserContext, tmp_path: Path
) -> None:
    (tmp_path / "tokens").write_text(TOKEN)
    path, options = served.save_index(tmp_path), [*AS_BUILT]
    options.append(f"--token-file={tmp_path}/tokens")
    with (
        serving(path, *options) as (_, port),
        visiting(context, page_of(port, budget=900), ["status of 401"]) as page,
    ):
        expect(page.get_by_label("Token")).to_be_visible()
        expect(page.locator("#content")).to_be_hidden()
        assert "length" not in page.content()
        page.get_by_label("Token").fill("another-token-that-nobody-gave")
        page.keyboard.press("Enter")
        expect(page.locator("#refused")).to_contain_text("does not know")
        page.get_by_label("Token").fill(TOKEN)
        page.keyboard.press("Enter")
        shows(page, "buy")
        page.get_by_role("button", name="Sample 2").click()
        expect(page.locator(".answer .label")).to_have_text("spam")
        assert TOKEN not in page.content()
        page.reload()
        shows(page, "buy")
        expect(page.locator("#door")).to_be_hidden()
        with visiting(context, page_of(port), ["status of 401"]) as other:
            expect(other.get_by_label("Token")).to_be_visible()


def test_each_of_several_models_is_shown(
    context: BrowserContext, models: PageModels
) -> None:
    with visiting(context, page_of(models.port)) as page:
        shows(page, "expected accuracy")
        for name, quality in (("numbers", "R2"), ("balanced", "balanced accuracy")):
            page.get_by_label("Model").select_option(name)
            shows(page, f"expected {quality}")
            assert f"model={name}" in page.url
        page.get_by_label("Model").select_option("people")
        shows(page, "For a record")
        expect(page.locator("#try input").first).to_be_visible()
        page.go_back()
        expect(page.get_by_label("Model")).to_have_value("balanced")


def test_answers_of_all_workers_are_counted(
    context: BrowserContext, tmp_path: Path
) -> None:
    path, asked = served.save_index(tmp_path), 40
    with serving(path, *AS_BUILT, "--workers=2") as (_, port):
        for _ in range(asked):
            status, _ = ask(
                port,
                "POST",
                "/v1/predict?budget_ms=900",
                SPAM.encode(),
                content_type="text/plain",
            )
            assert status == 200
        with visiting(context, page_of(port)) as page:
            shows(page, "buy")
            counted = page.locator(
                ".tile", has=page.get_by_text("in time, since the start", exact=True)
            )
            expect(counted).to_contain_text(f"of {asked} answers")
            page.locator("select.window").select_option("all")
            expect(page.locator(".answers tbody tr").first).to_contain_text(f"{asked}")


def test_a_server_that_is_not_ready_says_why_and_is_shown_when_it_is(
    browser: Browser, tmp_path: Path
) -> None:
    features, go = tmp_path / "waiting.py", tmp_path / "go"
    features.write_text(WAITING.format(go=str(go)))
    path = served.save_with(features, tmp_path / "waiting.pdx")
    options = (f"--features={features}", "--budget-ms=20")
    with (
        serving(path, *options, wait=False) as (_, port),
        with_clock(browser) as context,
        visiting(context, page_of(port, budget=900), ["status of 503"]) as page,
    ):
        expect(page.locator("#state")).to_contain_text(re.compile("warm|not ready"))
        page.get_by_label("Text", exact=True).fill(SPAM)
        page.locator("#try .ask").click()
        expect(page.locator(".answer .error")).to_contain_text("ready")
        go.touch()
        is_polled(page, "#state", "^ready$")
        page.locator("#try .ask").click()
        expect(page.locator(".answer .label")).to_have_text("spam")


def test_an_old_tab_says_that_the_index_was_replaced(
    browser: Browser, tmp_path: Path
) -> None:
    path = save(tmp_path / "tiny.pdx")
    (tmp_path / "admin").write_text(ADMIN)
    option = f"--admin-token-file={tmp_path}/admin"
    with (
        serving(path, *AS_BUILT, option) as (_, port),
        with_clock(browser) as context,
        visiting(context, page_of(port, size=100, budget=15)) as page,
    ):
        shows(page, "expected accuracy 0.950")
        old = version_of(port)
        save(path, 0.9)
        assert reload(port, ADMIN)[0] == 200
        is_polled(page, "#news", "was replaced")
        shows(page, "For 100 characters, 15.0 ms buy length, marks and words")
        shows(page, "expected accuracy 0.900")
        assert old[:12] not in page.content()


def test_a_server_that_went_away_is_waited_for(
    browser: Browser, tmp_path: Path
) -> None:
    path = served.save_index(tmp_path)
    with serving(path, *AS_BUILT) as (process, port), with_clock(browser) as context:
        address = page_of(port, size=100, budget=900)
        # what was asked while the server ended is not refused, but cut off
        gone = r"ERR_(CONNECTION_(REFUSED|RESET|CLOSED)|EMPTY_RESPONSE)"
        with visiting(context, address, [gone]) as page:
            shows(page, "For 100 characters, 900 ms buy length, marks and words")
            page.get_by_label("Text", exact=True).fill(HAM)
            process.send_signal(signal.SIGKILL)
            process.wait()
            is_polled(page, "#state", "does not answer")
            expect(page.locator("#news")).to_contain_text("Trying again")
            page.locator("#try .ask").click()
            expect(page.locator(".answer .error")).to_contain_text("does not answer")
            with serving(path, *AS_BUILT, f"--port={port}"):
                is_polled(page, "#state", "^ready$")
                expect(page.locator("#news")).to_be_empty()
                expect(page.get_by_label("Text", exact=True)).to_have_value(HAM)
                page.locator("#try .ask").click()
                expect(page.locator(".answer .label")).to_have_text("ham")


def is_poll(request: Request) -> bool:
    return request.url.endswith("/metrics")


def test_hours_of_polling_do_not_make_the_page_grow(
    browser: Browser, models: PageModels
) -> None:
    with (
        with_clock(browser) as context,
        visiting(context, models.address("texts")) as page,
    ):
        shows(page, "buy")
        session = context.new_cdp_session(page)
        session.send("Performance.enable")

        def poll(times: int) -> None:
            for _ in range(times):
                with page.expect_event("requestfinished", is_poll):
                    page.clock.run_for(STEP_MS)

        def size() -> tuple[float, float]:
            """Bytes that JavaScript uses, and nodes of documents."""
            session.send("HeapProfiler.collectGarbage")
            found = session.send("Performance.getMetrics")["metrics"]
            facts = {one["name"]: one["value"] for one in found}
            return facts["JSHeapUsedSize"], facts["Nodes"]

        poll(REMEMBERED)
        before = size()
        poll(POLLS)
        after = size()
    assert after[0] - before[0] < KEPT_BYTES * POLLS
    assert after[1] - before[1] < MOST_NODES


def test_polling_can_be_paused(browser: Browser, models: PageModels) -> None:
    with (
        with_clock(browser) as context,
        visiting(context, models.address("texts")) as page,
    ):
        polls: list[str] = []
        page.on("request", lambda one: polls.append(one.url))
        shows(page, "buy")
        page.get_by_role("button", name="Pause").click()
        page.wait_for_load_state("networkidle")
        polls.clear()
        page.clock.run_for(5 * POLL_MS)
        assert polls == []
        with page.expect_request(is_poll):
            page.get_by_role("button", name="Go on").click()
            page.clock.run_for(POLL_MS)
