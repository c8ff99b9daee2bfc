"""Reports of an index for the terminal: a summary in plain words, and details."""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import typer
from msgspec import UNSET

from polydom.features.figures import show_accuracy, show_cost, show_ms, show_number
from polydom.features.items import SIZE_NAMES
from polydom.features.sizes import Size, show_size
from polydom.features.wording import listed
from polydom.indexer.index.built_facts import (
    BuiltCurve,
    BuiltExits,
    BuiltLoad,
    BuiltRace,
    BuiltSearch,
    MetaFacts,
    exits_of,
    races_of,
)
from polydom.indexer.index.column_facts import column_lines
from polydom.indexer.index.facts import Facts, SkylineFacts, SkylineSet, skylines_of
from polydom.indexer.index.quality import (
    AlphaOf,
    name_quality,
    task_of,
)

from .budget_table import quality_columns, show_budgets
from .fetch_report import fetch_lines, show_fetches
from .terminal import print_line, print_table

if TYPE_CHECKING:
    from rich.console import Console

    from polydom.indexer.index.index import Index

# number of sizes in the table of budgets: a small, a medium and a large item
TABLED = 3
ENOUGH = 1.05  # largest proven alpha of a search that needs no more time
SHOWN_CLASSES = 20  # classes of which is said what is proven
SHOWN = 5  # most skipped items, and most remarks of learners, that the summary names


def show_index(index: "Index", facts: Facts, as_json: bool, verbose: bool) -> None:
    """Print the facts of an index, as one JSON object or as text with tables."""
    from rich.console import Console

    if as_json:
        print_json(facts)
        return
    show_text(index, facts, Console(), verbose=verbose)


def print_json(facts: Facts) -> None:
    """Print facts as one JSON object on standard output."""
    # msgspec writes NaN and infinity as null, as JSON has neither
    typer.echo(msgspec.json.encode(facts).decode())


def show_text(
    index: "Index", facts: Facts, console: "Console", *, verbose: bool
) -> None:
    """Print a summary: the data, the quality, the sets that budgets buy, and warnings.

    If `verbose`, also print how the index was built: the feature sets, the races
    between learners, the cost curves and the skylines.
    """
    built = built_of(facts)
    for line in _data_lines(facts, built):
        print_line(console, line)
    skylines = skylines_of(index, TABLED)
    console.print()
    show_budgets(skylines, [_size_words(index, at.size) for at in skylines], console)
    if facts.fetches:
        print_line(console, "(for a request for which all fetches have come)")
        console.print()
        show_fetches(facts.fetches, facts.measure, console)
    for line in _later_lines(facts, built):
        print_line(console, line)
    if not verbose:
        return
    console.print()
    for line in detail_lines(facts, built):
        print_line(console, line)
    if built.curves and built.curves[0].points:
        show_curves(built.curves, console)
    show_schedules(facts, console)
    show_early_scores(facts, console)
    print_line(console, "skyline: of all sets, those better than all cheaper ones")
    for at in facts.skylines:
        show_skyline(at, console)


def show_costs(facts: Facts, as_json: bool, verbose: bool) -> None:
    """Print each feature's cost by item size; if `verbose`, with the fitted curves."""
    from rich.console import Console

    if as_json:
        print_json(facts)
    elif verbose:
        show_curves(built_of(facts).curves, Console())
    else:
        _show_times(built_of(facts).curves, Console())


def warn_if_busy(facts: Facts) -> None:
    """Print a warning if other programs ran while costs were measured."""
    measured = built_of(facts).measured
    if measured and measured.busy:
        typer.echo(f"polydom: {_busy_words(measured)}", err=True)


def summary_lines(facts: Facts) -> list[str]:
    """Return the summary's lines, without the table of budgets."""
    built = built_of(facts)
    lines = [*_data_lines(facts, built), *_later_lines(facts, built)]
    return [*lines, *column_lines(built.columns)]


def built_of(facts: Facts) -> MetaFacts:
    """Return the facts about an index's build; without a package, they are empty."""
    return MetaFacts.read({} if facts.build is UNSET else facts.build)


def _size_words(index: "Index", size: Size) -> str:
    if index.package is None:
        return _rounded(size)
    names = " x ".join(SIZE_NAMES[index.package.kind][index.pairs])
    return f"{_rounded(size)}\n{names}"


