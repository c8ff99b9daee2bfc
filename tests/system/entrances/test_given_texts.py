"""Records with a column of free text beside others: either may be missing."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.indexer import Index, build
from polydom.server.runtime.translator import AtOnce
from polydom.server.runtime.warm_up import open_translator
from polydom.server.schema.wire import Answer, Terms

pytestmark = pytest.mark.jit

WORDS = {
    "work": ["meeting", "report", "budget", "project", "deadline", "review"],
    "home": ["dinner", "weekend", "birthday", "garden", "family", "party"],
}
BETWEEN = ["the", "a", "to", "and", "we", "of"]
PROJECT = """\
workers = 1
learner = "logistic"
costs = { items = 12, repeats = 2 }
[data]
table = "mails.csv"
"""
Rows = list[dict[str, Any]]


def mails(count: int, seed: int) -> Rows:
    """The words tell most, the number of files a little."""
    draw = np.random.default_rng(seed)
    rows: Rows = []
    for k in range(count):
        label = ("work", "home")[k % 2]
        told = label if draw.random() < 0.9 else ("home", "work")[k % 2]
        length = int(draw.integers(8, 20))
        words = [*draw.choice(WORDS[told], 3), *draw.choice(BETWEEN, length)]
        files = int(draw.poisson(2.2 if label == "work" else 0.9))
        note = " ".join(draw.permutation(words).tolist())
        rows.append({"note": note, "files": files, "label": label})
    return rows


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mails")
    with (folder / "mails.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["note", "files", "label"])
        writer.writeheader()
        writer.writerows(mails(400, 0))
    (folder / "PROJECT.toml").write_text(PROJECT)
    build(folder / "PROJECT.toml", output=folder / "mails.pdx")
    return folder / "mails.pdx"


@pytest.mark.parametrize("given", [("note",), ("files",), ("note", "files")])
def test_what_came_of_a_mail_answers(given: tuple[str, ...], path: Path) -> None:
    package = Index.load(path).package
    assert package is not None
    on_note = {one.name for one in package.features if one.reads == ["note"]}
    assert len(on_note) > 1
    at_once, rows, reached = AtOnce(open_translator(path, [])), mails(200, 1), 0.0
    for budget_ms in (0.0, 0.2, 1000.0):
        terms = Terms(budget_ms=budget_ms)
        answers = [at_once.answer(terms, {n: row[n] for n in given}) for row in rows]
        used = {name for answer in answers for name in answer.features}
        assert "note" in given or not used & on_note
        assert "files" in given or "files" not in used
        assert not any(answer.missing for answer in answers)
        claimed = float(np.mean([answer.expected_quality for answer in answers]))
        assert claimed >= reached
        reached = claimed
        # How much 0.2 ms buy is the machine's: perhaps a set at chance level, whose
        # quality on some 130 held-out items is off by luck (deviation of both: .06).
        off = 0.2 if budget_ms == 0.2 else 0.1
        assert accuracy(answers, rows) == pytest.approx(claimed, abs=off)
    if given == ("files",):  # all features of the note come with it
        best_next = answers[0].best_next
        assert best_next
        assert best_next.columns == ("note",)
        whole = at_once.answer(
            Terms(budget_ms=1000.0), {n: rows[0][n] for n in ("note", "files")}
        )
        assert whole.expected_quality == best_next.expected_quality
        assert {answer.reason for answer in answers} == {"missing"}


def accuracy(answers: list[Answer], rows: Rows) -> float:
    pairs = zip(answers, rows, strict=True)
    return float(np.mean([answer.label == row["label"] for answer, row in pairs]))
