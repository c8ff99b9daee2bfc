"""Labelled items come from where a project says they are."""

import io
import os
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from PIL import Image
from pyarrow import parquet

from polydom.features.errors import BadInput, BadProject
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.project import Project


def load(folder: Path, task: str | None = None, **data: Any) -> Dataset:
    content = {"data": data} if task is None else {"data": data, "task": task}
    return load_data(Project.from_mapping(content, folder=folder))


def png(edge: int = 4, grey: int = 9) -> bytes:
    file = io.BytesIO()
    Image.new("L", (edge, edge), grey).save(file, "png")
    return file.getvalue()


def photos(folder: Path) -> Path:
    for label in ("cat", "dog"):
        for number in range(3):
            path = folder / "photos" / label / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(png(4 + number, ord(label[0])))
    return folder


def test_images_are_labelled_by_their_folder(tmp_path: Path) -> None:
    dataset = load(photos(tmp_path), images="photos")
    assert dataset.kind == "image"
    assert dataset.labels == ("cat", "dog")
    assert dataset.codes.tolist() == [0, 0, 0, 1, 1, 1]
    assert dataset.sizes.tolist() == [16, 25, 36, 16, 25, 36]
    assert dataset.names[0] == str(Path("cat", "0.png"))


def test_reading_tells_how_many_there_can_still_be(tmp_path: Path) -> None:
    (photos(tmp_path) / "photos/cat/1.png").write_bytes(b"<html>")
    lines = ['{"text": "x", "label": 0}', "", '{"text": "y", "label": 1}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "a.csv").write_text(CSV)
    found: list[tuple[int, int | None]] = []
    for data, told in (
        ({"images": "photos"}, [(1, 5), (1, 4), (2, 3), (3, 2), (4, 1), (5, 0)]),
        ({"texts": "a.jsonl"}, [(1, 1), (2, 0)]),
        ({"table": "a.csv"}, [(3, 0)]),
    ):
        found.clear()
        project = Project.from_mapping({"data": data}, folder=tmp_path)
        load_data(project, lambda done, left=None: found.append((done, left)))
        assert found == told


def test_names_that_are_no_utf_8_are_written_out(tmp_path: Path) -> None:
    place = tmp_path / os.fsdecode(b"project\xff")
    for name in (b"cat/1\xe9.png", b"d\xc3\xb6g\xe9/2.png", b"cat/3\xe9.png"):
        path = place / "photos" / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"" if b"3" in name else png())
    dataset = load(place, images="photos")
    assert dataset.labels == ("cat", "dög\\xe9")
    assert [*dataset.names] == ["cat/1\\xe9.png", "dög\\xe9/2.png"]
    assert [item.payload for item in dataset.items] == [png()] * 2
    ((skipped, _),) = dataset.skipped
    assert skipped == "cat/3\\xe9.png"
    assert dataset.digest
    text = msgspec.msgpack.encode([dataset.labels, [*dataset.names], dataset.skipped])
    assert b"\\xe9" in text


def test_image_that_is_none_is_skipped_and_named(tmp_path: Path) -> None:
    (photos(tmp_path) / "photos/cat/1.png").write_bytes(b"<html>")
    dataset = load(tmp_path, images="photos")
    ((name, why),) = dataset.skipped
    assert len(dataset.items) == 5
    assert name == str(Path("cat", "1.png"))
    assert "image" in why


def test_image_that_is_none_stops_where_asked(tmp_path: Path) -> None:
    (photos(tmp_path) / "photos/cat/1.png").write_bytes(b"<html>")
    with pytest.raises(BadProject, match=r"1\.png: "):
        load(tmp_path, images="photos", on_bad_item="stop")


def test_image_outside_a_class_folder_has_no_label(tmp_path: Path) -> None:
    (photos(tmp_path) / "photos/loose.png").write_bytes(png())
    with pytest.raises(BadProject, match=r"loose\.png: no label"):
        load(tmp_path, images="photos")


CSV = "age,town,label\n31,Rome,yes\n,Oslo,no\n40,,yes\n"


def test_table_columns_become_numbers_where_all_cells_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    dataset = load(tmp_path, table="a.csv")
    assert dataset.kind == "record"
    assert dataset.items[0].payload == {"age": 31.0, "town": "Rome"}
    assert dataset.items[1].payload == {"age": None, "town": "Oslo"}
    assert dataset.items[2].payload == {"age": 40.0, "town": None}


