"""The features an index names, fingerprinted, never stored as code."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.errors import BadFeature
from polydom.features.extract import Extractor
from polydom.features.feature import Feature
from polydom.features.fingerprint import fingerprint
from polydom.features.loading import load_features
from polydom.features.ready_made.learned_text import recipes_by_name
from polydom.features.tables.columns import columns
from polydom.features.tables.dates import DateOrder, Part
from polydom.features.tables.exact_numbers import Shift
from polydom.features.term_scores import TermWeights
from polydom.features.wording import hint

NOT_ANY: Mapping[str, TermWeights] = {}

OWN_CURE = (
    "its code, a global variable or a module of your own that it uses has changed, or "
    "differs from process to process, as the order of a set does; give the files it "
    "was built from, or "
)


class StoredColumns(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Arguments of `polydom.features.tables.columns`, but for the name."""

    columns: list[str]
    vocabularies: dict[str, list[str]] | None = None
    dates: dict[str, list[Part]] | None = None
    orders: dict[str, DateOrder] | None = None
    shifts: dict[str, Shift] | None = None
    declared: dict[str, float] | None = None


class StoredTerms(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a feature was learned; its numbers are arrays of the file.

    Attributes
    ----------
    terms, texts
        How many it knows, and how many labelled ones it was learned from.
    strength
        C of the logistic regression that gave the weights; None for Bayes' rule.
    """

    terms: int
    texts: int
    strength: float | None = None


class StoredFeature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One feature as the index remembers it.

    `columns` is None for a feature that is a function, not a group of a record's
    columns; `learned` is there for one that was learned from labelled texts.
    """

    name: str
    width: int
    fingerprint: str
    ready_made: bool
    columns: StoredColumns | None = None
    learned: StoredTerms | UnsetType = UNSET  # unlike None not written into an index


def load_extractor(
    stored: Sequence[StoredFeature],
    files: Sequence[Path] = (),
    learned: Mapping[str, TermWeights] = NOT_ANY,
) -> Extractor:
    """Find the code of every stored feature and check that it is what was indexed.

    Parameters
    ----------
    files
        Python files of the operator's own features; an index never names any. They are
        run once for all: a step that two features share is one object then.
    learned
        What the learned features learned, by name.

    Raises
    ------
    BadFeature
        If a feature is not there, or differs from the one the index was built with.
    """
    own = {feature.name: feature for feature in load_features([], files)}
    features = [_resolve(feature, own, learned) for feature in stored]
    return Extractor(features, [feature.width for feature in stored])


def _resolve(
    stored: StoredFeature,
    own: Mapping[str, Feature],
    learned: Mapping[str, TermWeights],
) -> Feature:
    if stored.learned is not UNSET:
        feature = _learned(stored.name, learned)
    elif stored.columns is not None:
        feature = columns(stored.name, **msgspec.structs.asdict(stored.columns))
    elif stored.ready_made:
        (feature,) = load_features([stored.name])
    else:
        if stored.name not in own:
            raise BadFeature(
                f"feature {stored.name!r} is the user's own and no file given defines "
                "it; name the file it was built from with --features FILE"
            )
        feature = own[stored.name]
    if fingerprint(feature) != stored.fingerprint:
        cure = "" if stored.ready_made else OWN_CURE
        raise BadFeature(
            f"feature {stored.name!r} is not what the index was built with; "
            f"{cure}build the index again"
        )
    return feature


def _learned(name: str, learned: Mapping[str, TermWeights]) -> Feature:
    recipes = recipes_by_name()
    if name not in recipes or name not in learned:
        raise BadFeature(
            f"there is no recipe by which a feature {name!r} is learned; "
            f"{hint(name, [*recipes])}"
        )
    return recipes[name].feature(learned[name])
