"""What callers rely on in an index: a reload must not change it unless it is allowed.

A caller sends items of one kind, a budget in one unit and columns of certain types, and
reads labels or numbers. Nothing else that differs between two indexes breaks a caller.
"""

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from msgspec import UNSET

from polydom.features.items import Kind
from polydom.features.wording import listed
from polydom.indexer.index.built_facts import gaps_of
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature

from .known_columns import KnownColumns

# What a column may hold. Words and free text are both strings.
Held = Literal["numbers", "strings", "dates"]


class Contract(NamedTuple):
    """What the callers of one index rely on."""

    kind: Kind
    unit: str  # The unit of budgets: "s", or a unit of the project's own
    labels: tuple[str, ...]  # Empty if answers are numbers
    positive: str | None  # The class of two that a threshold is about
    # What each known column of a record may hold; None if any column is accepted, and
    # for other items
    columns: dict[str, frozenset[Held]] | None
    # Known columns that no fetch brings, so that callers send them
    sent: frozenset[str]
    # Those of `sent` that no record of the build lacked
    needed: frozenset[str]


def contract_of(package: Package) -> Contract:
    """Return what the callers of an index rely on."""
    unit = str(package.meta.get("unit", "s"))
    terms = package.kind, unit, package.labels, package.positive
    if package.kind != "record":
        return Contract(*terms, None, frozenset(), frozenset())
    gaps = gaps_of(package.meta)
    known = KnownColumns(package.features, gaps, package.fetches)
    sent = frozenset(known.bits).union(known.keys).difference(known.fetched)
    lacked = {name for name, share in gaps.columns.items() if share} if gaps else set()
    columns = _columns(package.features, known) if known.names else None
    return Contract(*terms, columns, sent, sent - lacked)


def differences(old: Contract, new: Contract) -> list[str]:
    """Return what would break callers of the index `old`, one clause per difference."""
    found = [*_differing_terms(old, new), *_differing_labels(old, new)]
    if old.kind == new.kind:
        found += _differing_columns(old, new)
    return found


def _differing_terms(old: Contract, new: Contract) -> Iterator[str]:
    if old.kind != new.kind:
        yield f"its items are of the kind {new.kind}, not {old.kind}"
    if old.unit != new.unit:
        yield f"its budgets are in {_in_words(new.unit)}, not {_in_words(old.unit)}"


def _differing_labels(old: Contract, new: Contract) -> Iterator[str]:
    if old.labels == new.labels:
        if old.positive != new.positive:
            yield f"its positive class is {new.positive!r}, not {old.positive!r}"
        return
    if not old.labels or not new.labels:
        kinds = ("classes", "numbers") if new.labels else ("numbers", "classes")
        yield "its answers are {}, not {}".format(*kinds)
        return
    more = [label for label in new.labels if label not in {*old.labels}]
    less = [label for label in old.labels if label not in {*new.labels}]
    if more:
        yield f"it has the new labels {listed(more)}"
    if less:
        yield f"it lacks the labels {listed(less)}"
    if not more and not less:
        yield f"its labels are in another order, {listed(new.labels)}"


def _differing_columns(old: Contract, new: Contract) -> Iterator[str]:
    if old.columns is None:
        if new.columns is not None:
            yield f"it knows only the columns {listed([*new.columns])}, not any column"
        return
    if needed := sorted(new.needed - old.sent):
        yield f"it needs the columns {listed(needed)}, which callers do not send yet"
    if new.columns is None:
        return
    if gone := [name for name in old.columns if name not in new.columns]:
        yield f"it refuses the columns {listed(gone)}, which callers send"
    for name, held in old.columns.items():
        now = new.columns.get(name, held)
        if now and held and now != held:
            kinds = (" and ".join(sorted(each)) for each in (now, held))
            yield "its column {} holds {}, not {}".format(name[:80], *kinds)


def _columns(
    features: Iterable[StoredFeature], known: KnownColumns
) -> dict[str, frozenset[Held]]:
    """Return what each column may hold; nothing for keys whose kind is not known."""
    found: dict[str, set[Held]] = {name: set() for name in known.names}
    for feature in features:
        stored, is_text = feature.columns, feature.text is not UNSET
        words = () if stored is None else stored.vocabularies or ()
        dates = () if stored is None else stored.dates or ()
        for name in feature.reads or ():
            held: Held = "strings" if is_text or name in words else "numbers"
            found[name].add("dates" if name in dates else held)
    for name, kind in known.keys.items():
        if kind is not None:
            found[name].add("strings" if kind == "text" else "numbers")
    return {name: frozenset(held) for name, held in found.items()}


def _in_words(unit: str) -> str:
    return "milliseconds" if unit == "s" else unit
