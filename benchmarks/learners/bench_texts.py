"""Whether what `polydom init --kind texts` writes beats TF-IDF and logistic regression.

python -m benchmarks.learners.bench_texts [--seeds 3] [--parts sms,films] [--json]

Messages (spam or not) and reviews of films (liked or not). A third of the different
texts, by checksum, is kept: nothing is chosen by it. Each seed divides the others
anew, for the index and for the C of the baseline, which has all words, pairs of words
and sequences of 2 to 5 characters within words that come in two texts. Both answer the
kept texts one at a time in one process, by one clock; budgets are shares of what the
baseline takes on average. `error` is the standard error of the accuracy of so many
texts, `spread` the deviation between seeds. Nothing is sent over HTTP.
"""

import hashlib
import json
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from polydom.features.items import text_item
from polydom.indexer import Index, build
from polydom.indexer.building.project import Project
from polydom.indexer.building.template import template
from polydom.server.engine.budget import Deadline
from polydom.server.engine.execution import execute
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Request
from polydom.server.runtime.warm_up import WarmUp

from .. import report
from ..data.kept_items import films
from ..places import DATA

SHARES = (0.02, 0.05, 0.1, 0.2, 1.0, 100.0)  # budgets, of what the baseline takes
STRENGTHS = [1.0, 10.0, 100.0, 1000.0]
KEPT = 86  # of 256 checksums
BASELINE = "TF-IDF, logistic"

Texts = list[tuple[str, str]]  # each with its class
Answers = NDArray[np.bool_]  # whether right


def messages() -> Iterator[tuple[str, str]]:
    """Yield the messages: text, "ham" or "spam"."""
    path = DATA / "sms_spam" / "SMSSpamCollection"
    for line in path.read_text("utf-8").splitlines():
        label, text = line.split("\t", 1)
        yield text, label


def reviews() -> Iterator[tuple[str, str]]:
    """Yield the reviews: text, "pos" or "neg"."""
    return ((str(text), label) for text, label, _ in films())


SETS = {"sms": messages, "films": reviews}


def divide(texts: Iterator[tuple[str, str]]) -> tuple[Texts, Texts]:
    """Texts to build of and texts to report on, each text once."""
    known, parts = set[bytes](), (Texts(), Texts())
    for text, label in texts:
        digest = hashlib.sha256(text.encode()).digest()
        if digest not in known:
            known.add(digest)
            parts[digest[0] < KEPT].append((text, label))
    return parts


def baseline(texts: Texts, seed: int) -> Callable[[str], str]:
    """Fit TF-IDF and logistic regression."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import StratifiedKFold
    from sklearn.pipeline import make_pipeline, make_union

    terms: dict[str, Any] = {"sublinear_tf": True, "min_df": 2}
    vectors = make_union(
        TfidfVectorizer(ngram_range=(1, 2), **terms),
        TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 5), **terms),
    )
    model = LogisticRegressionCV(
        Cs=STRENGTHS,
        cv=StratifiedKFold(3, shuffle=True, random_state=seed),
        max_iter=1000,
        l1_ratios=(0.0,),
        use_legacy_attributes=False,
        scoring="accuracy",
    )
    pipeline = make_pipeline(vectors, model)
    pipeline.fit([text for text, _ in texts], [label for _, label in texts])
    return lambda text: str(pipeline.predict([text])[0])


def indexed(texts: Texts, seed: int, folder: Path) -> Index:
    """Build what init's project gives."""
    rows = [json.dumps({"text": text, "label": label}) for text, label in texts]
    (folder / "mails.jsonl").write_text("\n".join(rows), "utf-8")
    content = tomllib.loads(template("texts")) | {"seed": seed, "workers": 1}
    return build(Project.from_mapping(content, folder=folder))


def asker(index: Index) -> Callable[[float, str], str]:
    """Answer a text within so many seconds, as a server would."""
    assert index.package is not None
    planner = Planner(index, index.package.extractor())
    WarmUp(planner).run()

    def ask(budget_s: float, text: str) -> str:
        deadline = Deadline(planner.now(), budget_s)
        return str(execute(planner, Request(text_item(text), deadline)).label)

    return ask


def answered(ask: Callable[[str], str], kept: Texts) -> tuple[Answers, float]:
    """Which answers are right, and the mean milliseconds that one takes."""
    ask(kept[0][0])
    start_s = time.perf_counter()
    said = [ask(text) for text, _ in kept]
    taken_s = time.perf_counter() - start_s
    right = [one == label for one, (_, label) in zip(said, kept, strict=True)]
    return np.array(right), taken_s / len(kept) * 1e3


def measure(texts: Iterator[tuple[str, str]], seeds: int) -> dict[str, Any]:
    """Accuracy and time of both, by budget."""
    own, kept = divide(texts)
    right: dict[str, list[Answers]] = {}
    taken: dict[str, list[float]] = {}
    budgets: dict[str, list[float]] = {}
    build_s, fit_s = [], []
    for seed in range(seeds):
        start_s = time.perf_counter()
        rival = baseline(own, seed)
        fit_s.append(time.perf_counter() - start_s)
        with tempfile.TemporaryDirectory() as folder:
            start_s = time.perf_counter()
            ask = asker(indexed(own, seed, Path(folder)))
            build_s.append(time.perf_counter() - start_s)
        good, rival_ms = answered(rival, kept)
        rows: dict[str, tuple[Answers, float, float | None]]
        rows = {BASELINE: (good, rival_ms, None)}
        for share in SHARES:
            within = partial(ask, share * rival_ms / 1e3)
            rows[f"index, {share:g} of that"] = (
                *answered(within, kept),
                share * rival_ms,
            )
        for name, (good, ms, budget_ms) in rows.items():
            right.setdefault(name, []).append(good)
            taken.setdefault(name, []).append(ms)
            if budget_ms is not None:
                budgets.setdefault(name, []).append(budget_ms)
    base = np.mean(right[BASELINE], axis=0)
    table = {}
    for name, answers in right.items():
        mean = np.mean(answers, axis=0)
        table[name] = {
            "budget ms": float(np.mean(budgets[name])) if name in budgets else None,
            "accuracy": float(mean.mean()),
            "error": float(mean.std() / len(mean) ** 0.5),
            "spread": float(np.mean(answers, axis=1).std()),
            "behind": float((base - mean).mean()),
            "its error": float((base - mean).std() / len(mean) ** 0.5),
            "mean ms": float(np.mean(taken[name])),
        }
    return {
        "texts": f"{len(own)} to build of, {len(kept)} kept",
        "seconds": {"baseline": np.mean(fit_s), "build": np.mean(build_s)},
        "answers": table,
    }


def main() -> None:
    """Run the command."""
    parser = report.options(__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parts", default=",".join(SETS), help="sets, by comma")
    args = parser.parse_args()
    report.need(DATA)
    facts: dict[str, Any] = {}
    with threadpool_limits(1):
        for name in args.parts.split(","):
            found = measure(SETS[name](), args.seeds)
            facts |= {f"{name}: {key}": value for key, value in found.items()}
    report.tell(facts, args.json)


if __name__ == "__main__":
    main()
