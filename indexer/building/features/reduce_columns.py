"""Principal component analysis of features with many columns.

These are pieces of networks, and vectors that fetches bring.

The components are rotated at random, so that all columns vary about as much (Jégou and
others, *Aggregating local image descriptors into compact codes*, PAMI 2012). Learners
that standardise columns would otherwise make the faint components, which are mostly
noise, as large as the strongest.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray
from scipy.linalg import eigh

from polydom.features.errors import BadFeature
from polydom.features.feature import Feature
from polydom.features.fetches.fetch import fetched_feature
from polydom.features.fingerprint import fingerprint
from polydom.features.networks.network import Network
from polydom.features.networks.pooled import Projection
from polydom.features.threads import one_thread

from ...index.stored_features import StoredFeature, StoredReduction
from ...progress import Progress, skip
from ..cache import Array, Cache, digest
from ..cache_keys import library_versions
from ..data.dataset import Rows
from .choose_features import ProjectFeatures
from .feature_values import FeatureTable

Floats = NDArray[np.float32]

STAGE = "reducing columns"
FITTED = 5000  # most items that an analysis is fitted on
BLOCK = 1024  # rows that are converted or projected at once
# Share of the mean square of the values. Components of less variance are rounding
# errors of float32.
FAINT = 1e-12


class Reduction(NamedTuple):
    """A projection to fewer columns, and its description for the index."""

    projection: Projection
    facts: StoredReduction


Reductions = Mapping[str, Reduction]  # by the names of features


def fit_reductions(
    table: FeatureTable,
    rows: Rows,
    most: Mapping[str, int],
    seed: int,
    cache: Cache,
    progress: Progress,
) -> Reductions:
    """Fit reductions of features that have more columns than `most`.

    `most` is by network and by fetch; 0 never reduces. Fitting is on at most `FITTED`
    of the items at positions `rows`, without those that have missing values. A feature
    that is the same for all these items gets no reduction.
    """
    features = table.features
    wide = dict[int, int]()
    for position, one in enumerate(features.stored):
        limit = 0 if one.stage is UNSET else most[one.stage.network]
        if one.vector_of is not UNSET:
            limit = most[one.name]
        if 0 < limit < one.width:
            wide[position] = limit
    drawn = np.sort(np.random.default_rng(seed).permutation(rows)[:FITTED])
    code, items = library_versions(), digest(table.dataset.digest, drawn.tobytes())
    names = {
        k: f"reduced/{digest(features.stored[k].fingerprint, limit, items, code)}"
        for k, limit in wide.items()
    }
    found = {
        k: cache.recall(names[k], partial(_read, features.stored[k])) for k in wide
    }
    missing = [k for k in wide if found[k] is None]
    if wide and not missing:
        skip(progress, STAGE)
    if missing:
        with progress.stage(STAGE, len(missing)) as on_progress:
            for done, k in enumerate(missing, 1):
                start, stop = features.starts[k : k + 2]
                made = fit_reduction(table.values[drawn, start:stop], wide[k])
                if made is not None:
                    facts = msgspec.to_builtins(made.facts)
                    cache.store(names[k], {"facts": facts}, made.projection.arrays())
                found[k] = made
                on_progress(done)
    return {features.stored[k].name: one for k, one in found.items() if one is not None}


def fit_reduction(values: Floats, most: int) -> Reduction | None:
    """Project values (N, W) to their `most` principal components, rotated.

    There are fewer components if fewer vary. Rows with NaN are left out. Returns None
    if nothing varies in the other rows.
    """
    values = values[~np.isnan(values).any(axis=1)]
    count, width = values.shape
    if count == 0:
        return None
    mean = values.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((width, width))
    with one_thread():
        for start in range(0, count, BLOCK):
            centred = values[start : start + BLOCK] - mean
            covariance += centred.T @ centred / count
        strongest = [max(width - most, 0), width - 1]
        variances, components = eigh(covariance, subset_by_index=strongest)
    total = float(np.trace(covariance))
    varies = variances > FAINT * (total + float(mean @ mean))
    if not varies.any():
        return None
    variances, components = variances[varies], components[:, varies]
    drawn = np.random.default_rng(0).normal(size=(len(variances), len(variances)))
    rotation, _ = np.linalg.qr(drawn)
    kept = min(float(variances.sum()) / total, 1.0)
    directions = (components @ rotation).astype(np.float32)
    made = Projection(mean.astype(np.float32), directions)
    return Reduction(made, StoredReduction(width, kept, count))


def _read(
    stored: StoredFeature, meta: dict[str, Any], arrays: dict[str, Array]
) -> Reduction:
    projection = Projection(**arrays)
    projection.check()
    if len(projection.mean) != stored.width:
        raise BadFeature(f"{len(projection.mean)} columns of {stored.width}")
    return Reduction(projection, msgspec.convert(meta["facts"], StoredReduction))


def with_reductions(
    features: ProjectFeatures, reductions: Reductions
) -> ProjectFeatures:
    """Return the same features, of which exactly those in `reductions` are reduced."""
    changed = [
        position
        for position, one in enumerate(features.stored)
        if one.name in reductions or one.reduced is not UNSET
    ]
    if not changed:
        return features
    networks = {network.facts.name: network for network in features.networks}
    learned = {**features.learned}
    stored, made = [*features.stored], [*features.extractor.features]
    for position in changed:
        one = stored[position]
        learned.pop(one.name, None)
        new, projection = reductions.get(one.name), None
        if new is not None:
            learned[one.name] = projection = new.projection
        feature, width = _reduced(one, networks, projection)
        made[position] = one.on_column(feature)
        stored[position] = msgspec.structs.replace(
            one,
            width=width if new is None else new.projection.components.shape[1],
            fingerprint=fingerprint(made[position]),
            reduced=new.facts if new else UNSET,
        )
    return features.replaced(stored, made, learned, features.recipes)


def _reduced(
    one: StoredFeature, networks: Mapping[str, Network], projection: Projection | None
) -> tuple[Feature, int]:
    """Return a feature with a projection or none, and its number of columns before."""
    if one.vector_of is not UNSET:
        width = one.width if one.reduced is UNSET else one.reduced.columns
        return fetched_feature(one.name, one.vector_of, width, projection), width
    assert one.stage is not UNSET
    network, stage = networks[one.stage.network], one.stage
    width = network.facts.pieces[stage.piece].width
    return network.feature(stage.variant, stage.piece, projection), width


def projected(table: FeatureTable, features: ProjectFeatures) -> FeatureTable:
    """Return the table with features of which some are reduced, and their values.

    Raises BadFeature if reduced values are too large for float32.
    """
    if features is table.features:
        return table
    old, new = table.features.starts, features.starts
    values = np.empty((len(table.values), new[-1]), np.float32)
    for position, one in enumerate(features.stored):
        given = table.values[:, old[position] : old[position + 1]]
        own = values[:, new[position] : new[position + 1]]
        projection = features.learned.get(one.name)
        if not isinstance(projection, Projection):
            own[:] = given
            continue
        for start in range(0, len(values), BLOCK):
            part = slice(start, start + BLOCK)
            with one_thread(), np.errstate(over="ignore", invalid="ignore"):
                own[part] = projection(given[part])
        if not np.array_equal(
            np.isfinite(own).all(axis=1), ~np.isnan(given).any(axis=1)
        ):
            raise BadFeature(
                f"values of feature {one.name!r} go up to "
                f"{np.nanmax(np.abs(given)):.3g}, too far to reduce its columns in "
                "float32; most_columns = 0 of its network or fetch keeps all"
            )
    return table._replace(features=features, values=values)
