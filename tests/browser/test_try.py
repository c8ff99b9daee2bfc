"""Items tried on the page: images, texts and records, with the API's own answers."""

import base64
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.browser import visiting
from tests.support.indexes.page_models import PageModels
from tests.support.indexes.records import PEOPLE
from tests.support.indexes.served import HAM, SPAM
from tests.support.indexes.three_kinds import picture
from tests.support.processes.servers import ask

# Let a file fall on the place for images, as a hand that drags one does.
DROP = """({base64, name, zeros}) => {
  const bytes = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  const dataTransfer = new DataTransfer();
  const content = [bytes, new Uint8Array(zeros)];
  dataTransfer.items.add(new File(content, name, {type: "image/png"}));
  for (const type of ["dragover", "drop"]) {
    const event = new DragEvent(type, {dataTransfer, bubbles: true, cancelable: true});
    if (document.querySelector(".drop").dispatchEvent(event)) throw "not taken";
  }
}"""
PASTE = """(text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  const how = {clipboardData: data, bubbles: true, cancelable: true};
  document.activeElement.dispatchEvent(new ClipboardEvent("paste", how));
  document.execCommand("insertText", false, text);
}"""
TOO_LARGE = 17 << 20  # bytes; a server takes 16 MiB


def drop(page: Page, content: bytes, name: str = "some.png", zeros: int = 0) -> None:
    sent = base64.b64encode(content).decode()
    page.locator(".drop").wait_for()
    page.evaluate(DROP, {"base64": sent, "name": name, "zeros": zeros})


def ask_now(page: Page) -> None:
    page.locator("#try .ask").click()


def answer_of(
    models: PageModels, model: str, body: bytes, kind: str, budget: str
) -> dict[str, Any]:
    """What the API answers the same item."""
    path = f"/v1/predict?model={model}&{budget}"
    status, answer = ask(models.port, "POST", path, body, content_type=kind)
    assert status == 200
    return answer


def expect_answer(page: Page, sent: dict[str, Any]) -> None:
    """Ask about what is written; the page says what the API does."""
    ask_now(page)
    expect(page.locator(".answer .label")).to_have_text(sent["label"])
    scores = page.locator(".answer table td.number")
    expect(scores.first).to_have_text(f"{max(sent['scores'].values()):.3f}")
    expect(page.locator(".answer")).to_contain_text("Inside the budget.")
    for name in sent["features"]:
        expect(page.locator(".answer")).to_contain_text(name)


@pytest.mark.parametrize("how", ["drop", "choose"])
def test_an_image_gets_the_label_of_the_api(
    context: BrowserContext, models: PageModels, how: str
) -> None:
    with visiting(context, models.address("images", budget=900)) as page:
        expect(page.locator("#try .ask")).to_be_disabled()
        for grey, label in ((20, "dark"), (220, "bright")):
            image = picture(grey)
            sent = answer_of(models, "images", image, "image/png", "budget_ms=900")
            if how == "drop":
                drop(page, image)
            else:
                file: Any = {"name": "it.png", "mimeType": "image/png", "buffer": image}
                page.get_by_label("Drop an image").set_input_files(file)
            expect(page.locator(".drop img")).to_be_visible()
            expect(page.get_by_label("Size: pixels, pixels")).to_have_value("1024")
            ask_now(page)
            expect(page.locator(".answer .label")).to_have_text(label)
            assert sent["label"] == label
            expect(page.locator(".answer")).to_contain_text("Computed: thumbnail.")
            assert "--data-binary @'" in (page.locator(".curl").text_content() or "")


def test_what_is_no_image_is_answered_in_the_servers_words(
    context: BrowserContext, models: PageModels
) -> None:
    broken = picture(20)[:60]
    status, said = ask(
        models.port,
        "POST",
        "/v1/predict?model=images&budget_ms=900",
        broken,
        content_type="image/png",
    )
    assert status == 400
    address = models.address("images", budget=900)
    with visiting(context, address, ["status of 400"]) as page:
        drop(page, broken, "broken.png")
        ask_now(page)
        expect(page.locator(".answer .error")).to_have_text(str(said["error"]))
        drop(page, picture(220))
        ask_now(page)
        expect(page.locator(".answer .label")).to_have_text("bright")


def test_a_body_too_large_is_answered_in_the_servers_words(
    context: BrowserContext, models: PageModels
) -> None:
    address = models.address("images", budget=900)
    with visiting(context, address, ["status of 413"]) as page:
        drop(page, picture(20), "large.png", TOO_LARGE)
        ask_now(page)
        expect(page.locator(".answer .error")).to_contain_text("bytes")


@pytest.mark.parametrize("model", ["learned", "balanced", "pairs"])
def test_a_text_gets_the_label_and_scores_of_the_api(
    context: BrowserContext, models: PageModels, model: str
) -> None:
    sent = answer_of(models, model, SPAM.encode(), "text/plain", "budget_ms=900")
    with visiting(context, models.address(model, budget=900)) as page:
        page.get_by_label("Text", exact=True).fill(SPAM)
        expect_answer(page, sent)


