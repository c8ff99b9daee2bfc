"""Early exits by QWYC: base models used at equal changed decisions, and the fit itself.

python -m benchmarks.exits.bench_qwyc DATA                             all parts
python -m benchmarks.exits.bench_qwyc DATA --parts trees --sets adult  some of them
python -m benchmarks.exits.bench_qwyc DATA --parts rounds --untimed    counts alone
python -m benchmarks.exits.bench_qwyc DATA --json                      one JSON object
python -m benchmarks.exits.bench_qwyc --parts trees --from RECORD      tables of a kept one
python -m benchmarks.exits.bench_qwyc DATA --plot FOLDER               three PNGs a data set

DATA holds the folders adult, higgs, covtype20k and mnist. The parts, each of which says
in its module how it is measured:

    trees   two classes, against QWYC*, Fan* and LightGBM's early stop (binary_exits.py)
    rounds  more classes, against LightGBM's early stop (multiclass_exits.py)
    bounds  exits that change nothing, proved by bounds (exact_exits.py)
    fit     seconds and memory of `fit_schedule` (fitting_time.py)
    rivals  what was published since 2024, re-implemented (rivals.py)
"""

import json
from pathlib import Path
from typing import Any

from .. import report
from ..data.tables import SETS
from . import binary_exits, multiclass_exits, rivals
from .exact_exits import exact
from .fitting_time import fits
from .plot_qwyc import draw_all

PARTS = ("trees", "rounds", "bounds", "fit", "rivals")


def main() -> None:
    """Run the benchmark."""
    parser = report.options(__doc__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--from", dest="kept", type=Path, help="a kept JSON object")
    parser.add_argument("--sets", nargs="+", choices=SETS)
    parser.add_argument("--untimed", action="store_true", help="count rounds alone")
    parser.add_argument("--plot", type=Path, help="folder to write PNGs to")
    args = parser.parse_args()
    found: dict[str, Any] = {}
    if args.kept is not None:
        found = {"trees": json.loads(args.kept.read_text())["trees"]}
    else:
        report.need(args.data)
    if "trees" in args.parts:
        results = found.setdefault("trees", {})
        for name in results or args.sets or SETS:
            results[name] = results.get(name) or binary_exits.measure(name, args.data)
            if not args.json:
                binary_exits.show(name, results[name])
        if args.plot:
            draw_all(results, args.plot)
    if "rounds" in args.parts:
        found["rounds"] = []
        for name in multiclass_exits.SETS:
            if args.sets and name not in args.sets:
                continue
            result = multiclass_exits.run(name, args.data, not args.untimed)
            found["rounds"].append(result)
            if not args.json:
                multiclass_exits.show(result)
    if "bounds" in args.parts:
        found["bounds"] = exact(args.data)
    if "fit" in args.parts:
        found["fit"] = fits(args.data)
    if "rivals" in args.parts:
        found["rivals"] = rivals.measure(args.data, args.sets, args.json)
    if args.json:
        report.tell(found, True)
    else:
        told = {"fit": found.get("fit"), **found.get("bounds", {})}
        report.tell({name: rows for name, rows in told.items() if rows}, False)


if __name__ == "__main__":
    main()
