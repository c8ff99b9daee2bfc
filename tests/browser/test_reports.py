"""Reports in a browser: an index, and how good it is, each in a file of its own."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.support.accessibility import find_faults
from tests.support.browser import visiting
from tests.support.indexes import fetched
from tests.support.indexes.page_models import OWN, PageModels
from tests.support.indexes.served import HAM, LABELS, SPAM, save_index
from tests.support.indexes.stopping_records import LABELS as LABELS_OF_RECORDS
from tests.support.indexes.stopping_records import (
    draw_rows,
    label_rows,
    make_index,
    record_of,
)
from tests.support.processes.servers import polydom

TEXTS = [HAM, SPAM, "call me!", "free $$", "win", "lunch?", "free lunch $", "hi!!!"]
CHOSEN = {"money": "size=50&budget=0.004", "pairs": "size=90x7&budget=9"}
CHOSEN |= {"balanced": "size=1000&budget=50"}


def told(page: Page) -> list[Any]:
    """What a page says that a budget buys."""
    expect(page.locator("#buys .sentence")).to_contain_text("buy")
    texts = [page.locator(f"#buys .{one}") for one in ("sentence", "parts")]
    rows = page.locator("#buys .skyline-table tr").all_text_contents()
    return [*(one.inner_text() for one in texts), rows]


@pytest.mark.parametrize("model", CHOSEN)
def test_report_says_what_the_page_says(
    context: BrowserContext, models: PageModels, tmp_path: Path, model: str
) -> None:
    models.indexes[model].save(tmp_path / "my.pdx")
    polydom(["inspect", "my.pdx", "--html", "report.html"], tmp_path)
    report = f"file://{tmp_path}/report.html#{CHOSEN[model]}"
    with visiting(context, f"{models.address(model)}&{CHOSEN[model]}") as page:
        served = told(page)
    with visiting(context, report) as page:
        found = told(page)
        # what a step is called only the features' code knows, or the build said it
        found[1] = found[1].replace("step 1", "lowered")
        assert found == served
        assert "my.pdx" in page.locator("#subtitle").inner_text()


def test_report_of_a_build_shows_what_was_measured(
    context: BrowserContext, models: PageModels, tmp_path: Path
) -> None:
    index = models.indexes["texts"]
    assert index.package is not None
    curve = {"coefficients": [1e-3, 1e-6], "covered": 0.5}
    measured = {"sizes": [[10.0, 900.0]], "seconds": [1e-3, 3e-3]}
    names = ("length", "marks", "words", "lowered")
    curves = [{"name": name, **curve, "measured": measured} for name in names]
    index.package.meta["curves"] = curves
    try:
        index.save(tmp_path / "my.pdx")
    finally:
        del index.package.meta["curves"]
    polydom(["inspect", "my.pdx", "--html", "report.html"], tmp_path)
    with visiting(context, f"file://{tmp_path}/report.html#size=100&budget=6") as page:
        page.locator("#buys .parts").get_by_role("button", name="marks").click()
        expect(page.locator("#curves .chosen")).to_have_text("Feature marks")
        expect(page.locator("#curves .words")).to_contain_text("2 times were measured")
        expect(page.locator("#curves canvas")).to_be_visible()
        assert find_faults(page) == []


def test_report_says_what_has_come_of_fetches(
    context: BrowserContext, tmp_path: Path
) -> None:
    fetched.save_index(tmp_path)
    polydom(["inspect", "fetched.pdx", "--html", "report.html"], tmp_path)
    with visiting(context, f"file://{tmp_path}/report.html#budget=5") as page:
        rows = page.locator("#buys .fetches tr").all()
        first, last = (rows[k].locator("th, td").all_inner_texts() for k in (1, -1))
        assert first == ["0.100 ms", "0.0 %", "0.0 %", "0.600"]
        assert last == ["100 ms", "100 %", "97.0 %", "0.895"]
        expect(page.locator("#buys .notes")).to_contain_text("all fetches have come")
        # budgets go on to the last wait, though the dearest set takes 50 us
        page.locator(".controls input[type=range]").press("End")
        expect(page.get_by_label("Budget, ms")).to_have_value("100")
        assert find_faults(page) == []


def test_evaluation_shows_what_was_found(
    context: BrowserContext, tmp_path: Path
) -> None:
    rows = [{"text": text, "label": LABELS[k % 2]} for k, text in enumerate(TEXTS)]
    (tmp_path / "mails.jsonl").write_text("\n".join(map(json.dumps, rows)))
    save_index(tmp_path)
    given = ["evaluate", "tiny.pdx", "mails.jsonl", "--budgets", "2,500", OWN]
    said = polydom([*given, "--html", "found.html", "--json"], tmp_path)
    found = json.loads(said)
    with visiting(context, f"file://{tmp_path}/found.html") as page:
        expect(page.locator("canvas")).to_have_count(4)
        within, each = page.locator(".table table").all()
        own = [f"{one['right_inside']:.3f}" for one in found["budgets"]]
        assert within.locator("tbody tr").first.locator("td").all_inner_texts() == own
        names = each.locator("tbody th").all_inner_texts()
        beside = [one["name"] for one in found["beside"]]
        assert names == ["polydom, 2 ms", "polydom, 500 ms", *beside]
        matrix = page.locator(".matrix tbody tr").all_inner_texts()
        assert len(matrix) == len(found["confusion"]["labels"])
        assert find_faults(page) == []


def test_evaluation_shows_scores_of_early_answers(
    context: BrowserContext, tmp_path: Path
) -> None:
    make_index().save(tmp_path / "people.pdx")
    drawn = draw_rows(60, 9)
    rows = [
        {"record": record_of(row), "label": LABELS_OF_RECORDS[2][code]}
        for row, code in zip(drawn, label_rows(drawn, 2), strict=True)
    ]
    (tmp_path / "people.jsonl").write_text("\n".join(map(json.dumps, rows)))
    given = ["evaluate", "people.pdx", "people.jsonl", "--budgets", "1,900"]
    early = json.loads(polydom([*given, "--html", "found.html", "--json"], tmp_path))[
        "early"
    ]
    measures = ("auc", "log_loss", "brier", "calibration_error")
    expected = [
        [f"{early[side][name]:.3f}" for name in measures] for side in ("early", "whole")
    ]
    with visiting(context, f"file://{tmp_path}/found.html") as page:
        table = page.locator(".early table")
        expect(table.locator("caption")).to_contain_text(f"{early['items']} early")
        shown = table.locator("tbody tr").all()
        assert [row.locator("td").all_inner_texts() for row in shown] == expected
        assert find_faults(page) == []
