"""Models of the user's own beside an index."""

from pathlib import Path

import pytest

from polydom.features.errors import BadInput, BadModel
from polydom.server.evaluation.labelled_items import LabelledItem
from polydom.server.evaluation.predictors import OwnModel

ITEM = LabelledItem("0", {"age": 1}, "1", 1.0, {"age": 1, "id": 7})

MODELS = """
import numpy as np
from beside_mine import ID

class Model:
    def __init__(self, said): self.said = said
    def predict(self, items): return self.said(items)

def seen(): return Model(lambda items: [f"{items[0][ID]} of {len(items)}"])
def number(): return Model(lambda items: np.array([1.0]))
def two(): return Model(lambda items: ["a", "b"])
def none(): return Model(lambda items: None)
def fails(): return Model(lambda items: items[0]["income"])
def leaves(): return Model(lambda items: exit())
def broken(): return 1 / 0
def nothing(): return None
CONSTANT = 5
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(MODELS)
    (tmp_path / "beside_mine.py").write_text("ID = 'id'\n")
    return path


def test_a_model_predicts_a_list_of_one_whole_item(file: Path) -> None:
    model = OwnModel(f"{file}:seen")
    assert model.answer(ITEM).label == "7 of 1"
    assert model.name == f"{file}:seen"
    assert OwnModel(f"{file}:number").answer(ITEM).label == "1"


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("two", "2 answers came for a list of one item"),
        ("none", "TypeError"),
        ("fails", "KeyError: 'income'"),
        ("leaves", "SystemExit"),
    ],
)
def test_what_a_model_cannot_answer_is_no_answer(
    file: Path, function: str, message: str
) -> None:
    with pytest.raises(BadModel, match=message):
        OwnModel(f"{file}:{function}").answer(ITEM)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("mine.py", "FILE.py:FUNCTION is needed, such as baseline.py:make"),
        ("mine.py:", "FILE.py:FUNCTION is needed"),
        ("no.py:make", "there is no such file; a Python file is needed"),
        (".:make", "this is a folder"),
        ("mine.py:sean", "has no function 'sean'; did you mean 'seen'?"),
        ("mine.py:CONSTANT", "has no function 'CONSTANT'"),
        ("mine.py:broken", "line 15: ZeroDivisionError: division by zero"),
        ("mine.py:nothing", "returned a NoneType; something with a method `predict`"),
        ("bad.py:make", "line 2: SyntaxError"),
    ],
)
def test_a_model_that_cannot_be_made_is_refused(
    file: Path, monkeypatch: pytest.MonkeyPatch, target: str, message: str
) -> None:
    monkeypatch.chdir(file.parent)
    Path("bad.py").write_text("\ndef make(: pass\n")
    with pytest.raises(BadInput) as error:
        OwnModel(target)
    assert message in str(error.value)
