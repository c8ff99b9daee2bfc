"""Classes of too few items to be divided: refused, left out or joined."""

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadProject
from .data import Dataset, make_dataset, rare_classes, refuse_rare
from .project import Data

MERGED = "other"


def settle_rare(
    dataset: Dataset, terms: Data, fewest: int
) -> tuple[Dataset, NDArray[np.int64]]:
    """Do with rare classes what the project says.

    Parameters
    ----------
    terms
        `on_rare_class`, and `rare_below` where more than `fewest` are wanted.
    fewest
        Independent items, which are groups, that a class must come in.

    Returns
    -------
    The data set without rare classes, and which of its items it was made of.

    Raises
    ------
    BadProject
        If a class is rare and the project says to stop, or too little is left.
    """
    fewest = max(fewest, terms.rare_below or 0)
    rare = rare_classes(dataset, fewest)
    every = np.arange(len(dataset.items))
    if not rare or terms.on_rare_class == "stop":
        refuse_rare(dataset, fewest)
        return dataset, every
    codes = [dataset.labels.index(label) for label in rare]
    affected = np.isin(dataset.codes, codes)
    if terms.on_rare_class == "merge":
        labels = [
            MERGED if one else dataset.labels[code]
            for one, code in zip(affected, dataset.codes, strict=True)
        ]
        merged = make_dataset(
            dataset.items,
            dataset.names,
            labels,
            dataset.groups.tolist(),
            dataset.skipped,
        )
        refuse_rare(merged, fewest)
        return merged, every
    if affected.all():
        raise BadProject(
            f"every class has fewer than {fewest} independent items: {_list(rare)}"
        )
    return dataset.without(
        {
            int(row): _why(dataset.labels[dataset.codes[row]], rare, fewest)
            for row in np.flatnonzero(affected)
        }
    ), np.flatnonzero(~affected)


def _why(label: str, rare: dict[str, int], fewest: int) -> str:
    return (
        f"class {label!r} has {rare[label]} independent items; "
        f"fewer than {fewest} are rare"
    )


def _list(rare: dict[str, int]) -> str:
    return ", ".join(f"{label!r} {have}" for label, have in list(rare.items())[:5])