def test_files_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV, encoding="utf-8-sig")
    payload = load(tmp_path, table="a.csv").items[0].payload
    assert payload == {"age": 31.0, "town": "Rome"}


def test_table_may_be_parquet(tmp_path: Path) -> None:
    table = pa.table({"x": [1.5, None], "label": [1, 2], "who": ["a", "a"]})
    parquet.write_table(table, tmp_path / "a.parquet")
    dataset = load(tmp_path, table="a.parquet", group="who")
    assert dataset.labels == ("1", "2")
    assert dataset.groups.tolist() == [0, 0]
    assert dataset.items[1].payload == {"x": None}


@pytest.mark.parametrize(
    ("content", "data", "message"),
    [
        (CSV, {"label": "lable"}, "no column 'lable'; did you mean 'label'"),
        (CSV, {"label": "zzz"}, "no column 'zzz'; there are age, town, label"),
        (CSV, {"ignore": ["id"]}, "no column 'id'"),
        (CSV + "5,Bonn,\n", {}, "row 5: no label"),
        (
            CSV + "5,Bonn\n",
            {"on_bad_item": "stop"},
            r"a\.csv, row 5: 2 cells under 3 names: '5,Bonn'",
        ),
        ("age,label\n1,a\n2,a\n", {}, "all 2 items have the label 'a'"),
        ("age,label\n", {}, "names of columns, and no rows; labelled items are"),
        ("", {}, "is empty; a first line with the names of its columns is needed"),
        ("\n\n", {}, "holds nothing but empty lines"),
        ('a,label\n1,"x\n2,y\n', {}, r"a\.csv, row 2: a quote .* never ends"),
        ("x,x,label\n1,2,a\n3,4,b\n", {}, "2 columns are called 'x'"),
    ],
)
def test_table_says_what_is_wrong_and_where(
    tmp_path: Path, content: str, data: dict[str, Any], message: str
) -> None:
    (tmp_path / "a.csv").write_text(content)
    with pytest.raises(BadProject, match=message):
        load(tmp_path, table="a.csv", **data)


def test_table_may_be_written_as_spreadsheets_do(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = "alter;straße;label\n31;Öl;ja\n;Äpfel;nein\n"
    (tmp_path / "a.csv").write_text(text, encoding="cp1252")
    dataset = load(tmp_path, table="a.csv")
    assert dataset.items[0].payload == {"alter": 31.0, "straße": "Öl"}
    assert caplog.messages == [
        "a.csv is read in cp1252 and with ';' between cells; if that is wrong, give "
        "`separator` or `encoding`"
    ]
    named = load(tmp_path, table="a.csv", separator=";", encoding="latin-1")
    assert named.items[1].payload == dataset.items[1].payload
    assert len(caplog.messages) == 1
    with pytest.raises(
        BadProject, match=r"a\.csv: this is no CSV in utf-8: .*give its"
    ):
        load(tmp_path, table="a.csv", encoding="utf-8")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"separator": "||"}, r"\[data\] separator is '\|\|'; one character is needed"),
        ({"separator": ""}, "one character is needed"),
        ({"separator": "\n"}, "one character is needed"),
        ({"encoding": "klingon"}, "encoding is 'klingon', which is unknown; 'utf-8'"),
        ({"encoding": "base64"}, "encoding is 'base64', which is unknown"),
    ],
)
def test_a_form_that_nothing_has_is_refused(
    tmp_path: Path, data: dict[str, str], message: str
) -> None:
    with pytest.raises(BadProject, match=message):
        load(tmp_path, table="a.csv", **data)


def test_texts_may_have_another_encoding(tmp_path: Path) -> None:
    lines = '{"text": "Öl", "label": "a"}\n{"text": "Fett", "label": "b"}\n'
    (tmp_path / "a.jsonl").write_text(lines, encoding="latin-1")
    with pytest.raises(BadProject, match=r"not UTF-8.*\[data\] encoding says what it"):
        load(tmp_path, texts="a.jsonl")
    dataset = load(tmp_path, texts="a.jsonl", encoding="latin-1")
    assert dataset.items[0].payload == "Öl"


