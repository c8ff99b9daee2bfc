"""Values are kept by feature and by what it reads of an item, for every later build."""

import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.indexer.building.cache import DAY_S, Cache, digest
from polydom.indexer.building.features import kept_values
from polydom.indexer.building.features.choose_features import ProjectFeatures
from polydom.indexer.building.features.item_keys import Distinct, ItemKeys
from polydom.indexer.building.features.kept_values import ComputedValues, KeptValues
from polydom.indexer.index.file.pdx_file import read_file, write_file
from polydom.indexer.index.stored_features import StoredFeature

WIDTHS = (1, 2, 3)
# one feature is read from a table; what the others read of an item is a small number
GROUPS = (None, f"values/{digest('b')}", f"values/{digest('c')}")


def features() -> ProjectFeatures:
    stored = [
        StoredFeature(name, width, "", True)
        for name, width in zip(
            ("casing", "punctuation", "text_length"), WIDTHS, strict=True
        )
    ]
    made = ProjectFeatures(stored, ())
    made._extractor = _Extractor()  # type: ignore[assignment]
    return made


class _Feature:
    fails = "without"


class _Extractor:
    features = (_Feature(),) * 3


def hashed(numbers: np.ndarray) -> np.ndarray:
    """The hash of each number, of which some end with zeros."""
    found = np.zeros((len(numbers), 16), np.uint8)
    found[:, :8] = numbers.astype("<u8").reshape(-1, 1).view(np.uint8)
    return found


def opened(folder: Path, read: np.ndarray) -> tuple[KeptValues, np.ndarray]:
    """Kept values of items, of which two features read the numbers `read` (2, N)."""
    keys = [
        None,
        *(
            ItemKeys(str(group), Distinct(hashed(own)))
            for group, own in zip(GROUPS[1:], read, strict=True)
        ),
    ]
    values = np.full((read.shape[1], 6), np.nan, np.float32)
    names = [f"item {n}" for n in range(read.shape[1])]
    return KeptValues(Cache(folder), keys, features(), values, names), values


def value(feature: int, number: int) -> list[float]:
    """What a feature is for an item of which it reads a number; as slow as clear."""
    return [feature + number / 7 + column for column in range(WIDTHS[feature])]


Pairs = list[tuple[int, int]]


def compute(kept: KeptValues, read: np.ndarray, torn: set[int]) -> tuple[Pairs, Pairs]:
    """Compute what is missing, as a build does.

    Returns what was computed, as pairs of a feature and the number that it read; and
    what of this was of usable items, and so was kept.
    """
    asked: Pairs = []
    usable: Pairs = []
    for parts in (kept.missing, kept.repeat):
        for places, lacking in parts():
            rows = []
            bad = {}
            for at, place in enumerate(places.tolist()):
                row: list[float] = []
                for feature in lacking:
                    row += value(feature, int(read[feature - 1, place]))
                numbers = [(n, int(read[n - 1, place])) for n in lacking]
                asked += numbers
                if torn & {number for _, number in numbers}:
                    bad[at] = f"torn by {numbers}"
                else:
                    usable += numbers
                rows.append(row)
            found = np.array(rows, np.float32)
            given: Any = (0, lacking, found, bad, {}, frozenset[str](), 0.1)
            kept.add(ComputedValues(*given), places)
    kept.keep()
    kept.merge()
    return asked, usable