def _rounded(size: object) -> str:
    return " x ".join(f"{number:,.0f}" for number in np.atleast_1d(size))  # type: ignore[call-overload]


# The summary, in plain words


def _data_lines(facts: Facts, built: MetaFacts) -> Iterator[str]:
    if not facts.build:
        return
    if built.learner is UNSET:  # the index was made by hand, or by an older release
        yield "this index says no more of its build"
        return
    labels, names = facts.labels or (), facts.features or []
    out = f"; {len(built.skipped):,} left out" if built.skipped else ""
    few = f": {', '.join(labels)}" if len(labels) <= SHOWN else ""
    labelled = f"in {len(labels)} classes{few}"
    if facts.task == "regression":
        labelled = "labelled with numbers"
        if numbers := built.numbers:
            mean, deviation = map(show_number, (numbers.mean, numbers.deviation))
            labelled += f": {mean} on average, standard deviation {deviation}"
    yield f"data: {built.items:,} {facts.kind}s {labelled}{out}"
    exits = exits_of(facts.build)
    if exits and exits.plans and exits.confidence is not None:
        yield f"  {exits.calibrated:,} more were kept to check early answers on"
    for name, why in built.skipped[:SHOWN]:
        yield f"  left out {name}: {why}"
    if len(built.skipped) > SHOWN:
        yield f"  ... and {len(built.skipped) - SHOWN:,} more"
    for warning in built.warnings:
        yield f"  mind: {warning}"
    yield (
        f"{len(names)} features to choose from: {listed(names)}; models by "
        f"{built.learner.name}"
    )
    for network in facts.networks or ():
        yield f"  {network.line()}"
    for line in fetch_lines(facts.fetches) if facts.fetches else ():
        yield f"  {line}"
    yield from _quality_lines(facts, built)


def _quality_lines(facts: Facts, built: MetaFacts) -> Iterator[str]:
    best = max(
        (one for at in facts.skylines for one in at.skyline),
        key=lambda one: one.quality,
    )
    how = " that were not trained on"
    if built.testing is not UNSET and built.testing.folds:
        how = ", each by a model that was not trained on it"
    words, after = _sure_words(best, facts.measure, built)
    yield (
        f"{name_quality(facts.measure)} with a large budget: {words}, measured on "
        f"{built.tested:,} items{how}{after}"
    )
    yield from _score_lines(facts, built, best.row)
    observed = best.quality if built.observed is UNSET else max(built.observed)
    if show_accuracy(observed) != show_accuracy(best.quality):
        was = f"{show_accuracy(observed)} of them were right"
        if facts.measure != "accuracy":
            was = f"on them it was {show_accuracy(observed)}"
        yield (
            f"  {was}; {show_accuracy(observed - best.quality)} of that is taken for "
            "luck, since it is the best of many tries"
        )


def _score_lines(facts: Facts, built: MetaFacts, row: int) -> Iterator[str]:
    """Yield what is known of a candidate's scores: calibration and threshold."""
    told = built.calibration[row] if row < len(built.calibration) else None
    if told is not None and told.after is not None:
        now = told.after
        words = f"log loss {now.log_loss:.3f}, calibration error {now.error:.3f}"
        if told.form is None:
            yield f"  its scores hold as probabilities: {words}"
        elif told.before is not None:
            was = told.before
            yield (
                f"  its scores are calibrated ({told.form}): log loss "
                f"{was.log_loss:.3f} before and {now.log_loss:.3f} after, calibration "
                f"error {was.error:.3f} and {now.error:.3f}"
            )
        else:
            yield f"  its margins are made probabilities ({told.form}): {words}"
    thresholds = [] if facts.thresholds is UNSET else facts.thresholds
    for label, score in ((thresholds[row] if thresholds else None) or {}).items():
        yield f"  answers are {label!r} from a score of {score:.3g} on"
    found = built.found[row] if row < len(built.found) else None
    if found is not None:
        shares = {"recall": found.recall, "precision": found.precision}
        listed = [
            f"{name} {one.share:.3f} ({one.low:.3f} to {one.high:.3f} with 95%)"
            for name, one in shares.items()
            if one is not None
        ]
        yield (
            f"  this threshold finds, of {found.items:,.0f} held-out items of the "
            f"class and all others: {', '.join(listed)}"
        )


