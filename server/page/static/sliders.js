// A slider over numbers of several powers of ten, and a field for exact ones.

import { digits, make } from "./dom.js";

const STEPS = 400;
let made = 0;

// `set` moves both without telling; `onchange` is told what people choose.
export class LogSlider {
  constructor({ label, unit, low, high, onchange }) {
    Object.assign(this, { unit, low, high, onchange });
    const id = `slider-${(made += 1)}`;
    this.range = make("input", {
      type: "range", id, min: 0, max: STEPS, step: 1,
      oninput: () => this.choose(this.valueAt(Number(this.range.value))),
    });
    this.field = make("input", {
      type: "number", min: 0, step: "any", inputmode: "decimal", "aria-label": `${label}, ${unit}`,
      onchange: () => this.choose(Number(this.field.value)),
    });
    this.element = make("div", { class: "slider" }, make("label", { for: id }, label),
      this.range, make("span", { class: "exact" }, this.field, make("span", {}, ` ${unit}`)));
  }

  valueAt(step) {
    const exact = this.low * (this.high / this.low) ** (step / STEPS);
    return Number(exact.toPrecision(3));
  }

  choose(value) {
    if (!(value > 0 && value < Infinity)) return this.set(this.value);
    this.set(value);
    this.onchange(value);
  }

  set(value) {
    this.value = value;
    const place = Math.log(value / this.low) / Math.log(this.high / this.low);
    this.range.value = Math.round(STEPS * Math.min(Math.max(place, 0), 1));
    this.range.setAttribute("aria-valuetext", `${digits(value, value < 10 ? 3 : 0)} ${this.unit}`);
    this.field.value = value;
  }
}
