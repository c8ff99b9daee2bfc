// What `polydom evaluate` found, in a file of its own.

import { Chart, axis, logAxis, logScale } from "./charts.js";
import { COLOURS, make, makeTable, showCount, showMs, showNumber, showQuality, showShare } from "./dom.js";
import { qualityOf, shownUnit } from "./index_words.js";

const PLANS = 3;
const CLASSES = 24;
const PAIRS = 20;
const find = (name) => document.querySelector(`.${name}`);
const found = JSON.parse(document.getElementById("facts").textContent);
const unit = shownUnit(found), everybody = [...found.budgets, ...found.beside];
// Accuracy stands in where quality is not known of every answer.
const by = everybody.every((one) => one.quality !== null) ? "quality" : "accuracy";
const quality = by === "quality" ? qualityOf(found) : by;
const amountOf = (own) => own.budget_ms ?? own.budget;
const known = (number, show = showQuality) => (number === null || number === undefined ? "-" : show(number));
const ownCost = (other) => (found.unit === "s" ? other.p50_ms : other.mean_cost ?? null);

// Rows of x and one column a line, by x; what is not there is null.
function aligned(lines) {
  const rows = lines.flatMap((points, line) =>
    points.map(([x, y]) => [x, ...lines.map((_, k) => (k === line ? y : null))]));
  rows.sort((one, other) => one[0] - other[0]);
  return Array.from({ length: lines.length + 1 }, (_, column) => rows.map((row) => row[column]));
}

const amounts = found.budgets.map(amountOf);
const edges = [Math.min(...amounts), Math.max(...amounts)];

// The index within budgets, and others at their own cost; all along where that is none.
function qualityLines() {
  const others = found.beside.map((other) => {
    const cost = ownCost(other), y = other[by];
    return other.features?.length === 0 || cost === null ? edges.map((x) => [x, y]) : [[cost, y]];
  });
  return [found.budgets.map((own) => [amountOf(own), own[by]]), ...others];
}

const insideLines = () => [
  found.budgets.map((own) => [amountOf(own), own.inside]),
  ...found.beside.map((other) => other.inside.flatMap((share, k) => (share === null ? [] : [[amounts[k], share]]))),
];

const byBudget = { scale: logScale, axis: (colour) => logAxis(colour, `budget of one item, ${unit}`) };
const byShare = (name) => ({ scale: { time: false, range: [0, 1] }, axis: (colour) => axis(colour, name) });

function draw(place, label, lines, axes, range, across = byBudget) {
  const chart = new Chart(label, (colour) => ({
    scales: { x: across.scale, y: range ? { range } : {} },
    axes: [across.axis(colour), axis(colour, axes)],
    series: [{}, ...lines.map((_, k) => {
      const stroke = colour(k ? `c${(k + 1) % COLOURS}` : "accent");
      return { stroke, width: k ? 1.5 : 2.5, dash: k ? [5, 4] : undefined, spanGaps: true, points: { show: true, size: k ? 7 : 8, fill: stroke } };
    })],
  }));
  find(place).append(chart.element);
  chart.show(aligned(lines));
}

function qualityCells(one) {
  const error = one.quality_error ?? one.standard_error;
  return [known(one.quality) + (one.quality !== null && error ? ` ± ${showQuality(error)}` : ""), known(one.expected_quality)];
}

function table() {
  const isNumeric = found.task === "regression";
  const measures = isNumeric
    ? { "mean error": (one) => known(one.mae, showNumber), RMSE: (one) => known(one.rmse, showNumber), "in interval": (one) => known(one.covered, showShare) }
    : {
      ...(found.measure === "accuracy" ? {} : { accuracy: (one) => known(one.accuracy) }),
      "balanced accuracy": (one) => known(one.balanced_accuracy), "macro F1": (one) => known(one.macro_f1),
      AUC: (one) => known(one.auc), "average precision": (one) => known(one.average_precision),
      "log loss": (one) => known(one.log_loss), Brier: (one) => known(one.brier), "calibration error": (one) => known(one.calibration_error),
    };
  const times = [qualityOf(found), "expected", "inside", "early", "half within", "99 of 100 within"];
  const rows = everybody.map((one) => [
    amountOf(one) === undefined ? one.name : `${one.name}, ${amountOf(one)} ${unit}`, ...qualityCells(one),
    typeof one.inside === "number" ? showShare(one.inside) : "", one.early === undefined ? "" : showShare(one.early),
    showMs(one.p50_ms), showMs(one.p99_ms), ...Object.values(measures).map((show) => show(one)),
  ]);
  const heads = [...times, ...Object.keys(measures)];
  return makeTable("Each on all items", ["", ...heads], rows, heads);
}

// How often fetches came, of those sent, and what they cost; nothing without fetches.
function fetches() {
  const fetched = found.budgets.filter((own) => own.fetches?.length);
  if (!fetched.length) return [];
  const heads = [...fetched[0].fetches.map((one) => one.name), "mean wait", "mean price"];
  const rows = fetched.map((own) => [
    `${own.name}, ${amountOf(own)} ${unit}`,
    ...own.fetches.map((one) => `${showShare(one.came)} of ${showShare(one.sent)}`),
    showMs(own.mean_wait_ms), showNumber(own.mean_price),
  ]);
  const caption = "Fetches that came, of those sent, as shares of all answers";
  return [makeTable(found.simulated_fetches ? `${caption} (simulated)` : caption, ["", ...heads], rows, heads)];
}

