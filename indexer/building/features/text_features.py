"""Features of texts, applied to text items or to a table's columns of free text."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from polydom.features.errors import BadItem, BadProject
from polydom.features.extract import with_needs
from polydom.features.feature import Feature
from polydom.features.fingerprint import fingerprint
from polydom.features.items import Item, Kind, text_item
from polydom.features.loading import ready_made_features
from polydom.features.ready_made.learned_text import (
    NOTHING,
    Recipe,
    TermWeights,
    recipes_by_name,
)
from polydom.features.tables.column_kinds import ColumnTerms, read_column
from polydom.features.tables.records import Column, Records, column_names
from polydom.features.tables.text_columns import BETWEEN, name_on
from polydom.features.wording import hint

from ...index.package import MOST_BITS
from ...index.stored_features import StoredFeature, StoredText
from ..data.dataset import Dataset
from ..project import Project
from ..template import default_features

# Default features of a column, best first, for tables that exceed 62 features.
BEST_FIRST = (
    "learned_words",
    "text_length",
    "learned_word_pairs",
    "learned_opening",
    "casing",
    "punctuation",
    "learned_ngrams",
    "learned_all_ngrams",
)
AS_TEXT = 'a group of [[features.columns]] with kind = "text" reads it as such'

Found = tuple[StoredFeature, Feature]


class ChosenRecipe(NamedTuple):
    """A recipe for a learned feature; for records, also the column that it reads."""

    recipe: Recipe
    text: StoredText | UnsetType = UNSET

    @property
    def name(self) -> str:
        """Name of the learned feature."""
        if self.text is UNSET:
            return self.recipe.name
        return name_on(self.text.column, self.recipe.name)

    @property
    def kind(self) -> Kind:
        """Kind of the items that the feature reads."""
        return self.feature(NOTHING).kind

    def feature(self, learned: TermWeights) -> Feature:
        """Make the feature that scores items by learned weights."""
        made = self.recipe.feature(learned)
        return made if self.text is UNSET else self.text.put(made)


class Chosen(NamedTuple):
    """The features of a build: ready features, and recipes for features to learn."""

    found: Sequence[Found] = ()
    recipes: Sequence[ChosenRecipe] = ()

    @property
    def names(self) -> set[str]:
        """Names of all features, ready or to be learned."""
        return {one.name for one, _ in self.found} | {one.name for one in self.recipes}

    @property
    def steps(self) -> int:
        """Number of distinct steps that all the features need."""
        made = [one for _, one in self.found]
        return len(with_needs([*made, *(one.feature(NOTHING) for one in self.recipes)]))


@dataclass(frozen=True)
class TextColumns:
    """The columns of free text in a project's records."""

    texts: Mapping[str, StoredText]  # Columns of free text, by name
    columns: Sequence[str]  # Names of all columns
    own: Mapping[str, Feature]  # The user's features, by name

    @classmethod
    def of(
        cls, project: Project, dataset: Dataset, own: Mapping[str, Feature]
    ) -> "TextColumns":
        """Find the columns of free text; none if the items are not records."""
        if dataset.kind != "record":
            return cls({}, (), own)
        texts = dict(_texts_in(dataset.items, project))
        return cls(texts, column_names(dataset.items), own)

    def named(self, names: Sequence[str]) -> Chosen:
        """Return the features with names like `note: learned_words`; skip others."""
        known = {*self.own, *self._of_texts}
        wanted = [name for name in names if name not in known and BETWEEN in name]
        if not self.columns:
            return Chosen()
        return self._made([self._part(name) for name in wanted])

    def usual(self, columns: Sequence[str], room: int) -> Chosen:
        """Return default features of texts, the same for each of the columns.

        If there is no room for all of them, only the best are returned: at most `room`
        features in total. Raises BadProject if `room` is too small for one feature per
        column.
        """
        for count in range(len(BEST_FIRST), 0, -1):
            best = BEST_FIRST[:count]
            names = [name for name in default_features("text") if name in best]
            made = self._made([(col, name) for col in columns for name in names])
            if len(made.names) <= room and made.steps <= MOST_BITS:
                return made
        raise BadProject(
            f"{len(columns)} columns of free text, from {columns[0]!r} on, leave no "
            f"room for a feature of each: name some, as in [features] use = "
            f'["{name_on(columns[0], BEST_FIRST[0])}"], or leave columns out with '
            "[data] ignore"
        )

    @property
    def _of_texts(self) -> dict[str, Feature | Recipe]:
        made = [*ready_made_features(), *self.own.values()]
        texts = {one.name: one for one in made if one.kind == "text"}
        return {**texts, **recipes_by_name()}

    def _part(self, name: str) -> tuple[str, str]:
        """Split a name `COLUMN: FEATURE` into the names of column and text feature."""
        begun = [one for one in self.columns if name.startswith(name_on(one, ""))]
        if not begun:
            column = name.rpartition(BETWEEN)[0]
            raise BadProject(
                f"[features] names {name!r}, and no row has a column {column!r}; "
                f"{hint(column, self.columns, 0.4)}"
            )
        column = max(begun, key=len)
        if column not in self.texts:
            raise BadProject(
                f"[features] names {name!r}, and column {column!r} holds no free "
                f"text; {AS_TEXT}"
            )
        feature = name.removeprefix(name_on(column, ""))
        if feature not in self._of_texts:
            raise BadProject(
                f"[features] names {name!r}, and there is no feature of texts "
                f"{feature!r}; {hint(feature, [*self._of_texts])}"
            )
        return column, feature

    def _made(self, chosen: Sequence[tuple[str, str]]) -> Chosen:
        found: list[Found] = []
        recipes: list[ChosenRecipe] = []
        known = self._of_texts
        for column, name in chosen:
            text, one = self.texts[column], known[name]
            if isinstance(one, Recipe):
                recipes.append(ChosenRecipe(one, text))
                continue
            feature = text.put(one)
            made_of, ready_made = fingerprint(feature), name not in self.own
            stored = StoredFeature(
                feature.name, 0, made_of, ready_made, None, UNSET, text
            )
            found.append((stored, feature))
        return Chosen(found, recipes)


