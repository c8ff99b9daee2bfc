// The page: what is chosen, what the server says of itself, and when to ask it again.

import { Failed, ask, token, withModel } from "./api.js";
import { BudgetView } from "./budget_view.js";
import { firstBudget, firstSize, readChoice, writeChoice } from "./choice.js";
import { CurvesView } from "./curves_view.js";
import { make } from "./dom.js";
import { describeIndex } from "./index_words.js";
import { InputsView } from "./inputs_view.js";
import { LiveView, POLL_MS } from "./live_view.js";
import { TryView } from "./try_view.js";

const find = (id) => document.getElementById(id);
// `name` is the model's, `model` what requests call it: null where there is one alone.
const view = { name: null, model: null, facts: null, curves: null, size: null, budget: null, limits: null, isPaused: false };

const budgets = new BudgetView(find("buys"), { choose, showCurve: (...part) => curves.choose(...part) });
const curves = new CurvesView(find("curves"));
const live = new LiveView(find("live"));
const inputs = new InputsView(find("inputs"));
const POLLS = 5; // of each fifth poll, items are compared with the build's
let polls = 0;
const tries = new TryView(find("try"), {
  onsize: (size) => choose({ size: size.map((number, k) => number || view.size[k]) }),
  onanswer: ({ index_version: version }) => version !== view.facts.version && begin(),
});

function choose(chosen) {
  Object.assign(view, chosen);
  writeChoice(view);
  show();
}

function show() {
  budgets.show(view);
  curves.show(view);
  tries.show(view);
}

function tell(words, isError = true) {
  const place = find("news");
  place.className = isError ? "error" : "quiet";
  if (place.textContent !== words) place.textContent = words;
}

// Ask for everything anew, once at a time; true where it came.
let asking = null;
const begin = () => (asking ??= load().then(() => true, failed).finally(() => { asking = null; }));

async function load() {
  const { model } = readChoice();
  const limits = await ask("v1/models");
  const names = limits.models.map((one) => one.name);
  const name = names.includes(model) ? model : names[0];
  const asked = names.length > 1 ? name : null;
  showModels(limits.models, name);
  if (name !== view.name) find("content").hidden = true; // of another model
  const [facts, costs] = await Promise.all(["v1/index", "v1/index/curves"].map((path) => ask(withModel(path, asked))));
  if (facts.version !== costs.version) return load(); // replaced between the two
  const before = view.name === name ? view.facts : null;
  find("door").hidden = true;
  find("content").hidden = false;
  tell("", false);
  // What people typed stays where nothing has changed.
  if (before?.version === facts.version && before.rescaling.state === facts.rescaling.state) return undefined;
  if (before && before.version !== facts.version) {
    tell(`The index was replaced: version ${facts.version.slice(0, 12)} answers since ${new Date().toLocaleTimeString()}.`, false);
  }
  Object.assign(view, { name, model: asked, facts, curves: costs, limits });
  return render();
}

function render() {
  const { facts, limits, name } = view, given = readChoice();
  view.size = firstSize(facts, given.size || view.size);
  view.budget = firstBudget(facts, view.size, given.budget || view.budget);
  find("subtitle").textContent = describeIndex(facts);
  document.title = `${name} · polydom`;
  budgets.begin(facts);
  curves.begin(facts, view.curves);
  live.begin(name, () => [
    ...(facts.unit === "s" ? [["chosen budget", view.budget]] : []),
    [`default ${limits.budget_ms} ms`, limits.budget_ms], [`most ${limits.max_budget_ms} ms`, limits.max_budget_ms]]);
  tries.begin(facts, view.model);
  inputs.begin();
  polls = 0;
  show();
}

function showModels(models, chosen) {
  const picker = find("model");
  picker.replaceChildren(...models.map(({ name, state }) =>
    make("option", { value: name, selected: name === chosen }, state === "READY" ? name : `${name} (${state.toLowerCase()})`)));
  find("models").hidden = models.length < 2;
  const { state, reason } = models.find((one) => one.name === chosen);
  showState(state === "READY" ? "ready" : reason || state.toLowerCase(), state === "READY");
}

function showState(words, isGood) {
  const place = find("state");
  place.className = isGood ? "good" : "error";
  if (place.textContent !== words) place.textContent = words;
}

// Say what is wrong; false, as nothing came.
function failed(error) {
  if (!(error instanceof Failed)) throw error;
  if (error.status === 401) {
    find("door").hidden = false;
    find("content").hidden = true;
    if (token.get()) find("refused").textContent = "The server does not know this token.";
    showState("asks for a token", false);
  } else if (error.status === 0) {
    showState("does not answer", false);
    tell(`${error.message} Trying again every ${POLL_MS / 1e3} seconds.`);
  } else {
    showState(error.status === 503 ? "not ready" : "an error", false);
    tell(`${error.message[0].toUpperCase()}${error.message.slice(1)}.`);
  }
  return false;
}

// One look at the server; after anything was wrong, all is asked for anew.
async function poll() {
  if (!find("door").hidden) return;
  const isWell = view.facts && find("state").className === "good";
  if (!isWell && !(await begin())) return;
  try {
    const { versions, costFactor } = live.add(await ask("metrics", { form: "text" }), Date.now());
    if (polls++ % POLLS === 0) inputs.show(await ask(withModel("v1/index/inputs", view.model)));
    if (versions.size && !versions.has(view.facts.version)) await begin();
    if (Math.abs(costFactor - view.facts.drift) > 0.01) {
      view.facts.drift = costFactor;
      budgets.show(view);
    }
  } catch (error) {
    failed(error);
  }
}

async function keepPolling() {
  try {
    if (!view.isPaused && !document.hidden) await poll();
  } finally {
    setTimeout(keepPolling, POLL_MS);
  }
}

find("pause").addEventListener("click", () => {
  view.isPaused = !view.isPaused;
  find("pause").textContent = view.isPaused ? "Go on" : "Pause";
});
find("model").addEventListener("change", () => {
  view.size = view.budget = null;
  location.hash = new URLSearchParams({ model: find("model").value });
});
addEventListener("hashchange", ({ newURL }) => {
  const { model, size, budget } = readChoice(newURL);
  if (!view.facts || (model && model !== view.name)) begin();
  else choose({ size: firstSize(view.facts, size || view.size), budget: budget || view.budget });
});
find("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(find("token").value);
  find("refused").textContent = "";
  begin();
});
keepPolling();
