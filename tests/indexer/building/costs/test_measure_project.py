"""Builds whose times are taken on another machine: two commands, one folder."""

import io
import json
import os
import shutil
import signal
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadProject, LacksTimes, LacksWork
from polydom.indexer import Index, build, measure_project
from polydom.indexer.building.cache import FOLDER, Cache
from polydom.indexer.building.project import Project
from polydom.server.__main__ import main
from tests.indexer.building.test_cache_keys import install
from tests.support.builds import few_learners, projects
from tests.support.processes.forked_process import ForkedProcess
from tests.support.waiting import wait_until

UNFINISHED = 3
# Takes as long as the machine that it runs on is slow, and remembers who ran it.
OWN = """\
import os
import time

from polydom.features import feature


@feature(kind="text")
def slow(text):
    if log := os.environ.get("RUNS"):
        with open(log, "a") as file:
            file.write(f"{os.getpid()} ")
    time.sleep(float(os.environ.get("SLOWNESS_S", 0)))
    return [text.count("!")]
"""
LATER = projects.TEXTS.replace(
    "use = [", 'files = ["own.py"]\nuse = ["slow", '
).replace("repeats = 2", 'repeats = 2\nmeasured = "later"')
POLY_DOM = projects.TEXTS.replace("repeats = 2", "repeats = 2\nmeasured = 'later'")
POLY_DOM += "[search]\nmethod = 'poly-dom'\n"
SLOWNESS_S = 3e-3


def make_project(folder: Path, text: str = LATER) -> Path:
    projects.texts(folder, project=text)
    (folder / "own.py").write_text(OWN)
    return folder


@dataclass
class Site:
    """A project that machines share, whose work is kept in its folder `shared`."""

    folder: Path

    def arguments(self, command: str, *more: str) -> list[str]:
        plan = str(self.folder / "PROJECT.toml")
        return [command, plan, "--cache", str(self.folder / "shared"), *more]

    def start(self, command: str, *more: str) -> ForkedProcess:
        # by -m, so that a library is found where PYTHONPATH says
        return ForkedProcess(
            ["python", "-m", "polydom", *self.arguments(command, *more)]
        )

    def run(self, command: str, *more: str) -> tuple[int, str]:
        """Exit code, and what was printed on standard output and error."""
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            code = main(self.arguments(command, *more))
        return code, said.getvalue()

    @property
    def measured(self) -> dict[Path, int]:
        """When each file of what was measured was written."""
        return written_in(self.folder / "shared" / "measured")

    @property
    def built(self) -> dict[Path, int]:
        """When each of the others was."""
        times = written_in(self.folder / "shared")
        return {path: times[path] for path in times.keys() - self.measured.keys()}


def written_in(folder: Path) -> dict[Path, int]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path: path.stat().st_mtime_ns for path in files}


def test_a_build_has_the_times_of_the_machine_that_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(make_project(tmp_path / "project"))
    output, shared = ["-o", str(site.folder / "my.pdx")], site.folder / "shared"
    code, said = site.run("build", *output)
    assert code == UNFINISHED, said
    assert "polydom measure PROJECT.toml --cache" in said
    assert not site.measured
    built = site.built
    monkeypatch.setenv("SLOWNESS_S", str(SLOWNESS_S))
    code, said = site.run("measure", *output)
    assert code == UNFINISHED, said
    assert site.built == built
    measured = site.measured
    assert "`polydom build` of the same project" in said
    monkeypatch.delenv("SLOWNESS_S")
    code, said = site.run("build", *output)
    assert code == UNFINISHED, said
    assert site.measured == measured
    assert not (site.folder / "my.pdx").exists()
    built = site.built
    monkeypatch.setenv("SLOWNESS_S", str(SLOWNESS_S))
    code, said = site.run("measure", *output)
    assert code == 0, said
    assert f"wrote {site.folder / 'my.pdx'}" in " ".join(said.split())
    assert site.built == built
    first = (site.folder / "my.pdx").read_bytes()
    index = Index.load(site.folder / "my.pdx")
    assert index.package is not None
    slow = 1 << [one.name for one in index.package.features].index("slow")
    assert index.package.costs.of(slow)[0] > SLOWNESS_S
    monkeypatch.delenv("SLOWNESS_S")
    # either command gives the same index now, and measures nothing again
    plan = site.folder / "PROJECT.toml"
    for command in (build, measure_project):
        command(plan, cache=shared, output=site.folder / "again.pdx")
        assert (site.folder / "again.pdx").read_bytes() == first
    # as does a build that measures where it runs, of the same times
    here = LATER.replace('measured = "later"', "")
    plan.write_text(here)
    for kind in (shared / "measured").iterdir():
        shutil.copytree(kind, shared / kind.name)
    before = site.built.keys()
    build(plan, cache=shared, output=site.folder / "again.pdx")
    assert site.built.keys() == before
    assert (site.folder / "again.pdx").read_bytes() == first


