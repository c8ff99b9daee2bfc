"""Lets new indexes and the served ones answer labelled items, in a process of its own.

The rule: a new index is worse if its quality, by its own measure, is lower than that of
the old index by more than the standard error of the difference. Both answer the same
items, within the server's usual budget. Which plans they choose depends only on the
costs in the indexes, not on how busy this machine is.
"""

import atexit
import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from polydom.features.errors import BadIndexFile, printable
from polydom.indexer.index.file.pdx_file import read_version

from ..errors import ReloadFailed, WorseIndex
from ..runtime.rollout.orders import locked
from ..settings import Settings

GATE_S = 300.0  # longest time in seconds of a comparison
# Seconds for which a copy of an index is kept that this process does not serve: another
# worker may still serve it.
KEPT_S = 3600.0


class Question(msgspec.Struct):
    """What the process that compares is asked."""

    old: str  # `old`, `new`: paths of the two indexes
    new: str
    test: str  # Path of the labelled items
    label: str  # Column or key with the labels
    features: list[str]  # Files with features of the operator
    budget_s: float


class Verdict(msgspec.Struct):
    """The outcome of a comparison."""

    old: float  # `old`, `new`: quality of the two indexes
    new: float
    error: float  # Standard error of the difference; 0 for a single item
    items: int
    measure: str
    versions: tuple[str, str]

    @property
    def worse(self) -> bool:
        """True if the new index is worse by more than the standard error."""
        return self.new - self.old < -self.error


class EvaluationGate:
    """Compares each new index with the served one on the labelled items of a file.

    All workers of a server share a folder: one of them compares, and the others read
    the verdict there. Copies of the served indexes are there, too, because their files
    are replaced. The folder is removed when this process ends.
    """

    def __init__(
        self,
        test: Path,
        *,
        label: str = "label",
        features: Sequence[Path] = (),
        budget_s: float = Settings().budget_s,
    ) -> None:
        self._test, self._label = test.absolute(), label
        self._folder = Path(tempfile.mkdtemp(prefix="polydom-gate-"))
        atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
        self._features, self._budget_s = features, budget_s

    def keep(self, served: Mapping[str, Path]) -> None:
        """Keep copies of the files of the served indexes, by version; drop old ones."""
        for version, path in served.items():
            kept = self._kept(version)
            if kept.exists():
                continue
            new = kept.with_suffix(f".{os.getpid()}")
            with contextlib.suppress(OSError, BadIndexFile):
                shutil.copyfile(path, new)
                if read_version(new) == version:  # else it was replaced meanwhile
                    new.replace(kept)
            new.unlink(missing_ok=True)
        for file in self._folder.glob("*.pdx"):
            with contextlib.suppress(FileNotFoundError):
                is_old = time.time() - file.stat().st_mtime > KEPT_S
                if is_old and file.stem not in served:
                    file.unlink()

    def passed(self, old: str, new: str) -> bool:
        """Return True if the index `new` was compared with `old`, and is not worse."""
        verdict = self._read(old, new)
        return verdict is not None and not verdict.worse

    def refuse_worse(self, model: str, old: str, path: Path, new: str) -> None:
        """Compare two indexes, as `Gate` says, unless another process already has."""
        with contextlib.suppress(OSError):
            os.utime(self._kept(old))  # other workers still serve it, so it is not old
        with locked(self._folder / "gate.lock"):
            verdict = self._read(old, new)
            if verdict is None:
                verdict = self._compare(old, path, new)
        if verdict.worse:
            raise WorseIndex(
                f"model {model!r}: the new index is worse on {verdict.items:,} recent "
                f"items: its {verdict.measure} is {verdict.new:.4g}, that of the old "
                f"index {verdict.old:.4g}, and the standard error of the difference is "
                f"{verdict.error:.2g}"
            )

    def _kept(self, version: str) -> Path:
        return self._folder / f"{version}.pdx"

    def _verdict(self, old: str, new: str) -> Path:
        stamp = self._test.stat().st_mtime_ns  # new items make a new verdict
        return self._folder / f"{old[:32]}-{new[:32]}-{stamp}.json"

    def _read(self, old: str, new: str) -> Verdict | None:
        try:
            path = self._verdict(old, new)
            return msgspec.json.decode(path.read_bytes(), type=Verdict)
        except (OSError, msgspec.DecodeError):
            return None

    def _compare(self, old: str, path: Path, new: str) -> Verdict:
        question = Question(
            str(self._kept(old)),
            str(path),
            str(self._test),
            self._label,
            [str(file) for file in self._features],
            self._budget_s,
        )
        # a process of its own, because a server's never imports readers of tables; -P,
        # because its folder may have modules with names of libraries
        command = [sys.executable, "-P", "-m", f"{__package__}.judge"]
        try:
            done = subprocess.run(
                command,
                input=msgspec.json.encode(question),
                capture_output=True,
                timeout=GATE_S,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise ReloadFailed(f"the gate took longer than {GATE_S:g} s") from error
        except OSError as error:
            raise ReloadFailed(f"the gate cannot be started: {error}") from error
        if done.returncode:
            said = printable(done.stderr.decode("utf-8", "replace"))[-500:]
            raise ReloadFailed(f"the gate cannot compare the indexes: {said}")
        verdict = msgspec.json.decode(done.stdout, type=Verdict)
        if verdict.versions != (old, new):
            raise ReloadFailed("the gate found another file; it was replaced meanwhile")
        self._verdict(old, new).write_bytes(done.stdout)
        return verdict
