"""Builds on a cluster whose costs another process measures, by their commands."""

from pathlib import Path

import pytest

from polydom.server.__main__ import main
from tests.cluster.test_builds import OWN, PROJECT, dask_address
from tests.support.builds import projects
from tests.support.builds.clusters import DaskCluster
from tests.support.processes.forked_process import run_forked

UNFINISHED = 3


def test_a_cluster_computes_and_another_process_measures(
    dask_cluster: DaskCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Neither does what is the other's; in the end both have the same index."""
    text = PROJECT.replace("repeats = 3", 'repeats = 3\nmeasured = "later"')
    folder = projects.texts(tmp_path / "project", 160, text)
    (folder / "own.py").write_text(OWN)
    shared = tmp_path / "shared"

    def build() -> tuple[int, str]:
        code = main(["build", "PROJECT.toml", *on, "-o", "built.pdx"])
        said = capsys.readouterr()
        return code, said.out + said.err

    monkeypatch.chdir(folder)
    on = ["--on", dask_address(dask_cluster), "--shared", str(shared)]
    code, said = build()
    assert code == UNFINISHED, said
    assert f"`polydom measure PROJECT.toml --shared {shared} -o" in said
    models = {path.name for path in shared.glob("sets/*/*.pdx")}
    assert models
    command = ["polydom", "measure", "PROJECT.toml", "--shared", str(shared)]
    run_forked([*command, "-o", "measured.pdx"], folder).check_returncode()
    assert {path.name for path in shared.glob("sets/*/*.pdx")} == models
    code, said = build()
    assert code == 0, said
    built, measured = folder / "built.pdx", folder / "measured.pdx"
    assert built.read_bytes() == measured.read_bytes()
