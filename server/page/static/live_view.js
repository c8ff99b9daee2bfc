// What the server does now: counts polled from /metrics, of the last minutes or of all.

import { Chart, axis } from "./charts.js";
import { make, makeBar, makeTable, showCount, showFactor, showMs, showShare, shortNumber } from "./dom.js";
import { between, buckets, countsOf, parseMetrics, quantileOf } from "./metrics.js";

export const POLL_MS = 2000;
const WINDOW_MS = 300_000;
const RECENT_MS = 10_000;
const REASONS = {
  "": "the most accurate plan",
  budget: "the budget buys no better",
  waited: "others were first",
  pressure: "others waited",
  missing: "columns are missing that would buy a better one",
  infeasible: "the budget buys nothing asked for",
  overrun: "a feature took longer than planned",
  sure: "sure early, so the rest was left out",
  feature_failed: "a feature failed, so another set answered",
};
const NOTHING = { latency: new Map(), answers: new Map(), errors: new Map(), inTime: 0, all: 0, exits: 0, audited: 0, changed: 0, queued: 0, queuedS: 0 };

export const reasonWords = (reason) => REASONS[reason || ""] || reason;

export class LiveView {
  constructor(root) {
    this.find = (name) => root.querySelector(`.${name}`);
    this.history = [];
    this.rate = new Chart("Requests per second over the last five minutes", (colour) => ({
      scales: { x: { time: true, range: () => [(this.at - WINDOW_MS) / 1e3, this.at / 1e3] }, y: { range: (_, low, high) => [0, Math.max(high * 1.1, 1)] } },
      axes: [axis(colour), axis(colour, "requests / s", { values: (_, ticks) => ticks.map(shortNumber) })],
      series: [{}, { stroke: colour("accent"), fill: colour("wash"), width: 2, points: { show: false } }],
    }));
    this.latency = new Chart("", (colour) => this.histogram(colour));
    this.find("rate").append(this.rate.element);
    this.find("latency").append(this.latency.element);
    this.find("window").addEventListener("change", () => this.show());
  }

  begin(model, budgets) {
    if (model !== this.model) this.history = [];
    Object.assign(this, { model, budgets });
  }

  // Take in what /metrics says, and give it.
  add(text, at) {
    const counts = countsOf(parseMetrics(text), this.model, at), last = this.history.at(-1);
    if (last && counts.all < last.all) this.history = []; // another server is there now
    this.history.push(counts);
    this.at = at;
    while (this.history[0].at < at - WINDOW_MS) this.history.shift();
    this.show();
    return counts;
  }

  show() {
    const now = this.history.at(-1), oldest = this.history[0];
    if (!now) return;
    const recent = between(this.history.findLast((one) => one.at <= now.at - RECENT_MS) || oldest, now);
    const minutes = between(oldest, now), all = between({ ...NOTHING, at: now.at }, now);
    const shown = this.find("window").value === "all" ? all : minutes;
    this.find("tiles").replaceChildren(...this.tiles(now, recent, minutes, all).map(([name, value, more, kind]) =>
      make("div", { class: `tile ${kind || ""}` }, make("dt", {}, name), make("dd", {}, value, make("small", {}, more || "")))));
    this.showRate();
    this.showLatency(shown);
    this.find("answers").replaceChildren(this.answers(shown));
  }

  tiles(now, recent, minutes, all) {
    const share = (counts) => (counts.all ? showShare(counts.inTime / counts.all) : "none yet");
    const within = (counts, part) => {
      const bound = quantileOf(counts.latency, part);
      return bound === null ? "-" : bound === Infinity ? "over 10 s" : `≤ ${showMs(bound * 1e3)}`;
    };
    const failed = [...all.errors.values()].reduce((sum, one) => sum + one, 0);
    const codes = [...all.errors].filter(([, count]) => count).map(([code, count]) => `${code} ${showCount(count)}`);
    const { ok = 0, failed: refused = 0 } = now.reloads;
    const window = minutes.seconds < WINDOW_MS / 1e3 - 10 ? "since this page is open" : "last 5 min";
    const tooMany = now.alarms.size ? `, too many of ${[...now.alarms].map((label) => label || "all answers").join(", ")}` : "";
    const isLate = minutes.all && minutes.inTime < 0.99 * minutes.all;
    return [
      ["requests per second", recent.seconds ? (recent.all / recent.seconds).toFixed(1) : "-", "last 10 s"],
      ["in time lately", share(minutes), `of ${showCount(minutes.all)} answers, ${window}`, isLate ? "bad" : ""],
      ["in time, since the start", share(all), `of ${showCount(all.all)} answers`],
      ["half of the answers within", within(minutes, 0.5), window],
      ["99 of 100 within", within(minutes, 0.99), window],
      ["waiting now", showCount(now.waiting), minutes.queued ? `${showMs(1e3 * minutes.queuedS / minutes.queued)} on average` : ""],
      ["cost factor", showFactor(now.costFactor || 1), "time taken over time predicted", now.costFactor > 1.5 ? "bad" : ""],
      ["errors", showCount(failed), codes.join(", "), failed ? "bad" : ""],
      ["reloads", showCount(ok), refused ? `${showCount(refused)} refused` : "none refused", refused ? "bad" : ""],
      ["early exits", showCount(all.exits), all.audited
        ? `${showCount(all.audited)} checked, ${showCount(all.changed)} would differ${tooMany}` : "none checked", now.alarms.size ? "bad" : ""],
    ];
  }

