"""Names and facts of features in an index, from which their code is found again.

The code must be the same as at the build.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.declared_files import refuse_changed
from polydom.features.errors import BadFeature
from polydom.features.extract import Extractor
from polydom.features.feature import Feature
from polydom.features.fetches.fetch import fetched_feature
from polydom.features.fingerprint import fingerprint
from polydom.features.loading import load_features
from polydom.features.networks.network import Network, Stage
from polydom.features.networks.pooled import Projection
from polydom.features.ready_made.learned_text import TermWeights, recipes_by_name
from polydom.features.tables.column_features import columns
from polydom.features.tables.dates import DateOrder, Part
from polydom.features.tables.exact_numbers import Shift
from polydom.features.tables.text_columns import TextOf, feature_on, name_on
from polydom.features.wording import hint

from .built_facts import LARGEST

# What a build learned of features, by name: scores of texts, and reductions of columns.
Learned = Mapping[str, TermWeights | Projection]
NOT_ANY: Learned = {}

OWN_CURE = (
    "its code, its version, data in a global variable or a module of your own that it "
    "uses has changed, or the index is from an earlier release; give the files it was "
    "built from, or "
)


class StoredColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `polydom.features.tables.columns`, without the name."""

    columns: list[str]
    vocabularies: dict[str, list[str]] | None = None
    dates: dict[str, list[Part]] | None = None
    orders: dict[str, DateOrder] | None = None
    shifts: dict[str, Shift] | None = None
    declared: dict[str, float] | None = None


class StoredTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a learned feature. Its term weights are stored as arrays."""

    terms: int  # Number of known terms
    texts: int  # Number of labelled texts that the weights were learned from
    # C of the logistic regression that gave the weights; None for Bayes' rule
    strength: float | None = None


class StoredReduction(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about a network's feature whose columns a build reduced.

    The projection is stored as arrays.
    """

    columns: Annotated[int, msgspec.Meta(ge=1)]  # Number of columns before
    kept: Annotated[float, msgspec.Meta(ge=0, le=1)]  # Share of the variance that stays
    items: int  # Number of items that the projection was fitted on


class StoredText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of free text from which a text feature is computed; see `TextOf`."""

    column: str
    most: Annotated[int, msgspec.Meta(ge=1)]
    # Cost of having the text, by unit
    declared: dict[str, Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]] | None = None

    @property
    def begin(self) -> TextOf:
        """Return the step that extracts the text from a record."""
        return TextOf(self.column, self.most)

    def put(self, feature: Feature) -> Feature:
        """Convert a feature of texts to a feature of records that reads this column."""
        return feature_on(self.begin, feature, self.declared)


class StoredFeature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One feature of an index.

    `columns` is set for a group of a record's columns, `learned` for a feature that was
    learned from labelled texts, `text` for a text feature of a record's column, and
    `stage` for a piece of a network, with `reduced` if a build reduced its columns.
    """

    name: str
    width: int
    fingerprint: str
    ready_made: bool
    columns: StoredColumns | None = None
    learned: StoredTerms | UnsetType = UNSET  # unlike None not written into an index
    text: StoredText | UnsetType = UNSET
    # Ascending positions of the columns that were NaN for some items of the build; of a
    # function, not of a group of columns
    gaps: list[Annotated[int, msgspec.Meta(ge=0)]] | UnsetType = UNSET
    # SHA-256 of the files that the feature and its steps declare, by name. The names
    # are compared with those in the code, and never opened.
    files: dict[str, str] | UnsetType = UNSET
    stage: Stage | UnsetType = UNSET
    reduced: StoredReduction | UnsetType = UNSET
    # Fetches of a text or an image whose vectors the feature needs; only in an index
    # with such fetches
    fetched: list[str] | UnsetType = UNSET
    # Kind of the items whose vector, by the fetch of its name, is the feature
    vector_of: Literal["text", "image"] | UnsetType = UNSET

    @property
    def reads(self) -> list[str] | None:
        """Columns that the feature reads; None for a function, which may read any.

        Those of a text or an image are the fetches whose vectors the feature needs.
        """
        if self.fetched is not UNSET:
            return self.fetched
        if self.text is not UNSET:
            return [self.text.column]
        if self.stage is not UNSET:
            return self.stage.columns
        return None if self.columns is None else self.columns.columns

    @property
    def function(self) -> str:
        """Name of the feature's function, without the name of the text column."""
        if self.text is UNSET:
            return self.name
        return self.name.removeprefix(name_on(self.text.column, ""))

    def on_column(self, feature: Feature) -> Feature:
        """Put a feature of texts on the text column; unchanged if there is none."""
        return feature if self.text is UNSET else self.text.put(feature)


