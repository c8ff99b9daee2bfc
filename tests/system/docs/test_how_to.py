"""Pages of how-to: code that runs, options and fields that there are."""

import re
from pathlib import Path

import pytest

from polydom.server.evaluation import facts
from polydom.server.offline_scoring.parts import LEAST, LEAST_PARTS, MOST
from polydom.server.offline_scoring.scored import OF_PLAN, Scored
from polydom.server.offline_scoring.spending import AIM
from tests.support.commands import run
from tests.support.pages import blocks, read, run_python

EVALUATING = read("how-to/evaluate.md")
BATCHES = read("how-to/batch.md")


@pytest.mark.jit
def test_code_about_ensembles_runs_from_top_to_bottom(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    code = "".join(blocks("how-to/early-exits.md", "python"))
    printed = run_python(code, tmp_path)
    assert re.search(r"^\d+ of 200 trees$", printed, re.MULTILINE)
    assert "of decisions change on fresh rows, with 95% confidence" in printed


def test_evaluating_names_options_that_there_are_and_every_field(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, described, _ = run(capsys, "evaluate", "--help")
    for option in set(re.findall(r"--[a-z][a-z-]+", EVALUATING)):
        assert option in described, option
    structs = (facts.Evaluation, facts.AtBudget, facts.Beside, facts.Confusion)
    for struct in (*structs, facts.Bought, facts.Pair):
        for field in struct.__struct_fields__:
            assert f"`{field}`" in EVALUATING, field


def test_batches_names_options_that_there_are_every_column_and_the_limits(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, described, _ = run(capsys, "score", "--help")
    of_dask = {"--nthreads"}
    for option in set(re.findall(r"--[a-z][a-z-]+", BATCHES)) - of_dask:
        assert option in described, option
    for column in (*Scored.__struct_fields__, *OF_PLAN):
        assert f"`{column}`" in BATCHES, column
    for limit in (f"{LEAST_PARTS} parts", f"{LEAST} items", f"{MOST:,}", f"{AIM:.1%}"):
        assert limit.replace("%", " %") in BATCHES, limit