def test_times_are_taken_in_one_process_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project(tmp_path, LATER.replace("workers = 1", "workers = 2"))
    plan, runs = folder / "PROJECT.toml", folder / "runs"
    here = {str(os.getpid())}
    with pytest.raises(LacksTimes):
        build(plan)
    monkeypatch.setenv("RUNS", str(runs))
    with pytest.raises(LacksWork):
        measure_project(plan)
    assert set(runs.read_text().split()) == here
    # and by a build that measures itself, by no worker of it
    plan.write_text(plan.read_text().replace('"later"', '"here"'))
    runs.unlink()
    build(plan)
    assert set(runs.read_text().split()) == here


def test_measuring_that_was_killed_goes_on_where_it_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(make_project(tmp_path))
    plan, shared = site.folder / "PROJECT.toml", site.folder / "shared"
    with pytest.raises(LacksTimes):
        build(plan, cache=shared)
    with pytest.raises(LacksWork):
        measure_project(plan, cache=shared)
    with pytest.raises(LacksTimes):
        build(plan, cache=shared)
    times = site.folder / "shared" / "measured" / "times"

    def models() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in times.glob("*/*.pdx")}

    monkeypatch.setenv("SLOWNESS_S", str(SLOWNESS_S))
    process = site.start("measure", "-o", str(site.folder / "my.pdx"))
    wait_until(models)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    before = models()
    code, said = site.run("measure", "-o", str(site.folder / "my.pdx"))
    assert code == 0, said
    assert before.items() <= models().items()
    assert Index.load(site.folder / "my.pdx").package is not None


def rounds_of(folder: Path) -> int:
    """Build and measure in turn until there is an index; how often it was built."""
    plan = folder / "PROJECT.toml"
    for count in range(1, 5):
        with pytest.raises(LacksTimes):
            build(plan)
        try:
            measure_project(plan, output=folder / "my.pdx")
        except LacksWork:
            continue
        return count
    pytest.fail("it never ends")


@pytest.mark.parametrize(
    ("more", "rounds"),
    [
        ("", 2),
        ("[search]\nmethod = 'poly-dom'", 1),
        ("[search]\nmethod = 'poly-dom'\nrefit = false", 1),
        ("[search]\nmethod = 'greedy'", 2),
        ("[search]\nheld_out = 0.3\nbudget_s = 1", 2),
        ("[search]\nfolds = 3", 2),
        ("[exits]\nalpha = 0.2\nconfidence = 0.5", 2),
        ("[learner]\nname = 'auto'\nlimit_s = 60", 2),
        (
            "[learner]\nname = 'forest'\nn_estimators = 20\n[exits]\nalpha = 0.3\n"
            "confidence = 0.5",
            2,
        ),
    ],
)
def test_two_rounds_are_enough_and_one_where_costs_are_not_searched_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, rounds: int
) -> None:
    few_learners.use(monkeypatch)
    use = 'use = ["text_length", "casing", "learned_words"]'
    terms = f'[data]\ntexts = "mails.jsonl"\n[features]\n{use}\n[costs]\nitems = 6\n'
    text = f"seed = 1\nworkers = 1\n{terms}repeats = 2\nmeasured = 'later'\n{more}\n"
    text += "" if "[learner]" in more else "[learner]\nname = 'logistic'\n"
    folder = projects.texts(tmp_path, project=text)
    # one more where times of models made a set worth keeping that nobody foresaw
    assert rounds_of(folder) in (rounds, rounds + 1)
    again = build(folder / "PROJECT.toml", output=folder / "again.pdx")
    assert again.package is not None
    assert (folder / "again.pdx").read_bytes() == (folder / "my.pdx").read_bytes()


