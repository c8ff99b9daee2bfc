"""Examples of CONTRIBUTING.md: a feature, a learner, a kernel, as they stand there."""

import ast
import math
import re
import textwrap
from importlib import import_module
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import int64

from polydom.features.extract import Extractor
from polydom.features.items import text_item
from polydom.features.ready_made import text as text_features
from polydom.models.linear.kernels import sums
from polydom.models.selection.learners import CLASSIFIERS
from polydom.models.selection.portfolio import SERVABLE
from tests.support.models.agreement import assert_agrees, bundled
from tests.support.places import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
FOUND = re.findall(r"^( *)```python\n(.*?)^\1```$", PAGE, re.MULTILINE | re.DOTALL)
FEATURE, FEATURE_TEST, LEARNER, SETTING, KERNEL, KERNEL_TEST = (
    textwrap.dedent(block) for _, block in FOUND
)
TESTS = {"given": given, "st": st, "np": np, "math": math}


def test_feature_and_its_test_are_right() -> None:
    names: dict[str, Any] = {**vars(text_features)}
    exec(FEATURE, names)
    extractor = Extractor.probe((names["line_count"],), text_item("a\nb"))

    def compute(_: str, text: str) -> Any:
        row = np.empty(extractor.width, np.float32)
        extractor.begin(text_item(text), row).compute(0)
        return row

    beside: dict[str, Any] = {**TESTS, "compute": compute, "ANY_TEXT": st.text()}
    exec(FEATURE_TEST, beside)
    beside["test_line_count_is_that_of_line_feeds"]()


def test_learner_and_its_setting_are_right() -> None:
    (name, recipe), (called, setting) = (
        next(iter(ast.literal_eval(f"{{{line}}}").items()))
        for line in (LEARNER, SETTING)
    )
    assert name not in CLASSIFIERS
    assert called not in SERVABLE
    assert setting == {"name": name}
    path, before, parameters = recipe
    assert {*before} <= {"fill", "standardise"}
    module, _, kind = path.partition(":")
    learner = getattr(import_module(module), kind)(**parameters)
    X, y = bundled("iris")
    assert_agrees(learner.fit(X, y), X)


def test_kernel_and_its_test_are_right() -> None:
    names: dict[str, Any] = {**vars(sums), "int64": int64}
    exec(KERNEL, names)
    beside: dict[str, Any] = {**TESTS, "first_largest": names["first_largest"]}
    exec(KERNEL_TEST, beside)
    beside["test_first_largest_is_that_of_python"]()
