"""Computes the features of an item one at a time, and each step at most once.

An `Extractor` is made once and shared. An `Extraction` belongs to one item and one
thread. Requests wait for `Extraction.compute`, so `Extractor` prepares everything that
does not depend on the item.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from .errors import BadFeature, BadItem, FeatureFailed
from .feature import Feature, FetchedStep, Function, Node, Step
from .items import Item, Kind, ReadRecord
from .tables.column_features import Columns

Row = NDArray[np.float32]
FLOAT32 = np.dtype(np.float32)
MISSING = object()
# Tests of values, and the byte that they give for an invalid value.
NUMBERS = np.isfinite, b"\0"
NO_INFINITY = np.isinf, b"\1"


class StepCall(NamedTuple):
    """A step's function, and where its arguments come from.

    Argument i is the result of the step at position `sources[i]`. If that number is the
    number of steps, argument i is the item's payload; a larger number stands for what a
    fetch has brought.
    """

    function: Function
    sources: tuple[int, ...]


class FeatureCall(NamedTuple):
    """A feature's function, and where its arguments and its columns are.

    `steps` are the positions of all steps that must run first. `sources` are the
    positions of the arguments, as in `StepCall`. `columns` is the slice of the full row
    that the feature fills. `test` checks each value and gives one byte for it; the byte
    is `failed` if the value is invalid.
    """

    steps: tuple[int, ...]
    function: Function
    sources: tuple[int, ...]
    columns: slice
    width: int
    test: np.ufunc
    failed: bytes


class Extractor:
    """Features that are computed together; immutable, safe to share between threads.

    There is at least one feature. All features are for one kind of items and have
    different names. `widths` has the number of columns of each feature; `probe` finds
    these numbers during a build. `gaps` has the columns of each feature that may be NaN
    for a missing value; None stands for all columns, as in a build. By default, only
    features of a record's columns have such columns.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        widths: Sequence[int],
        gaps: Sequence[Collection[int]] | None = (),
    ) -> None:
        self.features = tuple(features)
        self.kind = common_kind(self.features)
        self.widths = tuple(widths)
        if len(self.widths) != len(self.features) or min(self.widths) < 1:
            raise BadFeature(
                f"{len(self.features)} features need as many widths of at least 1; "
                f"{list(self.widths)} came"
            )
        self.width = sum(self.widths)  # of a full row: columns of all features
        every = [frozenset(range(width)) for width in self.widths]
        given = gaps or [every[k] if gaps is None else () for k in range(len(every))]
        self.gaps = tuple(
            columns if feature.missing else columns.intersection(own)
            for feature, columns, own in zip(self.features, every, given, strict=True)
        )
        # True if all features are columns of a record, which `read` computes in advance
        self.whole = all(isinstance(one.function, Columns) for one in self.features)
        # all steps that the features need, each step after the steps that it needs
        self.steps = with_needs(self.features)
        positions = {step: position for position, step in enumerate(self.steps)}
        # the steps that fetches bring
        self.fetched = tuple(one for one in self.steps if isinstance(one, FetchedStep))
        # for each feature: ascending positions in `steps` of all steps that it needs
        self.needs = tuple(
            tuple(sorted(positions[step] for step in with_needs([feature])))
            for feature in self.features
        )
        self.step_calls = tuple(
            StepCall(step.function, self._sources(step)) for step in self.steps
        )
        self.feature_calls = tuple(
            FeatureCall(
                self.needs[position],
                feature.function,
                self._sources(feature),
                self.columns(position),
                width,
                *(NO_INFINITY if len(self.gaps[position]) == width else NUMBERS),
            )
            for position, (feature, width) in enumerate(
                zip(self.features, self.widths, strict=True)
            )
        )

    @classmethod
    def probe(
        cls, features: Sequence[Feature], item: Item, where: str = "the item"
    ) -> "Extractor":
        """Make an extractor; compute the features of one item to find their widths.

        All columns may have gaps. Raises BadFeature if the features do not go together,
        or if one fails on `item`. `where` names the item in messages.
        """
        blind = cls(features, [1] * len(features))
        extraction = blind.begin(item, np.empty(0, FLOAT32), where)
        widths = [len(extraction.values(k)) for k in range(len(features))]
        for feature, width in zip(features, widths, strict=True):
            if width == 0:
                raise BadFeature(
                    f"feature {feature.name!r} returned no columns for {where}"
                )
        return cls(features, widths, None)

    def _sources(self, node: Node) -> tuple[int, ...]:
        payload = len(self.steps)
        if isinstance(node, FetchedStep):
            return (payload + 1 + self.fetched.index(node),)
        return tuple(self.steps.index(need) for need in node.needs) or (payload,)

    def columns(self, position: int) -> slice:
        """Return the slice of the full row with the columns of feature `position`."""
        start = sum(self.widths[:position])
        return slice(start, start + self.widths[position])

    def columns_of(self, mask: int) -> NDArray[np.int32]:
        """Return the ascending positions of a feature set's columns in the full row.

        `mask` has a bit for each feature of the set.
        """
        chosen = [mask >> position & 1 for position in range(len(self.features))]
        return np.flatnonzero(np.repeat(chosen, self.widths)).astype(np.int32)

    def begin(self, item: Item, row: Row, where: str = "the item") -> "Extraction":
        """Return an `Extraction` of an item, with nothing computed yet.

        `row`, (width,) float32, receives the columns of each feature that is computed.
        `where` names the item in messages.
        """
        if item.kind != self.kind:
            raise BadItem(f"{where} is of kind {item.kind!r}; {self.kind!r} is needed")
        payload = item.payload
        if type(payload) is ReadRecord:
            row[:] = payload.row
            return Extracted(row)
        return Extraction(self, item, row, where)

    def filled(self, item: Item) -> Item:
        """Return an item with zeros for all that fetches bring and have not brought.

        Such an item serves to measure times, and to run code once.
        """
        if not self.fetched:
            return item
        zeros = {one.name: np.zeros(one.width, FLOAT32) for one in self.fetched}
        return replace(item, brought=zeros | dict(item.brought or {}))

    def extract(
        self,
        item: Item,
        where: str = "the item",
        features: Sequence[int] | None = None,
    ) -> Row:
        """Compute the features of an item; return the full row, (width,) float32.

        `features` are the positions of the features to compute, by default all; columns
        of others are 0. Columns of a feature that fails are NaN if the feature says
        "without".
        """
        row = np.zeros(self.width, FLOAT32)
        extraction = self.begin(item, row, where)
        for position in range(len(self.features)) if features is None else features:
            extraction.attempt(position)
        return row

    def part(self, features: Sequence[int]) -> "Extractor":
        """Return an extractor of only the features at some positions."""
        return Extractor(
            [self.features[k] for k in features],
            [self.widths[k] for k in features],
            [self.gaps[k] for k in features],
        )

    def spares(self, failure: FeatureFailed) -> bool:
        """Return True if the feature that failed says "without".

        If a step failed by itself, all features that need it must say so.
        """
        users = [failure.feature]
        if failure.feature is None:
            users = [k for k, own in enumerate(self.needs) if failure.step in own]
        return all(self.features[k].fails == "without" for k in users if k is not None)

    def withheld_by(self, failure: FeatureFailed) -> int:
        """Return a mask of the features to go on without after a failure; 0 for none.

        These are the feature that failed and, if a step failed, all other features that
        need the step; but only features that say "without".
        """
        first, step = failure.feature, failure.step
        if first is None or not self.spares(failure):
            return 0
        return sum(
            1 << position
            for position, feature in enumerate(self.features)
            if position == first
            or (feature.fails == "without" and step in self.needs[position])
        )

    def read(self, item: Item) -> Item:
        """Compute the full row of a record in advance, if all features are columns.

        Return an item that holds the full row. Return any other item unchanged.
        """
        if not self.whole or isinstance(item.payload, ReadRecord):
            return item
        return replace(item, payload=ReadRecord(self.extract(item)))

    def check(self, item: Item, where: str = "the item") -> None:
        """Compute an item twice, in opposite orders; BadFeature if a column differs.

        Then a feature is not deterministic, or it changes the result of a step that
        other features need.
        """
        first = self.extract(item, where)
        second = np.empty_like(first)
        extraction = self.begin(item, second, where)
        for position in reversed(range(len(self.features))):
            extraction.attempt(position)
        differs = (first != second) & ~(np.isnan(first) & np.isnan(second))
        for position, feature in enumerate(self.features):
            columns = self.columns(position)
            for column in np.flatnonzero(differs[columns])[:1]:
                raise BadFeature(
                    f"column {column} of feature {feature.name!r} was "
                    f"{first[columns][column]:.9g} and then "
                    f"{second[columns][column]:.9g} for {where}: it is not "
                    "deterministic, or some feature changes what its steps made"
                )


