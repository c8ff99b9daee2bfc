"""Descriptions of a table's columns, and warnings that name the setting to change."""

import json
import logging
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

import numpy as np

from polydom.features.tables.dates import orders_of
from polydom.features.tables.records import Column, Records, Rows
from polydom.features.tables.written_numbers import (
    EMPTY,
    plain_number,
    read_number,
)
from polydom.features.wording import listed

from ...index.column_facts import ColumnFacts, column_lines
from .dataset import Dataset
from .read_table import label_of

log = logging.getLogger("polydom.data")

NEARLY = 0.5  # share of numbers from which the other words may mean "empty"
SAMPLED = 500  # words looked at to find that share
MANY_WORDS = 100  # different words from which a column may hold names
ROWS_OF_CLASS = 8  # rows per class needed to look for columns that tell labels
LEAST = 50  # rows needed to look for such columns, and for copies
SEEN = 20_000  # rows looked at to find such columns
LEAK = 0.99  # share of the possible gain in accuracy that one column has alone
MANY_WAYS = 500  # possible rows per row, so that 1 in 1000 is a copy by chance
COPIES = 0.01  # share of copies that causes a warning
FEW = 20  # fewer items of a class cause a warning
SHOWN = 3
MOST_DULL = 10  # columns that are named one by one
NO_LETTER = re.compile(r"[\W\d_]+")


class DataFacts(NamedTuple):
    """Descriptions of a data set's columns, if any, and warnings about the data."""

    columns: list[ColumnFacts]
    warnings: list[str]


def say_data(facts: DataFacts) -> None:
    """Write the descriptions of columns and the warnings to the log."""
    for line in column_lines(facts.columns):
        log.info("%s", line)
    for warning in facts.warnings:
        log.warning("%s", warning)


def describe_data(dataset: Dataset) -> DataFacts:
    """Describe the columns of a data set, and warn of probable mistakes in the data."""
    columns, warnings = describe_columns(dataset), list[str]()
    if isinstance(dataset.items, Records):
        held = dataset.items.columns
        dull = [json.dumps(facts.name) for facts in columns if facts.different < 2]
        if len(dull) > MOST_DULL:
            warnings.append(
                f"{len(dull):,} columns are empty or the same in all rows, such as "
                f"{listed(dull[:SHOWN])}; [data] ignore leaves them out"
            )
        for facts in columns:
            if facts.different > 1 or len(dull) <= MOST_DULL:
                warnings += _column_warnings(held[facts.name], facts, dataset)
    warnings += [*_copies(dataset), *_alike(dataset.labels), *_few(dataset)]
    return DataFacts(columns, warnings)


def describe_columns(dataset: Dataset) -> list[ColumnFacts]:
    """Return a description of each column; [] if items are not rows of a table."""
    if not isinstance(dataset.items, Records):
        return []
    return [describe_column(*pair) for pair in dataset.items.columns.items()]


def describe_column(name: str, column: Column) -> ColumnFacts:
    """Return the description of a table's column."""
    codes, cells = column.told_apart()
    counts = np.bincount(codes[codes >= 0], minlength=len(cells))
    example = ""
    if counts.any():
        example = label_of(cells[int(counts.argmax())])
    return ColumnFacts(
        name,
        column.kind,
        len(column),
        int((codes < 0).sum()),
        int((counts > 0).sum()),
        example,
        list(column.empty_words),
        column.date_order,
        column.decimal,
    )


