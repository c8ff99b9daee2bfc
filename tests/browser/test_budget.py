"""What a budget buys, on the page: as `polydom plan` says, by link and by keyboard."""

import re
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.server.cli.asking.plan import explain
from tests.support.accessibility import find_faults
from tests.support.browser import visiting
from tests.support.indexes.page_models import PageModels

# How many pairs of a size and a budget each index is asked for: 57 in all.
ASKED = {"texts": 15, "pairs": 15, "people": 9, "money": 9, "balanced": 9}
# Choose each pair by the address, wait until its budget is shown, and read the table.
CHOOSE = """async ({model, pairs}) => {
  const read = [];
  for (const {size, budget} of pairs) {
    const query = new URLSearchParams({model, ...(size && {size}), budget});
    location.hash = query.toString();
    const shown = () => [...document.querySelectorAll(".controls input[type=number]")];
    const chosen = [...(size ? size.split("x") : []), budget].map(Number);
    let turns = 0;
    while (String(shown().map((one) => Number(one.value))) !== String(chosen)) {
      await new Promise((done) => setTimeout(done, 5));
      if ((turns += 1) > 1000) throw Error(`not shown: ${query}`);
    }
    const rows = [...document.querySelectorAll(".skyline-table tbody tr")];
    read.push({
      sentence: document.querySelector("#buys .sentence").textContent,
      place: rows.findIndex((row) => row.hasAttribute("aria-current")),
      rows: rows.map((row) => [...row.cells].map((cell) => cell.textContent)),
    });
  }
  return read;
}"""


