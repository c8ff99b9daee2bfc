"""A portfolio of a few quick learners, in place of the forty that `auto` compares."""

from collections.abc import Mapping

import pytest

from polydom.models.selection import portfolio
from polydom.models.selection.portfolio import Setting

CLASSES = ("prior", "naive bayes", "logistic", "tree", "hist boosting")
NUMBERS = ("mean", "ridge", "tree", "hist boosting")


def use(monkeypatch: pytest.MonkeyPatch, *named: str) -> None:
    """Have `auto` race these or the named ones alone, until the test ends."""
    none: Mapping[str, Setting] = {}
    classes = {name: portfolio.SERVABLE[name] for name in named or CLASSES}
    numbers = {name: portfolio.NUMBERS[name] for name in NUMBERS}
    few = {"classes": (classes, none), "regression": (numbers, none)}
    monkeypatch.setattr(portfolio, "_PORTFOLIOS", few)
