// One item asked about: the answer, what it took, and the same at other budgets.

import { Failed, address, ask, token, withModel } from "./api.js";
import { skyline } from "./costs.js";
import { digits, make, makeBar, makeTable, showCost, showMs, showNumber, showQuality } from "./dom.js";
import { nameSet, qualityOf, shownUnit } from "./index_words.js";
import { makeForm } from "./item_forms.js";
import { reasonWords } from "./live_view.js";

const LADDER_MS = [1, 2, 5, 10, 20, 50];
const SCORES = 5;

export class TryView {
  // `onsize(size)` is told an item's size; `onanswer(answer)` what came.
  constructor(root, { onsize, onanswer }) {
    this.find = (name) => root.querySelector(`.${name}`);
    Object.assign(this, { onsize, onanswer });
    this.find("ask").addEventListener("click", () => this.run("answer", () => this.once()));
    this.find("ladder").addEventListener("click", () => this.run("rungs", () => this.climb()));
    document.addEventListener("paste", (event) => this.form?.paste?.(event));
  }

  begin(facts, model) {
    Object.assign(this, { facts, model, told: null });
    this.form = makeForm(facts, () => this.changed());
    this.find("form").replaceChildren(this.form.element);
    const samples = Array.from({ length: facts.samples || 0 }, (_, k) =>
      make("button", { type: "button", onclick: () => this.run("answer", () => this.sample(k)) }, `Sample ${k + 1}`));
    this.find("samples").replaceChildren(...samples);
    this.find("samples").hidden = !samples.length;
    for (const name of ["answer", "rungs"]) this.find(name).replaceChildren();
    this.changed();
  }

  show({ size, budget }) {
    Object.assign(this, { size, budget });
    this.find("ladder").textContent = `Ask at ${this.rungs().map((one) => Number(one.toPrecision(3))).join(", ")} ${shownUnit(this.facts)}`;
    this.find("ask").textContent = `Ask with ${digits(budget, budget < 10 ? 2 : 0)} ${shownUnit(this.facts)}`;
    this.changed();
  }

  changed() {
    const request = this.form.request();
    this.find("ask").disabled = this.find("ladder").disabled = !request;
    if (this.form.size && String(this.form.size) !== String(this.told)) this.onsize((this.told = this.form.size));
    if (!request || !this.budget) return;
    const secret = token.get() ? ' -H "Authorization: Bearer $TOKEN"' : "";
    this.find("curl").textContent = `curl ${request.curl}${secret} '${address(this.path(this.budget))}'`;
  }

  path(budget) {
    const named = this.facts.unit === "s" ? { budget_ms: budget } : { budget };
    return withModel("v1/predict", this.model, named);
  }

  // Budgets to ask the same item with: round ones, or what sets cost in money.
  rungs() {
    if (this.facts.unit === "s") return LADDER_MS;
    const some = skyline(this.facts.sets, this.size).filter((set) => set.price > 0);
    const count = Math.min(some.length, LADDER_MS.length);
    return Array.from({ length: count }, (_, k) => some[Math.round((k * (some.length - 1)) / Math.max(count - 1, 1))].price);
  }

  // Work whose result, or what was wrong, is shown in a place.
  async run(name, work) {
    const place = this.find(name), { form } = this;
    const show = (...children) => form === this.form && place.replaceChildren(...children); // else of another model
    place.setAttribute("aria-busy", "true");
    try {
      show(...(await work()));
    } catch (error) {
      if (!(error instanceof Failed)) throw error;
      show(make("p", { class: "error", role: "alert" }, error.message));
    } finally {
      place.removeAttribute("aria-busy");
    }
  }

  async sample(number) {
    this.form.fill(await ask(withModel(`v1/index/samples/${number}`, this.model), { form: this.form.reads }));
    this.find("rungs").replaceChildren();
    return this.once();
  }

  async predict(budget) {
    const { body, kind } = this.form.request();
    const answer = await ask(this.path(budget), { body, kind });
    this.onanswer(answer);
    return answer;
  }

  async once() {
    return this.describe(await this.predict(this.budget));
  }

