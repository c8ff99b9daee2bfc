// What an index is and counts, in words.

import { digits, listed, showFactor } from "./dom.js";

const QUALITIES = {
  accuracy: "accuracy", balanced_accuracy: "balanced accuracy", macro_f1: "macro F1", auc: "AUC",
  average_precision: "average precision", precision_at: "precision at the wanted recall",
  recall_at: "recall at the wanted precision", f_beta: "F-beta",
  log_loss: "exp(-log loss)", cost: "1 - cost", r2: "R2", mae: "1 - relative MAE",
};

export const qualityOf = (facts) => QUALITIES[facts.measure] || facts.measure;
export const shownUnit = (facts) => (facts.unit === "s" ? "ms" : facts.unit);
export const fromShown = (facts, shown) => (facts.unit === "s" ? shown / 1e3 : shown);
export const toShown = (facts, amount) => (facts.unit === "s" ? amount * 1e3 : amount);

export function nameSet(set, facts) {
  return set.features.length ? listed(set.features) : "no feature: the prior";
}

// A size in words: `120,000 pixels`; a record has none.
export function sizeWords(facts, size) {
  if (facts.kind === "record") return "a record";
  const numbers = size.map((number) => digits(number, number < 10 ? 1 : 0).replace(/\.0$/, ""));
  return facts.size.length === 2
    ? `${numbers.join(" × ")} (${facts.size.join(" × ")})` : `${numbers[0]} ${facts.size[0]}`;
}

// The smallest and the largest number of a size, by its position.
export const sizeRanges = (facts) =>
  facts.size.map((_, k) => [facts.smallest_size, facts.largest_size].map((size) => [size].flat()[k]));

// An amount by as few digits as it takes, at least three, to be no less and below a limit.
export function roundedUp(amount, below = Infinity) {
  if (!amount) return 0;
  const power = Math.floor(Math.log10(amount));
  for (let count = 3; count < 17; count += 1) {
    let near = Number(amount.toPrecision(count));
    if (near < amount) near = Number((near + 10 ** (power - count + 1)).toPrecision(count));
    if (near >= amount && near < below) return near;
  }
  return amount;
}

// The whole index in a line.
export function describeIndex(facts) {
  const answers = facts.task === "regression" ? "numbers" : facts.labels.length > 6
    ? `${facts.labels.length} classes` : listed(facts.labels, "or");
  const factors = Object.values(facts.rescaling.features).concat(facts.rescaling.models).sort((one, other) => one - other);
  const middle = factors[Math.floor(factors.length / 2)];
  const machine = facts.rescaling.state === "rescaled" ? `; this machine takes ${showFactor(middle)} the time of the build's` : "";
  return `${facts.kind}s as ${answers}, from ${facts.features.length} features; version ${facts.version.slice(0, 12)}${machine}`;
}
