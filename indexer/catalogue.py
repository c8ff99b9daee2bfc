"""The features a project chooses from, found and measured for width."""

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from ..features.errors import BadFeature, BadItem, BadProject
from ..features.extract import Extractor
from ..features.feature import Feature
from ..features.fingerprint import fingerprint, unsteady
from ..features.items import Kind
from ..features.loading import load_features
from ..features.record import columns, learn_vocabularies
from ..features.wording import hint
from .costing import spread_over_sizes
from .data import Dataset
from .project import Columns, Project
from .stored import StoredFeature, resolve

MAX_FEATURES = 62
CHECKED = 5  # items on which features must give the same twice


def choose_features(project: Project, dataset: Dataset) -> tuple[StoredFeature, ...]:
    """Find the project's features and how wide each is on the data's items.

    Raises
    ------
    BadProject
        If none or more than 62 are named, a name comes twice, or one is for items
        of another kind.
    BadFeature
        If a name is unknown or a feature does not keep its promises.
    """
    stored = [*_functions(project), *_columns(project, dataset)]
    if not stored:
        if dataset.kind == "record":
            raise BadProject("the rows have no columns to make features of")
        raise BadProject(f"[features] names no feature{_suggestion(dataset.kind)}")
    if len(stored) > MAX_FEATURES:
        raise BadProject(_too_many(project, dataset.kind, len(stored)))
    names = [feature.name for feature in stored]
    for name in names:
        if names.count(name) > 1:
            raise BadProject(f"[features] names {name!r} twice")
    found = _resolve(stored, project_files(project))
    for feature in found:
        if feature.kind != dataset.kind:
            raise BadProject(
                f"feature {feature.name!r} is for {feature.kind} items; "
                f"the data's items are {dataset.kind}s{_suggestion(dataset.kind)}"
            )
    extractor = _probe(found, dataset)
    return tuple(
        msgspec.structs.replace(feature, width=width)
        for feature, width in zip(stored, extractor.widths, strict=True)
    )


def _resolve(stored: Sequence[StoredFeature], files: Sequence[Path]) -> list[Feature]:
    """Load the features again; refuse those that are not what they just were."""
    try:
        return resolve(stored, files)
    except BadFeature:
        once, again = load_features([], files), load_features([], files)
        for one, other in zip(once, again, strict=True):
            if fingerprint(one) != fingerprint(other):
                names = ", ".join(unsteady(one, other)) or "what it refers to"
                raise BadFeature(
                    f"feature {one.name!r} is another whenever its file is loaded: "
                    f"{names} should be the same each time, so that an index can say "
                    "what it was built with; give generators of random numbers a seed"
                ) from None
        raise


def _probe(features: Sequence[Feature], dataset: Dataset) -> Extractor:
    """Find widths on the first usable item, and check that a second time is the same.

    That is checked on items from the smallest to the largest, since some features draw
    at random only where there is much. Unusable ones are named when the values of all
    are computed.
    """
    unusable: BadItem | None = None
    for item, name in zip(dataset.items, dataset.names, strict=True):
        try:
            extractor = Extractor.probe(features, item, name)
            break
        except BadItem as error:
            unusable = error
    else:
        raise BadProject(
            f"all {len(dataset.items)} items are unusable; the last: {unusable}"
        )
    for position in spread_over_sizes(dataset, CHECKED):
        with contextlib.suppress(BadItem):
            extractor.check(dataset.items[position], dataset.names[position])
    return extractor


def project_files(project: Project) -> list[Path]:
    """Where the project's own features are defined."""
    return [project.path(name) for name in project.features.files]


def _functions(project: Project) -> list[StoredFeature]:
    own = {f.name: f for f in load_features([], project_files(project))}
    named = project.features.use
    ready_made = {f.name: f for f in load_features([n for n in named if n not in own])}
    if not any(name in own for name in named):
        named = [*named, *own]
    return [
        StoredFeature(name, 0, fingerprint((own | ready_made)[name]), name not in own)
        for name in named
    ]


def _columns(project: Project, dataset: Dataset) -> list[StoredFeature]:
    groups = project.features.columns
    chosen = groups or project.features.use or project.features.files
    if dataset.kind == "record" and not chosen:
        groups = [Columns(name, [name]) for name in _column_names(dataset)]
    if not groups:
        return []
    names = sorted({name for group in groups for name in group.columns})
    _refuse_unknown(names, _column_names(dataset))
    known = learn_vocabularies(dataset.items, names)
    stored = []
    for group in groups:
        arguments: dict[str, Any] = {
            "columns": group.columns,
            "vocabularies": {
                name: list(known[name]) for name in group.columns if name in known
            },
            "declared": dict(group.cost),
        }
        feature = columns(group.name, **arguments)
        stored.append(
            StoredFeature(group.name, 0, fingerprint(feature), True, arguments)
        )
    return stored


def _suggestion(kind: Kind) -> str:
    """Say where features for items of a kind are found."""
    if kind == "record":
        return "; leave out `use`, and every column is a feature"
    return f"; see `polydom features --kind {kind}`"


def _too_many(project: Project, kind: Kind, count: int) -> str:
    """Say which features there are, and how there come to be fewer."""
    chosen = project.features
    if kind != "record":
        what, cure = "[features] names", "name fewer in `use`"
    elif chosen.columns:
        what, cure = "[[features.columns]] makes", "put more columns in a group"
    elif not (chosen.use or chosen.files):
        what = "every column is a feature, which makes"
        cure = "put columns that belong together in one [[features.columns]] each"
    else:
        what, cure = "[features] names", "name fewer in `use`"
    return f"{what} {count} features; {MAX_FEATURES} is the most: {cure}"


def _refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise BadProject(
                f"[[features.columns]] names {name!r}, which no row has; "
                f"{hint(name, known, 0.4)}"
            )


def _column_names(dataset: Dataset) -> list[str]:
    names: dict[str, None] = {}
    for item in dataset.items:
        assert isinstance(item.payload, Mapping)
        names.update(dict.fromkeys(item.payload))
    return list(names)
