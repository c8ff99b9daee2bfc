// What an index that is not served buys and costs, in a file of its own.

import { BudgetView } from "./budget_view.js";
import { firstBudget, firstSize, readChoice, writeChoice } from "./choice.js";
import { CurvesView } from "./curves_view.js";
import { make } from "./dom.js";
import { describeIndex } from "./index_words.js";

const find = (id) => document.getElementById(id);
const { name, index, curves, lines } = JSON.parse(find("facts").textContent);
const view = { model: null, facts: index, curves };
const costs = new CurvesView(find("curves"));
const budgets = new BudgetView(find("buys"), { choose, showCurve: (...part) => costs.choose(...part) });

function choose(chosen) {
  Object.assign(view, chosen);
  writeChoice(view);
  show();
}

function show() {
  budgets.show(view);
  costs.show(view);
}

function readAddress({ newURL } = {}) {
  const { size, budget } = readChoice(newURL);
  view.size = firstSize(index, size || view.size);
  view.budget = firstBudget(index, view.size, budget || view.budget);
  show();
}

find("subtitle").textContent = `${name}: ${describeIndex(index)}`;
find("built").hidden = !lines.length;
find("built").querySelector(".lines").append(...lines.map((line) => make("li", {}, line)));
budgets.begin(index);
costs.begin(index, curves);
addEventListener("hashchange", readAddress);
readAddress();
