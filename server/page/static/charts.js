// Charts by uPlot: as wide as their place, in the page's colours, drawn again when
// those change. Each stands beside a text or a table that says the same.

import { logTicks, make, shortNumber } from "./dom.js";

const HEIGHT = 220;
const dark = matchMedia("(prefers-color-scheme: dark)");
const colourOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

export class Chart {
  // `options(colours)` gives uPlot's options without a size; `label` says in words
  // what is drawn.
  constructor(label, options) {
    this.options = options;
    this.element = make("div", { class: "chart", role: "img", "aria-label": label });
    new ResizeObserver(([entry]) => this.resize(entry.contentRect.width)).observe(this.element);
    dark.addEventListener("change", () => this.draw());
  }

  resize(width) {
    if (!width || width === this.width) return;
    this.width = width;
    if (this.plot) this.plot.setSize({ width, height: HEIGHT });
    else this.draw();
  }

  show(data, label) {
    this.data = data;
    if (label) this.element.setAttribute("aria-label", label);
    if (this.plot) this.plot.setData(data);
    else this.draw();
  }

  draw() {
    if (!this.data || !this.width) return;
    this.plot?.destroy();
    const size = { width: this.width, height: HEIGHT, legend: { show: false }, cursor: { show: false } };
    this.plot = new uPlot({ ...size, ...this.options(colourOf) }, this.data, this.element);
  }
}

export function axis(colour, label, more = {}) {
  const lines = { stroke: colour("grid"), width: 1 };
  const font = `12px ${getComputedStyle(document.body).fontFamily}`;
  return { label, font, labelFont: font, stroke: colour("quiet"), grid: lines, ticks: lines, labelSize: 18, size: 46, ...more };
}

export function logAxis(colour, label) {
  return axis(colour, label, {
    splits: (plot, side, low, high) => logTicks(low, high, side === 0 ? plot.width / 70 : 6),
    filter: (_, ticks) => ticks,
    values: (_, ticks) => ticks.map(shortNumber),
  });
}

export const logScale = { time: false, distr: 3, range: (_, low, high) => (low > 0 ? [low * 0.8, high * 1.25] : [0.1, 10]) };
