// What each feature and shared step costs: measured times, the curve fitted to them,
// and that of the machine that serves.

import { costAt } from "./costs.js";
import { Chart, axis, logAxis, logScale } from "./charts.js";
import { make, makeBar, makeTable, showCost, showCount, showFactor, showMs, showShare } from "./dom.js";
import { sizeRanges, sizeWords } from "./index_words.js";

const POINTS = 60;
const product = (size) => [size].flat().reduce((one, other) => one * other, 1);

export class CurvesView {
  constructor(root) {
    this.root = root;
    this.find = (name) => root.querySelector(`.${name}`);
    this.bySize = new Chart("", (colour) => this.options(colour));
    this.shares = new Chart("", (colour) => this.optionsOfShares(colour));
  }

  begin(facts, curves) {
    Object.assign(this, { facts, curves });
    const cost = (one) => costAt(one.cost, [facts.largest_size].flat());
    this.chosen = curves.parts.reduce((most, one) => (most && cost(most) >= cost(one) ? most : one), undefined);
    this.isOneSize = sizeRanges(facts).every(([low, high]) => low === high);
    this.root.hidden = !this.chosen;
    if (this.chosen) this.find("curve").replaceChildren((this.isOneSize ? this.shares : this.bySize).element);
  }

  choose(part, name) {
    this.chosen = this.curves.parts.find((one) => one.part === part && one.name === name) || this.chosen;
    this.show({ size: this.size });
    this.root.scrollIntoView({ block: "start" });
    this.find("chosen").focus();
  }

  show({ size }) {
    this.size = size;
    if (!this.chosen) return;
    const { unit } = this.facts;
    const parts = this.curves.parts.map((one) => ({ ...one, price: costAt(one.cost, size) }));
    parts.sort((one, other) => other.price - one.price);
    const most = parts[0].price || 1;
    const factors = parts.some((one) => one.factor !== 1) ? ["machine"] : [];
    const rows = parts.map((one) => ({
      marked: one.name === this.chosen.name && one.part === this.chosen.part,
      cells: [
        make("button", { type: "button", class: "link", onclick: () => this.choose(one.part, one.name) }, one.name),
        one.part, makeBar(one.price / most), showCost(one.price, unit), ...factors.map(() => showFactor(one.factor))],
    }));
    const head = unit === "s" ? "time" : "cost";
    this.find("costs").replaceChildren(makeTable(
      `What each takes of ${sizeWords(this.facts, size)}`, ["name", "kind", "", head, ...factors], rows, [head, ...factors]));
    this.showChosen();
  }

  showChosen() {
    const { chosen, size } = this;
    this.find("chosen").textContent = `${chosen.part === "step" ? "Shared step" : "Feature"} ${chosen.name}`;
    const words = [];
    if (chosen.fitted === null) words.push("Its cost is declared, not measured.");
    else {
      words.push(`For ${sizeWords(this.facts, size)} it takes ${showMs(1e3 * costAt(chosen.fitted, size))} where the index was built`);
      words.push(chosen.factor === 1 ? "." : `, and ${showFactor(chosen.factor)} that here.`);
      if (chosen.measured.length) {
        words.push(` ${showCount(chosen.measured.length)} times were measured; ${showShare(chosen.covered)} of them lie under the curve, which is fitted to hold for ${showShare(this.curves.quantile)}.`);
      } else words.push(" The index kept no measured times; `polydom measure` takes them anew.");
    }
    this.find("words").textContent = words.join("");
    this.find("curve").hidden = this.find("key").hidden = chosen.fitted === null;
    this.find("machine").hidden = chosen.factor === 1;
    if (chosen.fitted === null) return;
    if (this.isOneSize) this.shares.show(this.dataOfShares(), `Shares of the measured times of ${chosen.name}`);
    else this.bySize.show(this.data(), `Measured times of ${chosen.name} by size, and the curves fitted to them`);
  }

  here(built) {
    return this.chosen.factor === 1 ? null : built * this.chosen.factor;
  }

  // Sizes along the proportions that are chosen, from the smallest to the largest.
  data() {
    const { chosen, size } = this;
    const [least, most] = [this.facts.smallest_size, this.facts.largest_size].map(product);
    const own = Array.from({ length: POINTS }, (_, k) => least * (most / least) ** (k / (POINTS - 1)));
    const curve = own.map((volume) => {
      const scale = (volume / product(size)) ** (1 / size.length);
      return costAt(chosen.fitted, size.map((number) => number * scale)) * 1e3;
    });
    const rows = [
      ...chosen.measured.map(([at, seconds]) => [product(at), seconds > 0 ? seconds * 1e3 : null, null, null]),
      ...own.map((volume, k) => [volume, null, curve[k], this.here(curve[k])]),
    ].sort((one, other) => one[0] - other[0]);
    return [0, 1, 2, 3].map((column) => rows.map((row) => row[column]));
  }

  options(colour) {
    const label = this.facts.size.join(" × ");
    return {
      scales: { x: logScale, y: logScale },
      axes: [logAxis(colour, label), logAxis(colour, "ms")],
      series: [{}, pointsOf(colour), lineOf(colour("quiet")), lineOf(colour("accent"), [6, 4])],
    };
  }

  // Share of the measured times that are at most so long, and the curve's, upright.
  dataOfShares() {
    const { chosen } = this;
    const times = chosen.measured.map(([, seconds]) => seconds * 1e3).filter((ms) => ms > 0).sort((a, b) => a - b);
    const fitted = costAt(chosen.fitted, this.size) * 1e3;
    const upright = (ms, column) => [0, 1].map((share) => [ms, null, column === 2 ? share : null, column === 3 ? share : null]);
    const rows = [
      ...times.map((ms, k) => [ms, (k + 1) / times.length, null, null]),
      ...upright(fitted, 2), ...(chosen.factor === 1 ? [] : upright(fitted * chosen.factor, 3)),
    ].sort((one, other) => one[0] - other[0]);
    return [0, 1, 2, 3].map((column) => rows.map((row) => row[column]));
  }

  optionsOfShares(colour) {
    return {
      scales: { x: logScale, y: { range: [0, 1.02] } },
      axes: [logAxis(colour, "ms"), axis(colour, "share of times")],
      series: [{}, pointsOf(colour), lineOf(colour("quiet")), lineOf(colour("accent"), [6, 4])],
    };
  }
}

const pointsOf = (colour) => ({ stroke: colour("dot"), paths: () => null, points: { show: true, size: 4, fill: colour("dot") } });
const lineOf = (stroke, dash) => ({ stroke, width: 2, dash, spanGaps: true, points: { show: false } });