@pytest.mark.parametrize("seed", range(25))
def test_each_build_computes_only_what_no_build_has_computed(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = np.random.default_rng(seed)
    monkeypatch.setattr(kept_values, "MOST_ENTRIES", int(draw.integers(1, 5)))
    monkeypatch.setattr(kept_values, "ENTRY_ITEMS", int(draw.integers(3, 50)))
    most_parts = int(draw.integers(1, 5))
    monkeypatch.setattr(kept_values, "MOST_PARTS", most_parts)
    torn = {*draw.integers(0, 40, 3).tolist()} if seed % 2 else set()
    known: set[tuple[int, int]] = set()
    for _ in range(8):
        count = int(draw.integers(1, 60))
        read = draw.integers(0, 40, (2, count))
        kept, values = opened(tmp_path, read)
        needed = {(f, n) for f in (1, 2) for n in read[f - 1].tolist()}
        lacking = [needs(read[:, at], known) for at in range(count)]
        assert kept.done == lacking.count(set())
        assert kept.complete == (not needed - known)
        asked, usable = compute(kept, read, torn)
        assert needed - known <= {*asked}
        assert len(usable) == len({*usable}) or torn or most_parts < 4
        bad = [{*own} & torn for own in read.T.tolist()]
        assert kept.bad.keys() == {at for at in range(count) if bad[at]}
        for at in range(count):
            if not bad[at]:
                own = [*value(1, int(read[0, at])), *value(2, int(read[1, at]))]
                np.testing.assert_array_equal(values[at, 1:], np.array(own, np.float32))
        known |= {*usable}
        assert kept.done == count
    for group in GROUPS[1:]:
        paths = [*(tmp_path / str(group)).glob("*.pdx")]
        most = kept_values.MOST_ENTRIES + 2 * 40 / kept_values.ENTRY_ITEMS
        assert len(paths) <= most + 60 / kept_values.ENTRY_ITEMS + 2


def needs(read: np.ndarray, known: set[tuple[int, int]]) -> set[tuple[int, int]]:
    return {(1, int(read[0])), (2, int(read[1]))} - known


def filled(folder: Path, numbers: list[int]) -> list[Path]:
    read = np.array([numbers, numbers])
    kept, _ = opened(folder, read)
    compute(kept, read, set())
    return sorted(folder.rglob("*.pdx"))


def rewritten(path: Path, **change: Any) -> None:
    meta, arrays, _ = read_file(path)
    meta["kept"] |= {k: v for k, v in change.items() if k == "failed"}
    arrays |= {k: v for k, v in change.items() if k != "failed"}
    write_file(path, meta, arrays)


HOSTILE: dict[str, Any] = {
    "torn": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "noise": lambda path: path.write_bytes(os.urandom(4096)),
    "bit": lambda path: path.write_bytes(
        path.read_bytes()[:-5] + b"\x7f" + path.read_bytes()[-4:]
    ),
    "narrow": lambda path: rewritten(path, values=np.zeros((9, 9), np.float32)),
    "doubles": lambda path: rewritten(path, values=np.zeros((9, 2))),
    "infinite": lambda path: rewritten(path, values=np.full((9, 2), np.inf, "f4")),
    "few": lambda path: rewritten(path, digests=np.zeros((3, 16), np.uint8)),
    "short": lambda path: rewritten(path, digests=np.zeros((9, 15), np.uint8)),
    "beyond": lambda path: rewritten(path, failed={"9": "why"}),
    "no row": lambda path: rewritten(path, failed={"x": "why"}),
    "no errors": lambda path: rewritten(path, failed=[1]),
}


@pytest.mark.parametrize("damage", HOSTILE)
def test_a_damaged_entry_is_computed_again_and_gone(
    tmp_path: Path, damage: str
) -> None:
    paths = filled(tmp_path, [*range(9)])
    (path,) = [path for path in paths if path.parent.name in str(GROUPS[1])]
    HOSTILE[damage](path)
    read = np.tile(np.arange(9), (2, 1))
    kept, values = opened(tmp_path, read)
    assert not path.exists()
    assert kept.done == 0
    asked, _ = compute(kept, read, set())
    assert sorted(asked) == [(1, n) for n in range(9)]
    expected = [[*value(1, n), *value(2, n)] for n in range(9)]
    np.testing.assert_array_equal(values[:, 1:], np.array(expected, np.float32))
    assert opened(tmp_path, read)[0].complete


def test_merged_values_that_a_build_does_not_use_grow_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_values, "MOST_ENTRIES", 1)
    filled(tmp_path, [1, 2, 3])
    old = time.time() - 5 * DAY_S
    for path in filled(tmp_path, [1, 4]):  # merges [1, 2, 3] and [4]
        os.utime(path, (old, old))
    paths = filled(tmp_path, [1, 4])
    kept, _ = opened(tmp_path, np.tile([1, 2, 3, 4], (2, 1)))
    assert kept.complete
    counts = {
        len(read_file(path)[1]["digests"]): path.stat().st_mtime > old + DAY_S
        for path in paths
        if path.parent.name in str(GROUPS[1])
    }
    assert counts == {2: True}
    assert len(paths) == 4
    for path in paths:
        os.utime(path, (old, old))
    filled(tmp_path, [1, 4])
    used = [path for path in paths if path.stat().st_mtime > old + DAY_S]
    assert len(used) == 2
    kept, _ = opened(tmp_path, np.tile([1, 2, 3, 4], (2, 1)))
    assert kept.complete
    assert all(path.stat().st_mtime > old + DAY_S for path in paths)


def test_errors_of_a_feature_are_kept_with_the_names_that_items_have_now(
    tmp_path: Path,
) -> None:
    read = np.array([[7, 8, 7], [1, 2, 3]])
    kept, _ = opened(tmp_path, read)
    for places, lacking in kept.missing():
        width = sum(WIDTHS[n] for n in lacking)
        failed = {
            at: {1: f"no answer for item {place}: down for item 9"}
            for at, place in enumerate(places.tolist())
            if 1 in lacking and read[0, place] == 7
        }
        rows = np.zeros((len(places), width), np.float32)
        given: Any = (0, lacking, rows, {}, failed, frozenset[str](), 0.1)
        kept.add(ComputedValues(*given), places)
    assert kept.repeat() == []
    kept.keep()
    why = "no answer for item {}: down for item 9"
    assert kept.failed[1] == {0: why.format(0), 2: why.format(2)}
    kept, _ = opened(tmp_path, read[:, [1, 0]])
    assert kept.complete
    assert kept.failed[1] == {1: why.format(1)}