@pytest.mark.parametrize("source", ["table", "texts"])
@pytest.mark.parametrize(
    ("labels", "number"),
    [
        ([f"{n}.5" for n in range(20)] * 2, False),
        ([f"{n}.5" for n in range(21)] * 2, True),
        ([f"{n}.5" for n in range(21)] * 50, True),
        ([str(n) for n in range(21)] * 4, True),
        ([str(n) for n in range(21)] * 5, False),
        ([str(n) for n in range(21)] * 5 + ["21"] * 4, True),
        (["x", *(f"{n}.5" for n in range(50))], False),
    ],
)
def test_labels_that_are_quantities_are_numbers(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    labels: list[str],
    number: bool,
    source: str,
) -> None:
    rows = "\n".join(f"1,{label}" for label in labels)
    (tmp_path / "a.csv").write_text(f"x,label\n{rows}\n")
    lines = (f'{{"text": "a", "label": "{label}"}}\n' for label in labels)
    (tmp_path / "a.jsonl").write_text("".join(lines))
    named = {"table": "a.csv"} if source == "table" else {"texts": "a.jsonl"}
    dataset = load(tmp_path, **named)
    if number:
        assert dataset.numbers is not None
        assert dataset.numbers.tolist() == [float(label) for label in labels]
        assert dataset.labels == ()
        assert not dataset.codes.any()
        assert "predicted as such (task =" in caplog.text
    else:
        assert dataset.numbers is None
        assert len(dataset.labels) == len(set(labels))
        whole = len(set(labels)) == 21
        assert ("21 whole numbers, taken for classes" in caplog.text) == whole
    caplog.clear()
    assert load(tmp_path, task="classes", **named).numbers is None
    if "x" not in labels:
        assert load(tmp_path, task="regression", **named).numbers is not None
    assert not caplog.text


def test_what_is_no_number_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,label\n1,2.5\n1,low\n")
    (tmp_path / "b.csv").write_text("x,label\n1,2.5\n1,inf\n")
    (tmp_path / "c.csv").write_text("x,label\n1,2.5\n1,2.5\n")
    (tmp_path / "d.csv").write_text("x,label\n1,true\n1,false\n")
    (tmp_path / "a.jsonl").write_text(
        '{"text": "a", "label": "1"}\n{"text": "b", "label": "low"}\n'
    )
    for named, message in [
        ({"table": "a.csv"}, "the column holds words; for task = 'regression' numbers"),
        ({"table": "b.csv"}, r"b.csv, row 3: the label is inf, not finite"),
        ({"table": "c.csv"}, "all 2 items have the label 2.5; there must be two"),
        ({"texts": "a.jsonl"}, "a.jsonl, line 2: the label is 'low'; with task ="),
    ]:
        with pytest.raises(BadProject, match=message):
            load(tmp_path, task="regression", **named)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"images": "empty"},
            r"empty holds no images \(\.jpg, .*named after its class",
        ),
        ({"texts": "empty.jsonl"}, "holds no lines; labelled items are needed"),
        ({"table": "empty.jsonl"}, "is empty; a first line"),
        ({"table": "empty"}, "empty is no folder of Parquet files"),
    ],
)
def test_every_message_about_nothing_is_whole(
    tmp_path: Path, data: dict[str, str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(BadProject, match=message):
        load(tmp_path, **data)


def test_texts_come_from_json_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "hi", "label": "ham"}\n\n{"text": "buy!", "label": "spam"}\n'
    )
    dataset = load(tmp_path, texts="a.jsonl")
    assert [item.payload for item in dataset.items] == ["hi", "buy!"]
    assert dataset.sizes.tolist() == [2, 4]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: .*each line is to be one JSON object"),
        ("[]", "line 2: .*each line is to be one JSON object"),
        (
            '{"label": "x"}',
            "line 2: no text under the key 'text'; there are label, and",
        ),
        ('{"text": "x"}', "line 2: no label"),
        ('{"text": "x", "label": null}', "line 2: no label"),
    ],
)
def test_texts_say_which_line_is_wrong(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "hi", "label": "ham"}\n' + line)
    with pytest.raises(BadProject, match=message):
        load(tmp_path, texts="a.jsonl", on_bad_item="stop")


