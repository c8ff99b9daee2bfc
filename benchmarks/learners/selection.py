"""What choosing a learner costs, and loses, beside training all of them.

python -m benchmarks selection                        learners of each data set
python -m benchmarks selection --portfolio wide --sets adult covtype

What `learner = "auto"` races: each set is recorded once, in `--results`, every learner
on N, N / 3 ... N / 243 rows. Strategies are then replayed over what was recorded, the
last columns with constants that were chosen on all other sets. Reductions are in CPU
seconds against training all; `lost` are points of accuracy behind the best of all
trained on all rows. The first run takes hours.
"""

import tempfile
from argparse import Namespace
from pathlib import Path
from typing import Any

from .. import report
from . import learner_races
from .learner_races import PORTFOLIOS, Piece
from .learning_sets import FOLDERS, SETS

SMALL = [name for name in SETS if name not in ("mnist", "parity")]
QUICK_SETS = ["iris", "wine", "short parity"]
QUICK_ROWS = 100

Facts = dict[str, Any]


def _pieces(given: Namespace) -> list[Piece]:
    if given.quick:
        return [Piece(name, 0, QUICK_ROWS, "quick") for name in QUICK_SETS]
    names = given.sets or SMALL
    report.need(given, *{FOLDERS[name] for name in names if name in FOLDERS})
    return [
        Piece(name, seed, given.rows, given.portfolio)
        for name in names
        for seed in range(given.seeds)
    ]


def choose_learners(given: Namespace) -> Facts:
    """Replay strategies over recorded trainings."""
    return {"learners": learner_races.compare(_pieces(given), given.results)}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--results", type=Path, default=Path(".polydom-cache/learners"))
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET")
    parser.add_argument("--seeds", type=int, default=1, help="divisions of each set")
    parser.add_argument("--rows", type=int, help="cut the training rows to so many")
    parser.add_argument("--portfolio", choices=PORTFOLIOS, default="auto")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        if given.quick:
            given.results = Path(folder)
        report.tell(choose_learners(given), given)
