"""Conversion of a package to plain data and named arrays for a file, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.errors import BadFeature, BadIndexFile, BadModel
from polydom.features.items import Kind
from polydom.features.networks.facts import NetworkFacts
from polydom.features.networks.network import Network
from polydom.features.networks.pooled import PARTS, Projection
from polydom.features.ready_made.learned_text import NOTHING, TermWeights
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.model_part import ModelPart
from polydom.models.early_exit.stored_schedule import load_early_exit
from polydom.models.load import load_model
from polydom.models.scoring.model import Model
from polydom.models.scoring.stored_arrays import Stored

from ..built_facts import LARGEST
from ..fetches.item_gains import ItemGains
from ..fetches.stored_fetches import StoredFetch
from ..package import MOST_BITS, Orders, Package
from ..stored_features import StoredFeature
from .package_checks import check_package

Array = NDArray[Any]
EarlyExits = tuple[EarlyExit | MarginExit | None, ...]

# Stands for an infinite margin, or an infinite arrival time, in a file
NEVER = float(np.finfo(np.float64).max)


class PackageFacts(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a package that goes into the header of a file."""

    kind: Kind
    labels: list[str]
    features: list[StoredFeature]
    needs: list[list[int]]
    model_kinds: list[str]
    overhead_s: float
    meta: dict[str, Any]
    measure: str = "accuracy"
    networks: list[NetworkFacts] | UnsetType = UNSET
    fetches: list[StoredFetch] | UnsetType = UNSET  # if there are any


def pack(package: Package) -> tuple[dict[str, Any], dict[str, Array]]:
    """Split a package into plain data and named arrays."""
    facts = PackageFacts(
        package.kind,
        list(package.labels),
        list(package.features),
        [list(steps) for steps in package.costs.needs],
        [model.kind for model in package.models],
        package.overhead_s,
        package.meta,
        package.measure,
        [network.facts for network in package.networks] or UNSET,
        list(package.fetches) or UNSET,
    )
    arrays: dict[str, Array] = {
        "costs/features": package.costs.feature_coefficients,
        "costs/steps": package.costs.step_coefficients,
        "costs/overhead": package.costs.overhead,
        "masks": package.masks,
        "orders": _pad(package.orders, -1, np.int32),
        "fallbacks": _pad(package.fallbacks, -1, np.int32),
        "model_s": package.model_s,
        "costs/typical": package.typical,
    }
    if package.margins:
        finite = [np.minimum(own, NEVER) for own in package.margins]
        arrays["margins"] = _pad(finite, NEVER, np.float64)
    if package.ends:
        arrays["ends"] = _pad(package.ends, 0.0, np.float64)
    if len(package.accuracies):
        arrays["accuracies"] = package.accuracies
    if len(package.intervals):
        arrays["intervals"] = package.intervals
    for row, model in enumerate(package.models):
        arrays |= _under(f"models/{row}", model.arrays())
    for position, feature in enumerate(package.features):
        if feature.learned is not UNSET or feature.reduced is not UNSET:
            weights = package.learned[feature.name]
            arrays |= _under(f"features/{position}", weights.arrays())
    for position, network in enumerate(package.networks):
        arrays |= _under(f"networks/{position}", network.arrays())
    if package.fetches:
        arrays["fetches/arrivals"] = np.minimum(package.arrivals, NEVER)
        arrays |= _under("gains", package.gains.arrays())
    if package.early_exits:
        arrays |= {"whole_s": package.whole_s, "mean_s": package.mean_s}
    for row, exits in enumerate(package.early_exits):
        # the part of a model follows the schedule of the whole model
        if exits is not None and not isinstance(package.models[row], ModelPart):
            arrays |= _under(f"schedules/{row}", exits.arrays())
    plain: dict[str, Any] = msgspec.to_builtins(facts, builtin_types=(bytes,))
    return plain, arrays