class Extraction:
    """Features of one item, computed on demand into `row`, in one thread."""

    __slots__ = ("_calls", "_extractor", "_results", "_where", "row")

    def __init__(self, extractor: Extractor, item: Item, row: Row, where: str) -> None:
        self.row = row
        self._calls = extractor.feature_calls
        self._extractor = extractor
        self._where = where
        # results of the steps, the payload, and what fetches have brought
        self._results: list[Any] = [MISSING] * len(extractor.steps)
        self._results.append(item.payload)
        if extractor.fetched:
            self._results += self._brought(item)

    def compute(self, position: int) -> None:
        """Compute a feature into `row`; first run the steps that have no result yet.

        Raises FeatureFailed if the feature or a step raises an error, or if the result
        is not one-dimensional, has another length than the feature's width, or holds
        infinity, or NaN in a column that may have no gaps. The feature's columns of
        `row` are then undefined. Raises BadItem if a step cannot use the item.
        """
        values = self.values(position)
        _, _, _, columns, width, test, failed = self._calls[position]
        if len(values) != width:
            raise FeatureFailed(
                f"feature {self._name(position)!r} returned {len(values)} columns for "
                f"{self._where}; its width is {width}",
                position,
            )
        self.row[columns] = values
        # A search among bytes takes a tenth of what numpy's any() or all() takes.
        if test(values).tobytes().find(failed) >= 0:
            self._refuse_numbers(position, values)

    def with_more(self, item: Item) -> "Extraction":
        """Return this extraction for the item as it is now; results are kept.

        More of its columns have come, or more vectors.
        """
        inputs = [item.payload, *self._brought(item)]
        self._results[-len(inputs) :] = inputs
        return self

    def _brought(self, item: Item) -> list[Any]:
        brought = item.brought or {}
        return [brought.get(one.name, MISSING) for one in self._extractor.fetched]

    def attempt(self, position: int) -> FeatureFailed | None:
        """Compute a feature; if it fails and says "without", write NaN instead.

        Returns the failure, or None. Raises the failure of any other feature, and
        BadItem as `compute` does.
        """
        try:
            self.compute(position)
        except FeatureFailed as failure:
            if not self._extractor.withheld_by(failure):
                raise
            self.row[self._calls[position].columns] = np.nan
            return failure
        return None

    def run_steps(self) -> int:
        """Return a mask of the steps that have a result."""
        results = enumerate(self._results[: len(self._extractor.steps)])
        return sum(1 << step for step, result in results if result is not MISSING)

    def _refuse_numbers(self, position: int, values: Row) -> None:
        """Raise an error for the first number that no model can use, if there is one.

        The item is to blame for an infinite number in a record's column; for any other
        number, the feature is.
        """
        gaps = self._extractor.gaps[position]
        for column in np.flatnonzero(~np.isfinite(values)).tolist():
            if np.isnan(values[column]) and column in gaps:
                continue
            message = (
                f"feature {self._name(position)!r} is {values[column]} in column "
                f"{column} for {self._where}; finite numbers are needed"
            )
            if self._extractor.features[position].missing:
                raise BadItem(message)
            raise FeatureFailed(message, position)

    def values(self, position: int) -> Row:
        """Compute a feature, and return its values; their number is not checked."""
        values: Any
        results = self._results
        steps, function, sources, *_ = self._calls[position]
        try:
            for step in steps:
                if results[step] is MISSING:
                    self.compute_step(step)
            if len(sources) == 1:
                values = function(results[sources[0]])
            else:
                values = function(*[results[source] for source in sources])
            if type(values) is not np.ndarray or values.dtype is not FLOAT32:
                values = as_float32(values)
        except BadItem:
            raise
        except FeatureFailed as failure:
            failure.feature = position
            raise
        except (Exception, SystemExit) as error:
            what = f"feature {self._name(position)!r}"
            raise FeatureFailed(self._raised(what, error), position) from error
        if values.ndim != 1:
            raise FeatureFailed(
                f"feature {self._name(position)!r} returned an array of shape "
                f"{values.shape} for {self._where}; one dimension is needed",
                position,
            )
        checked: Row = values
        return checked

    def compute_step(self, position: int) -> None:
        """Run a step on the results of the steps that it needs.

        Those steps must have run before. The step runs even if it has a result.
        """
        function, sources = self._extractor.step_calls[position]
        results = self._results
        try:
            results[position] = function(*[results[source] for source in sources])
        except BadItem:
            raise
        except (Exception, SystemExit) as error:
            what = f"step {self._extractor.steps[position].name!r}"
            raise FeatureFailed(self._raised(what, error), step=position) from error

    def _name(self, position: int) -> str:
        return self._extractor.features[position].name

    def _raised(self, what: str, error: BaseException) -> str:
        return f"{what} raised {type(error).__name__} for {self._where}: {error}"


