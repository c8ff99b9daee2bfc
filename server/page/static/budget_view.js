// What a budget buys at a size, in a picture, a sentence and a table; and where the
// time of that goes.

import { buy, costAt, partsOf, priceRange } from "./costs.js";
import { COLOURS, make, makeTable, showCost, showFactor, showMs, showQuality, showShare } from "./dom.js";
import { fromShown, nameSet, qualityOf, roundedUp, shownUnit, sizeRanges, sizeWords, toShown } from "./index_words.js";
import { SkylineChart } from "./skyline_chart.js";
import { LogSlider } from "./sliders.js";

export class BudgetView {
  // `root` has elements of the classes controls, sentence, chart, skyline-table, parts
  // and fetches; `choose({size, budget})` is told what people choose, budgets as shown, and
  // `showCurve(part, name)` which curve they want to see.
  constructor(root, { choose, showCurve }) {
    this.find = (name) => root.querySelector(`.${name}`);
    Object.assign(this, { choose, showCurve });
    this.chart = new SkylineChart({
      onbudget: (amount, below) => this.choose({ budget: roundedUp(toShown(this.facts, amount), toShown(this.facts, below)) }),
    });
    this.find("chart").append(this.chart.svg);
  }

  // Begin with another index.
  begin(facts) {
    this.facts = facts;
    const [low, high] = priceRange(facts);
    // what is cheaper stands at the edge; fetches may come much later than any set takes
    const waited = facts.fetches ? facts.waits.at(-1).budget_ms / 1e3 : 0;
    this.range = [low / 2, Math.max(high * 1.6, waited)];
    this.sizes = sizeRanges(facts).map(([least, most], k) => (least < most && new LogSlider({
      label: `Size: ${facts.size[k]}`, unit: facts.size[k], low: least, high: most,
      onchange: (value) => this.choose({ size: this.size.with(k, value) }),
    })));
    this.budget = new LogSlider({
      label: "Budget", unit: shownUnit(facts), low: toShown(facts, this.range[0]), high: toShown(facts, this.range[1]),
      onchange: (budget) => this.choose({ budget }),
    });
    const sliders = [...this.sizes.filter(Boolean), this.budget];
    this.find("controls").replaceChildren(...sliders.map((one) => one.element));
    this.find("fetches").replaceChildren(...(facts.fetches ? [waitTable(facts)] : []));
  }

  show({ curves, size, budget }) {
    const { facts } = this;
    this.size = size;
    this.sizes.forEach((slider, k) => slider && slider.set(size[k]));
    this.budget.set(budget);
    const amount = fromShown(facts, budget);
    const bought = buy(facts.sets, size, amount);
    this.chart.show({
      ...bought, budget: amount, range: this.range, unit: facts.unit, quality: qualityOf(facts),
      nameOf: (set) => nameSet(set, facts),
    });
    this.find("sentence").replaceChildren(...this.sentence(bought, size, amount));
    this.find("notes").replaceChildren(...this.notes(bought, amount).map((note) => make("li", {}, note)));
    this.find("skyline-table").replaceChildren(this.table(bought));
    this.showParts(bought.line[bought.place], curves, size);
  }

  sentence({ line, place, fits }, size, amount) {
    const { facts } = this, { unit } = facts, quality = qualityOf(facts);
    const set = line[place], dearer = line[place + 1];
    const begin = `For ${sizeWords(facts, size)}, ${showCost(amount, unit)} `;
    const more = dearer && [` ${showCost(dearer.price - amount, unit)} more would `, ...this.gain(set, dearer)];
    if (!fits || !set.features.length) {
      return [`${begin}buy ${fits ? "no feature" : "nothing"}: the prior answers, with an expected ${quality} of `,
        make("strong", {}, showQuality(set.expected_quality)), ".", ...(more || [])];
    }
    const also = facts.measure !== "accuracy" && set.expected_accuracy !== null
      ? `, accuracy ${showQuality(set.expected_accuracy)}` : "";
    return [`${begin}buy `, ...strong(set, facts), ` for ${showCost(set.price, unit)}: expected ${quality} `,
      make("strong", {}, showQuality(set.expected_quality)), `${also}.`,
      ...(more || [" No budget buys better."])];
  }

  // What the next set has more, or where it is no larger one, what it has.
  gain(set, dearer) {
    const isMore = set.features.length && set.features.every((name) => dearer.features.includes(name));
    const added = { features: isMore ? dearer.features.filter((name) => !set.features.includes(name)) : dearer.features };
    return [isMore ? "add " : "buy ", ...strong(added, this.facts),
      `: ${showQuality(dearer.expected_quality)} (+${showQuality(dearer.expected_quality - set.expected_quality)}).`];
  }

