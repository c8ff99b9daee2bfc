"""Loads fetches from an operator's files: Python files with `@fetch`, and .toml files.

An index holds no address, query or code of a fetch: all of these come from here.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import BadFeature, BadFetch
from ..loading import run_file
from .fetch import Fetch


def load_fetches(files: Sequence[Path]) -> dict[str, Fetch]:
    """Return the fetches of Python and .toml files, by name, in the files' order.

    Python files are executed. Nothing is connected to yet: connections are opened by
    the first call, in the event loop that runs then.

    Raises
    ------
    BadFetch
        If a file cannot be read or executed, defines no fetch, or defines a fetch whose
        name another file has; or if a term is unknown or out of its range.
    """
    found: dict[str, Fetch] = {}
    for file in files:
        for fetch in _fetches_in(file):
            if fetch.name in found:
                raise BadFetch(f"{file}: there is another fetch {fetch.name!r}")
            found[fetch.name] = fetch
    return found


def _fetches_in(file: Path) -> Iterable[Fetch]:
    if not file.is_file():
        what = "this is a folder" if file.exists() else "No such file or directory"
        raise BadFetch(f"{file}: {what}; a .py or .toml file with fetches is needed")
    if file.suffix == ".py":
        return _fetches_of_python(file)
    raise BadFetch(f"{file}: a .py or .toml file with fetches is needed")


def _fetches_of_python(file: Path) -> Iterable[Fetch]:
    try:
        defined = run_file(file).values()
    except BadFeature as error:
        raise BadFetch(str(error.args[0])) from error.__cause__
    found = dict.fromkeys(one for one in defined if isinstance(one, Fetch))
    if not found:
        raise BadFetch(
            f"{file} defines no fetch; an async function is one under "
            "@polydom.features.fetch"
        )
    return found
