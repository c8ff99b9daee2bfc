"""The features of a project: found by name, checked, and tried on an item."""

import contextlib
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import msgspec
import numpy as np
from msgspec import UNSET

from polydom.features.declared_files import checksums_of, files_of
from polydom.features.errors import (
    BadFeature,
    BadItem,
    BadProject,
    FeatureFailed,
    PolydomError,
)
from polydom.features.extract import Extractor
from polydom.features.feature import Feature
from polydom.features.fetches.fetch import fetched_feature
from polydom.features.fingerprint import fingerprint, unsteady
from polydom.features.items import Kind
from polydom.features.loading import load_features
from polydom.features.networks.facts import NetworkFacts
from polydom.features.networks.network import Network
from polydom.features.networks.pooled import PARTS, Projection
from polydom.features.ready_made.learned_text import TermWeights, recipes_by_name
from polydom.features.tables.text_columns import name_on

from ...index.fetches.stored_fetches import names_of_vectors
from ...index.package import MOST_BITS
from ...index.stored_features import (
    NOT_ANY,
    Learned,
    StoredFeature,
    load_extractor,
)
from ..cache import Array, Cache, SharedArrays, digest
from ..costs.measured_items import spread_over_sizes
from ..data.dataset import Dataset
from ..project import Project
from .column_groups import MAX_FEATURES, column_groups, of_columns
from .network_features import NetworkFeatures, network_features
from .opened_files import OpenedFiles, undeclared
from .text_features import Chosen, ChosenRecipe, Found, TextColumns

log = logging.getLogger("polydom")

CHECKED = 5  # items on which features are computed twice and compared


# The extractor that was loaded last. Its key is the stored features: their fingerprints
# include learned weights.
_LOADED: dict[tuple[bytes, tuple[Path, ...]], Extractor] = {}


class ProjectFeatures:
    """The features of a project: their descriptions for the index, and their code.

    A build runs the user's Python files once. Another process receives only the paths
    of the files, and runs them when it first needs a feature. `stored` describes the
    features that are ready to compute, and `recipes` those that the build learns later.
    """

    def __init__(
        self,
        stored: Sequence[StoredFeature],
        files: Sequence[Path],
        extractor: Extractor | None = None,
        recipes: Sequence[ChosenRecipe] = (),
        learned: Learned = NOT_ANY,
        networks: Sequence[Network] = (),
    ) -> None:
        self.stored = _with_needs(stored)
        self.files = tuple(files)
        self._extractor = extractor
        self.recipes = tuple(recipes)
        self.learned = learned
        self.networks = tuple(networks)
        self._arrays: SharedArrays | None = None
        self._warned_of: set[str] = set()  # undeclared files, by path

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle everything but the recipes, which only the build's process needs."""
        if self._arrays is not None:
            return _read_features, (self._arrays, self.files)
        given = self.stored, self.files, None, (), self.learned, self.networks
        return type(self), given

    def shared(self, cache: Cache) -> "ProjectFeatures":
        """Write the features' data to the cache for workers; return such features."""
        stored = msgspec.msgpack.encode(self.stored)
        arrays: dict[str, Array] = {"stored": np.frombuffer(stored, np.uint8)}
        for place, one in enumerate(self.stored):
            if one.name in self.learned:
                own = self.learned[one.name].arrays()
                arrays |= {f"{place}_{name}": array for name, array in own.items()}
        if self.networks:
            facts = msgspec.msgpack.encode([one.facts for one in self.networks])
            arrays["networks"] = np.frombuffer(facts, np.uint8)
        for place, network in enumerate(self.networks):
            own = network.arrays()
            arrays |= {f"n{place}_{name}": array for name, array in own.items()}
        name = f"features/{digest(stored)}"
        shared = ProjectFeatures(
            self.stored,
            self.files,
            self._extractor,
            (),
            self.learned,
            self.networks,
        )
        shared._arrays = cache.share(name, arrays)
        return shared

    def joined(self, learned: Self) -> "ProjectFeatures":
        """Return these features followed by the features in `learned`."""
        features = [*(self.extractor.features if self.stored else ())]
        features += learned.extractor.features
        weights = {**self.learned, **learned.learned}
        return self.replaced([*self.stored, *learned.stored], features, weights)

    def replaced(
        self,
        stored: Sequence[StoredFeature],
        features: Sequence[Feature],
        learned: Learned,
        recipes: Sequence[ChosenRecipe] = (),
    ) -> "ProjectFeatures":
        """Return other features and recipes of the same files and networks."""
        extractor = Extractor(features, [one.width for one in stored], None)
        made = ProjectFeatures(
            stored, self.files, extractor, recipes, learned, self.networks
        )
        made._warned_of = self._warned_of
        return made

    def say_opened(self, opened: Collection[str]) -> None:
        """Warn once of each opened file that no feature declares."""
        declared = [
            p for one in self.extractor.features for p in files_of(one).values()
        ]
        for path, warning in undeclared(opened, declared, self.files).items():
            if path not in self._warned_of:
                log.warning("%s", warning)
        self._warned_of.update(opened)

    @property
    def extractor(self) -> Extractor:
        """Extractor that computes the features; made when it is first needed.

        Raises BadFeature if the features' code has changed since they were described.
        """
        if self._extractor is None:
            key = msgspec.msgpack.encode(self.stored), self.files
            if key not in _LOADED:
                _LOADED.clear()
                _LOADED[key] = load_extractor(
                    self.stored,
                    self.files,
                    self.learned,
                    self.networks,
                    building=True,
                )
            return _LOADED[key]
        return self._extractor

    @property
    def starts(self) -> tuple[int, ...]:
        """First column of each feature in a row of values, then the row's width."""
        return (0, *accumulate(feature.width for feature in self.stored))