def draw_pairs(index: Index, count: int) -> list[tuple[Size, float]]:
    """Sizes and budgets that buy some, exactly some, and too little for anything."""
    draw = np.random.default_rng(count)
    low, high = (np.atleast_1d(size).astype(float) for size in index.sizes)
    pairs: list[tuple[Size, float]] = []
    for number in range(count):
        drawn = np.round(low * (high / low) ** draw.random(len(low)), 1).tolist()
        size: Size = drawn[0] if len(drawn) == 1 else tuple(drawn)
        line = index.skyline(size)
        cost = index.cost_s(int(line[number // 3 % len(line)]), size)
        least, most = (index.cost_s(int(line[k]), size) for k in (0, -1))
        exact = (cost, float(draw.uniform(least / 2, 1.2 * most)), 0.9 * least)
        pairs.append((size, exact[number % 3]))
    return pairs


def amount_of(text: str) -> float:
    """The number of `1,280 ms` or `0.0052 usd`, in milliseconds or money."""
    return float(text.split()[0].replace(",", ""))


@pytest.mark.parametrize("model", ASKED)
def test_page_buys_what_plan_says(
    context: BrowserContext, models: PageModels, model: str
) -> None:
    index = models.indexes[model]
    isTime = model != "money"
    pairs = [
        (size, amount * 1e3 if isTime else amount)
        for size, amount in draw_pairs(index, ASKED[model])
    ]
    asked: list[dict[str, Any]] = [
        {
            "size": ""
            if model == "people"
            else "x".join(map(repr, np.atleast_1d(size).tolist())),
            "budget": repr(budget),
        }
        for size, budget in pairs
    ]
    with visiting(context, models.address(model)) as page:
        expect(page.locator("#content")).to_be_visible()
        shown = page.evaluate(CHOOSE, {"model": model, "pairs": asked})
    kinds = set()
    for (size, budget), found in zip(pairs, shown, strict=True):
        facts = explain(index, size, *((budget, None) if isTime else (None, budget)))
        place, rows = found["place"], found["rows"]
        assert ("buy nothing" in found["sentence"]) == (not facts["fits"])
        around = {"cheaper": place - 1, "bought": place, "dearer": place + 1}
        for name, k in around.items():
            expected = facts[name]
            assert (expected is None) == (not 0 <= k < len(rows)), (name, size, budget)
            if expected is None:
                continue
            cost, *qualities = rows[k][1:-2]
            known = [expected["expected_quality"]]
            if model == "balanced":
                known.append(expected["expected_accuracy"])
            predicted = (
                expected["predicted_us"] / 1e3 if isTime else expected["predicted"]
            )
            assert amount_of(cost) == pytest.approx(predicted, rel=5.1e-3)
            assert list(map(float, qualities)) == pytest.approx(known, abs=5.1e-4)
            names = ", ".join(expected["features"]) or "no feature: the prior"
            assert rows[k][-1] == names
        kinds.add((facts["fits"], place))
    assert len(kinds) > 2


def budget_of(page: Page) -> float:
    return float(page.get_by_label("Budget, ms").input_value())


def focus_by_tab(page: Page, selector: str) -> None:
    """Press Tab until the element has the focus."""
    for _ in range(100):
        page.keyboard.press("Tab")
        if page.evaluate("(it) => document.activeElement.matches(it)", selector):
            return
    pytest.fail(f"Tab does not come to {selector}")


def test_keyboard_alone_changes_the_budget_and_reads_an_answer(
    context: BrowserContext, models: PageModels
) -> None:
    with visiting(context, models.address("texts", size=100, budget=3)) as page:
        sentence = page.locator("#buys .sentence")
        expect(sentence).to_contain_text("buy length for 1.20 ms")
        focus_by_tab(page, ".controls .slider:last-child input[type=range]")
        page.keyboard.press("ArrowRight")
        assert budget_of(page) > 3
        page.keyboard.press("Tab")
        page.keyboard.press("Control+A")
        page.keyboard.type("6")
        page.keyboard.press("Enter")
        expect(sentence).to_contain_text("buy length and marks for 5.20 ms")
        focus_by_tab(page, ".skyline circle")
        page.keyboard.press("ArrowRight")
        expect(sentence).to_contain_text("buy length, marks and words")
        focused = page.evaluate("document.activeElement.getAttribute('aria-label')")
        assert focused.startswith("length, marks and words")
        focus_by_tab(page, ".samples button:nth-child(2)")
        page.keyboard.press("Enter")
        # which of them is a matter of how busy the machine is
        expect(page.locator(".answer .label")).to_have_text(re.compile("ham|spam"))
        focus_by_tab(page, "#try .ask")
        page.keyboard.press("Enter")
        expect(page.locator(".answer")).to_contain_text("Expected accuracy")
        focus_by_tab(page, "#try .ladder")
        page.keyboard.press("Enter")
        expect(page.locator(".rungs tbody tr").first).to_contain_text(
            re.compile("ham|spam")
        )
        focus_by_tab(page, "#pause")
        page.keyboard.press("Space")
        expect(page.locator("#pause")).to_have_text("Go on")


def test_a_link_shows_what_was_chosen(
    context: BrowserContext, models: PageModels
) -> None:
    with visiting(context, models.address("pairs", size="100x21", budget=9.8)) as page:
        expect(page.locator("#buys .sentence")).to_contain_text("buy length and marks")
        page.get_by_label("Budget, ms").fill("25")
        page.keyboard.press("Enter")
        expect(page.locator("#buys .sentence")).to_contain_text("and words for 19.7 ms")
        expect(page).to_have_url(re.compile("budget=25$"))
        linked = page.evaluate("location.href")
        with visiting(context, linked) as other:
            expect(other.locator("#buys .sentence")).to_have_text(
                page.locator("#buys .sentence").inner_text()
            )


def test_a_link_to_nothing_sensible_shows_the_usual(
    context: BrowserContext, models: PageModels
) -> None:
    sentence = "#buys .sentence"
    with visiting(context, models.address("texts")) as page:
        expect(page.locator(sentence)).to_contain_text("buy")
        usual = page.locator(sentence).inner_text()
    for chosen in ({"size": "0x-3", "budget": "much"}, {"size": "NaN", "budget": -1}):
        with visiting(context, models.address("texts", **chosen)) as page:
            expect(page.locator(sentence)).to_have_text(usual)


@pytest.mark.parametrize("model", ["images", "people", "pairs"])
def test_page_of_every_kind_has_no_fault_of_accessibility(
    context: BrowserContext, models: PageModels, model: str
) -> None:
    with visiting(context, models.address(model)) as page:
        expect(page.locator("#buys .sentence")).to_contain_text("buy")
        if model != "images":
            page.locator(".samples button").first.click()
            expect(page.locator(".answer .label")).to_be_visible()
        expect(page.locator(".tiles .tile").first).to_be_visible()
        page.evaluate(
            "document.querySelectorAll('details').forEach((d) => d.open = true)"
        )
        faults = find_faults(page)
    assert not faults, "\n".join(faults)