def unpack(plain: Any, arrays: Mapping[str, Array]) -> Package:
    """Make a package from results of `pack`; raise BadIndexFile if it is damaged."""
    try:
        facts = msgspec.convert(plain, PackageFacts)
        costs = CostTable(
            _take_costs(arrays, "costs/features", 2),
            _take_costs(arrays, "costs/steps", 2),
            tuple(tuple(steps) for steps in facts.needs),
            _take_costs(arrays, "costs/overhead", 1),
        )
    except (msgspec.ValidationError, ValueError) as error:
        raise BadIndexFile(f"damaged: {error}") from error
    masks = _take(arrays, "masks", "<u8", 1)
    if len(facts.model_kinds) != len(masks):
        raise BadIndexFile("damaged: its candidates are incomplete")
    models, early_exits = _models(facts, masks.tolist(), arrays)
    package = Package(
        kind=facts.kind,
        labels=tuple(facts.labels),
        features=tuple(facts.features),
        costs=costs,
        masks=masks,
        orders=_rows(arrays, "orders", len(masks)),
        fallbacks=_rows(arrays, "fallbacks", len(masks)),
        models=models,
        model_s=_take_costs(arrays, "model_s", 1),
        overhead_s=facts.overhead_s,
        meta=facts.meta,
        margins=_margins(arrays, len(masks)),
        ends=_ends(arrays, len(masks)),
        typical=_take_if_there(arrays, "costs/typical", (0,)),
        early_exits=early_exits,
        whole_s=_take_costs(arrays, "whole_s", 1) if early_exits else np.empty(0),
        mean_s=_take_costs(arrays, "mean_s", 1) if early_exits else np.empty(0),
        learned=_learned(facts.features, arrays),
        networks=_networks(facts.networks or [], arrays),
        measure=facts.measure,
        accuracies=_take_if_there(arrays, "accuracies", (0,)),
        intervals=_take_if_there(arrays, "intervals", (0, 2)),
        fetches=tuple(facts.fetches or ()),
        arrivals=_arrivals(arrays),
        gains=ItemGains.from_arrays(_gains(arrays)),
    )
    check_package(package)
    return package


def _models(
    facts: PackageFacts, masks: Sequence[int], arrays: Mapping[str, Array]
) -> tuple[tuple[Model, ...], EarlyExits]:
    """Load the candidates' models and evaluators; parts of models come last."""
    own = _by_position("models", arrays, len(masks))
    schedules = _by_position("schedules", arrays, len(masks))
    width = sum(feature.width for feature in facts.features)
    models: dict[int, Model] = {}
    exits: dict[int, EarlyExit | MarginExit | None] = {}
    whole: dict[int, int] = {}  # from a feature set to the row of its whole model
    by_kind = sorted(range(len(masks)), key=lambda row: is_part(facts, row))
    for row in by_kind:
        kind, parts, noun = facts.model_kinds[row], own.get(row, {}), "models"
        try:
            if is_part(facts, row):
                if row in schedules:
                    raise BadModel("a part of a model has no schedule of its own")
                exits[row] = exits.get(whole.get(masks[row], -1))
                models[row] = ModelPart.load(Stored(kind, parts), exits[row])
                continue
            models[row] = load_model(kind, parts, width=width)
            whole[masks[row]], noun = row, "schedules"
            if row in schedules:
                exits[row] = load_early_exit(models[row], schedules[row])
        except BadModel as error:
            raise BadIndexFile(f"damaged: {noun}/{row}: {error}") from error
    rows = range(len(masks))
    evaluators = tuple(exits.get(row) for row in rows) if schedules else ()
    return tuple(models[row] for row in rows), evaluators


def is_part(facts: PackageFacts, row: int) -> bool:
    """Return True if a candidate's model is a part of another candidate's model."""
    return facts.model_kinds[row] == ModelPart.kind


def _learned(
    features: Sequence[StoredFeature], arrays: Mapping[str, Array]
) -> dict[str, TermWeights | Projection]:
    own = _by_position("features", arrays, len(features), "feature")
    learned: dict[str, TermWeights | Projection] = {}
    for position, feature in enumerate(features):
        parts = own.get(position, {})
        terms, reduced = feature.learned, feature.reduced
        names: set[str] = set()
        made: TermWeights | Projection | None = None
        if terms is not UNSET and reduced is UNSET:
            names = {*NOTHING.arrays()}
        elif reduced is not UNSET and terms is UNSET:
            names = {*PARTS}
        if parts.keys() != names:
            raise BadIndexFile(f"damaged: the arrays of features/{position} are others")
        if terms is not UNSET:
            made, shape = TermWeights(**parts), (terms.terms, feature.width)
            found = made.weights.shape
        elif reduced is not UNSET:
            made, shape = Projection(**parts), (reduced.columns, feature.width)
            found = made.components.shape
        else:
            continue
        try:
            made.check()
        except BadFeature as error:
            raise BadIndexFile(f"damaged: features/{position}: {error}") from error
        if found != shape:
            raise BadIndexFile(f"damaged: features/{position} is of another shape")
        learned[feature.name] = made
    return learned


def _networks(
    facts: Sequence[NetworkFacts], arrays: Mapping[str, Array]
) -> tuple[Network, ...]:
    """Take the networks; their models are checked, and read by no library yet."""
    own = _by_position("networks", arrays, len(facts), "network")
    if len({one.name for one in facts}) < len(facts):
        raise BadIndexFile("damaged: two networks have the same name")
    networks = []
    for position, one in enumerate(facts):
        try:
            networks.append(Network.load(one, own.get(position, {})))
        except BadFeature as error:
            raise BadIndexFile(f"damaged: networks/{position}: {error}") from error
    return tuple(networks)


