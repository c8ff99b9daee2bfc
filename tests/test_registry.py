"""Steps and features: decorating, finding by name, loading files, fingerprints."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed

from polydom.features.errors import BadFeature
from polydom.features.fingerprint import fingerprint
from polydom.features.image import FEATURES as IMAGE_FEATURES
from polydom.features.image import gabor, grey, half, hog
from polydom.features.record import columns
from polydom.features.registry import Feature, feature, load_features, step
from polydom.features.text import FEATURES as TEXT_FEATURES

MINE = """
from polydom.features import feature, step
from polydom.features.text import hashed_words, words

SCALE = 2

def scaled(number):
    return SCALE * number

@step(needs=[words])
def lengths(words):
    return list(map(len, words))

@feature(needs=[lengths])
def longest(lengths):
    return [scaled(max(lengths, default=0))]

@feature(kind="text", name="vowels", declared={"usd": 0.5})
def count_vowels(text):
    return [sum(map(text.count, "aeiou"))]
"""


@step(kind="text")
def words(text: str) -> list[str]:
    return text.split()


@feature(needs=[words])
def count(words: list[str]) -> list[int]:
    return [len(words)]


def test_feature_is_still_the_function_it_decorates() -> None:
    assert words("one two") == ["one", "two"]
    assert count(["one", "two"]) == [2]


def test_feature_takes_the_kind_of_its_needs() -> None:
    assert count.kind == "text"
    assert count.needs == (words,)


def test_feature_decorates_without_being_called() -> None:
    with pytest.raises(BadFeature, match="feature 'length' states neither kind= nor"):

        @feature
        def length(text: str) -> list[int]:
            return [len(text)]


def test_feature_carries_its_own_name_and_declared_costs() -> None:
    made = feature(len, kind="text", name="size", declared={"s": 0.0, "usd": 22.78})
    assert (made.name, made.declared) == ("size", {"s": 0.0, "usd": 22.78})


@pytest.mark.parametrize("cost", [-0.1, float("nan"), float("inf")])
def test_feature_refuses_a_declared_cost_that_is_none(cost: float) -> None:
    with pytest.raises(BadFeature, match=r"feature 'len' declares .* usd; 0 or more"):
        feature(len, kind="text", declared={"usd": cost})


def test_feature_without_a_name_must_be_given_one() -> None:
    with pytest.raises(BadFeature, match="has no name of its own; give one with name="):
        feature(functools.partial(max, 3), kind="text")


def test_step_refuses_needs_of_different_kinds() -> None:
    with pytest.raises(BadFeature, match="step 'both' mixes kinds of items: image, te"):

        @step(needs=[grey, words])
        def both(grey: object, words: object) -> None: ...


def test_step_refuses_a_kind_that_its_needs_are_not_of() -> None:
    with pytest.raises(BadFeature, match="mixes kinds of items: image, text"):
        step(len, kind="image", needs=[words])


def test_step_refuses_to_need_a_feature() -> None:
    with pytest.raises(BadFeature, match=r"step 'len' needs .*, which is no step"):
        step(len, needs=[count])  # type: ignore[list-item]


def test_feature_must_take_what_it_will_receive() -> None:
    with pytest.raises(BadFeature, match="'one' will receive 2 arguments: too many"):

        @feature(needs=[words, words])
        def one(words: object) -> None: ...


def test_ready_made_features_have_different_names() -> None:
    names = [made.name for made in IMAGE_FEATURES + TEXT_FEATURES]
    assert len(set(names)) == len(names)


def test_load_features_finds_ready_made_ones_in_the_order_asked_for() -> None:
    assert load_features(["hog", "gabor", "hog"]) == (hog, gabor)


def test_load_features_names_the_nearest_for_an_unknown_name() -> None:
    with pytest.raises(BadFeature, match=r"no feature 'hogg'; did you mean 'hog'\?"):
        load_features(["hogg"])


def test_load_features_lists_all_where_none_is_near() -> None:
    with pytest.raises(BadFeature, match=r"no feature 'xyzzy'; there are .*hog"):
        load_features(["xyzzy"])


def test_load_features_adds_what_a_file_defines(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    found = load_features(["punctuation"], [file])
    assert [made.name for made in found] == ["punctuation", "longest", "vowels"]
    assert found[1].function([3, 5]) == [10]


def test_load_features_finds_a_file_s_features_by_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    found = load_features(["vowels"], [file])
    assert [made.name for made in found] == ["vowels", "longest"]


def test_load_features_refuses_two_of_a_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE.replace('"vowels"', '"hog"'))
    with pytest.raises(BadFeature, match=r"mine\.py: there is another feature 'hog'"):
        load_features([], [file])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1\nimport nowhere_at_all", "line 2: ModuleNotFoundError: No module"),
        ("x = 1\n\nx = = 2", "line 3: SyntaxError: invalid syntax"),
        ("def f():\n  return 1 / 0\nf()", "line 2: ZeroDivisionError: division by"),
    ],
    ids=["an import fails", "the syntax is wrong", "a function called raises"],
)
def test_load_features_names_the_line_of_a_file_that_fails(
    tmp_path: Path, source: str, message: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(source)
    with pytest.raises(BadFeature, match=f"{re.escape(str(file))}, {message}"):
        load_features([], [file])


def test_load_features_blames_the_line_that_imports_a_broken_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_module.py").write_text("x = = 1")
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "mine.py"
    file.write_text("\n\nimport broken_module")
    with pytest.raises(BadFeature, match=r"mine\.py, line 3: SyntaxError"):
        load_features([], [file])


def test_load_features_runs_what_the_file_says_now(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    for scale in (2, 3, 4):  # as long, and as old in seconds
        file.write_text(MINE.replace("SCALE = 2", f"SCALE = {scale}"))
        assert load_features([], [file])[0]([5]) == [5 * scale]
    assert not (tmp_path / "__pycache__").exists()


def test_load_features_says_that_a_file_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadFeature, match=r"gone\.py: No such file or directory; a Py"):
        load_features([], [tmp_path / "gone.py"])


def run(made: Feature, value: object) -> object:
    return made(value)


def test_features_of_a_file_travel_to_workers_that_cannot_import_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(MINE)
    (longest, _) = load_features([], [file])
    assert Parallel(n_jobs=2)([delayed(run)(longest, [4])] * 2) == [[8], [8]]


def fingerprint_of(tmp_path: Path, source: str) -> str:
    file = tmp_path / "mine.py"
    file.write_text(source)
    (first, *_) = load_features([], [file])
    return fingerprint(first)


def test_fingerprint_is_the_same_every_time(tmp_path: Path) -> None:
    assert fingerprint_of(tmp_path, MINE) == fingerprint_of(tmp_path, MINE)
    assert re.fullmatch("[0-9a-f]{64}", fingerprint_of(tmp_path, MINE))


def test_fingerprint_does_not_depend_on_where_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    there = fingerprint_of(tmp_path / "elsewhere", "# moved\n\n" + MINE)
    assert there == fingerprint_of(tmp_path, MINE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("default=0", "default=1"),
        ("map(len, words)", "map(hash, words)"),
        ("SCALE * number", "number"),
        ("SCALE = 2", "SCALE = 3"),
        ("needs=[words]", "kind='text'"),
    ],
    ids=["function", "step", "function called", "constant", "needs of a step"],
)
def test_fingerprint_changes_with(tmp_path: Path, old: str, new: str) -> None:
    assert old in MINE
    changed = fingerprint_of(tmp_path, MINE.replace(old, new))
    assert changed != fingerprint_of(tmp_path, MINE)


def test_fingerprint_ignores_what_a_feature_does_not_use(tmp_path: Path) -> None:
    other = MINE.replace('"aeiou"', '"aeiouy"') + "\nOTHER = 3\n"
    assert fingerprint_of(tmp_path, other) == fingerprint_of(tmp_path, MINE)


def test_fingerprint_sees_closures_defaults_and_arrays() -> None:
    def make(weights: np.ndarray, power: int = 2) -> Feature:
        def weighted(text: str, power: int = power) -> object:
            return weights * len(text) ** power

        return feature(weighted, kind="text")

    prints = {
        fingerprint(make(np.array([1.0, 2.0]))),
        fingerprint(make(np.array([1.0, 3.0]))),
        fingerprint(make(np.array([1.0, 2.0], np.float32))),
        fingerprint(make(np.array([1.0, 2.0]), power=3)),
    }
    assert len(prints) == 4


CLASSES = """
import functools
from dataclasses import dataclass
from polydom.features import feature