def test_what_is_the_other_machines_to_do_is_refused_by_name(tmp_path: Path) -> None:
    folder = make_project(tmp_path)
    plan = folder / "PROJECT.toml"
    with pytest.raises(
        LacksWork, match=r"work is missing in .*-cache.*`polydom build`"
    ):
        measure_project(plan)
    with pytest.raises(LacksTimes, match=r"`polydom measure PROJECT\.toml --cache"):
        build(plan)
    with pytest.raises(LacksWork, match="what is measured is kept"):
        measure_project(plan)
    plan.write_text(LATER.replace("later", "here"))
    with pytest.raises(BadProject, match=r"\[costs\] measured is 'here'"):
        measure_project(plan)
    plan.write_text(LATER.replace("later", "never"))
    with pytest.raises(BadProject, match=r"one of 'here', 'later' is needed"):
        measure_project(plan)


def test_what_no_build_computed_is_computed_by_no_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_project(tmp_path)
    with pytest.raises(LacksTimes):
        build(folder / "PROJECT.toml")
    runs = folder / "runs"
    monkeypatch.setenv("RUNS", str(runs))
    with (folder / "mails.jsonl").open("a") as file:
        file.write('\n{"text": "another one", "label": "ham"}')
    with pytest.raises(LacksWork, match=r"^work is missing"):
        measure_project(folder / "PROJECT.toml")
    assert len(runs.read_text().split()) < 20  # of 121 items