// How good all are inside each budget, by the same rule.
function within() {
  const own = found.task === "classes" ? "right_inside" : "quality_inside";
  const caption = found.task === "classes"
    ? "Share of answers that are right and inside the budget" : `${quality} where the mean answers for what is late`;
  const heads = amounts.map((amount) => `${amount} ${unit}`);
  return makeTable(caption, ["", ...heads], [
    ["polydom", ...found.budgets.map((one) => known(one[own]))],
    ...found.beside.map((other) => [other.name, ...other[own].map((one) => known(one))]),
  ], heads);
}

// Each budget's line, and those of the others that have scores.
const curves = (of) => everybody.map(of);
const reliabilityLines = () => curves((one) => (one.reliability ?? []).map((bin) => [bin.said, bin.found]));
const recallLines = () => curves((one) => (one.precision_recall ?? []).map((point) => [point.recall, point.precision]));

function classRates() {
  const rows = everybody.flatMap((one) => one.classes.map((each, k) => [
    k ? "" : amountOf(one) === undefined ? one.name : `${one.name}, ${amountOf(one)} ${unit}`,
    each.label, known(each.precision), known(each.recall), known(each.f1)]));
  const heads = ["precision", "recall", "F1"];
  return makeTable("How each class is found", ["", "class", ...heads], rows, heads);
}

// How good scores of early answers are, beside those of whole answers to the same items.
function earlyScores({ items, amount, early, whole }) {
  const rows = [["early", early], ["exact", whole]].map(([name, one]) => [
    name, known(one.auc), known(one.log_loss), known(one.brier), known(one.calibration_error)]);
  const heads = ["AUC", "log loss", "Brier", "calibration error"];
  const caption = `Scores of the ${showCount(items)} early answers at ${amount} ${unit}, and of whole answers to these items`;
  return makeTable(caption, ["", ...heads], rows, heads);
}

// Reliability, precision by recall, scores of early answers, and how each class is found.
function probabilities() {
  if (found.task !== "classes") {
    document.getElementById("probabilities").hidden = true;
    return;
  }
  const said = reliabilityLines(), recalls = recallLines();
  const some = (lines) => lines.some((line) => line.length);
  if (some(said)) draw("reliability", "Share found by probability said", said, "share found", [0, 1.05], byShare("probability said"));
  else find("reliability").append(make("p", {}, "The scores are no probabilities."));
  document.getElementById("curve").hidden = !some(recalls);
  if (some(recalls)) draw("precision-recall", "Precision by recall", recalls, "precision", [0, 1.05], byShare("recall"));
  if (found.early) find("early").append(earlyScores(found.early));
  if (everybody[0].classes.length <= CLASSES) find("classes").append(classRates());
}

function plans() {
  const listed = (features) => features.join(", ") || "no feature";
  const rows = [
    ...found.budgets.flatMap((own) => own.plans.slice(0, PLANS).map((plan, k) =>
      [k ? "" : `${own.name}, ${amountOf(own)} ${unit}`, showShare(plan.share), listed(plan.features)])),
    ...found.beside.filter((other) => other.features).map((other) => [other.name, "100 %", listed(other.features)]),
  ];
  return makeTable(`Feature sets, and their shares of the answers; the commonest ${PLANS} of each budget`, ["", "share", "features"], rows, ["share"]);
}

function mistakes({ amount, labels, answers, matrix, pairs }) {
  const at = `${amount} ${unit}`;
  if (!pairs.length) return make("p", {}, `None at ${at}.`);
  if (labels.length <= CLASSES && answers.length <= CLASSES + 1) {
    const names = answers.map((one) => one ?? "no answer");
    return makeTable(`Answers at ${at}, a row for each class`, ["", ...names], labels.map((label, k) =>
      [label, ...matrix[k].map((count) => (count ? showCount(count) : "·"))]), names);
  }
  return makeTable(`The most frequent at ${at}`, ["class", "answer", "items", "of its class"], pairs.slice(0, PAIRS).map((pair) =>
    [pair.label, pair.answer ?? "no answer", showCount(pair.count), showShare(pair.share)]), ["items", "of its class"]);
}

find("quality-name").textContent = quality[0].toUpperCase() + quality.slice(1);
draw("quality", `${quality} by budget; the table below has the numbers`, qualityLines(), quality);
draw("inside", "Share inside the budget; the table below has the numbers", insideLines(), "share", [0, 1.05]);
find("names").append(...everybody.slice(found.budgets.length - 1).map((one, k) => {
  const swatch = make("span", { class: `swatch ${k ? `colour-${(k + 1) % COLOURS}` : "colour-1"}`, "aria-hidden": "true" });
  return make("li", {}, swatch, k ? `${one.name}, whatever time it takes` : "polydom, within the budget");
}));
find("table").append(within(), table(), ...fetches());
probabilities();
find("plans").append(plans());
document.getElementById("mistakes").hidden = !found.confusion;
if (found.confusion) find("matrix").append(mistakes(found.confusion));
