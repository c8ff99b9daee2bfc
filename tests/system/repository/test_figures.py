"""The figures of "How it works", and the numbers that its text takes from them."""

import re
from pathlib import Path

import numpy as np

from tests.support.places import DOCS
from tools import draw_figures
from tools.draw_figures import ALL, BUDGETS_MS, SIZE, course, indexed, letters_of

PAGE = (DOCS / "explanation/how-it-works.md").read_text("utf-8")
TEXT = " ".join(PAGE.split())


def sizes_of(letters: str) -> np.ndarray:
    """The sizes, each thousand pixels, at which a set is worth buying."""
    masks, index = indexed()
    row = masks.index(draw_figures.mask_of(letters))
    sizes = np.arange(*draw_figures.SIZES, 1000)
    return sizes[[row in index.skyline(float(size)) for size in sizes]]


def test_every_picture_is_drawn_and_shown(tmp_path: Path) -> None:
    draw_figures.main(tmp_path)
    shown = re.findall(r"\.\./pictures/([\w-]+\.svg)", PAGE)
    assert sorted(shown) == sorted(path.name for path in tmp_path.iterdir())
    for name in shown:
        assert (DOCS / "pictures" / name).exists()


def test_the_search_trains_and_skips_what_the_text_says() -> None:
    found = draw_figures.searched()
    assert f"it trains {len(found.expanded)} sets of {ALL + 1}" in TEXT
    pair = draw_figures.sandwich_of(found, draw_figures.mask_of("TE"))
    assert [letters_of(mask) for mask in pair] == ["E", "THE"]
    assert [found.expanded[mask] for mask in pair] == [0.68, 0.71]


def test_sets_are_worth_buying_at_the_sizes_that_the_text_says() -> None:
    assert f"up to {sizes_of('E')[-1]:,.0f} pixels E is worth buying" in TEXT
    assert f"from {sizes_of('T')[0] - 1000:,.0f} pixels on it is the cheapest" in TEXT


def test_budgets_buy_what_the_text_says() -> None:
    masks, index = indexed()
    for budget_ms in BUDGETS_MS:
        bought = masks[index.best(SIZE, budget_ms / 1e3).row]
        assert f"{budget_ms:g} ms buy {letters_of(bought)}" in TEXT
    assert letters_of(course(BUDGETS_MS[1], {})[1]) == "THEG"
    assert letters_of(course(BUDGETS_MS[1], {3: 2.5})[1]) == "THG"


def test_exits_are_as_early_and_as_true_as_the_text_says() -> None:
    exits = draw_figures.early_exits()
    assert f"take {exits.stopped.mean():.0f} trees in the mean" in TEXT
    assert f"{exits.changed:.1%}".replace("%", " %") + " of their answers" in TEXT
