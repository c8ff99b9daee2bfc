"""What is said of kernels that are compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from polydom.models.scoring.kernels.cached_njit import DECLARED
from polydom.server.cli.process import EVERY_S, CompilingNotice
from tests.support.clock import Clock
from tests.support.indexes.served import FEATURES_FILE, save_index
from tests.support.processes.commands import run

# Two of what a text is answered by. No kernel that is intact holds their code.
DAMAGED = ("sums.linear_one", "link.answer_one")


def test_a_notice_comes_at_once_and_then_now_and_then(
    capsys: pytest.CaptureFixture[str],
) -> None:
    clock = Clock()
    notice = CompilingNotice(clock)
    for kernel in "abcde":
        notice(kernel)
        clock.now_s += 0.6 * EVERY_S
    said, still = capsys.readouterr().err, "polydom: compiling still: "
    assert said.startswith("polydom: compiling for this processor, once")
    assert said.endswith(f"{still}2 kernels are done\n{still}4 kernels are done\n")


def test_warm_compiles_what_an_index_needs_and_again_what_is_damaged(
    tmp_path: Path,
) -> None:
    index, text = save_index(tmp_path), tmp_path / "a.txt"
    text.write_text("win a prize")
    features = ["--features", str(FEATURES_FILE)]
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path / "kept")}
    warm = ["warm", str(index), *features]
    predict = ["predict", str(index), str(text), *features]
    said, answers = list[bool](), list[str]()
    for command in (warm, predict, predict, predict):
        if len(said) == 2:
            for kernel in DAMAGED:
                (file,) = (tmp_path / "kept" / "polydom").glob(f"{kernel}-*.nbc")
                file.write_bytes(b"")  # as a power cut leaves it
        done = subprocess.run(
            [sys.executable, "-m", "polydom", *command],
            env=env,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        lines = done.stderr.splitlines()
        assert len([line for line in lines if "is damaged" in line]) == (len(said) == 2)
        said.append("compiling for this processor" in done.stderr)
        answers.append(done.stdout.partition(")")[0])
    assert said == [True, False, True, False]
    assert len({*answers[1:]}) == 1
    assert "a.txt: spam" in answers[-1] or "a.txt: ham" in answers[-1]


def test_warm_compiles_everything_where_no_index_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, said, _ = run(capsys, "warm")
    assert code == 0
    assert said.startswith("ready after ")
    assert len(DECLARED) > 100
    assert not [kernel for kernel in DECLARED if not kernel.signatures]
