"""JSON Lines are objects, or it is said why not."""

from pathlib import Path

import pytest

from polydom.features.errors import BadInput, BadItem
from polydom.features.readers.json_lines import count_json_lines, read_json_lines


def test_json_lines_are_objects_or_say_why_not(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes('\ufeff{"a":1}\n\n[]\n{\n{"b":"Öl"}'.encode() + b'\n{"c":"\xd6l"}')
    lines = list(read_json_lines(path))
    assert [line.number for line in lines] == [1, 3, 4, 5, 6]
    assert count_json_lines(path) == 5
    first, array, broken, second, undecoded = (line.row for line in lines)
    assert (first, second) == ({"a": 1}, {"b": "Öl"})
    assert lines[3].document == '{"b":"Öl"}\n'.encode()
    for row in (array, broken):
        assert isinstance(row, BadItem)
        assert "each line is to be one JSON object" in str(row)
    assert isinstance(undecoded, BadItem)
    assert "not UTF-8: " in str(undecoded)
    assert "position 6" in str(undecoded)
    assert isinstance(undecoded.__cause__, UnicodeError)


def test_json_lines_may_be_in_any_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for encoding in ("utf-8", "latin-1", "utf-16"):
        path.write_text('{"a":"Öl"}\n{"a":"Äpfel"}\n', encoding=encoding)
        rows = [line.row for line in read_json_lines(path, encoding)]
        assert rows == [{"a": "Öl"}, {"a": "Äpfel"}]
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(BadInput, match="not utf-16: "):
        count_json_lines(path, "utf-16")
    with pytest.raises(BadInput, match="encoding is 'klingon', which is unknown"):
        count_json_lines(path, "klingon")
    with pytest.raises(BadInput, match=r"none\.jsonl: No such file"):
        count_json_lines(tmp_path / "none.jsonl")