class Extracted(Extraction):
    """The extraction of a record whose full row was read before."""

    __slots__ = ()

    def __init__(self, row: Row) -> None:
        self.row = row

    def compute(self, position: int) -> None:
        """Do nothing, since the row has all columns."""

    def attempt(self, position: int) -> None:
        """Do nothing, since the row has all columns."""

    def run_steps(self) -> int:
        """Return 0, as columns of a record need no steps."""
        return 0


def as_float32(values: object) -> Row:
    """Convert a feature's result to float32; numbers too large become infinite."""
    array = np.asarray(values)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"an array of {array.dtype} came; numbers are needed")
    return array.astype(FLOAT32)


def common_kind(features: Sequence[Feature]) -> Kind:
    """Return the kind of all features' items; BadFeature if kinds or names clash."""
    if not features:
        raise BadFeature("there are no features")
    kinds = {feature.kind: feature.name for feature in features}
    if len(kinds) > 1:
        raise BadFeature(
            "features of different kinds cannot be used together: "
            + ", ".join(f"{name!r} takes {kind}" for kind, name in kinds.items())
        )
    for name, count in Counter(feature.name for feature in features).items():
        if count > 1:
            raise BadFeature(f"{count} features are named {name!r}")
    return features[0].kind


def with_needs(nodes: Iterable[Node]) -> tuple[Step, ...]:
    """List all steps that `nodes` need, each step after the steps that it needs.

    `nodes` may be steps and features.
    """
    found: dict[Step, None] = {}

    def visit(node: Node) -> None:
        for need in node.needs:
            if need not in found:
                visit(need)
                found[need] = None

    for node in nodes:
        visit(node)
    return tuple(found)