def _with_needs(stored: Sequence[StoredFeature]) -> tuple[StoredFeature, ...]:
    """Let each feature say which vectors it needs, if some feature is a vector."""
    if all(one.vector_of is UNSET for one in stored):
        return tuple(stored)
    replaced = msgspec.structs.replace
    return tuple(
        replaced(one, fetched=[]) if one.fetched is UNSET else one for one in stored
    )


def _read_features(arrays: SharedArrays, files: Sequence[Path]) -> ProjectFeatures:
    """Read the features' descriptions and weights from shared arrays.

    The code in `files` is loaded when a feature is first needed.
    """
    stored = msgspec.msgpack.decode(
        arrays["stored"].tobytes(), type=list[StoredFeature]
    )
    learned: dict[str, TermWeights | Projection] = {}
    for place, one in enumerate(stored):
        own = _part(arrays, f"{place}_")
        if own.keys() == {*PARTS}:
            learned[one.name] = Projection(**own)
        elif own:
            learned[one.name] = TermWeights(**own)
    networks = []
    if "networks" in arrays:
        facts = msgspec.msgpack.decode(
            arrays["networks"].tobytes(), type=list[NetworkFacts]
        )
        networks = [
            Network.load(own, _part(arrays, f"n{k}_")) for k, own in enumerate(facts)
        ]
    return ProjectFeatures(stored, files, learned=learned, networks=networks)


def _part(arrays: SharedArrays, begin: str) -> dict[str, Array]:
    return {n.removeprefix(begin): arrays[n] for n in arrays if n.startswith(begin)}


def refuse_unknown_features(project: Project) -> None:
    """Raise BadFeature if the project of texts or images names an unknown feature."""
    known = {*recipes_by_name(), *project.fetches}
    named = [name for name in project.features.use if name not in known]
    load_features(named, project.feature_files)


def choose_features(project: Project, dataset: Dataset) -> ProjectFeatures:
    """Find and check the project's features; learn their widths by trying an item.

    Raises BadProject if features are unknown, too many, or for other kinds of items.
    """
    files = project.feature_files
    opened = OpenedFiles(watches=bool(files))
    loaded = opened.during(load_features, [], files)
    own = {feature.name: feature for feature in loaded}
    texts = TextColumns.of(project, dataset, own)
    networks = network_features(project, dataset, texts)
    chosen = _all_chosen(project, dataset, own, texts, networks)
    found, recipes = chosen
    _refuse_count(chosen, project, dataset.kind)
    _refuse_unsteady([one for one, _ in found if not one.ready_made], own, files)
    kinds = [(stored.name, feature.kind) for stored, feature in found]
    kinds += [(one.name, one.kind) for one in recipes]
    _refuse_kinds(kinds, dataset.kind, texts)
    if not found:
        return ProjectFeatures([], files, None, recipes)
    chosen_features = [feature for _, feature in found]
    checksums = checksums_of(chosen_features)
    extractor = _probe(chosen_features, dataset, opened)
    described = [
        msgspec.structs.replace(stored, width=width, files=files_read or UNSET)
        for (stored, _), width, files_read in zip(
            found, extractor.widths, checksums, strict=True
        )
    ]
    features = ProjectFeatures(
        described, files, extractor, recipes, networks=networks.networks
    )
    features.say_opened(opened.found)
    return features


def _all_chosen(
    project: Project,
    dataset: Dataset,
    own: Mapping[str, Feature],
    texts: TextColumns,
    networks: NetworkFeatures,
) -> Chosen:
    """Return the features that the project names, or else the default features."""
    named, known = project.features.use, recipes_by_name()
    on_texts = texts.named(named)
    groups, usual = column_groups(project, dataset, texts, on_texts)
    vectors = {name: one.shape[1] for name, one in dataset.vectors.items()}
    found = [*_functions(project, own, on_texts, vectors), *on_texts.found]
    found += [*networks.found, *of_columns(groups, dataset)]
    found += _of_vectors(vectors, dataset.kind)
    recipes = [*(ChosenRecipe(known[name]) for name in named if name in known)]
    recipes += on_texts.recipes
    if not usual:
        return Chosen(found, recipes)
    more = texts.usual(usual, MAX_FEATURES - len(found) - len(recipes))
    return Chosen([*found, *more.found], [*recipes, *more.recipes])


