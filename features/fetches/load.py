"""Loads fetches from an operator's files: Python files with `@fetch`, and .toml files.

An index holds no address, query or code of a fetch: all of these come from here.
"""

import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..errors import BadFeature, BadFetch
from ..loading import run_file
from ..wording import describe_decode_error, nearest
from .fetch import Fetch, ItemFetch
from .from_embeddings import EmbeddingsTerms, embeddings_fetch
from .from_feast import FeastTerms, feast_fetch
from .from_http import HttpTerms, http_fetch
from .from_postgres import PostgresTerms, postgres_fetch
from .from_redis import RedisTerms, redis_fetch
from .terms import Terms

CLOSE = 0.7  # similarity from which a key counts as a misspelt address
# The key that says what a fetch of a .toml file asks, its terms, and what makes it.
CONNECTORS: Mapping[str, tuple[type[Terms], Callable[[str, Any], Fetch]]] = {
    "redis": (RedisTerms, redis_fetch),
    "postgres": (PostgresTerms, postgres_fetch),
    "http": (HttpTerms, http_fetch),
    "feast": (FeastTerms, feast_fetch),
    "embeddings": (EmbeddingsTerms, embeddings_fetch),
}


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
    if file.suffix == ".toml":
        return [*_fetches_of_toml(file)]
    raise BadFetch(f"{file}: a .py or .toml file with fetches is needed")


def _fetches_of_python(file: Path) -> Iterable[Fetch]:
    try:
        defined = run_file(file).values()
    except BadFeature as error:
        raise BadFetch(str(error.args[0])) from error.__cause__
    fetches = (one.fetch if isinstance(one, ItemFetch) else one for one in defined)
    found = dict.fromkeys(one for one in fetches if isinstance(one, Fetch))
    if not found:
        raise BadFetch(
            f"{file} defines no fetch; an async function is one under "
            "@polydom.features.fetch"
        )
    return found


def _fetches_of_toml(file: Path) -> Iterator[Fetch]:
    try:
        tables = tomllib.loads(file.read_text("utf-8"))
    except OSError as error:
        raise BadFetch(f"{file}: {error.strerror}") from error
    except ValueError as error:  # not UTF-8, or not TOML
        raise BadFetch(f"{file}: no valid TOML: {error}") from error
    if not tables:
        raise BadFetch(f"{file} defines no fetch; each table is one, such as [orders]")
    for name, content in tables.items():
        try:
            yield _fetch_of_table(name, content)
        except BadFetch as error:
            raise BadFetch(f"{file}: {error.args[0]}") from error.__cause__


def _fetch_of_table(name: str, content: Any) -> Fetch:
    if not isinstance(content, dict):
        raise BadFetch(f"{name} is no table; each fetch is one, such as [orders]")
    kinds = [kind for kind in CONNECTORS if kind in content]
    if len(kinds) != 1:
        *others, last = CONNECTORS
        raise BadFetch(
            f"fetch {name!r} has {' and '.join(kinds) or 'no address'}; one address is "
            f"needed, of {', '.join(others)} or {last}{_misspelt(content)}"
        )
    form, make = CONNECTORS[kinds[0]]
    try:
        terms = msgspec.convert(content, form, strict=True)
    except msgspec.ValidationError as error:
        said = describe_decode_error(error, form)
        raise BadFetch(f"fetch {name!r}: {said}") from error
    return make(name, terms)


def _misspelt(content: Mapping[str, Any]) -> str:
    """Return the end of a message: the address that a table's unknown key may mean."""
    meant = ((key, nearest(key, CONNECTORS, CLOSE)) for key in content)
    return next(
        (f"; {key!r} is unknown, did you mean {n!r}?" for key, n in meant if n), ""
    )