def load_extractor(
    stored: Sequence[StoredFeature],
    files: Sequence[Path] = (),
    learned: Learned = NOT_ANY,
    networks: Sequence[Network] = (),
    *,
    building: bool = False,
) -> Extractor:
    """Find the code of every stored feature, and make an extractor of the features.

    `files` are the user's files with features, because an index never names files. Each
    file runs once, so features that share a step get the same step object. `learned`
    has what a build learned of features, by name; `networks` are the networks of which
    features are pieces. If `building`, every column may be NaN, since the gaps are not
    known yet.

    Raises BadFeature if the fingerprint of a feature's code differs from the stored
    fingerprint, or the content of a file that the code declares from the stored
    checksum, or if a library that a network needs is not installed.
    """
    for network in networks:
        network.refuse_absent()
    own = {feature.name: feature for feature in load_features([], files)}
    known = {network.facts.name: network for network in networks}
    features = [_resolve(feature, own, learned, known) for feature in stored]
    refuse_changed(features, [one.files or {} for one in stored])
    gaps = [one.gaps or () for one in stored]
    widths = [feature.width for feature in stored]
    return Extractor(features, widths, None if building else gaps)


def _resolve(
    stored: StoredFeature,
    own: Mapping[str, Feature],
    learned: Learned,
    networks: Mapping[str, Network],
) -> Feature:
    if stored.text is not UNSET:
        _refuse_other_text(stored, stored.text)
    if stored.columns is not None:
        feature = columns(stored.name, **msgspec.structs.asdict(stored.columns))
    elif stored.learned is not UNSET:
        feature = _learned(stored, learned)
    elif stored.stage is not UNSET:
        feature = find_piece(stored, stored.stage, learned, networks)
    elif stored.vector_of is not UNSET:
        feature = _fetched(stored, stored.vector_of, learned)
    elif stored.ready_made:
        (feature,) = load_features([stored.function])
    else:
        if stored.function not in own:
            raise BadFeature(
                f"feature {stored.function!r} is the user's own and no file given "
                "defines it; name the file it was built from with --features FILE"
            )
        feature = own[stored.function]
    if stored.text is not UNSET and feature.kind != "text":
        raise BadFeature(
            f"feature {feature.name!r} is for {feature.kind} items, and the index has "
            f"it on a column of texts, {stored.text.column!r}"
        )
    feature = stored.on_column(feature)
    if fingerprint(feature) != stored.fingerprint:
        cure = "" if stored.ready_made else OWN_CURE
        raise BadFeature(
            f"feature {stored.name!r} is not what the index was built with; "
            f"{cure}build the index again"
        )
    return feature


def _refuse_other_text(stored: StoredFeature, text: StoredText) -> None:
    if stored.columns is not None or stored.function == stored.name:
        raise BadFeature(
            f"feature {stored.name!r} is no feature of texts on column "
            f"{text.column!r}, as the index says"
        )


def find_piece(
    stored: StoredFeature,
    stage: Stage,
    learned: Learned,
    networks: Mapping[str, Network],
) -> Feature:
    """Return the feature of a network's piece, before it is put on a column of texts.

    `networks` are by name. Raises BadFeature if there is no such piece, or if it is not
    what was stored.
    """
    if stage.network not in networks:
        raise BadFeature(f"feature {stored.name!r} is of a network that is not there")
    projection = learned.get(stored.name)
    if (stored.reduced is UNSET) != (projection is None) or isinstance(
        projection, TermWeights
    ):
        raise BadFeature(f"feature {stored.name!r} lacks what reduces its columns")
    network = networks[stage.network]
    feature = network.feature(stage.variant, stage.piece, projection)
    same = feature.name == stored.function and network.reads == stage.columns
    width = network.facts.pieces[stage.piece].width
    if not same or (projection is None and stored.width != width):
        raise BadFeature(f"feature {stored.name!r} is another piece of its network")
    return feature


def _fetched(
    stored: StoredFeature, kind: Literal["text", "image"], learned: Learned
) -> Feature:
    projection, width = learned.get(stored.name), stored.width
    if stored.reduced is not UNSET and isinstance(projection, Projection):
        width = stored.reduced.columns
    elif stored.reduced is not UNSET or projection is not None:
        raise BadFeature(f"feature {stored.name!r} lacks what reduces its columns")
    return fetched_feature(stored.name, kind, width, projection)


def _learned(stored: StoredFeature, learned: Learned) -> Feature:
    recipes, name = recipes_by_name(), stored.function
    weights = learned.get(stored.name)
    if name not in recipes or not isinstance(weights, TermWeights):
        raise BadFeature(
            f"there is no recipe by which a feature {name!r} is learned; "
            f"{hint(name, [*recipes])}"
        )
    return recipes[name].feature(weights)