def _refuse_count(chosen: Chosen, project: Project, kind: Kind) -> None:
    """Raise BadProject for no features, too many, too many steps, or a name twice."""
    found, recipes = chosen
    names = [*(stored.name for stored, _ in found), *(one.name for one in recipes)]
    if not names and kind == "record":
        raise BadProject("the rows have no columns to make features of")
    if not names:
        raise BadProject(f"[features] names no feature{_suggestion(kind)}")
    if len(names) > MAX_FEATURES:
        raise BadProject(_too_many(project, kind, len(names)))
    if chosen.steps > MOST_BITS:
        raise BadProject(
            f"the features need {chosen.steps} steps; "
            f"{MOST_BITS} is the most: name fewer in `use`"
        )
    for name in names:
        if names.count(name) > 1:
            raise BadProject(f"[features] names {name!r} twice")


def _refuse_kinds(
    kinds: Sequence[tuple[str, Kind]], needed: Kind, texts: TextColumns
) -> None:
    for name, kind in kinds:
        if kind == needed:
            continue
        near = _suggestion(needed)
        if kind == "text" and texts.texts:
            column = next(iter(texts.texts))
            near = f"; that of column {column!r} is named {name_on(column, name)!r}"
        raise BadProject(
            f"feature {name!r} is for {kind} items; the data's items are "
            f"{needed}s{near}"
        )


def _refuse_unsteady(
    chosen: Sequence[StoredFeature], own: Mapping[str, Feature], files: Sequence[Path]
) -> None:
    """Raise BadFeature if loading a feature's file again gives a different feature."""
    if not chosen:
        return
    again = {feature.name: feature for feature in load_features([], files)}
    for stored in chosen:
        other = again.get(stored.function)
        made = other and stored.on_column(other)
        if made is None or fingerprint(made) != stored.fingerprint:
            differ = unsteady(own[stored.function], other) if other else []
            raise BadFeature(
                f"feature {stored.name!r} is another whenever its file is loaded: "
                f"{', '.join(differ) or 'what it refers to'} should be the same each "
                "time, so that an index can say what it was built with; give "
                "generators of random numbers a seed"
            )


def _probe(
    features: Sequence[Feature], dataset: Dataset, opened: OpenedFiles
) -> Extractor:
    """Find each feature's width; check that features are deterministic.

    Widths come from the first usable item on which no feature fails. The check computes
    items of all sizes twice, since some features draw at random only for large items.
    `opened` collects the files that features open.
    """
    unusable: PolydomError | None = None
    for item, name in zip(dataset.items, dataset.names, strict=True):
        try:
            extractor = opened.during(Extractor.probe, features, item, name)
            break
        except BadItem as error:
            unusable = error
        except FeatureFailed as failure:
            if features[failure.feature or 0].fails != "without":
                raise
            unusable = failure
    else:
        raise BadProject(
            f"all {len(dataset.items)} items are unusable, or some feature fails on "
            f"them; the last: {unusable}"
        )
    for position in spread_over_sizes(dataset, CHECKED):
        with contextlib.suppress(BadItem):
            item, name = dataset.items[position], dataset.names[position]
            opened.during(extractor.check, item, name)
    return extractor


def _of_vectors(vectors: Mapping[str, int], kind: Kind) -> Iterator[Found]:
    """Yield a feature for each fetch that brings vectors, of its name."""
    for name, width in vectors.items():
        assert kind != "record"
        feature = fetched_feature(name, kind, width)
        made_of = fingerprint(feature)
        stored = StoredFeature(
            name, 0, made_of, ready_made=True, fetched=[name], vector_of=kind
        )
        yield stored, feature


def _functions(
    project: Project,
    own: Mapping[str, Feature],
    on_texts: Chosen,
    vectors: Mapping[str, int],
) -> Iterator[Found]:
    """Yield the features that the project names, except those made of columns.

    If the project names none of the user's own features, this also yields all of them.
    `vectors` has the widths of the vectors that fetches bring, by the fetches' names.
    """
    others = {*recipes_by_name(), *on_texts.names, *vectors}
    named = [name for name in project.features.use if name not in others]
    ready_made = {f.name: f for f in load_features([n for n in named if n not in own])}
    on_columns = any(not stored.ready_made for stored, _ in on_texts.found)
    if not (on_columns or any(name in own for name in named)):
        named = [*named, *own]
    for name in named:
        feature = own[name] if name in own else ready_made[name]
        needed = names_of_vectors(feature)
        for fetch in needed:
            if fetch not in vectors:
                raise BadProject(
                    f"feature {name!r} needs the vector of fetch {fetch!r}; a table "
                    f"[fetches.{fetch}] is needed"
                )
        stored = StoredFeature(
            name,
            0,
            fingerprint(feature),
            name not in own,
            fetched=needed if vectors else UNSET,
        )
        yield stored, feature


def _suggestion(kind: Kind) -> str:
    if kind == "record":
        return "; leave out `use`, and every column is a feature"
    return f"; see `polydom features --kind {kind}`"


def _too_many(project: Project, kind: Kind, count: int) -> str:
    chosen = project.features
    what, cure = "[features] names", "name fewer in `use`"
    if kind == "record" and chosen.columns:
        what, cure = "[[features.columns]] makes", "put more columns in a group"
    return f"{what} {count} features; {MAX_FEATURES} is the most: {cure}"
