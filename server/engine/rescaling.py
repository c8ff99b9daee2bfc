"""Rescale the costs of an index to the machine that serves it."""

import logging
from collections.abc import Callable, Generator, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.items import Item
from polydom.indexer.index.machine_speed import (
    BUSY,
    FASTEST,
    SLOWEST,
    MachineFactors,
    MachineTimes,
    compare,
    compared_models,
    time_features,
    time_models,
)
from polydom.indexer.index.package import Package

from ..schema.facts import Rescaling, RescalingState
from .planning.planner import Planner

Rows = Sequence[NDArray[np.float32]]

# Seconds after which no further repetition of timing begins; the first two always run.
FEATURES_LIMIT_S = 0.4
MODELS_LIMIT_S = 0.1

log = logging.getLogger("polydom")
lifecycle = logging.getLogger("polydom.life")


def read_machine_times(planner: Planner) -> MachineTimes | None:
    """Return the build machine's times of the sample items; None without samples."""
    package, extractor = planner.package, planner.extractor
    facts = package.meta.get("pace")
    if facts is None:
        return None
    return MachineTimes.read(
        facts,
        samples=len(package.meta.get("samples", [])),
        steps=len(extractor.steps),
        features=len(extractor.features),
        rows=len(package.whole_models),
    )


def first_state(
    planner: Planner, build_times: MachineTimes | None, wanted: bool
) -> RescalingState:
    """Return "not_yet", or the reason why costs will not be rescaled.

    The reason is "off" if not `wanted`, "no_time" if costs do not depend on time, and
    "no_samples" if `build_times` is None.
    """
    if not wanted:
        return "off"
    if not _weights(planner.package).get("s"):
        return "no_time"
    return "no_samples" if build_times is None else "not_yet"


def rescale(
    planner: Planner,
    build_times: MachineTimes,
    items: Sequence[Item],
    rows: Rows,
    *,
    now: Callable[[], float] = BUSY,
) -> Generator[None, None, Rescaling]:
    """Time the index's sample items on this machine, and adapt the planner's costs.

    Call this before the planner's first request, after all code has run once. The
    generator yields None between measurements, so that other models can answer
    meanwhile. Its return value has the factors. `items` are the index's sample items,
    and `rows` the values of all features for these items. `now` is a clock of the
    thread's processor time.
    """
    extractor, package = planner.extractor, planner.package
    whole = package.whole_models
    models = [whole[place] for place in compared_models(len(whole))]
    parts = yield from time_features(
        extractor, items, package.used, now=now, limit_s=FEATURES_LIMIT_S
    )
    evaluations = yield from time_models(models, rows, now=now, limit_s=MODELS_LIMIT_S)
    factors = compare(build_times, parts, evaluations, package.waits)
    index = planner.index.rescaled(factors, _declared(planner))
    assert index.package is not None
    planner.adopt(index, index.package)
    rescaling = _name(factors, planner)
    _log(rescaling, index.version)
    return rescaling


def _declared(planner: Planner) -> NDArray[np.float64]:
    """Return the declared cost of each feature and step, in the index's unit."""
    weights, extractor = _weights(planner.package), planner.extractor
    return np.array(
        [
            sum(weights.get(unit, 0.0) * cost for unit, cost in one.declared.items())
            for one in (*extractor.features, *extractor.steps)
        ]
    )


def _weights(package: Package) -> dict[str, Any]:
    return dict(package.meta.get("weights", {"s": 1.0}))


def _name(factors: MachineFactors, planner: Planner) -> Rescaling:
    steps, features = planner.extractor.steps, planner.extractor.features
    names = [step.name for step in steps], [feature.name for feature in features]
    return Rescaling(
        "rescaled",
        factors.overhead,
        factors.models,
        dict(zip(names[0], factors.steps.tolist(), strict=True)),
        dict(zip(names[1], factors.features.tolist(), strict=True)),
    )


def _log(rescaling: Rescaling, version: str) -> None:
    """Log all factors in one line, and warn about factors that are at a bound."""
    at_bound = [
        f"{part.part} {part.name}".rstrip()
        for part in rescaling.parts()
        if not FASTEST < part.factor < SLOWEST
    ]
    facts = {"index": version[:12], "rescaling": msgspec.to_builtins(rescaling)}
    lifecycle.info("costs are this machine's", extra=facts)
    if at_bound:
        log.warning(
            "index %s: %s differ from the machine of the build by a factor of %g or "
            "more, which is as far as costs are rescaled: build the index on a "
            "machine like this one",
            version[:12],
            ", ".join(at_bound),
            SLOWEST,
        )
