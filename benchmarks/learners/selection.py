"""What choosing a learner or a setting costs, and loses, beside rivals.

python -m benchmarks selection                        all parts; hours the first time
python -m benchmarks selection --parts learners       learners of one data set
python -m benchmarks selection --parts learners --portfolio wide --sets adult covtype
python -m benchmarks selection --parts halving --experiments svm
python -m benchmarks selection --parts budget         model classes, simulated

"learners": what `learner = "auto"` races. Each set is recorded once, in `--results`:
every learner on N, N / 3 ... N / 243 rows. Strategies are then replayed over what was
recorded, the last columns with constants that were chosen on all other sets. Reductions
are in CPU seconds against training all; `lost` are points of accuracy behind the best
of all trained on all rows. "real": strategies and other libraries run on the same rows.

"halving": Successive Halving and six rivals on its paper's experiments. "budget": model
classes under a budget of computation (OBMS), against an oracle.
"""

import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .. import report
from . import halving, learner_races, model_budget
from .learner_races import PORTFOLIOS, REAL, Piece
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


def run_for_real(given: Namespace) -> Facts:
    """Run strategies and other libraries."""
    pieces, names = _pieces(given), given.strategies
    if given.quick:
        pieces, names = pieces[:1], [n for n in names if n != "FLAML"]
    return {"real": learner_races.run_for_real(pieces, given.results, names)}


def halve(given: Namespace) -> Facts:
    """Run halving's experiments; draw the paper's figures of them where asked to."""
    found: Facts = {}
    for name in given.experiments:
        folder = halving.EXPERIMENTS[name].folder
        if folder is not None and not given.quick:
            report.need(given, folder)
        rows = halving.measure(name, given.rivals, given.doublings, given.quick)
        found[f"halving: {name}"] = rows
        if given.plot:
            halving.plot(rows, name, given.plot / f"{name}.png")
    return found


def budget(given: Namespace) -> Facts:
    """Choose among model classes."""
    return {"budget: excess risk": model_budget.measure(given.quick)}


PARTS: dict[str, Callable[[Namespace], Facts]] = {
    "learners": choose_learners,
    "real": run_for_real,
    "halving": halve,
    "budget": budget,
}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--results", type=Path, default=Path(".polydom-cache/learners"))
    parser.add_argument("--plot", type=Path, metavar="DIR", help="of halving")
    learners = parser.add_argument_group("learners and real")
    learners.add_argument("--sets", nargs="+", choices=SETS, metavar="SET")
    learners.add_argument("--seeds", type=int, default=1, help="divisions of each set")
    learners.add_argument("--rows", type=int, help="cut the training rows to so many")
    learners.add_argument("--portfolio", choices=PORTFOLIOS, default="auto")
    learners.add_argument("--strategies", nargs="+", choices=REAL, default=[*REAL])
    bandits = parser.add_argument_group("halving")
    names = halving.EXPERIMENTS
    bandits.add_argument("--experiments", nargs="+", choices=names, default=[*names])
    rivals = halving.RIVALS
    bandits.add_argument("--rivals", nargs="+", choices=rivals, default=[*rivals])
    bandits.add_argument("--doublings", type=int, help="of the budget")
    given = parser.parse_args(arguments)
    found: Facts = {}
    with tempfile.TemporaryDirectory() as folder:
        if given.quick:
            given.results = Path(folder)
        for part in given.parts:
            found |= PARTS[part](given)
    report.tell(found, given)