def _under(folder: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    return {f"{folder}/{part}": array for part, array in arrays.items()}


def _by_position(
    noun: str, arrays: Mapping[str, Array], count: int, owner: str = "model"
) -> dict[int, dict[str, Array]]:
    """Return the arrays named `noun/position/part`, as {position: {part: array}}."""
    own: dict[int, dict[str, Array]] = {}
    for name, array in arrays.items():
        if name.startswith(f"{noun}/"):
            _, row, part = name.split("/", 2)
            if not row.isdecimal() or int(row) >= count:
                raise BadIndexFile(f"damaged: array {name!r} belongs to no {owner}")
            own.setdefault(int(row), {})[part] = array
    return own


def _take(arrays: Mapping[str, Array], name: str, dtype: str, axes: int) -> Array:
    array = arrays.get(name)
    if array is None or array.dtype.str != dtype or array.ndim != axes:
        raise BadIndexFile(f"damaged: array {name!r} is missing or of another form")
    if not np.isfinite(array).all():
        raise BadIndexFile(f"damaged: array {name!r} holds numbers that are not finite")
    return array


def _take_if_there(
    arrays: Mapping[str, Array], name: str, empty: tuple[int, ...]
) -> Array:
    return _take(arrays, name, "<f8", len(empty)) if name in arrays else np.empty(empty)


def _take_costs(arrays: Mapping[str, Array], name: str, axes: int) -> Array:
    costs = _take(arrays, name, "<f8", axes)
    if (costs < 0).any():
        raise BadIndexFile(f"damaged: array {name!r} holds a cost below zero")
    if (costs > LARGEST).any():
        raise BadIndexFile(f"damaged: array {name!r} holds a cost beyond {LARGEST:g}")
    return costs


def _pad(rows: Sequence[Any], filler: float, dtype: type) -> Array:
    shape = len(rows), max(map(len, rows), default=0)
    padded: Array = np.full(shape, filler, dtype)
    for row, values in enumerate(rows):
        padded[row, : len(values)] = values
    return padded


def _rows(arrays: Mapping[str, Array], name: str, count: int) -> Orders:
    padded = _take(arrays, name, "<i4", 2)
    if len(padded) != count or padded.shape[1] > MOST_BITS + 1:
        raise BadIndexFile(f"damaged: array {name!r} is not its candidates'")
    return tuple(tuple(v for v in row if v >= 0) for row in padded.tolist())


def _margins(arrays: Mapping[str, Array], count: int) -> tuple[tuple[float, ...], ...]:
    if "margins" not in arrays:
        return ()
    padded = _by_checkpoint(arrays, "margins", count)
    return _unpad(np.where(padded < NEVER, padded, np.inf), arrays)


def _arrivals(arrays: Mapping[str, Array]) -> Array:
    arrivals = _take_if_there(arrays, "fetches/arrivals", (0, 0))
    return np.where(arrivals < NEVER, arrivals, np.inf)


def _gains(arrays: Mapping[str, Array]) -> dict[str, Array]:
    if "gains/pairs" not in arrays:
        return {}
    axes = {"pairs": ("<u8", 2), "margins": ("<f8", 2), "gains": ("<f8", 2)}
    return {name: _take(arrays, f"gains/{name}", *form) for name, form in axes.items()}


def _ends(arrays: Mapping[str, Array], count: int) -> tuple[tuple[float, ...], ...]:
    if "ends" not in arrays:
        return ()
    ends = _unpad(_by_checkpoint(arrays, "ends", count), arrays)
    if any(abs(sum(own) - 1) > 1e-9 for own in ends):
        raise BadIndexFile("damaged: shares of items that end early are no shares")
    return ends


def _by_checkpoint(arrays: Mapping[str, Array], name: str, count: int) -> Array:
    padded = _take(arrays, name, "<f8", 2)
    if len(padded) != count or padded.shape[1] != arrays["fallbacks"].shape[1]:
        raise BadIndexFile("damaged: its exits are not its candidates'")
    if (padded < 0).any():
        raise BadIndexFile(f"damaged: array {name!r} holds a number below zero")
    return padded


def _unpad(padded: Array, arrays: Mapping[str, Array]) -> tuple[tuple[float, ...], ...]:
    lengths = (arrays["fallbacks"] >= 0).sum(axis=1)
    return tuple(
        tuple(row[:length].tolist())
        for row, length in zip(padded, lengths.tolist(), strict=True)
    )