def _sure_words(best: SkylineSet, measure: str, built: MetaFacts) -> tuple[str, str]:
    """Return (quality, remark): words for the best set's quality and its error.

    The remark is empty unless no tested answer was wrong.
    """
    quality, accuracy = show_accuracy(best.quality), best.accuracy
    if accuracy is None:
        if built.numbers is None:
            return quality, ""
        error = show_number(built.numbers.mae[best.row])
        return f"{quality}, typical error ±{error}", ""
    doubt = show_accuracy((accuracy * (1 - accuracy) / built.tested) ** 0.5)
    sure, after = f" ± {doubt} (standard error)", ""
    if accuracy >= 1:
        # a share of errors that would show no error in 1 of 20 such tests
        wrong = -math.expm1(math.log(0.05) / built.tested)
        sure, after = "", f"; none was wrong, though {wrong:.1%} of fresh ones may be"
    if measure == "accuracy":
        return quality + sure, after
    return f"{quality}, accuracy {show_accuracy(accuracy)}{sure}", after


def _later_lines(facts: Facts, built: MetaFacts) -> Iterator[str]:
    if not facts.build or built.learner is UNSET:
        return
    timed = built.unit == "s"
    if timed:
        yield (
            f"times are those that {built.quantile:.0%} of items keep to, on "
            f"{_where_words(built.measured)}, without HTTP"
        )
    if built.search is not UNSET:
        yield from _tried_lines(facts, built.search, built)
    if facts.build.get("exits"):
        exits, lacking = exits_of(facts.build), "lacking" in facts.build["exits"]
        yield _exit_line(exits, lacking, facts.labels or ())
        yield from _call_lines(exits, facts, built.unit)
        if told := _early_score_line(exits, facts.scores_early is not False):
            yield told
    if timed and built.measured and built.measured.busy:
        yield f"warning: {_busy_words(built.measured)}"
    for remark, count in [*built.remarks.items()][:SHOWN]:
        yield f"note: in {count:,} trainings: {remark}"
    if len(built.remarks) > SHOWN:
        yield f"note: ... and {len(built.remarks) - SHOWN:,} more such remarks"


def _tried_lines(facts: Facts, search: BuiltSearch, built: MetaFacts) -> Iterator[str]:
    """Yield lines: how many feature sets were trained, and how good others may be."""
    alpha = 1.0 if search.alpha is UNSET else search.alpha
    better = _better_words(search.alpha_of, alpha, facts)
    line = (
        f"tried: models of {search.expanded:,} of the {search.sets:,} ways to "
        "combine the features"
    )
    if search.expanded == search.sets or search.sequences is not UNSET:
        yield line
    elif search.complete or alpha <= ENOUGH:
        yield f"{line}; none of the others is expected to {better}"
    else:
        yield f"{line}, the most promising first"
        cure, limit = "budget_s", "the time for that was up"
        if built.testing is not UNSET and built.testing.trainings is not None:
            cure, limit = "trainings", "the number of trainings was reached"
        worth = ""
        if math.isfinite(alpha):
            worth = f"; all that is proven is that no other can {better}"
        yield (
            f"warning: {limit}{worth}. To try more, raise search.{cure} in "
            "PROJECT.toml and build again: what is done is kept"
        )
    if built.testing is not UNSET and built.testing.budgets:
        low, high = (show_cost(one, built.unit) for one in built.testing.budgets)
        yield f"only what is best for budgets of {low} to {high} was kept"


def _better_words(alpha_of: AlphaOf, alpha: float, facts: Facts) -> str:
    """Return what untrained sets do not, such as "be better"."""
    if alpha == 1:
        return "be better at its features' cost"
    if alpha_of == "gain":
        return (
            f"gain more than {alpha:.3g} times as much over the prior at its "
            "features' cost"
        )
    good = "accurate" if facts.measure == "accuracy" else "good"
    return f"be more than {alpha:.3g} times as {good} at its features' cost"


def _exit_line(exits: BuiltExits | None, lacking: bool, labels: Sequence[str]) -> str:
    """Return a sentence: whether answers come early, and how many of them change.

    `lacking` is True if there were too few items to calibrate early exits.
    """
    if lacking or exits is None:
        return (
            "answers never come early, before all is computed: there are too few items "
            "to promise that this changes hardly any"
        )
    if not any(plan.schedule or plan.early for plan in exits.plans):
        return "answers never come early, before all is computed: it would save little"
    saved = sum(plan.saved for plan in exits.plans) / len(exits.plans)
    how = f", which saves {saved:.0%} of the features' time on average" if saved else ""
    sure = "of the items measured"
    if exits.confidence is not None:
        sure = f"with {exits.confidence:.0%} confidence"
    return (
        f"where it is sure early, it answers before all is computed{how}; at most "
        f"{_shares_changed(exits, labels)} change by that, {sure}"
    )


