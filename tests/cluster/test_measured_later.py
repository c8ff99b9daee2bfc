"""Builds on a cluster whose costs another process measures, by their commands."""

import os
import subprocess
import sys
from pathlib import Path

from tests.cluster.test_builds import OWN, PROJECT, dask_address
from tests.support import projects
from tests.support.clusters import DaskCluster

UNFINISHED = 3


def test_a_cluster_computes_and_another_process_measures(
    dask_cluster: DaskCluster, tmp_path: Path
) -> None:
    """Neither does what is the other's; in the end both have the same index."""
    text = PROJECT.replace("repeats = 3", 'repeats = 3\nmeasured = "later"')
    folder = projects.texts(tmp_path / "project", 160, text)
    (folder / "own.py").write_text(OWN)
    shared = tmp_path / "shared"

    def run(command: str, *more: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "polydom", command, "PROJECT.toml", *more],
            cwd=folder,
            env={**os.environ},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    on = ["--on", dask_address(dask_cluster), "--shared", str(shared)]
    code, said = run("build", *on, "-o", "built.pdx")
    assert code == UNFINISHED, said
    assert f"`polydom measure PROJECT.toml --shared {shared} -o" in said
    models = {path.name for path in shared.glob("sets/*/*.pdx")}
    assert models
    code, said = run("measure", "--shared", str(shared), "-o", "measured.pdx")
    assert code == 0, said
    assert {path.name for path in shared.glob("sets/*/*.pdx")} == models
    code, said = run("build", *on, "-o", "built.pdx")
    assert code == 0, said
    built, measured = folder / "built.pdx", folder / "measured.pdx"
    assert built.read_bytes() == measured.read_bytes()
