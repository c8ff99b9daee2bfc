// Prometheus's text read, and what of it one model's page needs.

const LINE = /^(\w+)(?:\{(.*)\})? (\S+)/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;
const plain = (text) => text.replace(/\\(.)/g, (_, one) => (one === "n" ? "\n" : one));

export function parseMetrics(text) {
  const samples = [];
  for (const line of text.split("\n")) {
    const found = LINE.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || "").matchAll(LABEL)) labels[name] = plain(value);
    samples.push({ name: found[1], labels, value: Number(found[3]) });
  }
  return samples;
}

// All workers' counts of one model together: one moment of its life.
export function countsOf(samples, model, at) {
  const counts = {
    at, answers: new Map(), errors: new Map(), latency: new Map(), reloads: {}, versions: new Set(),
    inTime: 0, all: 0, waiting: 0, exits: 0, audited: 0, changed: 0, alarms: new Set(), costFactor: 0, ready: 0, queued: 0, queuedS: 0,
  };
  const sum = (name, value) => { counts[name] += value; };
  const into = (map, key, value) => map.set(key, (map.get(key) || 0) + value);
  const readers = {
    polydom_answers_total: ({ features, reason, budget_met: met }, value) => {
      into(counts.answers, `${features}\n${reason}`, value);
      sum("all", value);
      if (met === "true") sum("inTime", value);
    },
    polydom_errors_total: ({ code }, value) => into(counts.errors, code, value),
    polydom_request_seconds_bucket: ({ le }, value) => into(counts.latency, le === "+Inf" ? Infinity : Number(le), value),
    polydom_queue_seconds_sum: (_, value) => sum("queuedS", value),
    polydom_queue_seconds_count: (_, value) => sum("queued", value),
    polydom_reloads_total: ({ result }, value) => { counts.reloads[result] = (counts.reloads[result] || 0) + value; },
    polydom_index_info: ({ version }) => counts.versions.add(version),
    polydom_exits_total: (_, value) => sum("exits", value),
    polydom_exits_audited_total: (_, value) => sum("audited", value),
    polydom_exits_changed_total: (_, value) => sum("changed", value),
    polydom_exits_alarm: (labels, value) => { if (value) counts.alarms.add(labels.class); },
    polydom_cost_factor: (_, value) => { counts.costFactor = Math.max(counts.costFactor, value); },
    polydom_ready: (_, value) => sum("ready", value),
    polydom_waiting: (_, value) => sum("waiting", value),
  };
  for (const { name, labels, value } of samples) {
    const isOurs = labels.model === undefined || labels.model === model;
    if (isOurs || (name === "polydom_errors_total" && labels.model === "")) readers[name]?.(labels, value);
  }
  return counts;
}

const lessMap = (after, before) => new Map([...after].map(([key, value]) => [key, value - (before.get(key) || 0)]));

// What came between two moments.
export function between(before, after) {
  const counts = { ...after, seconds: (after.at - before.at) / 1e3 };
  for (const name of ["answers", "errors", "latency"]) counts[name] = lessMap(after[name], before[name]);
  for (const name of ["inTime", "all", "exits", "audited", "changed", "queued", "queuedS"]) counts[name] -= before[name];
  return counts;
}

// Counts of each bucket: [upper bound, count], ascending.
export function buckets(latency) {
  const bounds = [...latency.keys()].sort((one, other) => one - other);
  return bounds.map((bound, k) => [bound, latency.get(bound) - (k ? latency.get(bounds[k - 1]) : 0)]);
}

// The bound that a share of all lies under, in seconds.
export function quantileOf(latency, share) {
  const own = buckets(latency), all = own.reduce((sum, [, count]) => sum + count, 0);
  let sum = 0;
  return all ? own.find(([, count]) => (sum += count) >= share * all)[0] : null;
}
