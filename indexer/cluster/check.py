"""Check that workers have the same code, libraries and files as this process."""

import hashlib
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from secrets import token_hex
from typing import Any, NamedTuple

import polydom.features
import polydom.models
from polydom.features.errors import BadWorker
from polydom.features.libraries import differences, versions

# File in the shared folder. Its random content tells two folders of one name apart.
SEEN = ".seen"
SHOWN = 3  # differences in an error


class WorkerFacts(NamedTuple):
    """The host, library versions, code and files that one process sees."""

    host: str  # Name of the machine
    # Versions of Python and of the libraries that results depend on
    versions: dict[str, str]
    sources: str  # Digest of the code of features and models
    # Digest of each file by path, or the reason why it cannot be read
    files: dict[str, str]


class OtherWorker(Exception):
    """Raised in a worker whose libraries, code or files differ from the build's."""

    def __init__(self, facts: WorkerFacts) -> None:
        self.facts = facts
        super().__init__(facts)


class WorkerCheck(NamedTuple):
    """A test that a worker has the same libraries, code and files as this process."""

    files: tuple[Path, ...]  # Files that workers read under the same path
    # Files and folders of items; workers must see them, with files of equal length
    data: tuple[Path, ...]
    wanted: str  # Digest of the facts of this process, without its host

    @classmethod
    def of(
        cls, files: Sequence[Path], shared: Path | None, data: Sequence[Path] = ()
    ) -> "WorkerCheck":
        """Make the test from the libraries, code and files of this process.

        A worker passes if it has the same libraries and code, `files` of the same
        content, and `data` files of the same lengths. A file with random content is
        written to the folder `shared`, unless it exists. A worker that sees a different
        folder under this path lacks the file, and fails.
        """
        needed = list(files)
        if shared is not None:
            shared.mkdir(parents=True, exist_ok=True)
            seen = shared / SEEN
            with suppress(FileExistsError), seen.open("x") as file:
                file.write(token_hex(16))
            needed.append(seen)
        facts = describe(tuple(needed), tuple(data))
        return cls(tuple(needed), tuple(data), _digest_of(facts))

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Test this worker, then call the function and return its result.

        Raises OtherWorker, with the facts of this worker, if it fails.
        """
        facts = _described(self.files, self.data)
        if _digest_of(facts) != self.wanted:
            raise OtherWorker(facts)
        return function(*arguments)

    def refuse(self, name: str, found: Any) -> None:
        """Raise BadWorker, with the reasons, if the worker `name` fails the test.

        `found` is what `describe` returned in this worker, or the error that it raised.
        """
        if isinstance(found, BadWorker):
            raise BadWorker(f"worker {name}: {found}")
        if not isinstance(found, WorkerFacts):
            what = f"{type(found).__name__}: {found}"
            raise BadWorker(
                f"worker {name}: {what}; polydom must be installed there as it is here"
            )
        here = describe(self.files, self.data)
        for path, digest in here.files.items():
            if (other := found.files.get(path)) != digest:
                raise BadWorker(f"worker {name}: {_about_file(Path(path), other)}")
        differ = differences(here.versions, found.versions)
        if not differ and here.sources != found.sources:
            differ = [f"polydom's code {found.sources} (here {here.sources})"]
        if differ:
            more = f" and {len(differ) - SHOWN} more" if differ[SHOWN:] else ""
            raise BadWorker(
                f"worker {name} has {', '.join(differ[:SHOWN])}{more}; all that "
                "compute need the same"
            )


def describe(files: tuple[Path, ...], data: tuple[Path, ...] = ()) -> WorkerFacts:
    """Return the facts of the process that runs this function.

    They include a digest of each file in `files`, and the length of each in `data`.
    """
    digests = {str(file): _digest_or_why(file) for file in files}
    digests |= {str(path): _length_or_why(path) for path in data}
    readable = [file for file in files if file.suffix == ".py" and file.is_file()]
    return WorkerFacts(socket.gethostname(), versions(readable), _sources(), digests)


_described = lru_cache(maxsize=8)(describe)


def _digest_of(facts: WorkerFacts) -> str:
    known = facts._replace(host="", files=dict(sorted(facts.files.items())))
    return hashlib.sha256(repr(known).encode()).hexdigest()


def _digest_or_why(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError as error:
        return error.strerror or str(error)


def _length_or_why(path: Path) -> str:
    try:
        return "folder" if path.is_dir() else f"length:{path.stat().st_size}"
    except OSError as error:
        return error.strerror or str(error)


def _about_file(path: Path, found: str | None) -> str:
    missing = found is None or " " in found
    if path.name == SEEN:
        what = "does not see" if missing else "sees another folder as"
        return f"{what} {path.parent}; --shared must be one folder for all workers"
    why = found if missing else "it holds something else"
    return f"{path}: {why}; workers read it where it lies here"


@lru_cache(maxsize=1)
def _sources() -> str:
    digest = hashlib.sha256()
    for room in (polydom.features, polydom.models):
        (folder,) = map(Path, room.__path__)
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:8]
