"""Whether an index over a text and columns tells more than one over either alone.

Reviews of films (polarity), each a record: the review, and two columns that are drawn,
stars from 1 to 5 and the kind of cinema, which tell the label in part. One index is
built of all three, one of the text, one of the other columns; each answers the reviews
of films that are kept from all builds. `rest` is the share of what the better of the
latter two got wrong that the first gets wrong, too.
"""

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from polydom.features.threads import one_thread
from polydom.indexer import BudgetClassifier

from .. import report
from ..data.kept_items import films, kept

QUICK = 60
BUDGETS_MS = (0.05, 0.5, 2.0, None)
COLUMNS = ["stars", "cinema"]


def main(arguments: list[str] | None = None) -> None:
    """Build three indexes, and tell what each answers right."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--search", type=float, default=30.0, help="seconds")
    given = parser.parse_args(arguments)
    if given.quick:
        given.search = 0.2
    else:
        report.need(given, "polarity")
    frame, fresh = _frames([*(_drawn() if given.quick else films())])
    rows: list[dict[str, Any]] = []
    right: dict[str, Any] = {}
    with one_thread():
        for name, columns in (
            ("columns", COLUMNS),
            ("text", ["review"]),
            ("both", ["review", *COLUMNS]),
        ):
            model = _fit(frame, columns, given.search)
            for budget_ms in BUDGETS_MS:
                answers = model.predict(fresh[columns], budget_ms=budget_ms)
                right[name] = answers == fresh["label"].to_numpy()
                chosen = model.plan(budget_ms=budget_ms)
                rows.append(
                    {
                        "index over": name,
                        "budget, ms": budget_ms or "any",
                        "accuracy": float(right[name].mean()),
                        "expected": chosen["quality"],
                        "ms": chosen["cost"],
                        "features": ", ".join(chosen["features"]) or "none",
                    }
                )
    wrong = {name: 1 - float(own.mean()) for name, own in right.items()}
    rest = wrong["both"] / (min(wrong["text"], wrong["columns"]) or 1.0)
    paired = right["both"].astype(float) - right["text"]
    gain = {
        "items": len(fresh),
        "both less text, points": 100 * paired.mean(),
        "standard error": 100 * paired.std() / len(fresh) ** 0.5,
        "rest": rest,
    }
    report.tell({"answers": rows, "gain": [gain]}, given)


def _drawn() -> Iterator[tuple[str, str, str]]:
    """Draw a few texts in place of reviews: text, label and name."""
    draw = random.Random(0)
    words = [f"w{number}" for number in range(60)]
    for number in range(QUICK):
        label = ("neg", "pos")[number % 2]
        own = words[:40] if number % 2 else words[20:]
        yield " ".join(draw.choices(own, k=20)), label, str(number)


def _frames(reviews: Sequence[Any]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Draw the columns; what is built of, and what is kept, by the reviews' names."""
    rng = np.random.default_rng(0)
    texts, labels, names = zip(*reviews, strict=True)
    good = np.array(labels) == "pos"
    stars = np.clip(np.rint(rng.normal(2.6 + 0.8 * good, 1.2)), 1, 5)
    cinema = np.where(rng.random(len(good)) < 0.6, good, rng.random(len(good)) < 0.5)
    frame = pd.DataFrame(
        {
            "review": texts,
            "stars": stars,
            "cinema": np.where(cinema, "arthouse", "multiplex"),
            "label": labels,
        }
    )
    is_kept = np.array([kept(name) for name in names])
    return frame[~is_kept], frame[is_kept]


def _fit(
    frame: pd.DataFrame, columns: Sequence[str], search_s: float
) -> BudgetClassifier:
    model = BudgetClassifier(
        learner={"name": "logistic", "C": 0.1},
        search_budget_s=search_s,
        random_state=0,
        n_jobs=1,
    )
    return model.fit(frame[[*columns]], frame["label"])