  describe(answer) {
    const { facts } = this;
    const took = facts.unit === "s" ? this.times(answer) : `It cost ${showCost(answer.predicted, facts.unit)}, and took ${showMs(answer.elapsed_us / 1e3)}.`;
    const words = [
      answer.features.length ? `Computed: ${answer.features.join(", ")}.` : `Nothing was computed: ${nameSet(answer, facts).replace("no feature: ", "")} answers.`,
      answer.reason ? `Not the most accurate plan: ${reasonWords(answer.reason)}.` : "",
      answer.base_models ? `${answer.base_models_used} of ${answer.base_models} base models were evaluated.` : "",
      ...Object.entries(answer.threshold ?? {}).map(([label, score]) => `The answer is "${label}" from a score of ${showQuality(score)} on.`),
      answer.early && answer.scores ? "The answer is early: its scores are the mean scores of items that stop there." : "",
      answer.size_in_range === false ? "Its size is beyond those that the index was built for; the choice may not be the best." : "",
      answer.unknown ? `Never seen before: the values of ${answer.unknown.join(", ")}.` : "",
      answer.missing ? `${answer.missing} columns of the model are missing.` : "",
      answer.best_next ? `Most would help: ${answer.best_next.columns.join(", ")} (${showQuality(answer.best_next.expected_quality)}).` : "",
    ];
    return [
      make("p", { class: "label", role: "status" }, this.headline(answer)),
      make("p", { class: answer.budget_met ? "good" : "error" }, `${answer.budget_met ? "Inside the budget." : "The budget was missed."} ${took}`),
      ...words.filter(Boolean).map((one) => make("p", {}, one)),
      make("p", { class: "quiet" }, `Expected ${qualityOf(facts)} of such answers: ${showQuality(answer.expected_quality)}.`),
      ...this.scores(answer),
    ];
  }

  headline(answer) {
    if (answer.value === undefined) return answer.label;
    const [low, high] = answer.interval || [];
    return `${showNumber(answer.value)}${answer.interval ? ` (${showNumber(low)} to ${showNumber(high)})` : ""}`;
  }

  times({ actual_us: actual, predicted_us: predicted, elapsed_us: elapsed, queue_us: queue }) {
    const of = predicted === undefined ? "" : ` of ${showMs(predicted / 1e3)} predicted`;
    const waited = queue > 0.05 * elapsed ? ` and ${showMs(queue / 1e3)} to wait for others` : "";
    return `Features and model took ${showMs(actual / 1e3)}${of}; from first byte to answer ${showMs(elapsed / 1e3)}, ` +
      `of which it took ${showMs(Math.max(elapsed - actual - queue, 0) / 1e3)} to receive and read the item${waited}.`;
  }

  scores({ scores, score_bounds: bounds }) {
    if (!scores && !bounds) return [];
    const rows = Object.entries(scores || bounds).sort((one, other) => [other[1]].flat()[0] - [one[1]].flat()[0]);
    const cells = ([label, score]) => {
      const [low, high] = [score].flat();
      return [label, makeBar(low), high === undefined ? low.toFixed(3) : `${low.toFixed(3)} to ${high.toFixed(3)}`];
    };
    const table = (some, caption) => makeTable(caption, ["class", "", "score"], some.map(cells), ["score"]);
    if (rows.length <= SCORES) return [table(rows, "Scores")];
    return [table(rows.slice(0, SCORES), `The best ${SCORES} scores`),
      make("details", {}, make("summary", {}, `all ${rows.length} classes`), table(rows, "All scores"))];
  }

  async climb() {
    const answers = [];
    for (const budget of this.rungs()) answers.push([budget, await this.predict(budget)]);
    const { unit } = this.facts, amount = (budget) => showCost(unit === "s" ? budget / 1e3 : budget, unit);
    const row = (name, cell) => [name, ...answers.map(([, answer]) => cell(answer))];
    return [makeTable("The same item at other budgets", ["", ...answers.map(([budget]) => amount(budget))], [
      row("answer", (one) => make("strong", {}, this.headline(one))),
      row("features", (one) => one.features.join(", ") || "none"),
      row(`expected ${qualityOf(this.facts)}`, (one) => showQuality(one.expected_quality)),
      row(unit === "s" ? "took" : "cost", (one) => (unit === "s" ? showMs(one.elapsed_us / 1e3) : showCost(one.predicted, unit))),
      row("inside", (one) => make("span", { class: one.budget_met ? "good" : "error" }, one.budget_met ? "yes" : "no")),
    ])];
  }
}
