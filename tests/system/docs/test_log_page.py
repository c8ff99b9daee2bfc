"""The page about logs is carried out, and names every field that it prints."""

from pathlib import Path

from polydom.server.answer_log.line import Head
from polydom.server.evaluation.results import AnsweredEvaluation, AnsweredGroup
from tests.support.documents import Reader
from tests.support.indexes.records import save_index
from tests.support.pages import read

PAGE = "how-to/log-requests.md"


def test_the_page_is_carried_out(tmp_path: Path) -> None:
    save_index(tmp_path).rename(tmp_path / "my.pdx")
    with Reader(tmp_path) as reader:
        reader.follow(read(PAGE))
    assert reader.shown == 2
    assert len(list((tmp_path / "recorded").glob("answers-0-*.jsonl"))) == 1


def test_every_field_is_named() -> None:
    page = read(PAGE)
    for struct in (Head, AnsweredEvaluation, AnsweredGroup):
        for field in struct.__struct_fields__:
            assert f"`{field}`" in page, field