def _shares_changed(exits: BuiltExits, labels: Sequence[str]) -> str:
    """Say which share of the answers of each class early exits may change."""
    shares = dict(zip(labels, exits.alphas, strict=False))
    if not shares:  # an index of an older release
        return f"{exits.alpha:.2%} of all answers"
    if len({*shares.values()}) == 1:
        return f"{exits.alpha:.2%} of each class's answers"
    named = [f"{share:.2%} of answers {label!r}" for label, share in shares.items()]
    more = ", ..." if len(named) > SHOWN else ""
    return ", ".join(named[:SHOWN]) + more


def _call_lines(exits: BuiltExits | None, facts: Facts, unit: str) -> Iterator[str]:
    """Yield a line for each plan that budgets buy: what its exits save of a call."""
    bought = {one.row: one for at in facts.skylines for one in at.skyline}
    for plan in exits.plans if exits else ():
        one = bought.get(plan.row)
        if one is None or not one.features or not plan.call or plan.gain is None:
            continue
        gain, features = plan.gain, ", ".join(one.features)
        if plan.schedule or plan.early:
            before, after = (
                show_cost(cost, unit) for cost in (plan.call, plan.call - gain)
            )
            line = f"exits: {before} -> {after} a call ({-gain / plan.call:+.0%})"
        elif gain > 0:
            line = f"no exits: they would save at most {gain / plan.call:.1%} of a call"
        else:
            line = "no exits: none would save anything"
        yield f"  {line}: {features}"


def _where_words(measured: BuiltLoad | None) -> str:
    if measured is None or not measured.machines:
        return "the machine they were measured on"
    return " and ".join(
        f"{one.processor} ({one.cores} cores, {one.day})" for one in measured.machines
    )


def _busy_words(measured: BuiltLoad) -> str:
    used = ""
    if measured.others is not None:
        used = f" and {measured.others:.1f} of {measured.processors} processors"
    return (
        "the machine was busy while costs were measured: other programs took "
        f"{measured.lost:.1%} of the time of what was timed{used}; costs may be too "
        "high. On a quiet machine, `polydom measure` measures them anew"
    )


# The details, in the terms of the papers


def detail_lines(facts: Facts, built: MetaFacts) -> Iterator[str]:
    """Yield lines about the build: the search, races, machines and early exits."""
    parts = f"{facts.breakpoints} breakpoints"
    if facts.cells is not UNSET:
        parts = f"{facts.cells} cells"
    low, high = map(show_size, facts.sizes)
    yield (
        f"index {facts.version[:12] or '(not saved)'}: {facts.candidates} "
        f"candidates (feature sets kept), {parts} (of sizes, at which others are worth "
        f"it), sizes {low} to {high}"
    )
    for name, learned in (facts.learned or {}).items():
        yield (
            f"  {name} knows {learned['terms']:,} terms, learned from "
            f"{learned['texts']:,} of the texts"
        )
    if any(again := built.refitted):
        some = "all" if all(again) else f"{sum(again)} of the {len(again)}"
        yield f"{some} models were trained again, on the items measured on, too"
    if built.search is not UNSET:
        yield from _search_lines(facts, built.search)
    for race in races_of(facts.build or {}):
        yield from _race_lines(race)
    if built.pace:
        yield (
            f"{len(built.pace.overhead)} samples timed, by which a server tells how "
            "fast its machine is"
        )
    if built.measured and built.measured.machines:
        yield f"costs were measured on {_where_words(built.measured)}"
        if len(built.measured.machines) > 1:
            yield "  these may differ; `polydom measure` measures all on one"
    yield from _exit_lines(facts)
    for remark, count in [*built.remarks.items()][SHOWN:]:
        yield f"  in {count} trainings: {remark}"


