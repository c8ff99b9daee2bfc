// The page: what is chosen, what the server says of itself, and when to ask it again.

import { Failed, ask, askJson, token, withModel } from "./api.js";
import { BudgetView, sizeRanges } from "./budget_view.js";
import { CurvesView } from "./curves_view.js";
import { listed, make, showFactor } from "./dom.js";
import { LiveView, POLL_MS } from "./live_view.js";
import { TryView } from "./try_view.js";

const find = (id) => document.getElementById(id);
const view = { model: null, facts: null, curves: null, size: null, budget: null, limits: null, isPaused: false };

const budgets = new BudgetView(find("buys"), { choose, showCurve: (...part) => curves.choose(...part) });
const curves = new CurvesView(find("curves"));
const live = new LiveView(find("live"));
const tries = new TryView(find("try"), {
  onsize: (size) => choose({ size: size.map((number, k) => number || view.size[k]) }),
  onanswer: ({ index_version: version }) => version !== view.facts.version && begin(),
});

// What is chosen is kept in the address, so that a picture can be linked.
function readFragment() {
  const given = new URLSearchParams(location.hash.slice(1));
  const numbers = (given.get("size") || "").split("x").map(Number);
  return { model: given.get("model"), size: numbers.every((one) => one > 0) ? numbers : null, budget: Number(given.get("budget")) || null };
}

function writeFragment() {
  const size = view.facts.kind === "record" ? {} : { size: view.size.join("x") };
  const model = view.model === null ? {} : { model: view.model };
  history.replaceState(null, "", `#${new URLSearchParams({ ...model, ...size, budget: view.budget })}`);
}

function choose(chosen) {
  Object.assign(view, chosen);
  writeFragment();
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

// Ask for everything anew; true where it came.
async function begin() {
  const given = readFragment();
  try {
    const served = await askJson("v1/models");
    const names = served.models.map((one) => one.name);
    view.model = names.includes(given.model) ? given.model : names.length > 1 ? names[0] : null;
    view.limits = served;
    showModels(served.models);
    const facts = await askJson(withModel("v1/index", view.model));
    view.curves = await askJson(withModel("v1/index/curves", view.model));
    if (view.facts && view.facts.version !== facts.version) {
      tell(`The index was replaced: version ${facts.version.slice(0, 12)} answers since ${new Date().toLocaleTimeString()}.`, false);
    } else tell("", false);
    view.facts = facts;
  } catch (error) {
    failed(error);
    return false;
  }
  view.size = chooseSize(given.size);
  view.budget = given.budget || view.budget || firstBudget();
  find("door").hidden = true;
  find("content").hidden = false;
  find("subtitle").textContent = describe(view.facts);
  document.title = `${view.model || view.facts.kind} · polydom`;
  budgets.begin(view.facts);
  curves.begin(view.facts, view.curves);
  live.begin(view.model || view.limits.models[0].name, () => [
    ...(view.facts.unit === "s" ? [[`chosen budget`, view.budget]] : []),
    [`default ${view.limits.budget_ms} ms`, view.limits.budget_ms], [`most ${view.limits.max_budget_ms} ms`, view.limits.max_budget_ms]]);
  tries.begin(view.facts, view.model);
  show();
  return true;
}

function chooseSize(given) {
  const known = [given, view.size].find((size) => size && size.length === view.facts.size.length);
  const middle = sizeRanges(view.facts).map(([low, high]) => Number(Math.sqrt(low * high).toPrecision(2)));
  return known || (view.facts.kind === "record" ? [1] : middle);
}

// As much as the better half of what there is to gain costs, at first.
function firstBudget() {
  return view.facts.unit === "s" ? view.limits.budget_ms : Math.max(...view.facts.sets.map((set) => set.cost[0]));
}

function describe(facts) {
  const answers = facts.task === "regression" ? "numbers" : facts.labels.length > 6
    ? `${facts.labels.length} classes` : listed(facts.labels, "or");
  const factors = Object.values(facts.rescaling.features).concat(facts.rescaling.models).sort((one, other) => one - other);
  const middle = factors[Math.floor(factors.length / 2)];
  const machine = facts.rescaling.state === "rescaled" ? `; this machine takes ${showFactor(middle)} the time of the build's` : "";
  return `${facts.kind}s as ${answers}, from ${facts.features.length} features; version ${facts.version.slice(0, 12)}${machine}`;
}

function showModels(models) {
  const picker = find("model");
  const chosen = view.model ?? models[0].name;
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
}

// One look at the server; whatever was wrong before is asked for anew.
async function poll() {
  if (!find("door").hidden) return;
  if (!view.facts || !find("state").classList.contains("good")) {
    if (!(await begin())) return;
  }
  try {
    const versions = live.add(await (await ask("metrics")).text(), Date.now());
    if (versions.size && !versions.has(view.facts.version)) await begin();
  } catch (error) {
    failed(error);
  }
}

async function keepPolling() {
  if (!view.isPaused && !document.hidden) await poll();
  setTimeout(keepPolling, POLL_MS);
}

find("pause").addEventListener("click", () => {
  view.isPaused = !view.isPaused;
  find("pause").textContent = view.isPaused ? "Go on" : "Pause";
});
find("model").addEventListener("change", () => {
  view.size = view.budget = null;
  location.hash = new URLSearchParams({ model: find("model").value });
});
addEventListener("hashchange", () => begin());
find("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(find("token").value);
  find("refused").textContent = "";
  begin();
});
keepPolling();
