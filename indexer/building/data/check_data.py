"""The report of `polydom check` on a project's data."""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from polydom.features.errors import LacksWork
from polydom.features.items import Kind
from polydom.features.networks.terms import NetworkTerms
from polydom.features.wording import listed

from ...index.column_facts import ColumnFacts, column_lines
from ...index.network_facts import ToldNetwork, told_network
from ...progress import Progress
from ..cache import FOLDER, Cache, ReadOnlyCache
from ..costs.arrival_times import open_fetches
from ..features.network_features import network_features
from ..features.network_files import cached_file, with_network_files
from ..features.text_features import TextColumns
from ..project import Project
from .dataset import Dataset
from .describe_data import describe_data
from .fetch_keys import TIMED, take_keys
from .read_items import load_data
from .unlabelled import read_unlabelled

SHOWN = 5  # items left out that are named
CLASSES = 20


class ToldFetch(msgspec.Struct):
    """The columns that a fetch would bring, and the columns of its key.

    Of a fetch of texts or images, which has neither: the most vectors that a build asks
    for, and what they cost together.
    """

    name: str
    key: list[str]
    columns: list[str]
    vectors: int | UnsetType = UNSET
    price: dict[str, float] | UnsetType = UNSET

    def line(self) -> str:
        """Return a sentence about the fetch."""
        if self.vectors is not UNSET and self.price is not UNSET:
            paid = [f"{cost:g} {unit}" for unit, cost in self.price.items() if cost]
            paid_for = f", for {listed(paid)}" if paid else ""
            return (
                f"fetch {self.name!r} brings a vector for each item: a build asks for "
                f"at most {self.vectors:,}{paid_for}, and keeps them"
            )
        return f"fetch {self.name!r} brings {_all(self.columns)} by {_all(self.key)}"


def _all(names: Sequence[str]) -> str:
    return listed([*map(repr, names)])


class CheckedData(NamedTuple):
    """The report of `polydom check`: what a project's data contain."""

    kind: Kind  # Kind of the items
    items: int  # Number of usable items
    classes: dict[str, int]  # Numbers of items by class; empty if labels are numbers
    # The least and the largest label, if labels are numbers
    numbers: tuple[float, float] | None
    tested: int | None  # Number of items to test on; None if the build chooses them
    unlabelled: int | None  # Number of items without labels; None if none are named
    left_out: tuple[tuple[str, str], ...]  # Names of unusable items, with reasons
    columns: list[ColumnFacts]  # Descriptions of a table's columns
    networks: list[ToldNetwork]  # Networks whose files are at hand
    fetches: list[ToldFetch]  # Calls that bring columns while a request waits
    warnings: list[str]  # Sentences about probable mistakes in the data

    def facts(self) -> dict[str, Any]:
        """Return the report as plain data."""
        facts: dict[str, Any] = msgspec.to_builtins(self._asdict())
        return facts

    def lines(self) -> list[str]:
        """Return the report as lines of text."""
        out = f"; {len(self.left_out):,} left out" if self.left_out else ""
        tested = "" if self.tested is None else f", {self.tested:,} of them to test on"
        if self.unlabelled is not None:
            tested += f"; {self.unlabelled:,} without labels"
        lines = [f"{self.items:,} {self.kind}s {self._labels()}{tested}{out}"]
        lines += [f"  left out {name}: {why}" for name, why in self.left_out[:SHOWN]]
        if self.left_out[SHOWN:]:
            lines.append(f"  ... and {len(self.left_out) - SHOWN:,} more")
        lines += column_lines(self.columns)
        lines += [one.line() for one in self.networks]
        lines += [one.line() for one in self.fetches]
        lines += [f"mind: {warning}" for warning in self.warnings]
        return [*lines, *([] if self.warnings else ["nothing looks wrong"])]

    def _labels(self) -> str:
        if self.numbers is not None:
            low, high = self.numbers
            return f"labelled with numbers from {low:g} to {high:g}"
        most = sorted(self.classes.items(), key=lambda one: -one[1])
        shown = ", ".join(f"{label} {count:,}" for label, count in most[:CLASSES])
        more = ", ..." if most[CLASSES:] else ""
        return f"in {len(self.classes)} classes: {shown}{more}"


def check_data(project: Project, progress: Progress) -> CheckedData:
    """Read a project's items, and return a report on them.

    Raises BadProject for data, BadFeature for networks, and BadFetch for files with
    fetches, that a build would refuse. A network at an address is looked at only if a
    build has fetched it. No fetch is made.
    """
    open_fetches(project)
    project, absent = _with_networks(project, progress)
    with tempfile.TemporaryDirectory() as folder:
        with progress.stage("reading items", None) as on_progress:
            dataset = load_data(project, on_progress, Path(folder))
        if dataset.numbers is not None:
            project.of_numbers()  # refuses settings for classes
        dataset, _ = take_keys(project, dataset)
        unlabelled = read_unlabelled(project, dataset, Cache(Path(folder)), progress)
        checked = _checked(dataset, unlabelled)
    return checked._replace(
        networks=_networks(project, dataset),
        fetches=_fetches(project, checked),
        warnings=checked.warnings + absent,
    )


def _fetches(project: Project, checked: CheckedData) -> list[ToldFetch]:
    told = []
    for name, one in project.fetches.items():
        fetch = ToldFetch(name, one.key, one.columns)
        if not one.key:
            timed = 0 if one.times else min(TIMED, checked.items)
            vectors = checked.items + (checked.unlabelled or 0) + timed
            fetch.vectors = vectors
            fetch.price = {unit: each * vectors for unit, each in one.price.items()}
        told.append(fetch)
    return told


def _with_networks(project: Project, progress: Progress) -> tuple[Project, list[str]]:
    """Return the project with networks whose files are at hand, and warnings."""
    lacks = LacksWork("the file of a network was changed; a build fetches it again")
    cache = ReadOnlyCache(project.path(FOLDER), lacks)
    known, absent = list[NetworkTerms](), list[str]()
    for one in project.features.networks:
        if not one.fetched or cached_file(one, cache).is_file():
            known.append(one)
        else:
            absent.append(
                f"network {one.name!r} is not checked, since a build fetches its file"
            )
    features = msgspec.structs.replace(project.features, networks=known)
    project = msgspec.structs.replace(project, features=features)
    return with_network_files(project, cache, progress), absent


def _networks(project: Project, dataset: Dataset) -> list[ToldNetwork]:
    texts = TextColumns.of(project, dataset, {})
    opened = network_features(project, dataset, texts).networks
    told = []
    for network, terms in zip(opened, project.features.networks, strict=True):
        most = terms.most_columns
        widths = [piece.width for piece in network.facts.pieces]
        reduced = {k: most for k, width in enumerate(widths) if 0 < most < width}
        told.append(told_network(network, reduced))
    return told


def _checked(dataset: Dataset, unlabelled: Dataset | None) -> CheckedData:
    columns, warnings = describe_data(dataset)
    counts = np.bincount(dataset.codes, minlength=len(dataset.labels)).tolist()
    numbers, tested = dataset.numbers, dataset.tested
    return CheckedData(
        dataset.kind,
        len(dataset.items),
        dict(zip(dataset.labels, counts, strict=False)) if numbers is None else {},
        None if numbers is None else (float(numbers.min()), float(numbers.max())),
        None if tested is None else int(tested.sum()),
        None if unlabelled is None else len(unlabelled.items),
        dataset.skipped + (() if unlabelled is None else unlabelled.skipped),
        columns,
        [],
        [],
        warnings,
    )