  notes({ line, place }, amount) {
    const { facts } = this, set = line[place], notes = [];
    if (facts.unit === "s") {
      notes.push(`Times are those that ${showShare(facts.quantile).replace(".0", "")} of items keep to, without HTTP; the server also keeps a little for sending.`);
    }
    if (facts.fetches) notes.push("These sets are for requests for which all fetches have come.");
    if (facts.drift > 1.005) {
      notes.push(`At present all takes ${showFactor(facts.drift)} as long as these curves say: ` +
        `${showCost(amount, facts.unit)} buy what ${showCost(amount / facts.drift, facts.unit)} would.`);
    }
    if (facts.coverage) notes.push(`Answers are numbers, with intervals that hold the truth in ${showShare(facts.coverage)} of cases.`);
    if (set.schedule) {
      notes.push(`Its model stops once the answer is sure: on average after ${showShare(set.schedule.mean_used)} of its ${set.schedule.base_models} base models.`);
    }
    for (const [label, score] of Object.entries(set.threshold ?? {})) {
      notes.push(`The answer is "${label}" from a score of ${showQuality(score)} on.`);
    }
    const exits = facts.exits?.plans.find((plan) => String(plan.features) === String(set.features));
    if (exits?.early) {
      notes.push(`${showShare(exits.early)} of items are answered before the last feature, which saves ${showShare(exits.saved)} of the features' cost.`);
    }
    if (exits?.early || set.schedule) notes.push(...promiseNotes(facts.exits, exits));
    return notes;
  }

  table({ line, place }) {
    const { facts } = this, quality = qualityOf(facts);
    const hasAccuracy = facts.task === "classes" && facts.measure !== "accuracy";
    const cost = facts.unit === "s" ? "time" : "cost";
    const numbers = [cost, quality, ...(hasAccuracy ? ["accuracy"] : []), "gain"];
    return makeTable("Feature sets worth buying at this size", ["bought", ...numbers, "features, in computing order"],
      line.map((set, k) => ({
        marked: k === place,
        cells: [k === place ? "●" : "", showCost(set.price, facts.unit), showQuality(set.expected_quality),
          ...(hasAccuracy ? [showQuality(set.expected_accuracy)] : []),
          k ? `+${showQuality(set.expected_quality - line[k - 1].expected_quality)}` : "",
          set.features.join(", ") || nameSet(set, facts)],
      })), numbers);
  }

  showParts(set, curves, size) {
    const root = this.find("parts");
    const { unit } = this.facts, parts = partsOf(set, curves, size);
    const total = Math.max(costAt(set.cost, size), Number.MIN_VALUE);
    const bar = make("div", { class: "stack", "aria-hidden": "true" }, parts.map(({ price }, k) => {
      const piece = make("span", { class: `colour-${k % COLOURS}` });
      piece.style.flexGrow = price / total;
      return piece;
    }));
    const rows = parts.map(({ part, name, price }, k) => [
      make("span", {}, make("span", { class: `swatch colour-${k % COLOURS}`, "aria-hidden": "true" }),
        part === "feature" || part === "step"
          ? make("button", { type: "button", class: "link", onclick: () => this.showCurve(part, name) }, name) : name),
      part, showCost(price, unit), showShare(price / total)]);
    const head = unit === "s" ? "time" : "cost";
    root.replaceChildren(bar, makeTable(`What ${showCost(costAt(set.cost, size), unit)} are spent on, in order`,
      ["part", "kind", head, "share"], rows, [head, "share"]));
  }
}

function strong(set, facts) {
  if (!set.features.length) return [make("strong", {}, nameSet(set, facts))];
  return set.features.flatMap((name, k, all) =>
    [k ? (k === all.length - 1 ? " and " : ", ") : "", make("strong", {}, name)]);
}

// What has come of an index's fetches within some budgets.
function waitTable(facts) {
  const numbers = ["budget", ...facts.fetches.map((one) => one.name), `expected ${qualityOf(facts)}`];
  return makeTable("What has come by then, and what is expected of the answer", numbers,
    facts.waits.map((at) => [showMs(at.budget_ms), ...at.came.map(showShare), showQuality(at.quality)]), numbers);
}

// What an index promises of early answers; `plan` are the promises of one plan, if any.
function promiseNotes(exits, plan) {
  if (!exits) return [];
  const sure = exits.confidence ? `with ${showShare(exits.confidence)} confidence` : "of the items that exits were fitted on";
  const shares = Object.entries(exits.alphas ?? {});
  if (!shares.length) return [`At most ${showShare(exits.alpha)} of all early answers differ from whole ones, ${sure}.`];
  const alike = new Set(shares.map(([, share]) => share)).size === 1;
  const said = alike ? `${showShare(exits.alpha)} of the items of each class`
    : shares.slice(0, 5).map(([label, share]) => `${showShare(share)} of ${label}`).join(", ");
  const notes = [`Answering early changes at most ${said}, ${sure}.`];
  const never = (plan?.classes ?? []).filter((one) => !one.bound).map((one) => one.label);
  if (never.length) {
    notes.push(`Never left early, or only where nothing can overrule the answer: ${never.slice(0, 5).join(", ")}${never.length > 5 ? ", ..." : ""}.`);
  }
  return notes;
}