@dataclass
class Weigh:
    weight: float
    BASE = 10

    @property
    def twice(self):
        return 2 * self.weight

    def of(self, text):
        return self.BASE + self.twice * len(text)

WEIGH = Weigh(3.0)

@functools.lru_cache
def weighed(text):
    return WEIGH.of(text)

@feature(kind="text")
def weight(text):
    return [weighed(text)]
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2 * self", "4 * self"),
        ("BASE = 10", "BASE = 11"),
        ("len(text)", "hash(text)"),
        ("Weigh(3.0)", "Weigh(3.5)"),
        ("WEIGH.of(text)", "-WEIGH.of(text)"),
    ],
    ids=["property", "attribute", "method", "field", "cached function"],
)
def test_fingerprint_looks_into_objects(tmp_path: Path, old: str, new: str) -> None:
    assert old in CLASSES
    changed = fingerprint_of(tmp_path, CLASSES.replace(old, new))
    assert changed != fingerprint_of(tmp_path, CLASSES)
    assert fingerprint_of(tmp_path, CLASSES) == fingerprint_of(tmp_path, CLASSES)


def test_fingerprint_of_columns_changes_with_their_vocabularies() -> None:
    few = columns("job", ["job"], vocabularies={"job": ["a", "b"]})
    same = columns("work", ["job"], vocabularies={"job": ["a", "b"], "age": ["x"]})
    more = columns("job", ["job"], vocabularies={"job": ["a", "b", "c"]})
    turned = columns("job", ["job"], vocabularies={"job": ["b", "a"]})
    assert fingerprint(few) == fingerprint(same)
    assert len({fingerprint(few), fingerprint(more), fingerprint(turned)}) == 3


def test_fingerprint_follows_steps_that_are_shared() -> None:
    @feature(needs=[half])
    def mean(half: np.ndarray) -> list[float]:
        return [half.mean()]

    @feature(needs=[grey])
    def mean_of_grey(half: np.ndarray) -> list[float]:
        return [half.mean()]

    assert fingerprint(mean) != fingerprint(mean_of_grey)


def test_fingerprint_refuses_a_function_without_source() -> None:
    scope: dict[str, object] = {}
    exec("def f(text): return [1]", scope)
    with pytest.raises(BadFeature, match=r"source of .*f cannot be read; define it in"):
        fingerprint(feature(scope["f"], kind="text"))  # type: ignore[call-overload]
