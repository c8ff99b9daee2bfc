"""Names of the served models, chosen by the operator or taken from the file names."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from polydom.features.errors import BadInput

# Ends of names of files beside a served index: its candidate, and the index of before.
_BESIDE = (".next.pdx", ".previous.pdx")
AnyPath = str | os.PathLike[str]


def name_files(arguments: Iterable[str]) -> dict[str, Path]:
    """Return the index file of each model, from arguments `FILE` or `NAME=FILE`.

    Without `NAME`, the stem of the file is the name, and a `FILE` that contains `=`
    must have a `/` before it. `FILE` may be a folder, as object stores and volumes
    provide. The folder must have exactly one `.pdx` file, which is the index.
    """
    pairs = []
    for argument in arguments:
        name, separator, path = argument.partition("=")
        if separator and not set(name) & {"/", os.sep}:
            pairs.append((name, _index_at(Path(path))))
        else:
            file = _index_at(Path(argument))
            pairs.append((file.stem, file))
    return _unique(pairs)


def name_candidates(
    arguments: Iterable[str], files: Mapping[str, Path]
) -> dict[str, Path]:
    """Return each candidate's file by its model, from arguments `FILE` or `NAME=FILE`.

    Without `NAME`, it is the candidate of the first of `files`. A file may be missing.
    """
    named: dict[str, Path] = {}
    for argument in arguments:
        name, separator, text = argument.partition("=")
        if not separator or set(name) & {"/", os.sep}:
            name, text = next(iter(files)), argument
        path = Path(text)
        if name not in files:
            raise BadInput(
                f"--candidate {argument}: no model is called {name!r}; served: "
                f"{', '.join(files)}"
            )
        if name in named:
            raise BadInput(f"model {name!r} has two candidates; one is needed")
        if not path.parent.is_dir():
            raise BadInput(f"--candidate {argument}: there is no folder {path.parent}")
        # a promotion moves the file, so no other model may need it
        if _place(path) in map(_place, (*files.values(), *named.values())):
            raise BadInput(
                f"--candidate {argument}: this file is served already, or is another "
                "model's candidate"
            )
        named[name] = path
    return named


def name_paths(paths: Iterable[AnyPath] | Mapping[str, AnyPath]) -> dict[str, Path]:
    """Return each model's index file; without a name, a path's stem is the name."""
    if isinstance(paths, Mapping):
        return _unique((name, Path(path)) for name, path in paths.items())
    return _unique((Path(path).stem, Path(path)) for path in paths)


def _index_at(path: Path) -> Path:
    """Return `path`, or the only index file in it if `path` is a folder."""
    if not path.is_dir():
        return path
    # hidden files are no indexes, such as the ._NAME.pdx that macOS writes
    found = sorted(path.glob("[!.]*.pdx"))
    files = [file for file in found if not file.name.endswith(_BESIDE)]
    if len(files) == 1:
        return files[0]
    names = ", ".join(file.name for file in files[:3]) or "none"
    more = ", ..." if len(files) > 3 else ""
    raise BadInput(
        f"{path} is a folder: one .pdx file is needed in it, found {names}{more}; "
        "give the file itself"
    )


def _place(path: Path) -> Path:
    """Return the path without links and `..` in its folder; a link stays a link."""
    return path.parent.resolve() / path.name


def _unique(pairs: Iterable[tuple[str, Path]]) -> dict[str, Path]:
    """Return `pairs` as a dict; raise BadInput if a name is repeated or invalid."""
    named: dict[str, Path] = {}
    for name, path in pairs:
        if name in named:
            raise BadInput(
                f"{named[name]} and {path} would both be called {name!r}; give one of "
                "them a name: NAME=FILE"
            )
        if not name or not name.isprintable() or "/" in name:
            raise BadInput(f"{path}: {name!r} cannot be a model's name in a URL")
        named[name] = path
    if not named:
        raise BadInput("no index file was given to serve")
    return named
