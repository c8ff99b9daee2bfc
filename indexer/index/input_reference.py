"""How the training items of a build are distributed, which a server compares with.

All of it is optional: older releases stored nothing of it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import msgspec

from polydom.features.errors import BadIndexFile

MOST_COLUMNS = 256  # columns of features that are described
MOST_VALUES = 20  # values whose shares are told one by one
MOST_BINS = 10  # bins of equal shares, of a column with more values
LARGEST = 3.5e38  # beyond the largest float32
Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=10**15)]


class Shares(msgspec.Struct):
    """Shares of items by the bin of one number.

    The first bin is for items without the number. Then come either B bins that end at
    the B - 1 `edges`, each inclusive, and the last at infinity; or a bin for each of
    the `values`, and one for all others. All bins have a share in `shares`, with sum 1.
    """

    shares: Annotated[list[Share], msgspec.Meta(max_length=MOST_VALUES + 2)]
    edges: list[Number] = []
    values: list[Number] = []

    @property
    def fault(self) -> str:
        """What is wrong with the facts, or "" if nothing is."""
        ends = self.edges or self.values
        if self.edges and self.values:
            return "both edges and values"
        if not all(map(math.isfinite, ends)):
            return "an edge that is no number"
        if any(low >= high for low, high in pairwise(ends)):
            return "edges or values in no order"
        if len(self.shares) != len(ends) + 2:
            return f"{len(self.shares)} shares of {len(ends) + 2} bins"
        if not abs(sum(self.shares) - 1) <= 1e-6:
            return "shares that do not add up to 1"
        return ""


class ColumnShares(Shares, kw_only=True):
    """The distribution of one column of a feature."""

    feature: str  # Name of the feature
    column: Count = 0  # Place of the column within the feature


class BuiltInputs(msgspec.Struct):
    """Distributions of the training items of a build, and of their labels.

    `items` training items were counted: all, or a random sample. `sizes` has one
    distribution for each number of a size; it is empty if all sizes are equal.
    `labels` has the positions of classes as its values, or is about numbers.
    `unseen_words` is the mean share of a held-out text's words that are not among the
    terms of the `vocabulary`, a feature that was learned from the training texts.
    """

    items: Annotated[int, msgspec.Meta(ge=1, le=10**15)]
    columns: Annotated[list[ColumnShares], msgspec.Meta(max_length=MOST_COLUMNS)] = []
    sizes: Annotated[list[Shares], msgspec.Meta(max_length=2)] = []
    labels: Shares | None = None
    vocabulary: str | None = None
    unseen_words: Share | None = None


def inputs_of(meta: Mapping[str, Any]) -> BuiltInputs | None:
    """Read the distributions from a package's `meta`; None if there are none."""
    plain = meta.get("inputs")
    if plain is None:
        return None
    try:
        return msgspec.convert(plain, BuiltInputs)
    except msgspec.ValidationError as error:
        raise BadIndexFile(f"damaged: meta.inputs: {error}") from error


def check_inputs(
    inputs: BuiltInputs, widths: Mapping[str, int], labels: Sequence[str]
) -> None:
    """Raise BadIndexFile if the distributions are not of an index's parts.

    `widths` are the widths of its features, by name.
    """
    told: Iterable[Shares | None] = (*inputs.columns, *inputs.sizes, inputs.labels)
    for one in told:
        if one is not None and (fault := one.fault):
            raise BadIndexFile(f"damaged: a distribution has {fault}")
    places = [(one.feature, one.column) for one in inputs.columns]
    if len({*places}) < len(places):
        raise BadIndexFile("damaged: a column has two distributions")
    if any(column >= widths.get(feature, 0) for feature, column in places):
        raise BadIndexFile("damaged: a distribution is of no column of its features")
    codes = inputs.labels.values if inputs.labels is not None else []
    if labels and not {*codes} <= {*range(len(labels))}:
        raise BadIndexFile("damaged: a distribution is of other classes than its own")
    if inputs.vocabulary is not None and inputs.vocabulary not in widths:
        raise BadIndexFile("damaged: its vocabulary is of no feature that it has")
