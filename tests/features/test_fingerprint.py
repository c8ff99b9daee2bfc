"""Fingerprints see all that a feature's values depend on, and nothing else."""

import os
import re
import subprocess
import sys
import textwrap
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from polydom.features.errors import BadFeature, BadItem
from polydom.features.feature import Feature, feature, step
from polydom.features.fingerprint import fingerprint, unsteady
from polydom.features.loading import load_features, ready_made_features
from polydom.features.ready_made.image import grey, half
from polydom.features.tables.column_features import Columns, columns
from tests.support.builds.own_features import MINE

HEAD = "from polydom.features import feature\n"
TAIL = "\n@feature(kind='text')\ndef used(text):\n    return [len(str(V))]\n"
PRINT = """
import sys
from fractions import Fraction
from pathlib import Path
from polydom.features.fingerprint import fingerprint
from polydom.features.tables.column_features import columns
from polydom.features.loading import load_features, ready_made_features
files = [Path(name) for name in sys.argv[1:]]
group = columns("c", ["a", "b"], vocabularies={"a": ["x", "y"]})
for one in (*load_features([], files), *ready_made_features(), group):
    print(one.name, fingerprint(one))
"""


def load(folder: Path, source: str) -> Feature:
    folder.mkdir(exist_ok=True)
    file = folder / "mine.py"
    file.write_text(HEAD + textwrap.dedent(source))
    (found, *_) = load_features([], [file])
    return found


def print_of(folder: Path, source: str) -> str:
    return fingerprint(load(folder, source))


def in_a_process(seed: int, *files: Path, path: Path | None = None) -> str:
    """Fingerprints of a file's features and all ready-made, where hashes differ."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, "-B", "-c", PRINT, *map(str, files)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


VECTORS = (
    "from sklearn.feature_extraction.text import HashingVectorizer, CountVectorizer\n"
)
OBJECTS = {
    "estimator": (VECTORS + "V = HashingVectorizer(n_features=16)", "16", "32"),
    "nested list": ("V = [[1], 2]", "[[1], 2]", "[[1, 2]]"),
    "set": ("V = {'a', ('b', 1)}", "1", "2"),
    "set of objects": (
        "class P:\n    def __init__(self, x):\n        self.x = x\nV = {P(1), P(2)}",
        "P(2)",
        "P(3)",
    ),
    "array": ("import numpy as np\nV = np.array([1, 2])", "2]", "3]"),
    "named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\nV = P(1, 2)",
        "2)",
        "3)",
    ),
    "enum": (
        "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\nV = E.A",
        "A = 1",
        "A = 3",
    ),
    "base class": (
        "class B:\n    x = 1\nclass P(B):\n    pass\nV = P()",
        "x = 1",
        "x = 2",
    ),
    "partial": ("import functools\nV = functools.partial(round, 2.5)", "2.5", "3.5"),
    "lambda": ("V = lambda x: x + 1", "x + 1", "x + 2"),
    "wrapper": (
        "import functools\ndef twice(f):\n    @functools.wraps(f)\n    def g(x):\n"
        "        return 2 * f(x)\n    return g\n@twice\ndef V(x):\n    return x",
        "2 * f",
        "3 * f",
    ),
    "generator of numbers": ("import random\nV = random.Random(1)", "(1)", "(2)"),
    "path": ("from pathlib import Path\nV = Path('/data/words')", "words", "roots"),
    "function of numba": (
        "from numba import njit\n@njit\ndef V(x):\n    return x + 1",
        "x + 1",
        "x + 2",
    ),
    "function of a library": (
        "from math import sqrt as V",
        "math import sqrt",
        "numpy import sqrt",
    ),
    "of a class that holds itself": (
        "class P:\n    pass\nV = P()\nV.me = V\nV.x = 1",
        "x = 1",
        "x = 2",
    ),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_a_fingerprint_changes_with_a_global(tmp_path: Path, name: str) -> None:
    source, old, new = OBJECTS[name]
    assert source.count(old) == 1
    first = print_of(tmp_path, source + TAIL)
    assert print_of(tmp_path, source.replace(old, new) + TAIL) != first
    assert print_of(tmp_path / "elsewhere", source + TAIL) == first


def test_fingerprints_are_the_same_in_every_process(tmp_path: Path) -> None:
    """Whatever hashes of strings are, which order sets; ready-made features too."""
    files = []
    for place, (source, _, _) in enumerate(OBJECTS.values()):
        files.append(tmp_path / f"f{place}.py")
        files[-1].write_text(HEAD + source + TAIL.replace("used", f"used{place}"))
    group = columns("c", ["a", "b"], vocabularies={"a": ["x", "y"]})
    everything = [*load_features([], files), *ready_made_features(), group]
    here = [f"{one.name} {fingerprint(one)}" for one in everything]
    assert in_a_process(1, *files).splitlines() == here
    assert len(set(" ".join(here).split())) == 2 * len(everything)


def test_a_fingerprint_does_not_know_where_the_file_is(tmp_path: Path) -> None:
    source = """
    import os
    from pathlib import Path
    HERE = Path(__file__).parent
    V = [HERE / "words", os.path.join(os.path.dirname(__file__), "roots"), __file__]
    """
    first = print_of(tmp_path / "one", textwrap.dedent(source) + TAIL)
    assert print_of(tmp_path / "other", textwrap.dedent(source) + TAIL) == first
    other = source.replace("words", "names")
    assert print_of(tmp_path / "one", textwrap.dedent(other) + TAIL) != first


MADE = """
from sklearn.feature_extraction.text import HashingVectorizer