  showRate() {
    const times = this.history.slice(1).map((one) => one.at / 1e3);
    const rates = this.history.slice(1).map((one, k) => {
      const step = between(this.history[k], one);
      return step.seconds > 0 ? step.all / step.seconds : null;
    });
    if (times.length) this.rate.show([times, rates]);
  }

  showLatency(counts) {
    const found = buckets(counts.latency).filter(([bound]) => bound < Infinity);
    const own = found.slice(...this.span(found));
    const all = own.reduce((sum, [, count]) => sum + count, 0);
    this.bounds = own.map(([bound]) => bound * 1e3);
    const shares = own.map(([, count]) => (all ? count / all : 0));
    this.latency.show([own.map((_, k) => k), shares],
      `Shares of answers by time, of ${showCount(all)}; the table below has them`);
    const filled = own.map(([bound, count]) => [`≤ ${showMs(bound * 1e3)}`, showCount(count), showShare(all ? count / all : 0)]);
    this.find("latency-table").replaceChildren(makeTable("Answers by time", ["time", "answers", "share"],
      filled.filter((_, k) => own[k][1]), ["answers", "share"]));
  }

  // From which to which bucket there is something to see: counts, or the first budget.
  span(found) {
    const ms = this.budgets()[0][1];
    const places = found.map(([bound, count], k) => (count || (bound * 1e3 >= ms && found[k - 1]?.[0] * 1e3 < ms) ? k : -1)).filter((k) => k >= 0);
    return places.length ? [Math.max(places[0] - 2, 0), places.at(-1) + 3] : [6, 14];
  }

  // Bars by position, as the bounds are steps of 1, 2 and 5; budgets lie between them.
  histogram(colour) {
    const place = (ms) => {
      const above = this.bounds.findIndex((bound) => bound >= ms);
      if (above < 1) return above < 0 ? this.bounds.length - 0.5 : -0.5;
      const low = this.bounds[above - 1], high = this.bounds[above];
      return above - 0.5 + Math.log(ms / low) / Math.log(high / low);
    };
    const drawBudgets = (plot) => {
      const { ctx, bbox } = plot;
      ctx.save();
      ctx.font = `${11 * devicePixelRatio}px sans-serif`;
      for (const [k, [name, ms]] of this.budgets().entries()) {
        if (ms > this.bounds.at(-1)) continue;
        const x = plot.valToPos(place(ms), "x", true);
        ctx.strokeStyle = ctx.fillStyle = colour(k ? "quiet" : "budget");
        ctx.beginPath();
        ctx.moveTo(x, bbox.top);
        ctx.lineTo(x, bbox.top + bbox.height);
        ctx.stroke();
        ctx.textAlign = x > bbox.left + bbox.width * 0.8 ? "right" : "left";
        ctx.fillText(` ${name} `, x, bbox.top + (12 + 14 * k) * devicePixelRatio);
      }
      ctx.restore();
    };
    return {
      scales: { x: { time: false, range: (plot) => [-0.6, plot.data[0].length - 0.4] }, y: { range: (_, low, high) => [0, Math.max(high * 1.15, 0.01)] } },
      axes: [
        axis(colour, "ms, at most", { splits: () => this.bounds.map((_, k) => k).filter((k) => this.bounds.length < 9 || k % 2 === 0), values: (_, ticks) => ticks.map((k) => shortNumber(Number(this.bounds[k].toPrecision(3)))) }),
        axis(colour, "share", { values: (_, ticks) => ticks.map((tick) => `${Math.round(tick * 100)}%`) })],
      series: [{}, { stroke: colour("accent"), fill: colour("wash"), paths: uPlot.paths.bars({ size: [0.9] }), points: { show: false } }],
      hooks: { draw: [drawBudgets] },
    };
  }

  answers(counts) {
    const rows = [...counts.answers].filter(([, count]) => count).sort((one, other) => other[1] - one[1]);
    const most = rows.length ? rows[0][1] : 1;
    return makeTable(rows.length ? "Answers by features and reason" : "No answers yet", ["features", "why", "", "answers"],
      rows.map(([key, count]) => {
        const [features, reason] = key.split("\n");
        return [features.split(" ").join(", ") || "none", reasonWords(reason), makeBar(count / most), showCount(count)];
      }), ["answers"]);
  }
}
