"""Standard output holds a command's answer, whatever libraries print meanwhile."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from polydom.indexer.chatter import chatter_to_stderr
from polydom.models.learners import make_learner

from . import projects

# prints as Python does, past Python, and as compiled code does: into a buffer of C's
# of processes, which kernels have no part in: once is enough
pytestmark = pytest.mark.jit
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


@pytest.mark.jit
@pytest.mark.skipif(sys.platform == "win32", reason="C's buffer is found by dlopen")
@pytest.mark.parametrize("workers", [1, 2])
def test_build_answers_nothing_but_json(tmp_path: Path, workers: int) -> None:
    learner = '{ name = "lightgbm:LGBMClassifier", n_estimators = 3, verbose = 1 }'
    use = 'files = ["noisy.py"]\nuse = ["text_length", "noisy"]'
    project = projects.TEXTS.split("[features]")[0] + f"[features]\n{use}\n"
    project = project.replace("workers = 1", f"workers = {workers}\nlearner={learner}")
    projects.texts(tmp_path, project=project)
    (tmp_path / "noisy.py").write_text(NOISY)
    done = run(tmp_path, "build", "PROJECT.toml", "-o", "my.pdx", "--json")
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
    with chatter_to_stderr():
        print("meanwhile")
    print("between")
    with pytest.raises(KeyError), chatter_to_stderr():
        raise KeyError
    print("after")
    captured = capfd.readouterr()
    assert captured.out == "before\nbetween\nafter\n"
    assert captured.err == "meanwhile\n"