def test_no_race_is_run_or_continued_by_measuring(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_learners.use(monkeypatch)
    auto = POLY_DOM.replace('"logistic"', '{ name = "auto", limit_s = 60 }')
    plan = projects.texts(tmp_path, project=auto) / "PROJECT.toml"
    with pytest.raises(LacksTimes):
        build(plan)
    cache = Cache(plan.parent / FOLDER)
    (race,) = cache.names("races")
    stored = cache.load(race)
    assert stored is not None
    log = stored[0]["log"]
    cache.store(race, {"log": log[:3]}, {})
    with pytest.raises(LacksWork):
        measure_project(plan)
    stored = cache.load(race)
    assert stored is not None
    assert stored[0]["log"] == log[:3]
    (cache.folder / f"{race}.pdx").unlink()
    with pytest.raises(LacksWork):
        measure_project(plan)
    assert not cache.names("races")


def test_who_measures_follows_a_search_that_many_workers_carried_out(
    tmp_path: Path,
) -> None:
    """Its seconds are spent by all of them together, and end it."""
    text = LATER.replace("workers = 1", "workers = 2")
    text = text.replace("logistic", "tree")
    folder = make_project(tmp_path, f"{text}[search]\nbudget_s = 0.01\n")
    rounds_of(folder)
    again = build(folder / "PROJECT.toml", output=folder / "again.pdx")
    assert (folder / "again.pdx").read_bytes() == (folder / "my.pdx").read_bytes()
    assert again.package is not None


def test_who_measured_on_a_busy_machine_is_told_before_the_build_goes_on(
    tmp_path: Path,
) -> None:
    folder = make_project(tmp_path)
    plan = folder / "PROJECT.toml"
    with pytest.raises(LacksTimes):
        build(plan)
    with pytest.raises(LacksWork):
        measure_project(plan)
    times = Cache(folder / FOLDER / "measured")
    (name,) = times.names("times")
    stored = times.load(name)
    assert stored is not None
    times.store(name, {**stored[0], "load": [0.3, 1.5, 2]}, stored[1])
    with pytest.raises(LacksWork, match=r"this machine was busy meanwhile: .* --anew"):
        measure_project(plan)
    with pytest.raises(LacksWork):
        measure_project(plan, anew=True)
    stored = times.load(name)
    assert stored is not None
    assert stored[0]["load"] != [0.3, 1.5, 2]


def test_who_measures_may_have_a_copy_of_all_in_another_place(tmp_path: Path) -> None:
    here = make_project(tmp_path / "here", f"{LATER}[search]\nmethod = 'poly-dom'\n")
    with pytest.raises(LacksTimes):
        build(here / "PROJECT.toml", cache=tmp_path / "kept")
    there = shutil.copytree(here, tmp_path / "there")
    copied = shutil.copytree(tmp_path / "kept", there / "copied")
    measure_project(there / "PROJECT.toml", cache=copied, output=there / "my.pdx")
    shutil.copytree(copied, tmp_path / "kept", dirs_exist_ok=True)
    build(here / "PROJECT.toml", cache=tmp_path / "kept", output=here / "my.pdx")
    assert (here / "my.pdx").read_bytes() == (there / "my.pdx").read_bytes()


def test_other_libraries_are_named_before_anything_begins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = Site(make_project(tmp_path / "project"))
    own = site.folder / "own.py"
    own.write_text(f"import counting\n{own.read_text()}")
    library = tmp_path / "library"
    monkeypatch.setenv("PYTHONPATH", str(library))
    install(library, "1.0", "1")
    process = site.start("build", "-o", str(site.folder / "my.pdx"))
    process.communicate(timeout=300)
    assert process.returncode == UNFINISHED
    install(library, "1.1", "2")
    # a process looks once for the libraries that are installed
    process = site.start("measure")
    _, said = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "other libraries than there are here: counting 1.0 (here 1.1);" in said


def test_measuring_anew_takes_all_times_again(tmp_path: Path) -> None:
    folder = projects.texts(tmp_path, project=POLY_DOM)
    plan = Project.load(folder / "PROJECT.toml")
    with pytest.raises(LacksTimes):
        build(plan)
    measure_project(plan)
    times = folder / FOLDER / "measured" / "times"
    before = written_in(times)
    measure_project(plan)
    assert written_in(times) == before
    measure_project(plan, anew=True)
    after = written_in(times)
    # other sets may be kept by the new times: of each searched there are some
    groups = [[*group.iterdir()] for group in times.iterdir() if group.is_dir()]
    for path in (*times.glob("*.pdx"), *max(groups, key=len)):
        assert after[path] > before[path]


def test_the_command_says_as_json_what_lacks_and_what_was_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = projects.texts(tmp_path, project=POLY_DOM)
    plan, output = str(folder / "PROJECT.toml"), str(folder / "my.pdx")

    def run(*arguments: str) -> tuple[int, Any]:
        capsys.readouterr()
        code = main([*arguments, "--json"])
        return code, json.loads(capsys.readouterr().out)

    code, lacks = run("measure", plan)
    assert (code, lacks["code"]) == (UNFINISHED, "lacks_work")
    code, lacks = run("build", plan, "-o", output)
    assert (code, lacks["code"]) == (UNFINISHED, "lacks_times")
    assert "polydom measure" in lacks["message"]
    code, facts = run("measure", plan, "-o", output)
    assert code == 0
    assert facts["version"] == Index.load(output).version
    assert len(facts["build"]["measured"]["machines"]) == 1
    assert main(["measure", plan]) == 0
    assert "nothing is missing" in capsys.readouterr().out


def test_options_of_an_index_and_of_a_project_are_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = projects.texts(tmp_path, project=POLY_DOM)
    plan, index = str(folder / "PROJECT.toml"), str(folder / "my.pdx")
    for arguments, said in [
        ([plan, "--data", plan], "--data: this is for INDEX"),
        ([plan, "--features", plan], "--features: this is for INDEX"),
        ([index, "-o", index, "--cache", "x"], "--cache: this is for PROJECT.toml"),
        ([index, "-o", index, "--anew"], "--anew: this is for PROJECT.toml"),
        ([index], "say where the new index goes"),
    ]:
        assert main(["measure", *arguments]) == 2
        assert said in " ".join(capsys.readouterr().err.replace("│", " ").split())
    assert main(["measure", str(tmp_path / "none.toml")]) == 1
    assert "`polydom init` writes one" in capsys.readouterr().err
    assert main(["measure", str(tmp_path / "none.pdx"), "-o", index]) == 1
    assert "none.pdx" in capsys.readouterr().err
