// How the items of the last minutes differ from the build's, column by column.

import { make, makeBar, makeTable, showCount, showShare } from "./dom.js";

const SHOWN = 3; // columns of which all bins are shown
const USUAL = 0.1, MUCH = 0.25; // indexes up to which a column is as usual, and from which it is another one

const isCompared = ({ psi }) => psi !== null;
const showIndex = (psi) => (psi === null ? "-" : psi.toFixed(2));

export class InputsView {
  constructor(root) {
    this.root = root;
    this.find = (name) => root.querySelector(`.${name}`);
  }

  begin() {
    this.root.hidden = true;
  }

  // Take in what /v1/index/inputs says.
  show(facts) {
    this.root.hidden = !facts.built_items;
    if (this.root.hidden) return;
    const compared = facts.columns.filter(isCompared);
    this.find("sentence").textContent = this.sentence(facts, compared);
    const words = facts.unseen_words === null ? "" : ` Of the words of texts, the build did not learn ${showShare(facts.unseen_words)}` +
      `${facts.built_unseen_words === null ? "" : `; of its held-out texts, ${showShare(facts.built_unseen_words)}`}.`;
    this.find("words").textContent = words.trim();
    const most = Math.max(...compared.map(({ psi }) => psi), MUCH);
    this.find("columns").replaceChildren(...(compared.length ? [makeTable("Columns by how far they moved", ["column", "index", "", "items"],
      compared.map(({ name, psi, items }) => [name, showIndex(psi), makeBar(psi / most, psi > MUCH ? "bad" : ""), showCount(items)]), ["index", "items"])] : []));
    const told = compared.slice(0, SHOWN);
    if (facts.answers) told.push({ ...facts.answers, name: "answers" });
    this.find("shifts").replaceChildren(...told.map((one) => this.bins(one)));
  }

  sentence({ items, built_items: built }, compared) {
    const whole = `${showCount(items)} items of the last minutes, sampled by one process, beside ${showCount(built)} of the build.`;
    if (!compared.length) return `${whole} No column has enough of them to be compared.`;
    const moved = compared.filter(({ psi }) => psi > MUCH).map(({ name }) => name);
    if (moved.length) return `${whole} ${moved.slice(0, 5).join(", ")}${moved.length > 5 ? " and others" : ""} moved much: the index is above ${MUCH}.`;
    const some = compared.filter(({ psi }) => psi > USUAL).length;
    return `${whole} ${some ? "Some columns moved a little" : "No column moved"}.`;
  }

  // The shares of one column's bins, of the build's items and now.
  bins({ name, psi, bins, built, now }) {
    const most = Math.max(...built, ...now);
    const rows = bins.map((bin, k) => [bin, makeBar(built[k] / most, "quiet"), showShare(built[k]), makeBar(now[k] / most), showShare(now[k])]);
    const seen = rows.filter((_, k) => built[k] || now[k]);
    return make("div", {}, makeTable(psi === null ? name : `${name}: index ${showIndex(psi)}`, ["value", "", "build", "", "now"], seen, ["build", "now"]));
  }
}