def _column_warnings(
    column: Column, facts: ColumnFacts, dataset: Dataset
) -> Iterator[str]:
    name = facts.name
    leave_out = f"[data] ignore = [{json.dumps(name)}] leaves it out"
    if column.unclear:
        yield f"column {name!r}: {column.unclear}"
    if not facts.different:
        yield f"column {name!r} is empty in all rows; {leave_out}"
        return
    if column.kind == "number" and (count := int(np.isinf(column.numbers()).sum())):
        yield (
            f"column {name!r} holds infinite numbers in {count:,} cells, whose rows "
            'are left out; [data] missing = ["inf", "-inf"] says that these are empty'
        )
    if facts.different == 1:
        what = "the same, or empty," if facts.empty else "the same"
        yield f"column {name!r} is {what} in all rows: {facts.example!r}; {leave_out}"
    elif _numbers_rows(column, facts):
        yield (
            f"column {name!r} numbers the rows, so it tells when they were written and "
            f"no more; {leave_out}"
        )
    elif column.kind == "word":
        yield from _word_warnings(column, facts, leave_out)
    if _tells_labels(column, dataset):
        yield (
            f"column {name!r} tells the labels apart by itself, as what is known only "
            f"afterwards does; if it is not known when an answer is needed: {leave_out}"
        )


def _numbers_rows(column: Column, facts: ColumnFacts) -> bool:
    """Return True if a column's numbers grow by the same step from row to row."""
    if column.kind != "number" or facts.different < max(facts.rows, LEAST):
        return False
    steps = np.diff(column.numbers().astype(np.float64))
    return bool((steps == steps[0]).all())


def _word_warnings(column: Column, facts: ColumnFacts, leave_out: str) -> Iterator[str]:
    codes, words = column.words()
    used = [words[code] for code in np.unique(codes[codes >= 0]).tolist()]
    for kind, reads in (("number", _is_number), ("date", _is_date)):
        if others := _unread_if_few(used, reads):
            left = set(others)
            odd = [code for code, word in enumerate(words) if word in left]
            rows = len(codes) - facts.empty - int(np.isin(codes, odd).sum())
            shown = ", ".join(map(json.dumps, others[:SHOWN]))
            yield (
                f"column {facts.name!r} holds words, though {rows:,} of its "
                f"{len(codes):,} cells are {kind}s: [data] missing = [{shown}] says "
                f"that {'these are' if others[1:] else 'this is'} empty"
            )
            return
    if nothing := [word for word in used if word in EMPTY]:
        rows = int(np.isin(codes, [words.index(word) for word in nothing]).sum())
        shown = ", ".join(map(json.dumps, nothing))
        yield (
            f"column {facts.name!r} holds {shown} in {rows:,} cells, a word like any "
            f"other: [data] missing = [{shown}] says that they are empty"
        )
    alike: dict[str, list[str]] = {}
    for word in used:
        alike.setdefault(word.casefold(), []).append(word)
    if twice := [own for own in alike.values() if own[1:]]:
        yield (
            f"column {facts.name!r} holds words that differ in case alone, such as "
            f"{listed(twice[0])}: to a model they have nothing in common"
        )
    if facts.different > max(MANY_WORDS, facts.rows / 2):
        yield (
            f"column {facts.name!r} holds {facts.different:,} different words in "
            f"{facts.rows:,} rows, so hardly any comes again; {leave_out}"
        )


