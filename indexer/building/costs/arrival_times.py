"""Arrival times of a project's fetches: read from a file, or measured.

An arrival time is no cost: nothing is computed while a request waits for a fetch. So
the search and the cost curves never see it.
"""

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject, FetchFailed
from polydom.features.fetches.fetch import Call, Fetch, Key
from polydom.features.fetches.load import load_fetches
from polydom.features.fetches.timing import outside_loops, read_times, time_fetches
from polydom.features.items import Value
from polydom.features.wording import hint

from ...progress import OnProgress, Progress, skip
from ..cache import Array, Cache, digest
from ..project import Project

STAGE = "timing fetches"
AT_ONCE = 8  # rows that are asked for at the same time


class FetchTimes(NamedTuple):
    """The arrival times of a project's U fetches, in the project's order."""

    # (M, U) float64: Seconds from sending to arrival, a joint draw in each row;
    # infinite if a fetch did not come
    draws: NDArray[np.float64]
    warnings: list[str]  # Sentences about fetches that failed for some keys


NO_FETCHES = FetchTimes(np.empty((0, 0)), [])


def open_fetches(project: Project) -> list[Fetch]:
    """Load the fetches of a project whose calls are known; nothing is connected to.

    Raises BadFetch for a file that cannot be used, or whose fetches have other keys or
    columns; and BadProject if it has no fetch of a name.
    """
    named = {n: f for n, f in project.fetches.items() if f.source is not None}
    files = {fetch.source: project.path(str(fetch.source)) for fetch in named.values()}
    loaded = {source: load_fetches([path]) for source, path in files.items()}
    found = []
    for name, terms in named.items():
        known = loaded[terms.source]
        if name not in known:
            raise BadProject(
                f"[fetches.{name}] from: {terms.source} has no fetch {name!r}; "
                f"{hint(name, [*known])}"
            )
        fetch = known[name]
        if terms.of_items and fetch.kind == "record":
            raise BadProject(
                f"[fetches.{name}] has no key, and {terms.source} has a fetch of "
                "records: name the key and the columns"
            )
        if not terms.of_items:
            fetch = fetch.bound_to(terms.key, terms.columns)
        found.append(fetch)
    return found


def made_by(project: Project, name: str) -> str:
    """Return a hash of the file that says how a fetch is called.

    Raises BadProject if it cannot be read.
    """
    source = project.fetches[name].source
    assert source is not None
    try:
        content = project.path(source).read_bytes()
    except OSError as error:
        raise BadProject(
            f"[fetches.{name}] from: {source}: {error.strerror}"
        ) from error
    return hashlib.sha256(content).hexdigest()


def measure_arrivals(
    project: Project,
    rows: Sequence[Mapping[str, Value]],
    cache: Cache,
    progress: Progress,
) -> FetchTimes:
    """Return the arrival times of all fetches; measure them for the keys of `rows`.

    All fetches are asked for one row at the same moment, so that draws are joint.
    Measured times are kept in `cache`. Raises BadProject if a fetch never came.
    """
    if not project.fetches:
        return NO_FETCHES
    names = [*project.fetches]
    (file,) = {fetch.times for fetch in project.fetches.values()}
    if file is not None:
        draws = read_times(project.path(file), names)
        for place, name in enumerate(names):
            if not np.isfinite(draws[:, place]).any():
                raise BadProject(
                    f"[fetches.{name}] {file} has no time at which {name!r} came"
                )
        return FetchTimes(draws, [])
    entry = f"arrivals/{digest(_terms_of(project), rows)}"
    known = cache.recall(entry, _read)
    if known is not None and known.draws.shape[1] == len(names):
        skip(progress, STAGE)
        return known
    fetches = open_fetches(project)
    calls = (len(rows) + min(AT_ONCE, len(rows))) * len(fetches)
    with progress.stage(STAGE, calls) as on_progress:
        found = _measure(fetches, rows, on_progress)
    cache.store(entry, {"warnings": found.warnings}, {"draws": found.draws})
    return found


def _terms_of(project: Project) -> list[Any]:
    """Return plain data that measured times depend on, but for the keys."""
    return [
        [name, fetch.key, fetch.columns, made_by(project, name)]
        for name, fetch in project.fetches.items()
    ]


def _read(meta: dict[str, Any], arrays: Mapping[str, Array]) -> FetchTimes:
    draws = arrays["draws"]
    if draws.ndim != 2 or not (draws >= 0).all():
        raise BadProject("its arrival times are no times")
    return FetchTimes(draws, [str(warning) for warning in meta["warnings"]])


def _measure(
    fetches: Sequence[Fetch],
    rows: Sequence[Mapping[str, Value]],
    on_progress: OnProgress,
) -> FetchTimes:
    done, failures = itertools.count(1), dict[str, FetchFailed]()

    def counted(call: Call) -> Call:
        async def ask(keys: Sequence[Key], left_s: float) -> Sequence[Any]:
            try:
                return await call(keys, left_s)
            finally:
                on_progress(next(done))

        return ask

    draws, values = outside_loops(
        partial(
            time_fetches,
            [replace(one, call=counted(one.call)) for one in fetches],
            rows,
            AT_ONCE,
            failed=lambda fetch, error: failures.setdefault(fetch.name, error),
        )
    )
    warnings = []
    for place, fetch in enumerate(fetches):
        came = int(np.isfinite(draws[:, place]).sum())
        late = f"it took longer than {fetch.at_most_s * 1e3:g} ms"
        why = str(failures.get(fetch.name, late))
        if not came:
            raise BadProject(
                f"[fetches.{fetch.name}] came for none of {len(rows)} keys: {why}"
            )
        if came < len(rows):
            warnings.append(
                f"fetch {fetch.name!r} came for {came} of the {len(rows)} keys that it "
                f"was timed with: {why}"
            )
        if all(row[place] is None for row in values):
            warnings.append(
                f"fetch {fetch.name!r} found nothing for any of {len(rows)} keys of "
                f"the table, such as {_shown(fetch, rows[0])}"
            )
    return FetchTimes(draws, warnings)


def _shown(fetch: Fetch, row: Mapping[str, Any]) -> str:
    keys = [f"{name} = {row[name]!r}" for name in fetch.key]
    return ", ".join(keys) or f"the first {fetch.kind}"
