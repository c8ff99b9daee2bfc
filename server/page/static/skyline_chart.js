// Quality against budget as steps: each set that is worth buying, and what is bought.
// Arrow keys go from set to set, a click or a drag chooses a budget.

import { linearTicks, logTicks, makeSvg, shortNumber, showCost, showQuality } from "./dom.js";

const SKYLINE_HEIGHT = 320;
const LABEL_WIDTH = 70; // pixels that one beside a set takes
const SPACE = { left: 52, right: 16, top: 26, bottom: 46 };

export class SkylineChart {
  constructor({ onbudget }) {
    this.onbudget = onbudget;
    this.width = 0;
    this.svg = makeSvg("svg", {
      class: "skyline", role: "radiogroup",
      onpointerdown: (event) => this.drag(event), onpointermove: (event) => event.buttons && this.drag(event),
      onkeydown: (event) => this.step(event),
    });
    new ResizeObserver(([entry]) => this.resize(entry.contentRect.width)).observe(this.svg);
  }

  resize(width) {
    if (!width || Math.abs(width - this.width) < 1) return;
    this.width = width;
    this.draw();
  }

  // `range` are the least and the most budget, in the index's unit, `quality` its name.
  show({ line, place, fits, budget, range, unit, quality, nameOf }) {
    Object.assign(this, { line, place, fits, budget, range, unit, quality, nameOf });
    const qualities = line.map((set) => set.expected_quality), high = Math.max(...qualities);
    // A few sets may be so much worse that all others would look alike: they lie below.
    const middle = qualities[Math.floor(qualities.length / 2)];
    const low = Math.min(...qualities.filter((one) => one >= high - 3 * (high - middle)));
    const margin = Math.max((high - low) * 0.08, 0.005);
    this.span = [Math.max(low - margin, 0), Math.min(high + margin, 1)];
    this.draw();
  }

  x(amount) {
    const [low, high] = this.range;
    const share = Math.log(Math.max(amount, low) / low) / Math.log(high / low);
    return SPACE.left + Math.min(share, 1) * (this.width - SPACE.left - SPACE.right);
  }

  y(quality) {
    const [low, high] = this.span;
    return SKYLINE_HEIGHT - SPACE.bottom - (Math.max(quality - low, 0) / (high - low)) * (SKYLINE_HEIGHT - SPACE.top - SPACE.bottom);
  }

  draw() {
    if (!this.line || !this.width) return;
    const hadFocus = this.svg.contains(document.activeElement);
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${SKYLINE_HEIGHT}`);
    this.svg.setAttribute("height", SKYLINE_HEIGHT);
    this.svg.setAttribute("aria-label", `${this.quality} against budget: ${this.line.length} feature sets worth buying`);
    this.svg.replaceChildren(...this.axes(), ...this.steps(), ...this.budgetLine(), ...this.points());
    if (hadFocus) this.svg.querySelector("[tabindex='0']").focus();
  }

  axes() {
    const bottom = SKYLINE_HEIGHT - SPACE.bottom, right = this.width - SPACE.right;
    const factor = this.unit === "s" ? 1e3 : 1;
    const [low, high] = this.range.map((one) => one * factor);
    const across = linearTicks(...this.span, 5).flatMap((tick) => [
      makeSvg("line", { class: "grid", x1: SPACE.left, x2: right, y1: this.y(tick), y2: this.y(tick) }),
      makeSvg("text", { class: "tick", x: SPACE.left - 8, y: this.y(tick) + 4, "text-anchor": "end" }, `${tick}`),
    ]);
    const along = logTicks(low, high, (right - SPACE.left) / 52).flatMap((tick) => {
      const x = this.x(tick / factor);
      return [
        makeSvg("line", { class: "grid", x1: x, x2: x, y1: SPACE.top, y2: bottom }),
        makeSvg("text", { class: "tick", x, y: bottom + 18, "text-anchor": "middle" }, shortNumber(tick)),
      ];
    });
    const unit = this.unit === "s" ? "ms" : this.unit;
    return [...across, ...along,
      makeSvg("text", { class: "axis", x: right, y: SKYLINE_HEIGHT - 6, "text-anchor": "end" }, `budget, ${unit}`),
      makeSvg("text", { class: "axis", x: 4, y: 14 }, `expected ${this.quality}`)];
  }

  steps() {
    const until = (end, kind) => {
      const reached = this.line.filter((set) => set.price <= end);
      if (!reached.length) return [];
      let path = `M${this.x(reached[0].price)} ${this.y(reached[0].expected_quality)}`;
      for (const set of reached.slice(1)) path += `H${this.x(set.price)}V${this.y(set.expected_quality)}`;
      return [makeSvg("path", { class: kind, d: `${path}H${this.x(end)}` })];
    };
    return [...until(this.range[1], "dear"), ...until(Math.min(this.budget, this.range[1]), "bought")];
  }

  budgetLine() {
    const x = this.x(this.budget);
    const anchor = x > this.width - 90 ? "end" : x < 110 ? "start" : "middle";
    return [
      makeSvg("line", { class: "budget", x1: x, x2: x, y1: SPACE.top - 4, y2: SKYLINE_HEIGHT - SPACE.bottom }),
      makeSvg("text", { class: "budget", x, y: SPACE.top - 10, "text-anchor": anchor },
        showCost(this.budget, this.unit)),
    ];
  }

  points() {
    return this.line.flatMap((set, k) => {
      const x = this.x(set.price), y = this.y(set.expected_quality), chosen = k === this.place;
      const words = `${this.nameOf(set)}: ${showQuality(set.expected_quality)} for ${showCost(set.price, this.unit)}`;
      const circle = makeSvg("circle", {
        class: chosen ? "chosen" : set.price <= this.budget ? "bought" : "dear", cx: x, cy: y, r: chosen ? 7 : 4.5,
        role: "radio", "aria-checked": String(chosen), "aria-label": words, tabindex: chosen ? 0 : -1,
      }, makeSvg("title", {}, words));
      const next = this.line[k + 1];
      const hasRoom = !next || this.x(next.price) > x + LABEL_WIDTH;
      if (set.expected_quality >= this.span[0] || !hasRoom) return [circle];
      return [circle, makeSvg("text", { class: "tick", x: x + 10, y: y - 8 }, `${showQuality(set.expected_quality)} ↓`)];
    });
  }

  drag(event) {
    const box = this.svg.getBoundingClientRect();
    const share = (event.clientX - box.left - SPACE.left) / (box.width - SPACE.left - SPACE.right);
    const [low, high] = this.range;
    const exact = low * (high / low) ** Math.min(Math.max(share, 0), 1);
    this.onbudget(exact, Infinity);
  }

  step(event) {
    const ahead = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (!ahead) return;
    event.preventDefault();
    const place = this.place + ahead;
    if (this.line[place]) this.onbudget(this.line[place].price, this.line[place + 1]?.price ?? Infinity);
  }
}
