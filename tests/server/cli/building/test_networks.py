"""`polydom features --network`, and `init --network`: networks on the command line."""

import json
from pathlib import Path

import onnx
import pytest

from polydom.indexer.building.project import Project
from tests.support.networks.small_networks import (
    of_columns,
    of_images,
    of_texts,
    tokenizer,
)
from tests.support.processes.commands import run


def test_places_of_an_image_network_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(of_images(3, size=(32, 32)), tmp_path / "net.onnx")
    command = ("features", "--network", tmp_path / "net.onnx")
    code, printed, _ = run(capsys, *command, "--json")
    assert code == 0
    told = json.loads(printed)
    assert told["kind"] == "image"
    assert told["inputs"] == [
        {"name": "pixels", "dtype": "float32", "shape": [None, 3, 32, 32]}
    ]
    assert told["outputs"] == [{"name": "scores", "dtype": "float32", "shape": [1, 5]}]
    assert told["tried_with"] == [[1, 3, 32, 32]]
    places = {one["tensor"]: one for one in told["places"]}
    assert places["block_2"]["shape"] == [1, 4, 16, 16]
    assert places["block_2"]["columns"] == 4
    assert places["block_2"]["operator"] == "Add"
    assert [*places][-1] == "scores"
    shares = [one["work"] for one in told["places"]]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    auto = [name for name, one in places.items() if one["auto"]]
    assert auto[-1] == "scores"
    assert {"block_1", "block_2"} & {*auto}
    code, printed, _ = run(capsys, *command)
    assert code == 0
    first, *lines = printed.splitlines()
    assert first == f"{tmp_path / 'net.onnx'} reads images:"
    assert lines[0] == "  input pixels: float32 (n, 3, 32, 32)"
    listed = [line.split() for line in lines[4:]]
    assert [line[-1] for line in listed] == [*places]
    assert [line[-1] for line in listed if "*" in line] == auto
    assert lines[-1].split()[0] == "100.0%"


def test_a_network_of_texts_is_tried_with_its_tokenizer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(of_texts(2, 8), tmp_path / "net.onnx")
    (tmp_path / "tokenizer.json").write_bytes(tokenizer())
    command = ("features", "--network", tmp_path / "net.onnx")
    code, _, said = run(capsys, *command)
    assert code == 1
    assert "no tokenizer came; --tokenizer tokenizer.json names" in said
    options = ("--tokenizer", tmp_path / "tokenizer.json", "--json")
    code, printed, _ = run(capsys, *command, *options)
    assert code == 0
    told = json.loads(printed)
    assert len(told["tried_with"]) == len(told["inputs"]) == 3
    (layer,) = (one for one in told["places"] if one["tensor"] == "layer_1")
    assert layer["columns"] == 8


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--network", "none.onnx"], "network 'none': none.onnx: No such file"),
        (["--network", "text.onnx"], "text.onnx is no ONNX file"),
        (["--network", "net.onnx", "--kind", "text"], "no tokenizer came"),
        (["--network", "net.onnx", "--kind", "record"], "a column is (1,) or (1, 1)"),
        (["--network", "net.onnx", "--features", "a.py"], "one of the two is needed"),
        (["--tokenizer", "tokenizer.json"], "--tokenizer is for a network, which"),
    ],
)
def test_what_cannot_be_listed_is_said(
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(of_images(1), "net.onnx")
    Path("text.onnx").write_text("no network")
    code, printed, said = run(capsys, "features", *options)
    assert (code, printed) == (1, "")
    assert message in said


def test_init_writes_a_project_with_a_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(of_images(1, size=(32, 32)), "net.onnx")
    Path("new").mkdir()
    assert run(capsys, "init", "new/a.toml", "--network", "net.onnx")[0] == 0
    (terms,) = Project.load("new/a.toml").features.networks
    assert (terms.name, terms.file, terms.kind) == ("net", "../net.onnx", "image")
    for options, message in (
        (["--network", "none.onnx"], "none.onnx: No such file"),
        (["--kind", "texts", "--network", "net.onnx"], "no tokenizer came"),
        (["--tokenizer", "net.onnx"], "--tokenizer is for a network, which"),
    ):
        code, _, said = run(capsys, "init", "new/b.toml", *options)
        assert code == 1
        assert message in said
        assert not Path("new/b.toml").exists()


def test_check_says_what_networks_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(of_columns(2, classes=3), "net.onnx")
    rows = "".join(f"{k % 7},{k % 5},{'xy'[k % 2]}\n" for k in range(60))
    Path("rows.csv").write_text("a,b,label\n" + rows)
    network = 'name = "net"\nfile = "net.onnx"\nkind = "record"\ncolumns = ["a", "b"]\n'
    away = 'name = "away"\nkind = "record"\nfile = "https://none.invalid/net.onnx"\n'
    away += f'sha256 = "{"0" * 64}"\n'
    tables = "".join(f"[[features.networks]]\n{one}" for one in (network, away))
    project = f'[data]\ntable = "rows.csv"\n{tables}'
    Path("PROJECT.toml").write_text(project)
    code, printed, _ = run(capsys, "check", "PROJECT.toml")
    assert code == 0
    *_, line, warning = printed.splitlines()
    assert line.startswith("network 'net' reads records of a, b; pieces, with their ")
    assert "(8)" in line
    assert warning.startswith("mind: network 'away' is not checked, since a build")
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "PROJECT.toml",
        "net.onnx",
        "rows.csv",
    ]
    for change, message in (
        ({'["a", "b"]': '["a", "c"]'}, "names the column 'c', which no row has"),
        ({'"net.onnx"': '"none.onnx"'}, "none.onnx: No such file"),
        (
            {'columns = ["a", "b"]\n': "", '"record"': '"image"'},
            "images need one input",
        ),
    ):
        changed = project
        for old, new in change.items():
            changed = changed.replace(old, new)
        Path("PROJECT.toml").write_text(changed)
        code, _, said = run(capsys, "check", "PROJECT.toml")
        assert code == 1
        assert message in said