def test_items_come_from_a_function_beside_the_project(tmp_path: Path) -> None:
    (tmp_path / "own_items.py").write_text(
        "def load():\n    yield 'a', 0, 7\n    yield 'b', 1, 7\n"
    )
    dataset = load(tmp_path, items="own_items:load")
    assert dataset.labels == ("0", "1")
    assert dataset.groups.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:load", "No module named"),
        ("wrong_items:absent", "no attribute 'absent'"),
        ("wrong_items:load", "item 0 is int"),
        ("wrong_items:number", "no function"),
    ],
)
def test_items_function_that_cannot_serve_is_named(
    tmp_path: Path, target: str, message: str
) -> None:
    (tmp_path / "wrong_items.py").write_text("number = 1\ndef load():\n    yield 1\n")
    with pytest.raises(BadProject, match=message):
        load(tmp_path, items=target)


def test_what_an_items_function_raises_is_its_own(tmp_path: Path) -> None:
    (tmp_path / "raising_items.py").write_text(
        "from polydom.features.errors import BadInput\n"
        "def load():\n    yield 'a', 0\n    raise BadInput('misused')\n"
    )
    with pytest.raises(BadInput, match=r"^misused$") as caught:
        load(tmp_path, items="raising_items:load")
    assert type(caught.value) is BadInput


def test_texts_may_be_files_in_folders_of_their_classes(tmp_path: Path) -> None:
    for label, text in (("ham", "hi"), ("spam", "kaufe Öl")):
        (tmp_path / "mails" / label).mkdir(parents=True)
        (tmp_path / "mails" / label / "1.txt").write_text(text, "utf-8")
    dataset = load(tmp_path, texts="mails")
    assert [item.payload for item in dataset.items] == ["hi", "kaufe Öl"]
    assert dataset.labels == ("ham", "spam")
    (tmp_path / "mails" / "spam" / "1.txt").write_text("kaufe Öl", "latin-1")
    with pytest.raises(BadProject, match=r"1\.txt: .*\[data\] encoding says what it"):
        load(tmp_path, texts="mails")
    (tmp_path / "mails" / "loose.txt").write_text("x")
    with pytest.raises(
        BadProject, match=r"loose\.txt: no label; put the texts of each"
    ):
        load(tmp_path, texts="mails", encoding="latin-1")


LISTED = "file,label,who\ncat/0.png,a,1\ncat/1.png,b,2\n dog/0.png ,a,\n"


def test_labels_may_be_in_a_file_beside_the_images(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    photos(tmp_path)
    (tmp_path / "labels.csv").write_text(LISTED)
    dataset = load(tmp_path, images="photos", labels="labels.csv", group="who")
    assert [*dataset.names] == ["cat/0.png", "cat/1.png", "dog/0.png"]
    assert dataset.labels == ("a", "b")
    assert dataset.codes.tolist() == [0, 1, 0]
    assert dataset.groups.tolist() == [0, 1, 2]
    assert caplog.messages == [
        "3 of 6 images in photos are not in labels.csv, and left out"
    ]
    (tmp_path / "new.csv").write_text("file,label,who\ndog/1.png,b,7\n")
    terms = {"images": "photos", "labels": "labels.csv", "test": "new.csv"}
    dataset = load(tmp_path, **terms)
    assert dataset.tested is not None
    assert dataset.tested.tolist() == [False, False, False, True]


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("file,class\n", {}, r"labels\.csv: no column 'label'; there are file, class"),
        (
            "label\na\n",
            {},
            "no column but label; one with the names of the image files",
        ),
        ("file,label\n", {}, r"labels\.csv holds names of columns, and no rows"),
        (
            LISTED + "cat/9.png,a,\n",
            {},
            "row 4: there is no file 'cat/9.png' in photos",
        ),
        (LISTED + "cat/0.png,b,\n", {}, "names cat/0.png 2 times; once"),
        (LISTED + "cat/2.png,,\n", {}, "cat/2.png: no label"),
        (LISTED, {"group": "patient"}, "no column 'patient'"),
    ],
)
def test_file_of_labels_says_what_is_wrong(
    tmp_path: Path, text: str, data: dict[str, Any], message: str
) -> None:
    (photos(tmp_path) / "labels.csv").write_text(text)
    with pytest.raises(BadProject, match=message):
        load(tmp_path, images="photos", labels="labels.csv", **data)


