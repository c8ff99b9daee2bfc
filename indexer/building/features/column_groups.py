"""Groups of a table's columns that are features."""

import logging
from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np
from msgspec import UNSET

from polydom.features.errors import BadProject
from polydom.features.fingerprint import fingerprint
from polydom.features.tables.column_features import columns, learn_texts
from polydom.features.tables.exact_numbers import Shift, learn_numbers
from polydom.features.tables.records import column_names
from polydom.features.wording import hint

from ...index.file.pdx_file import excess
from ...index.stored_features import StoredColumns, StoredFeature
from ..data.dataset import Dataset
from ..project import Project
from ..project_tables.features import Columns
from ..project_tables.fetches import key_columns
from .text_features import Chosen, Found, TextColumns

log = logging.getLogger("polydom")

MAX_FEATURES = 62
MANY_COLUMNS = 16  # features, if columns are too many and have to be joined
FEW = 2  # features reserved for each column of free text


def column_groups(
    project: Project, dataset: Dataset, texts: TextColumns, on_texts: Chosen
) -> tuple[list[Columns], list[str]]:
    """Return groups of columns that are features, and columns that get text features.

    The latter are columns of free text for which the project names no features; they
    get the default features of texts. Columns that a fetch brings are together in a
    group, unless the project names other groups of them.
    """
    features, fetches = project.features, project.fetches
    chosen = features.columns or features.use or features.files
    named = [name for group in features.columns for name in group.columns]
    fetched = {name: one.left_over(features.columns) for name, one in fetches.items()}
    beside = {*named, *key_columns(fetches)}.union(*fetched.values())
    left: list[str] = []
    if dataset.kind == "record" and (features.others or not chosen):
        left = [name for name in column_names(dataset.items) if name not in beside]
    named += [name for brought in fetched.values() for name in brought]
    reading = [one for one, _ in on_texts.found] + [*on_texts.recipes]
    read = {one.text.column for one in reading if one.text is not UNSET}
    usual = [n for n in [*named, *left] if n in texts.texts and n not in read]
    groups = [own for own in features.columns if not _is_text(own, texts)]
    for fetch, brought in fetched.items():
        if own := [name for name in brought if name not in texts.texts]:
            groups.append(Columns(fetch, own))
    left = [name for name in left if name not in texts.texts]
    others = FEW * len(usual) + len(fetched)
    return [*groups, *_one_each(left, others)], [*dict.fromkeys(usual)]


def _is_text(group: Columns, texts: TextColumns) -> bool:
    """Return True if the group is free text, from which other features are computed."""
    own = [name for name in group.columns if name in texts.texts]
    if not own:
        return False
    if len(own) < len(group.columns):
        raise BadProject(
            f"[[features.columns]] {group.name!r} has column {own[0]!r}, which holds "
            "free text, beside others: features of texts read one column each. Leave "
            'it out of the group, or give it one of its own, or kind = "word"'
        )
    if group.cost and len(own) > 1:
        raise BadProject(
            f"[[features.columns]] {group.name!r} has a cost and {len(own)} columns of "
            "free text, which are not bought together: a group for each says what it "
            "costs"
        )
    return True


def of_columns(groups: Sequence[Columns], dataset: Dataset) -> Iterator[Found]:
    """Yield the features of groups; learn the words and dates of their columns.

    Raises BadProject for a column that no row has, or with too many words.
    """
    if not groups:
        return
    names = sorted({name for group in groups for name in group.columns})
    _refuse_unknown(names, column_names(dataset.items))
    known, dates, orders = learn_texts(dataset.items, names)
    _refuse_large(known)
    shifts = _shifts(dataset, [name for name in names if name not in known])
    for group in groups:
        arguments = StoredColumns(
            group.columns,
            {name: list(known[name]) for name in group.columns if name in known},
            {name: list(dates[name]) for name in group.columns if name in dates},
            {name: orders[name] for name in group.columns if name in orders},
            {name: shifts[name] for name in group.columns if name in shifts},
            dict(group.cost),
        )
        feature = columns(group.name, **msgspec.structs.asdict(arguments))
        made_of = fingerprint(feature)
        yield StoredFeature(group.name, 0, made_of, True, arguments), feature


def _shifts(dataset: Dataset, names: Sequence[str]) -> dict[str, Shift]:
    """Return the `Shift` of each column that needs one to keep its numbers in float32.

    Warns if distinct numbers of a column become equal in float32 even so.
    """
    learned = learn_numbers(dataset.items, names)
    for name, found in learned.items():
        if found.lost:
            log.warning(
                "column %r holds %d different numbers, of which %d become another one "
                "as the 32-bit numbers that models read; a column that is less large "
                "for what it varies, or two of them, may tell more",
                name,
                found.different,
                found.lost,
            )
    return {name: own.shift for name, own in learned.items() if own.shift is not None}


def _refuse_large(known: Mapping[str, Sequence[str]]) -> None:
    """Raise BadProject if the columns' distinct words do not fit into an index."""
    if not (reason := excess(msgspec.msgpack.encode(known))):
        return
    sizes = {name: len(msgspec.msgpack.encode(known[name])) for name in known}
    largest = max(sizes, key=sizes.__getitem__)
    raise BadProject(
        f"column {largest!r} holds {len(known[largest]):,} different words of "
        f"{sizes[largest]:,} bytes, and an index has all words of its columns in its "
        f"header ({reason}); [data] ignore leaves the column out"
    )


def _one_each(names: Sequence[str], others: int) -> list[Columns]:
    """Make each column a feature; if these are too many, join neighbouring columns.

    `others` is the number of other features to leave room for.
    """
    if len(names) + others <= MAX_FEATURES:
        return [Columns(name, [name]) for name in names]
    parts = np.array_split(np.array(names, object), MANY_COLUMNS)
    return [Columns(f"{part[0]} to {part[-1]}", part.tolist()) for part in parts]


def _refuse_unknown(names: Sequence[str], known: Sequence[str]) -> None:
    for name in names:
        if name not in known:
            raise BadProject(
                f"[[features.columns]] names {name!r}, which no row has; "
                f"{hint(name, known, 0.4)}"
            )