def _search_lines(facts: Facts, search: BuiltSearch) -> Iterator[str]:
    if search.sequences is not UNSET:
        noun = "sequence" if search.sequences == 1 else "sequences"
        terms, left = f"{search.sequences} {noun}", "never reached"
    else:
        terms = f"alpha {search.alpha:g}, tolerance {search.tolerance:g}"
        left = "not worth it" if search.complete else "left, for want of time"
    yield (
        f"feature sets by {search.method} ({terms}): {search.sets} possible, "
        f"{search.expanded} trained, {search.sets - search.expanded} {left}, "
        f"{facts.candidates} kept"
    )
    if search.alpha is not UNSET and math.isfinite(search.alpha):
        yield (
            f"  alpha: no set that was not trained is expected to "
            f"{_better_words(search.alpha_of, search.alpha, facts)}; "
            "tolerance: by how much more features may hurt"
        )
    if broken := search.violations:
        yield (
            f"  more features hurt in {broken.count:,} of {broken.pairs:,} pairs "
            "of a trained set and one within it (violations): by at most "
            f"{show_accuracy(broken.largest)}, 95% of them by at most "
            f"{show_accuracy(broken.p95)}"
        )


def _early_score_line(exits: BuiltExits | None, scores_early: bool) -> str:
    """Return a sentence on the scores of early answers; "" if there is nothing to say.

    `scores_early` is False if models that stop early give no scores.
    """
    if not scores_early:
        return (
            "early answers have no scores, because an older version built this index; "
            "a new build gives them scores"
        )
    plans = exits.plans if exits else []
    told = [plan.scores for plan in plans if plan.scores]
    if not told:
        return ""
    early, whole = (
        sum(getattr(one, side).error for one in told) / len(told)
        for side in ("early", "whole")
    )
    return (
        f"early answers have scores whose expected calibration error is {early:.3f} on "
        f"average; that of whole answers to the same items is {whole:.3f}"
    )


def _race_lines(race: BuiltRace) -> Iterator[str]:
    sets = ""
    if race.high:
        many = f"{race.low} to {race.high}" if race.low != race.high else f"{race.low}"
        sets = f" for sets of {many} feature{'s' if race.high > 1 else ''}"
    yield (
        f"learner{sets} chosen by {race.strategy}: {race.learner}, "
        f"score {race.score:.4f}, in {race.seconds:.1f} CPU s"
    )
    curve = race.curves[race.learner]
    points = [f"{score:.4f} on {amount:,}" for amount, score, _ in curve]
    yield f"  its curve: {', '.join(points)} {race.unit}"


def _exit_lines(facts: Facts) -> Iterator[str]:
    """Yield lines: how many answers early exits change, and how much they save."""
    told = (facts.build or {}).get("exits") or {}
    if lacking := told.get("lacking"):
        yield f"built without early exits: {lacking}"
    exits = exits_of(facts.build or {})
    if exits is None or not exits.plans:
        return
    promise = (
        "of the fitted items; nothing is promised of fresh ones, for want of an "
        "exits.confidence"
    )
    if exits.confidence is not None:
        promise = (
            f"of each plan with {exits.confidence:.0%} confidence, by "
            f"{exits.calibrated} calibration items"
        )
    if exits.unlabelled:
        promise += f", {exits.unlabelled:,} of them without labels"
    early = sum(plan.early for plan in exits.plans) / len(exits.plans)
    saved = sum(plan.saved for plan in exits.plans) / len(exits.plans)
    means = [plan.schedule.mean for plan in exits.plans if plan.schedule]
    if not (early or means):
        yield "no early exits: none saves a tenth of a call, or 5 us of it"
        return
    yield (
        "plans answer early where at most "
        f"{_shares_changed(exits, facts.labels or ())} change, {promise}"
    )
    if exits.sides != "both" and facts.labels:
        negative, positive = map(repr, facts.labels)
        sooner, whole = negative, positive
        if exits.sides == "positive":
            sooner, whole = positive, negative
        yield f"  only answers {sooner} come early; {whole} is always computed whole"
    yield from _class_lines(exits, facts.labels or ())
    if early:
        yield (
            f"  after some features {early:.0%} of the time on average, which saves "
            f"{saved:.0%} of the features' cost"
        )
    if means:
        yield (
            f"  {len(means)} models stop early: after {min(means):.0%} to "
            f"{max(means):.0%} of their base models on average"
        )


