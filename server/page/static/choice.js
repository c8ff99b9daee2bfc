// What is chosen to be looked at: kept in the address, so that a picture can be linked.

import { skyline } from "./costs.js";
import { roundedUp, sizeRanges, toShown } from "./index_words.js";

// Browsers refuse to write as often as a slider moves.
const REST_MS = 100;
let written = -REST_MS, writing;

// {model, size, budget}, each null where the address does not say; budgets as shown.
// What was chosen before, and is not written yet, is not to take its place.
export function readChoice(address = location.href) {
  clearTimeout(writing);
  const given = new URLSearchParams(new URL(address).hash.slice(1));
  const size = (given.get("size") || "").split("x").map(Number), budget = Number(given.get("budget"));
  const isFine = (number) => number > 0 && number < Infinity;
  return { model: given.get("model"), size: size.every(isFine) ? size : null, budget: isFine(budget) ? budget : null };
}

export function writeChoice({ model, size, budget }) {
  const named = model === null ? {} : { model };
  const fragment = new URLSearchParams({ ...named, size: size.join("x"), budget });
  const write = () => {
    written = performance.now();
    history.replaceState(null, "", `#${fragment}`);
  };
  clearTimeout(writing);
  const left = written + REST_MS - performance.now();
  if (left > 0) writing = setTimeout(write, left);
  else write();
}

// The size that is wanted, if the index has such sizes, else a middling one.
export function firstSize(facts, wanted) {
  if (wanted && wanted.length === facts.size.length) return wanted;
  return sizeRanges(facts).map(([low, high]) => (low === high ? low : Number(Math.sqrt(low * high).toPrecision(2))));
}

// The budget that is wanted, else one that buys the middle one of what is worth buying.
export function firstBudget(facts, size, wanted) {
  const line = skyline(facts.sets, size);
  return wanted || roundedUp(toShown(facts, line[Math.floor(line.length / 2)].price)) || 1;
}