def _unread_if_few(words: Sequence[str], reads: Callable[[str], bool]) -> list[str]:
    """Return the words for which `reads` is False, or [] if they are the majority."""
    sample = words[:: max(len(words) // SAMPLED, 1)]
    read = sum(map(reads, sample))
    if read < NEARLY * len(sample) or read < 2:
        return []
    return [word for word in words if not reads(word)]


def _is_number(word: str) -> bool:
    for decimal in (".", ","):
        with suppress(ValueError):
            read_number(word, decimal)
            return True
    return plain_number(word) is not None


def _is_date(word: str) -> bool:
    return bool(orders_of([word]))


def _tells_labels(column: Column, dataset: Dataset) -> bool:
    """Return True if a decision tree on this column predicts nearly all labels."""
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if len(column) < max(LEAST, ROWS_OF_CLASS * len(dataset.labels)):
        return False
    rows = np.random.default_rng(0).permutation(len(column))[:SEEN]
    codes, _ = column.told_apart()
    values = column.numbers() if column.kind == "number" else codes
    values = values.astype(np.float64)[rows].reshape(-1, 1)
    values = np.nan_to_num(np.clip(values, -1e30, 1e30), nan=-1e30)
    targets = dataset.targets[rows]
    half = len(rows) // 2
    leaves = 2 * max(len(dataset.labels), 16)
    make = DecisionTreeClassifier if dataset.numbers is None else DecisionTreeRegressor
    tree = make(max_leaf_nodes=leaves, min_samples_leaf=2, random_state=0)
    score = tree.fit(values[:half], targets[:half]).score(values[half:], targets[half:])
    base = 0.0
    if dataset.numbers is None:
        base = float(np.bincount(targets[half:]).max() / (len(rows) - half))
    return base < 1 and (score - base) >= LEAK * (1 - base)


def _copies(dataset: Dataset) -> Iterator[str]:
    """Yield a warning if many items are equal, or many texts nearly equal."""
    if dataset.kind == "image" or len(dataset.items) < LEAST:
        return  # copies of files are kept together
    if isinstance(dataset.items, Records):
        if not _hardly_equal_by_chance(dataset.items):
            return
        codes = _row_codes(dataset.items).tolist()
        what = "rows are the same as others in all columns"
    else:
        known: dict[str, int] = {}
        texts = (str(item.payload).casefold() for item in dataset.items)
        letters = (NO_LETTER.sub(" ", text).strip() for text in texts)
        codes = [known.setdefault(text, len(known)) for text in letters]
        what = "texts are the same as others but for case, digits and punctuation"
    apart = {*zip(codes, dataset.groups.tolist(), strict=True)}
    copies = len(apart) - len({*codes})
    if copies > COPIES * len(codes):
        yield (
            f"{copies:,} of {len(codes):,} {what}: on both sides of a split they make "
            "answers look better than they are; [data] group = names a column that is "
            "the same for copies, and keeps them together"
        )


def _hardly_equal_by_chance(records: Records) -> bool:
    """Return True if cells have so many combinations that equal rows are unlikely."""
    ways = 1.0
    for column in records.columns.values():
        _, cells = column.told_apart()
        ways *= len(cells) + 1
    return ways > MANY_WAYS * len(records)


def _row_codes(records: Records) -> Rows:
    """Return a number for each row, shape (N,); equal rows get equal numbers."""
    codes = np.zeros(len(records), np.int64)
    for column in records.columns.values():
        own, _ = column.told_apart()
        pairs = codes * (own.max(initial=0) + 2) + own[records.rows] + 1
        _, codes = np.unique(pairs, return_inverse=True)
    return codes


def _alike(labels: Sequence[str]) -> Iterator[str]:
    """Yield a warning if class names differ only in case, or are equal as numbers."""
    classes: dict[str | float, list[str]] = {}
    for label in labels:
        number = plain_number(label)
        same = label.casefold() if number is None else number
        classes.setdefault(same, []).append(label)
    for own in classes.values():
        if own[1:]:
            yield (
                f"{listed([*map(repr, own)])} are classes of their own, as labels are "
                "taken as they are written; write them the same way if they are one"
            )
            return


def _few(dataset: Dataset) -> Iterator[str]:
    counts = np.bincount(dataset.codes, minlength=len(dataset.labels)).tolist()
    if dataset.numbers is not None:
        return
    least = min(FEW, len(dataset.items) / (2 * max(len(counts), 1)))
    few = [
        f"{label!r} ({count})"
        for label, count in zip(dataset.labels, counts, strict=True)
        if count < least
    ]
    if few:
        more = f" and {len(few) - SHOWN} more" if few[SHOWN:] else ""
        yield (
            f"few items are of {'classes' if few[1:] else 'class'} "
            f"{', '.join(few[:SHOWN])}{more}: how well they are answered can hardly be "
            "measured; [data] rare_below and on_rare_class leave them out or merge them"
        )