def texts_in(dataset: Dataset, text: StoredText) -> Dataset:
    """Return a data set whose items are the texts of one column.

    Raises BadProject if a cell is a number.
    """
    items, read = dataset.items, text.begin
    if isinstance(items, Records):  # so that no other column is read
        items = Records({text.column: items.columns[text.column]}, items.rows)[:]
    found = []
    for item, name in zip(items, dataset.names, strict=True):
        assert isinstance(item.payload, Mapping)
        try:
            found.append(text_item(read(item.payload)))
        except BadItem as error:
            raise BadProject(f"{name}: {error}") from error
    return replace(dataset, items=tuple(found))


def lacks(items: Sequence[Item], column: str) -> NDArray[np.bool_]:
    """Return a mask (N,): True for a record whose cell in the column is empty."""
    if isinstance(items, Records):
        return items.columns[column].missing()[items.rows]
    values = (_record(item).get(column) for item in items)
    return np.array([value is None or value != value for value in values], np.bool_)


def text_lengths(items: Sequence[Item]) -> NDArray[np.int64] | None:
    """Return the total length of each record's texts (N,), or None without texts."""
    if isinstance(items, Records):
        lengths = [
            _lengths(one) for one in items.columns.values() if one.kind == "text"
        ]
        return sum(lengths)[items.rows] if lengths else None  # type: ignore[index]
    found = [
        sum(len(value) for value in _record(item).values() if isinstance(value, str))
        for item in items
    ]
    return np.array(found, np.int64) if any(found) else None


def _texts_in(
    items: Sequence[Item], project: Project
) -> Iterator[tuple[str, StoredText]]:
    """Yield each column of free text: its name, how to read it, and what it costs."""
    groups = project.features.columns
    costs = {group.columns[0]: dict(group.cost) for group in groups if group.cost}
    if isinstance(items, Records):
        for name, column in items.columns.items():
            if column.kind == "text":
                most = _most(_lengths(column)[items.rows])
                yield name, StoredText(name, most, costs.get(name))
        return
    said = {name: group.kind for group in groups for name in group.columns}
    for name, cells in _strings(items).items():
        lengths = np.array([len(cell or "") for cell in cells])
        # Arrow refuses lone surrogates
        plain = [c and c.encode(errors="replace").decode() for c in cells]
        terms = ColumnTerms(said.get(name), typed=True)
        if read_column(name, pa.array(plain, pa.string()), terms).kind == "text":
            yield name, StoredText(name, _most(lengths), costs.get(name))


def _strings(items: Sequence[Item]) -> dict[str, list[str | None]]:
    """Return the columns that contain only strings, each with one cell per item."""
    found: dict[str, list[Any]] = {}
    for place, item in enumerate(items):
        for name, value in _record(item).items():
            cells = found.setdefault(name, [])
            cells += [None] * (place - len(cells))
            cells.append(value)
    return {
        name: cells
        for name, cells in found.items()
        if any(isinstance(cell, str) for cell in cells)
        and all(isinstance(cell, str | None) for cell in cells)
    }


def _lengths(column: Column) -> NDArray[np.int64]:
    lengths = pc.fill_null(pc.utf8_length(column.cells), 0)
    found: NDArray[np.int64] = lengths.to_numpy(zero_copy_only=False)
    return found


def _most(lengths: NDArray[np.int64]) -> int:
    return max(int(lengths.max()), 1)


def _record(item: Item) -> Mapping[str, Any]:
    assert isinstance(item.payload, Mapping)
    return item.payload