def _class_lines(exits: BuiltExits, labels: Sequence[str]) -> Iterator[str]:
    """Yield a line for each class: what was proven of it, over all plans with exits."""
    plans = [plan.classes for plan in exits.plans if plan.classes]
    if not plans:
        return
    for label, *ones in list(zip(labels, *plans, strict=False))[:SHOWN_CLASSES]:
        fewest, most = min(one.items for one in ones), max(one.items for one in ones)
        counted = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
        proven = [one for one in ones if one.bound]
        line = f"  {label!r}: {counted} calibration items"
        if proven:
            line += f", of which at most {max(one.changed for one in proven):,} changed"
        if len(proven) < len(ones):
            of_all = "" if not proven else f" by {len(ones) - len(proven)} plans"
            line += f"; never left early{of_all}, or only where nothing can overrule it"
        yield line


def show_schedules(facts: Facts, console: "Console") -> None:
    """Print, for models that may stop early, their used base models and times."""
    exits, rows = exits_of(facts.build or {}), []
    for plan in exits.plans if exits else ():
        if one := plan.schedule:
            times = one.mean_us, one.p99_us, one.whole_us
            rows.append(
                (
                    *(
                        f"{share * one.base_models:.1f}"
                        for share in (one.mean, one.p99)
                    ),
                    str(one.base_models),
                    *("-" if us is None else f"{us:.1f}" for us in times),
                    ", ".join((facts.sets or [])[plan.row]),
                )
            )
    heads = ["mean", "99%", "of", "mean us", "99% us", "whole us"]
    heads.append("features, in computing order")
    if rows:
        title = "models that stop early: base models used, and us"
        print_table(console, heads, rows, title=title, names=0, lists=True)


def show_early_scores(facts: Facts, console: "Console") -> None:
    """Print how good the scores of early answers are, beside the whole plans'."""
    exits, rows = exits_of(facts.build or {}), []
    for plan in exits.plans if exits else ():
        if one := plan.scores:
            pairs = [
                (one.early.brier, one.whole.brier),
                (one.early.log_loss, one.whole.log_loss),
                (one.early.error, one.whole.error),
            ]
            named = ", ".join((facts.sets or [])[plan.row])
            cells = ["-" if n is None else f"{n:.4f}" for p in pairs for n in p]
            rows.append((f"{one.items:,}", *cells, named))
    heads = ["items", "Brier", "whole", "log loss", "whole", "calib. error", "whole"]
    if rows:
        heads.append("features, in computing order")
        title = "scores of early answers, beside the whole plan's to the same items"
        print_table(console, heads, rows, title=title, names=0, lists=True)


def _show_times(curves: Sequence[BuiltCurve], console: "Console") -> None:
    title = "what features and the work they share take, by item size"
    heads = ["feature or shared work", *(_rounded(p[0]) for p in curves[0].points)]
    rows = [
        (curve.name, *(show_ms(point[-1] * 1e3) for point in curve.points))
        for curve in curves
    ]
    print_table(console, heads, rows, title=title)


def show_curves(curves: Sequence[BuiltCurve], console: "Console") -> None:
    """Print each cost curve: its degree, and measured and fitted times by item size."""
    title = "cost curves, us by item size: measured median / high quantile / fitted"
    heads = ["feature or step", *(_rounded(p[0]) for p in curves[0].points)]
    rows = [
        (
            curve.name,
            *("/".join(f"{s * 1e6:.0f}" for s in p[1:]) for p in curve.points),
            f"{curve.covered:.1%}",
            str(max(len(np.trim_zeros(np.array(curve.coefficients), "b")) - 1, 0)),
        )
        for curve in curves
    ]
    print_table(console, [*heads, "covered", "degree"], rows, title=title)


def show_skyline(at: SkylineFacts, console: "Console") -> None:
    """Print the skyline at one item size.

    Each feature set on the skyline is better than every set that costs no more.
    """
    # a budget must cover `cost`, although early exits make the mean cost smaller
    exits = any(one.mean_cost < one.cost for one in at.skyline)
    columns = quality_columns(at.measure)
    numbers = task_of(at.measure) == "regression"
    nothing = "none: the mean" if numbers else "none: the class prior"
    heads = ["predicted", *(["with early exits"] if exits else [])]
    heads += [*columns.values(), "features, in computing order"]
    rows = [
        (
            show_cost(one.cost, at.unit),
            *([show_cost(one.mean_cost, at.unit)] if exits else []),
            *(show_accuracy(getattr(one, key)) for key in columns),
            ", ".join(one.features) or nothing,
        )
        for one in at.skyline
    ]
    title = f"skyline at size {_rounded(at.size)}"
    print_table(console, heads, rows, title=title, names=0, lists=True)
