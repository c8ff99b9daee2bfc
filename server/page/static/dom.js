// Elements made and numbers written, as `features/figures.py` writes them.

// Colours that style.css has to tell things apart by: `colour-0` and so on.
export const COLOURS = 8;

// An element; strings become text, so nothing that comes from elsewhere is markup.
export function make(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function makeSvg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

// A table; cells are texts or elements, the first of a row its head, and numbers are
// those columns whose heads are in `numbers`. What is empty is no head of anything.
export function makeTable(caption, heads, rows, numbers = []) {
  const classOf = (k) => (numbers.includes(heads[k]) ? "number" : undefined);
  const headOf = (text, k) => make(text ? "th" : "td", { scope: text ? "col" : undefined, class: classOf(k) }, text);
  const cellOf = (cell, k) => {
    const isHead = k === 0 && cell !== "";
    return make(isHead ? "th" : "td", { scope: isHead ? "row" : undefined, class: classOf(k) }, cell);
  };
  const line = ({ cells, marked }) => make("tr", { "aria-current": marked || undefined }, cells.map(cellOf));
  return make("div", { class: "scrolls", tabindex: 0, role: "region", "aria-label": caption },
    make("table", {}, make("caption", {}, caption), make("thead", {}, make("tr", {}, heads.map(headOf))),
      make("tbody", {}, rows.map((row) => line(Array.isArray(row) ? { cells: row } : row)))));
}

// A bar as long as its share of 1; it tells nothing that no text beside it does.
export function makeBar(share, kind = "") {
  const inner = make("span", { class: kind });
  inner.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, inner);
}

export function digits(number, most) {
  return number.toLocaleString("en", { maximumFractionDigits: most, minimumFractionDigits: most });
}

export function showMs(ms) {
  if (ms === 0) return "0 ms";
  if (Math.abs(ms) >= 1e6) return `${ms.toPrecision(4)} ms`;
  const exact = Number(ms.toPrecision(3));
  const decimals = 2 - Math.floor(Math.log10(Math.abs(exact)));
  return `${digits(exact, Math.min(Math.max(decimals, 0), 4))} ms`;
}

// A cost in an index's unit: seconds as milliseconds, or money.
export function showCost(amount, unit) {
  return unit === "s" ? showMs(amount * 1e3) : `${Number(amount.toPrecision(4))} ${unit}`;
}

export const showQuality = (share) => (share === null ? "-" : share.toFixed(3));
export const showShare = (share) => (share === 1 ? "100 %" : `${(Math.floor(1000 * share) / 10).toFixed(1)} %`);
export const showFactor = (factor) => `${Number(factor.toPrecision(3))} ×`;
export const showCount = (count) => digits(count, 0);

export function showNumber(number) {
  const size = Math.abs(number);
  if (size && (size < 1e-4 || size >= 1e12)) return String(Number(number.toPrecision(4)));
  return number.toLocaleString("en", { maximumSignificantDigits: Math.max(4, Math.ceil(Math.log10(size || 1))) });
}

export function listed(names, joint = "and") {
  return names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} ${joint} ${names.at(-1)}`;
}

// Round numbers between two, as steps of powers of ten that leave at most `most` of them.
export function logTicks(low, high, most) {
  const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
  const powers = Array.from({ length: last - first + 1 }, (_, k) => first + k);
  for (const steps of [[1, 1.5, 2, 3, 4, 5, 6, 8], [1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
    const ticks = powers.flatMap((power) => steps.map((step) => Number(`${step}e${power}`)));
    const inside = ticks.filter((tick) => tick >= low * 0.9999 && tick <= high * 1.0001);
    if (inside.length <= most || steps.length === 1) return inside;
  }
}

export function linearTicks(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].find((one) => one * power >= rough * 0.9999) * power;
  const first = Math.ceil(low / step - 1e-9);
  const count = Math.floor(high / step + 1e-9) - first + 1;
  return Array.from({ length: count }, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

export function shortNumber(number) {
  if (number >= 1e9) return `${number / 1e9}G`;
  if (number >= 1e6) return `${number / 1e6}M`;
  return number >= 1e4 ? `${number / 1e3}k` : String(Number(number.toPrecision(6)));
}