def make(value):
    @feature(kind="text"{version})
    def used(text):
        return [len(str(value))]
    return used

MADE = make({value})
"""


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("(x for x in 'abc')", "generator"),
        ("HashingVectorizer()", "HashingVectorizer"),
        ("[{'a': object()}]", "object"),
    ],
)
def test_an_object_that_is_handed_in_needs_a_version(
    tmp_path: Path, value: str, kind: str
) -> None:
    found = load(tmp_path, MADE.format(version="", value=value))
    with pytest.raises(BadFeature, match=f"feature 'used' uses a {kind}, .* version"):
        fingerprint(found)
    one, same, other = (
        print_of(tmp_path, MADE.format(version=f", version={v!r}", value=value))
        for v in "112"
    )
    assert one == same != other


def test_functions_made_in_a_loop_are_told_apart_by_what_they_capture(
    tmp_path: Path,
) -> None:
    source = """
    MADE = []
    for {names} in {values}:
        @feature(kind="text", name=f"longer{{limit}}")
        def longer(text, limit=limit):
            return [len(text) > limit]
        MADE.append(longer)
        MADE.append(feature(lambda t, n=limit: [n], kind="text", name=f"f{{limit}}"))
    ALL = tuple(MADE)
    for number, one in enumerate(ALL):
        globals()[f"feature{{number}}"] = one
    """
    source = HEAD + textwrap.dedent(source)
    file = tmp_path / "mine.py"
    file.write_text(source.format(names="limit", values="(1, 2)"))
    found = load_features([], [file])
    assert len({fingerprint(one) for one in found}) == len(found) == 4


def test_a_version_of_a_step_counts_for_the_features_that_need_it() -> None:
    def own(version: str) -> Feature:
        @step(kind="text", version=version)
        def shared(text: str) -> str:
            return text

        @feature(needs=[shared])
        def longest(text: str) -> list[int]:
            return [len(text)]

        return longest

    assert fingerprint(own("1")) == fingerprint(own("1")) != fingerprint(own("2"))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("def scaled(number):", '# scaled\n\ndef scaled(number):\n    """Scale it."""'),
        ("def scaled(number):", "def scaled( number: int ) -> int :"),
        ("max(lengths, default=0)", "(max(lengths,\n            default=0))"),
        ("SCALE = 2\n", ""),
    ],
    ids=["comment and docstring", "annotations", "formatting", "place"],
)
def test_a_fingerprint_ignores(tmp_path: Path, old: str, new: str) -> None:
    assert old in MINE
    changed = MINE.replace(old, new)
    if not new:
        changed += "\nSCALE = 2\n"
    assert print_of(tmp_path, changed) == print_of(tmp_path, MINE)


def test_a_fingerprint_counts_statements_that_change_a_variable(
    tmp_path: Path,
) -> None:
    source = VECTORS + "V = CountVectorizer()\nV.fit(['aa'])\nW = [V]\nW.clear()"
    first = print_of(tmp_path, source + TAIL)
    assert print_of(tmp_path, source.replace("'aa'", "'bb'") + TAIL) != first
    assert print_of(tmp_path, source.replace("W.clear()", "W.pop()") + TAIL) == first


def test_a_fingerprint_counts_data_that_a_file_reads_as_it_is_loaded(
    tmp_path: Path,
) -> None:
    source = (
        "from pathlib import Path\n"
        "V = (Path(__file__).parent / 'words').read_text().split()"
    )
    (tmp_path / "words").write_text("one two")
    first = print_of(tmp_path, source + TAIL)
    (tmp_path / "words").write_text("one three")
    assert print_of(tmp_path, source + TAIL) != first


def test_a_fingerprint_lets_be_what_no_value_depends_on(tmp_path: Path) -> None:
    source = """
    import logging, os, threading
    V = [logging.getLogger("mine"), threading.Lock(), threading.RLock(), os.environ]
    """
    assert print_of(tmp_path, textwrap.dedent(source) + TAIL)


def test_a_fingerprint_does_not_run_a_users_methods(tmp_path: Path) -> None:
    source = """
    class P:
        def __init__(self): self.x = 1
        def __reduce__(self): raise SystemExit
        def __getstate__(self): raise SystemExit
        def __repr__(self): raise SystemExit
        def __hash__(self): raise SystemExit
        def __eq__(self, other): raise SystemExit
    class D(dict):
        def items(self): raise SystemExit
        def __iter__(self): raise SystemExit
    V = [P(), D(a=1)]
    """
    assert print_of(tmp_path, textwrap.dedent(source) + TAIL)


def test_a_fingerprint_follows_long_chains(tmp_path: Path) -> None:
    source = """
    V = None
    for number in range(5000):
        V = [V, number]
    DEEP = frozenset()
    for number in range(100):
        DEEP = frozenset([DEEP, (DEEP,)])
    """
    found = load(tmp_path, textwrap.dedent(source) + TAIL)
    assert fingerprint(found)
    assert print_of(tmp_path, textwrap.dedent(source) + TAIL.replace("V", "DEEP"))


def test_a_fingerprint_of_functions_that_call_each_other_is_found_at_once(
    tmp_path: Path,
) -> None:
    calls = ", ".join(f"f{n}" for n in range(40))
    functions = "\n".join(f"def f{n}(x):\n    return [{calls}]" for n in range(40))
    assert print_of(tmp_path, functions + "\nV = f0" + TAIL)


HELPER = "import deeper\nSCALE = 2\ndef count(text):\n    return deeper.count(text)\n"
USES = {
    "module": "import helper\ndef V(text):\n    return helper.count(text)",
    "function": "from helper import count\ndef V(text):\n    return count(text)",
    "late": "def V(text):\n    import helper\n    return helper.count(text)",
    "method": "def V(text):\n    from helper import count as c\n    return c(text)",
}


def test_a_fingerprint_changes_with_modules_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    (tmp_path / "deeper.py").write_text("def count(text):\n    return 1\n")
    (tmp_path / "unused.py").write_text("X = 1\n")
    files = []
    for use, source in USES.items():
        files.append(tmp_path / f"{use}.py")
        files[-1].write_text(HEAD + source + TAIL.replace("used", f"by_{use}"))
    first = in_a_process(1, *files, path=tmp_path).splitlines()
    (tmp_path / "unused.py").write_text("X = 2\n")
    assert in_a_process(2, *files, path=tmp_path).splitlines() == first
    for changed in ("helper.py", "deeper.py"):
        with (tmp_path / changed).open("a") as text:
            text.write("X = 1\n")
        then = in_a_process(1, *files, path=tmp_path).splitlines()
        for one, before in zip(then[: len(USES)], first, strict=False):
            assert one != before
        assert then[len(USES) :] == first[len(USES) :]  # the ready-made ones
        first = then


def test_a_fingerprint_counts_an_installed_module_by_its_name(tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "helper.py").write_text("def count(text):\n    return 1\n")
    file = tmp_path / "mine.py"
    file.write_text(HEAD + USES["function"] + TAIL)
    first = in_a_process(1, file, path=library)
    (library / "helper.py").write_text("def count(text):\n    return 2\n")
    assert in_a_process(1, file, path=library) == first


def test_a_fingerprint_names_no_module_of_polydoms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What moves to another module refuses no index."""
    group = columns("c", ["a", "b"], vocabularies={"a": ["x", "y"]}, declared={})
    source = """
    from polydom.features.errors import BadItem as V
    from polydom.features.tables.column_features import columns
    K = columns("k", ["a"])
    """
    source = textwrap.dedent(source)
    source += TAIL.replace("str(V)", "str((V, K))")
    before = fingerprint(group), print_of(tmp_path, source)
    for kind in (Columns, BadItem):
        for module in ("polydom.features.other", "polydom.other.place", "elsewhere"):
            monkeypatch.setattr(kind, "__module__", module)
            assert (fingerprint(group), print_of(tmp_path, source)) == before