def test_a_text_that_is_typed_or_pasted_gets_the_same(
    context: BrowserContext, models: PageModels
) -> None:
    sent = answer_of(models, "texts", SPAM.encode(), "text/plain", "budget_ms=900")
    with visiting(context, models.address("texts", budget=900)) as page:
        page.get_by_label("Text", exact=True).focus()
        page.keyboard.type(SPAM)
        expect_answer(page, sent)
        page.reload()
        page.get_by_label("Text", exact=True).focus()
        page.evaluate(PASTE, SPAM)
        expect_answer(page, sent)


def test_the_same_item_is_asked_at_every_budget(
    context: BrowserContext, models: PageModels
) -> None:
    with visiting(context, models.address("texts", budget=20)) as page:
        page.get_by_label("Text", exact=True).fill(SPAM)
        page.locator("#try .ladder").click()
        rows = page.locator(".rungs tbody tr")
        expect(rows.first.locator("td")).to_have_count(6)
        expect(rows.nth(1).locator("td").first).to_have_text("none")
        # what 50 ms buy is a matter of how busy the machine is
        bought = rows.nth(1).locator("td").all_inner_texts()
        assert set(bought) <= {
            "none",
            "length",
            "length, marks",
            "length, marks, words",
        }


def test_a_number_comes_with_its_interval(
    context: BrowserContext, models: PageModels
) -> None:
    sent = answer_of(models, "numbers", SPAM.encode(), "text/plain", "budget_ms=900")
    low, high = sent["interval"]
    with visiting(context, models.address("numbers", budget=900)) as page:
        expect(page.locator("#buys .sentence")).to_contain_text("expected R2")
        page.get_by_label("Text", exact=True).fill(SPAM)
        ask_now(page)
        shown = page.locator(".answer .label").inner_text()
    value, between = shown.split(" (")
    ends = between.rstrip(")").split(" to ")
    for text, number in zip([value, *ends], [sent["value"], low, high], strict=True):
        assert float(text) == pytest.approx(number, rel=1e-3)


def test_money_buys_by_its_own_unit(
    context: BrowserContext, models: PageModels
) -> None:
    sent = answer_of(models, "money", SPAM.encode(), "text/plain", "budget=0.006")
    with visiting(context, models.address("money", budget=0.006)) as page:
        page.get_by_label("Text", exact=True).fill(SPAM)
        ask_now(page)
        expect(page.locator(".answer .label")).to_have_text(sent["label"])
        expect(page.locator(".answer")).to_contain_text(f"{sent['predicted']:.4g} usd")
        page.locator("#try .ladder").click()
        expect(page.locator(".rungs thead th").last).to_contain_text("usd")


def test_a_record_is_asked_by_a_form_of_its_columns(
    context: BrowserContext, models: PageModels
) -> None:
    with visiting(context, models.address("people", budget=900)) as page:
        for name, value in PEOPLE[1].items():
            page.get_by_label(name, exact=True).fill(str(value))
        known = page.locator("datalist option")
        expect(known).to_have_count(3)
        ask_now(page)
        expect(page.locator(".answer .label")).to_have_text("flies")
        page.get_by_label("job", exact=True).fill("astronaut")
        ask_now(page)
        expect(page.locator(".answer")).to_contain_text("Never seen before")


def test_words_where_a_number_is_needed_are_answered_in_the_servers_words(
    context: BrowserContext, models: PageModels
) -> None:
    address = models.address("people", budget=900)
    with visiting(context, address, ["status of 4"]) as page:
        page.get_by_label("age", exact=True).fill("old")
        ask_now(page)
        expect(page.locator(".answer .error")).to_contain_text("age")


@pytest.mark.parametrize("model", ["texts", "people", "numbers"])
def test_a_sample_is_filled_in_and_asked(
    context: BrowserContext, models: PageModels, model: str
) -> None:
    with visiting(context, models.address(model)) as page:
        page.get_by_role("button", name="Sample 2").click()
        expect(page.locator(".answer .label")).not_to_be_empty()
        if model == "people":
            expect(page.get_by_label("job", exact=True)).to_have_value("pilot")
        else:
            expect(page.get_by_label("Text", exact=True)).to_have_value(SPAM)


@pytest.mark.parametrize("model", ["images", "bare"])
def test_an_index_without_samples_offers_none(
    context: BrowserContext, models: PageModels, model: str
) -> None:
    with visiting(context, models.address(model)) as page:
        expect(page.locator("#buys .sentence")).to_contain_text("buy")
        expect(page.locator(".samples")).to_be_hidden()


def test_the_shown_curl_line_says_the_same(
    context: BrowserContext, models: PageModels
) -> None:
    with visiting(context, models.address("texts", budget=20)) as page:
        page.get_by_label("Text", exact=True).fill(f"{HAM} 'tis")
        line = page.locator(".curl").text_content()
    address = f"http://127.0.0.1:{models.port}/v1/predict?model=texts&budget_ms=20"
    quoted = f"{HAM} '\\''tis"
    assert line == (
        f"curl --data-raw '{quoted}' -H 'Content-Type: text/plain' '{address}'"
    )