OTHER = "label,town,age,more\nno,Bonn,7,x\nyes,Rome,8,x\n"


def test_table_to_test_on_is_read_after_the_first(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv").write_text(OTHER)
    dataset = load(tmp_path, table="a.csv", test="b.csv")
    assert dataset.tested is not None
    assert dataset.tested.tolist() == [False] * 3 + [True] * 2
    assert [*dataset.names] == [
        *(f"a.csv, row {n}" for n in (2, 3, 4)),
        *(f"b.csv, row {n}" for n in (2, 3)),
    ]
    assert [item.payload for item in dataset.items] == [
        {"age": 31.0, "town": "Rome"},
        {"age": None, "town": "Oslo"},
        {"age": 40.0, "town": None},
        {"age": 7.0, "town": "Bonn"},
        {"age": 8.0, "town": "Rome"},
    ]
    kept = dataset.only(np.array([3, 0]))
    assert [*kept.names] == ["b.csv, row 2", "a.csv, row 2"]
    assert kept.tested is not None
    assert kept.tested.tolist() == [True, False]


@pytest.mark.parametrize(
    ("other", "data", "message"),
    [
        (
            "age,label\n1,yes\n",
            {},
            r"b\.csv: no column 'town', which a\.csv has; there are",
        ),
        (
            OTHER.replace("7", "old"),
            {},
            r"'age' holds numbers in a\.csv and words in b",
        ),
        ("age,town,label\n", {}, r"b\.csv holds names of columns, and no rows"),
        (OTHER, {"group": "town"}, r"b\.csv, row 3 is to be tested on and of the same"),
        (
            OTHER,
            {"table": "none.csv"},
            r"none\.csv: No such file .*table = 'none\.csv' names",
        ),
    ],
)
def test_table_to_test_on_says_what_is_wrong(
    tmp_path: Path, other: str, data: dict[str, Any], message: str
) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv").write_text(other)
    with pytest.raises(BadProject, match=message):
        load(tmp_path, **{"table": "a.csv", "test": "b.csv", **data})


TIMED = "x,when,label\n1,2024-05-03,a\n2,2024-05-01,b\n3,2024-05-02T10:00,a\n"


def test_items_may_have_times(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(TIMED)
    dataset = load(tmp_path, table="a.csv", split="time", time="when")
    assert dataset.times is not None
    assert np.argsort(dataset.times).tolist() == [1, 2, 0]
    assert dataset.items[0].payload == {"x": 1.0}
    lines = [
        f'{{"text": "x", "label": "{k % 2}", "t": "2024-05-0{9 - k}"}}'
        for k in range(4)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    dataset = load(tmp_path, texts="a.jsonl", split="time", time="t")
    assert dataset.times is not None
    assert np.argsort(dataset.times).tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"table": "a.csv", "time": "day"}, r"a\.csv: no column 'day'"),
        ({"table": "b.csv", "time": "t"}, "'t' holds words such as 'soon'; numbers or"),
        ({"table": "c.csv", "time": "t"}, r"c\.csv, row 3: no time in column 't'"),
        ({"texts": "a.jsonl", "time": "t"}, "line 1: 't' is 'soon'; a time is needed"),
        ({"texts": "a.jsonl", "time": "u"}, "line 1: 'u' is None; a time is needed"),
    ],
)
def test_item_without_a_time_is_named(
    tmp_path: Path, data: dict[str, Any], message: str
) -> None:
    (tmp_path / "a.csv").write_text(TIMED)
    (tmp_path / "b.csv").write_text("t,label\nsoon,a\n2,b\n")
    (tmp_path / "c.csv").write_text("t,label\n1,a\n,b\n")
    (tmp_path / "a.jsonl").write_text('{"text": "x", "label": "a", "t": "soon"}')
    with pytest.raises(BadProject, match=message):
        load(tmp_path, split="time", **data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"split": "time"}, r"split = 'time' needs time, the column with the time"),
        ({"time": "t"}, r"\[data\] time needs split = 'time'"),
        ({"split": "time", "time": "t", "test": "b.csv"}, "both say what to test on"),
        ({"labels": "b.csv"}, "labels is for a folder of images or texts"),
        (
            {"table": None, "items": "m:f", "split": "time", "time": "t"},
            "yields no times",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    tmp_path: Path, data: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadProject, match=message):
        load(tmp_path, **{"table": "a.csv", **data})