def test_unsteady_names_what_differs_from_one_loading_to_the_next(
    tmp_path: Path,
) -> None:
    source = "import random\nV = random.random()\nW = 3" + TAIL.replace(
        "(V)", "((V, W))"
    )
    one, other = load(tmp_path, source), load(tmp_path, source)
    assert unsteady(one, other) == ["V"]


def test_fingerprint_is_the_same_every_time(tmp_path: Path) -> None:
    assert print_of(tmp_path, MINE) == print_of(tmp_path, MINE)
    assert re.fullmatch("[0-9a-f]{64}", print_of(tmp_path, MINE))


def test_fingerprint_does_not_depend_on_where_the_file_is(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    there = print_of(tmp_path / "elsewhere", "# moved\n\n" + MINE)
    assert there == print_of(tmp_path, MINE)


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
    changed = print_of(tmp_path, MINE.replace(old, new))
    assert changed != print_of(tmp_path, MINE)


def test_fingerprint_ignores_what_a_feature_does_not_use(tmp_path: Path) -> None:
    other = MINE.replace('"aeiou"', '"aeiouy"') + "\nOTHER = 3\n"
    assert print_of(tmp_path, other) == print_of(tmp_path, MINE)


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
    changed = print_of(tmp_path, CLASSES.replace(old, new))
    assert changed != print_of(tmp_path, CLASSES)
    assert print_of(tmp_path, CLASSES) == print_of(tmp_path, CLASSES)


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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (np.zeros((2, 3)), np.zeros((3, 2))),
        (np.zeros(2, "f4"), np.zeros(2, "i4")),
        (np.array(["a", None], object), np.array(["b", None], object)),
        ({"a": 1, "b": [2]}, {"b": [2], "a": 1}),
        (re.compile("a+"), re.compile("a*")),
        (Fraction(1, 3), Fraction(1, 4)),
        ("abc".count, "abd".count),
    ],
)
def test_a_fingerprint_tells_captured_values_apart(one: object, other: object) -> None:
    def make(value: object) -> Feature:
        return feature(lambda text: [len(str(value))], kind="text", name="used")

    assert fingerprint(make(one)) == fingerprint(make(one)) != fingerprint(make(other))
