"""`polydom init`, `build` and others; their answers apart from what libraries print."""

import copy
import io
import json
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from polydom.features.loading import ready_made_features
from polydom.features.ready_made.learned_text import RECIPES
from polydom.models.selection.learners import make_learner
from polydom.server.__main__ import main
from polydom.server.cli.building.build import show_times
from polydom.server.cli.process import prints_to_stderr
from tests.support.builds import few_learners, projects
from tests.support.indexes import served, told
from tests.support.processes.forked_process import run_forked

STAGES = {"reading items", "computing features", "training sets", "other"}
COMMANDS = ("init", "check", "build", "measure", "inspect", "features", "select")


@pytest.mark.parametrize("command", COMMANDS)
def test_command_help_gives_an_example(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    assert f"Example: polydom {command} " in capsys.readouterr().out


@pytest.mark.parametrize("command", COMMANDS)
def test_command_of_wrong_usage_exits_with_2(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--no-such-option"]) == 2
    assert "--no-such-option" in capsys.readouterr().err


def test_init_writes_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "PROJECT.toml"
    assert main(["init", str(path)]) == 0
    assert f"then: polydom build {path} -o my.pdx" in capsys.readouterr().out
    path.write_text("mine")
    assert main(["init", str(path)]) == 1
    assert "not overwritten" in capsys.readouterr().err
    assert path.read_text() == "mine"


def test_check_says_what_was_understood_and_trains_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = "".join(f"{k % 7 if k % 9 else 'NA'},{'ab'[k % 2]}\n" for k in range(60))
    (tmp_path / "rows.csv").write_text("x,label\n" + rows)
    path = tmp_path / "PROJECT.toml"
    path.write_text('[data]\ntable = "rows.csv"\n')
    assert main(["check", str(path)]) == 0
    first, _, column, *_ = capsys.readouterr().out.splitlines()
    assert first == "60 records in 2 classes: a 30, b 30"
    assert column.split() == ["x", "number", "11.7%", "(NA)", "7", "0"]
    assert main(["check", str(path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["classes"] == {"a": 30, "b": 30}
    assert facts["columns"][0]["empty_words"] == ["NA"]
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "PROJECT.toml",
        "rows.csv",
    ]
    path.write_text('[data]\ntable = "none.csv"\n')
    assert main(["check", str(path)]) == 1
    assert "none.csv: No such file" in capsys.readouterr().err


def test_build_writes_an_index_and_tells_its_facts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = projects.texts(tmp_path)
    arguments = ["build", str(folder / "PROJECT.toml"), "-o", str(folder / "my.pdx")]
    assert main([*arguments, "--json"]) == 0
    built = json.loads(capsys.readouterr().out)
    assert built.pop("stages_s").keys() >= STAGES
    assert built["features"] == ["text_length", "hashed_words"]
    assert built["build"]["search"]["sets"] == 4
    assert main(["inspect", str(folder / "my.pdx"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == built
    assert main(["inspect", str(folder / "my.pdx")]) == 0
    shown = capsys.readouterr().out
    assert "of the 4 ways to combine the features" in shown
    assert "what a budget buys" in shown
    words = ("candidates", "skyline", "alpha", "tolerance", "violations", "curve")
    assert not [word for word in words if word in shown]
    assert max(map(len, shown.splitlines()[:-1])) <= 80
    assert main(["inspect", str(folder / "my.pdx"), "--verbose"]) == 0
    detailed = capsys.readouterr().out
    assert "4 possible" in detailed
    assert "what a budget buys" in detailed
    assert [word for word in words if word in detailed] == [*words]


def test_a_build_shows_which_stages_took_the_time() -> None:
    console = Console(file=io.StringIO(), width=60)
    show_times({"soon": 0.01, "reading": 1980.0, "other": 30.0}, console)
    assert isinstance(console.file, io.StringIO)
    lines = [line.split() for line in console.file.getvalue().splitlines()]
    assert lines[1:] == [
        ["reading", "1,980.0", "99%"],
        ["other", "30.0", "1%"],
        ["in", "all", "2,010.0"],
    ]


def test_build_and_select_keep_their_work_beside_the_project(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """So that select, run from elsewhere, computes no feature a second time."""
    folder, elsewhere = projects.texts(tmp_path / "project", 60), tmp_path / "else"
    elsewhere.mkdir()
    few_learners.use(monkeypatch)
    monkeypatch.chdir(elsewhere)
    project = str(folder / "PROJECT.toml")
    assert main(["build", project, "-o", "my.pdx"]) == 0
    assert "where the time went" in capsys.readouterr().out
    values = folder / ".polydom-cache" / "values"
    kept = {path: path.stat().st_mtime_ns for path in values.rglob("*.pdx")}
    assert kept
    assert main(["select", project, "--strategy", "halving"]) == 0
    assert {p: p.stat().st_mtime_ns for p in values.rglob("*.pdx")} == kept
    assert (folder / ".polydom-cache" / "races").is_dir()
    assert [path.name for path in elsewhere.iterdir()] == ["my.pdx"]


def test_select_names_a_learner_and_draws_the_race(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    few_learners.use(monkeypatch)
    folder = projects.texts(tmp_path)
    arguments = ["select", str(folder / "PROJECT.toml"), f"--cache={folder / 'c'}"]
    assert main([*arguments, "--json"]) == 0
    race = json.loads(capsys.readouterr().out)
    assert main([*arguments, f"--plot={folder / 'race.png'}"]) == 0
    assert f"{race['learner']} wins with {race['score']:.4f}" in capsys.readouterr().out
    assert (folder / "race.png").read_bytes().startswith(b"\x89PNG")
    for strategy in ("obms", "daub --ratio 2 --granularity 10 --no-training-bound"):
        assert main([*arguments, "--strategy", *strategy.split(), "--json"]) == 0
        race = json.loads(capsys.readouterr().out)
        assert race["strategy"] == strategy.split()[0]
        assert race["learner"] in race["curves"]
    assert main([*arguments, "--ratio", "2"]) == 1
    assert "--ratio is for --strategy daub, not for knockout" in capsys.readouterr().err
    assert main([*arguments, "--strategy", "guess"]) == 1
    assert "no strategy 'guess'; known: knockout" in capsys.readouterr().err


def test_features_lists_every_ready_made_one_with_what_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["features", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    names = [feature.name for feature in ready_made_features()]
    names += [recipe.name for recipe in RECIPES]
    assert [row["name"] for row in listed] == names
    assert all(row["what"].endswith(".") for row in listed)
    assert main(["features", "--kind", "text"]) == 0
    shown = capsys.readouterr().out
    assert "hashed_words" in shown
    assert "learned_words" in shown
    assert "gabor" not in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["build", "none.toml", "-o", "a.pdx"], "none.toml: No such file"),
        (["build", "PROJECT.toml", "-o", "none/a.pdx"], "there is no folder none"),
        (
            ["build", "PROJECT.toml", "-o", "a.pdx"],
            "no such folder; a folder of images is needed",
        ),
        (["inspect", "none.pdx"], "none.pdx: No such file"),
        (["inspect", "PROJECT.toml"], "not a .pdx file"),
        (["init", "none/a.toml"], "none/a.toml: there is no folder none"),
        (["init", "folder"], "folder is a folder; name a file: folder/PROJECT.toml"),
        (["init"], "PROJECT.toml exists; it is not overwritten"),
        (["build", "PROJECT.toml", "-o", "folder"], "folder; name a file: folder/my.p"),
        (["build", "none.toml", "-o", "a.pdx"], "`polydom init` writes one"),
        (["build", "folder", "-o", "a.pdx"], "folder: Is a directory; a project file"),
        (["build", "noise", "-o", "a.pdx"], "noise: it is not UTF-8 (byte 0); a proj"),
        (
            ["build", "loose.toml", "-o", "a.pdx"],
            "unknown key 'table'; it belongs in [d",
        ),
        (
            ["select", "PROJECT.toml", "--strategy", "best"],
            "no strategy 'best'; known:",
        ),
        (["select", "PROJECT.toml", "--plot", "none/a.png"], "there is no folder none"),
        (
            ["features", "--features", "none.py"],
            "none.py: No such file or directory; a",
        ),
        (
            ["features", "--features", "folder"],
            "folder: this is a folder; a Python file",
        ),
        (["features", "--features", "plain.py"], "plain.py defines no feature; a func"),
    ],
)
def test_command_says_in_one_line_what_is_wrong(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    main(["init"])
    (tmp_path / "folder").mkdir()
    (tmp_path / "noise").write_bytes(b"\xff")
    (tmp_path / "loose.toml").write_text('table = "rows.csv"\n')
    (tmp_path / "plain.py").write_text("X = 1\n")
    capsys.readouterr()
    assert main(arguments) == 1
    *before, error = capsys.readouterr().err.splitlines()
    assert error.startswith("polydom: ")
    assert message in error
    assert all(line.startswith("reading items") for line in before)
    assert not list(tmp_path.rglob("*.pdx"))


def test_inspect_shows_an_index_that_says_little_of_its_build(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = str(served.save_index(tmp_path))
    assert main(["inspect", index]) == 0
    shown = capsys.readouterr().out
    assert shown.count("this index says no more of its build") == 1
    assert "length, marks, words" in shown
    assert main(["inspect", index, "-v"]) == 0
    shown = capsys.readouterr().out
    assert "candidates (feature sets kept)" in shown
    assert "length, marks, words" in shown


# prints as Python does, past Python, and as compiled code does: into a buffer of C's
NOISY = """\
import ctypes, os
from polydom.features import feature

print("said by the module")

@feature(kind="text")
def noisy(text):
    print("said by Python")
    os.write(1, b"said past Python\\n")
    ctypes.CDLL(None).puts(b"said by C")
    return [len(text)]
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "polydom.server", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )


@pytest.mark.skipif(sys.platform == "win32", reason="C's buffer is found by dlopen")
@pytest.mark.parametrize("workers", [1, 2])
def test_build_answers_nothing_but_json(tmp_path: Path, workers: int) -> None:
    learner = '{ name = "lightgbm:LGBMClassifier", n_estimators = 3, verbose = 1 }'
    project = projects.TEXTS.replace(
        'use = ["text_length", "hashed_words"]',
        'files = ["noisy.py"]\nuse = ["text_length", "noisy"]',
    ).replace(
        'workers = 1\nlearner = "logistic"', f"workers = {workers}\nlearner={learner}"
    )
    projects.texts(tmp_path, 60, project)
    (tmp_path / "noisy.py").write_text(NOISY)
    command = ["build", "PROJECT.toml", "-o", "my.pdx", "--json"]
    if workers == 1:  # from its first import to its end, when C's buffers are written
        done = run(tmp_path, *command)
    else:
        done = run_forked(["polydom", *command], tmp_path)
        done.check_returncode()
    assert json.loads(done.stdout)["features"] == ["text_length", "noisy"]
    for said in ("by the module", "by Python", "past Python", "by C"):
        assert f"said {said}" in done.stderr
    assert "[LightGBM] [Info]" in done.stderr
    assert "timing samples" in done.stderr


def test_features_answers_nothing_but_json(tmp_path: Path) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    done = run(tmp_path, "features", "--features", "noisy.py", "--json")
    assert json.loads(done.stdout)[-1]["name"] == "noisy"


def test_lightgbm_is_quiet_unless_told_otherwise() -> None:
    assert make_learner("lightgbm:LGBMClassifier", 0).verbose == -1
    for name in ("verbose", "verbosity"):
        spec = {"name": "lightgbm:LGBMClassifier", name: 1}
        assert make_learner(spec, 0).get_params()[name] == 1
    spec = {"name": "lightgbm:LGBMClassifier", "verbosity": 1}
    assert "verbose" not in make_learner(spec, 0).get_params()


def test_output_goes_back_to_where_it_went(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    with prints_to_stderr():
        print("meanwhile")
    print("between")
    with pytest.raises(KeyError), prints_to_stderr():
        raise KeyError
    print("after")
    captured = capfd.readouterr()
    assert captured.out == "before\nbetween\nafter\n"
    assert captured.err == "meanwhile\n"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (["build", "PROJECT.toml", "-o", "mails.jsonl"], "a text that begins '{\"text"),
        (["build", "PROJECT.toml", "-o", "PROJECT.toml"], "a text that begins 'seed"),
        (["build", "PROJECT.toml", "-o", "photo.pdx"], "a PNG image"),
        (["measure", "PROJECT.toml", "-o", "mails.jsonl"], "a text that begins"),
        (["measure", "my.pdx", "-o", "PROJECT.toml"], "a text that begins"),
        (["select", "PROJECT.toml", "--plot", "photo.png"], "a PNG image"),
    ],
)
def test_no_command_replaces_what_it_did_not_write(
    command: list[str],
    what: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(projects.texts(tmp_path))
    served.make_index().save("my.pdx")
    for name in ("photo.pdx", "photo.png"):
        (tmp_path / name).write_bytes(b"\x89PNG\r\n\x1a\n....")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    assert main(command) == 1
    error = capsys.readouterr().err
    assert f"as it is {what}" in error
    assert len(error.splitlines()) == 1
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_an_index_is_replaced_by_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(projects.texts(tmp_path))
    served.make_index().save("my.pdx")
    before = (tmp_path / "my.pdx").read_bytes()
    assert main(["build", "PROJECT.toml", "-o", "my.pdx"]) == 0
    assert (tmp_path / "my.pdx").read_bytes() != before


def test_inspect_prints_json_where_numbers_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Seconds of what declares them are NaN in a file, and JSON has no NaN."""
    index = told.make_index()
    assert index.package is not None
    meta = copy.deepcopy(index.package.meta)
    meta["pace"]["feature"][0][0] = math.nan
    meta["search"]["alpha"] = math.inf
    for key in ("mean_us", "p99_us", "whole_us"):
        meta["exits"]["plans"][-1]["schedule"][key] = None
    package = replace(index.package, meta=meta)
    replace(index, package=package).save(tmp_path / "a.pdx")
    assert main(["inspect", str(tmp_path / "a.pdx"), "--json"]) == 0
    built = msgspec.json.decode(capsys.readouterr().out)["build"]  # strict
    assert built["pace"]["feature"][0][0] is built["search"]["alpha"] is None
    assert main(["inspect", str(tmp_path / "a.pdx"), "--verbose"]) == 0
    shown = capsys.readouterr().out
    assert "says no more" not in shown
    assert "models that stop early" in shown