def test_folds_leave_nothing_else_to_test_on() -> None:
    data = {"table": "a.csv", "test": "b.csv"}
    with pytest.raises(
        BadProject, match=r"search.folds tests on all items.* test says"
    ):
        Project.from_mapping({"data": data, "search": {"folds": 3}})


def test_items_may_have_weights(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,w,label\n1,2,a\n2,6,b\n")
    dataset = load(tmp_path, table="a.csv", weight="w")
    assert dataset.weights is not None
    assert dataset.weights.tolist() == [0.5, 1.5]
    assert dataset.items[0].payload == {"x": 1.0}
    kept = dataset.only(np.array([1])).weights
    assert kept is not None
    assert kept.tolist() == [1.5]
    assert dataset.digest != load(tmp_path, table="a.csv", ignore=["w"]).digest
    lines = ['{"text": "x", "label": 0, "w": 1}', '{"text": "y", "label": 1, "w": "3"}']
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    dataset = load(tmp_path, texts="a.jsonl", weight="w")
    assert dataset.weights is not None
    assert dataset.weights.tolist() == [0.5, 1.5]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"table": "a.csv", "weight": "v"}, r"a\.csv: no column 'v'"),
        ({"table": "a.csv", "weight": "w"}, r"row 3: the weight in 'w' is 0; a number"),
        (
            {"table": "a.csv", "weight": "x"},
            "row 3: the weight in 'x' is nan; a number",
        ),
        (
            {"table": "a.csv", "weight": "y"},
            "column 'y' holds words; numbers are needed",
        ),
        ({"texts": "a.jsonl", "weight": "w"}, "line 1: the weight in 'w' is nan"),
        ({"items": "mine:load", "weight": "w"}, "items yields no weights"),
    ],
)
def test_weight_that_is_none_is_named(
    tmp_path: Path, data: dict[str, Any], message: str
) -> None:
    (tmp_path / "a.csv").write_text("x,y,w,label\n1,a,2,a\n,b,0,b\n")
    (tmp_path / "a.jsonl").write_text('{"text": "x", "label": "a", "w": true}')
    with pytest.raises(BadProject, match=message):
        load(tmp_path, **data)


def test_lines_that_hold_no_text_are_skipped_and_counted(tmp_path: Path) -> None:
    lines = [
        '{"text":"good","label":"a"}',
        '{"text":null,"label":"a"}',
        '{"text":"\\ud800","label":"a"}',
        '{"text":',
        '{"text":5,"label":"b"}',
        '{"label":"b"}',
        '{"text":"bad","label":"b"}',
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    dataset = load(tmp_path, texts="a.jsonl")
    assert [item.payload for item in dataset.items] == ["good", "bad"]
    assert [name for name, _ in dataset.skipped] == [
        f"a.jsonl, line {number}" for number in (2, 3, 4, 5, 6)
    ]
    reasons = [why for _, why in dataset.skipped]
    assert reasons[0] == "the key 'text' holds nothing; a text is needed"
    assert reasons[3] == "the key 'text' holds a int; a text is needed"
    assert "there are label, and [data] text names" in reasons[4]
    (tmp_path / "a.jsonl").write_text("\n".join(lines[1:4]))
    with pytest.raises(
        BadProject, match=r"all 3 items are unusable; the first, a\.jsonl"
    ):
        load(tmp_path, texts="a.jsonl")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '{"text":"x","label":["a","c"]}',
            "line 2: the label is a list of 2; one label",
        ),
        ('{"text":"x","label":{"a":1}}', "line 2: the label is a dict of 1; one label"),
        ('{"text":"x","label":"a","who":[1]}', "line 2: the group is a list of 1; one"),
    ],
)
def test_several_labels_of_an_item_are_refused(
    tmp_path: Path, line: str, message: str
) -> None:
    (tmp_path / "a.jsonl").write_text(f'{{"text":"y","label":"b"}}\n{line}\n')
    with pytest.raises(BadProject, match=message):
        load(tmp_path, texts="a.jsonl", group="who")
