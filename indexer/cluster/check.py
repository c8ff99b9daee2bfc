"""Whether workers can do what they are asked: the same code, libraries and files."""

import hashlib
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import polydom.features
import polydom.models
from polydom.features.errors import BadWorker

# in a folder that is to be seen by all; what it holds tells it from others of its name
SEEN = ".seen"
LIBRARIES = (
    "lightgbm",
    "numba",
    "numpy",
    "pillow",
    "scikit-image",
    "scikit-learn",
    "scipy",
    "xgboost",
)
SHOWN = 3


class WorkerFacts(NamedTuple):
    """What a process has.

    Attributes
    ----------
    host
        Of the machine.
    versions
        Of Python, polydom and libraries.
    files
        Digests of files by path, or why they cannot be read.
    """

    host: str
    versions: dict[str, str]
    files: dict[str, str]


class OtherWorker(Exception):
    """A worker is not what it is to be; raised there, with what it is."""

    def __init__(self, facts: WorkerFacts) -> None:
        self.facts = facts
        super().__init__(facts)


class WorkerCheck(NamedTuple):
    """What all workers must have in common with this process.

    Attributes
    ----------
    files
        That they read where they lie here.
    wanted
        Of what they say of themselves, all but the host.
    """

    files: tuple[Path, ...]
    wanted: str

    @classmethod
    def of(cls, files: Sequence[Path], shared: Path | None) -> "WorkerCheck":
        """Ask for these files, and a folder that is to be the same for all."""
        needed = list(files)
        if shared is not None:
            shared.mkdir(parents=True, exist_ok=True)
            seen = shared / SEEN
            if not seen.exists():
                seen.write_text(token_hex(16))
            needed.append(seen)
        return cls(tuple(needed), _digest_of(describe(tuple(needed))))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function, in a process that is found the same the first time.

        Raises
        ------
        OtherWorker
            If it is not.
        """
        facts = _described(self.files)
        if _digest_of(facts) != self.wanted:
            raise OtherWorker(facts)
        return function(*arguments)

    def refuse(self, name: str, found: Any) -> None:
        """Refuse a worker by what it said of itself, or raised instead.

        Raises
        ------
        BadWorker
            If it differs from this process, saying in what.
        """
        if isinstance(found, BadWorker):
            raise BadWorker(f"worker {name}: {found}")
        if not isinstance(found, WorkerFacts):
            what = f"{type(found).__name__}: {found}"
            raise BadWorker(
                f"worker {name}: {what}; polydom must be installed there as it is here"
            )
        here = describe(self.files)
        for path, digest in here.files.items():
            if (other := found.files.get(path)) != digest:
                raise BadWorker(f"worker {name}: {_about_file(Path(path), other)}")
        differ = _differences(here.versions, found.versions)
        if differ:
            raise BadWorker(
                f"worker {name}: {', '.join(differ)}; all that compute need the same"
            )


def describe(files: tuple[Path, ...]) -> WorkerFacts:
    """Say what this process has."""
    digests = {str(file): _digest_or_why(file) for file in files}
    return WorkerFacts(socket.gethostname(), _versions(), digests)


_described = lru_cache(maxsize=8)(describe)


def _digest_of(facts: WorkerFacts) -> str:
    known = sorted(facts.versions.items()), sorted(facts.files.items())
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _digest_or_why(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return error.strerror or str(error)


def _about_file(path: Path, found: str | None) -> str:
    missing = found is None or " " in found
    if path.name == SEEN:
        what = "does not see" if missing else "sees another folder as"
        return f"{what} {path.parent}; --shared must be one folder for all workers"
    why = found if missing else "it holds something else"
    return f"{path}: {why}; workers read it where it lies here"


def _differences(here: Mapping[str, str], there: Mapping[str, str]) -> list[str]:
    names = [n for n in sorted({*here, *there}) if here.get(n) != there.get(n)]
    told = [
        f"{name} is {there.get(name, 'not installed')}, and here "
        f"{here.get(name, 'not installed')}"
        for name in names[:SHOWN]
    ]
    return [*told, f"and {len(names) - SHOWN} more"] if names[SHOWN:] else told


@lru_cache(maxsize=1)
def _versions() -> dict[str, str]:
    found = {"python": ".".join(map(str, sys.version_info[:2]))}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    found["polydom"] = f"{version('polydom')} ({_sources()})"
    return found


def _sources() -> str:
    """Identify the code that features and models are computed with."""
    digest = hashlib.sha256()
    for room in (polydom.features, polydom.models):
        (folder,) = map(Path, room.__path__)
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
