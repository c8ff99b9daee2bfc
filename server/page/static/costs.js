// What feature sets cost and what budgets buy, from what a server says of its index.

// The value of a polynomial at a size of one number or two, as
// `features/costs/polynomials.py` computes it, down to the last bit.
export function costAt(coefficients, size) {
  if (size.length === 2) return costAtPair(coefficients, ...size);
  return coefficients.reduceRight((cost, coefficient) => cost * size[0] + coefficient, 0);
}

function costAtPair(coefficients, a, b) {
  let cost = coefficients[0];
  for (let first = 1, degree = 1; first < coefficients.length; first += degree + 1, degree += 1) {
    let part = 0, power = 1;
    for (const coefficient of coefficients.slice(first, first + degree + 1)) {
      part = part * a + coefficient * power;
      power *= b;
    }
    cost += part;
  }
  return cost;
}

// The sets that no cheaper one is as good as, by ascending cost and quality.
export function skyline(sets, size) {
  const all = sets.map((set) => ({ ...set, price: costAt(set.cost, size) }));
  all.sort((one, other) => one.price - other.price || other.expected_quality - one.expected_quality);
  let best = -Infinity;
  return all.filter((set) => {
    const isBetter = set.expected_quality > best;
    if (isBetter) best = set.expected_quality;
    return isBetter;
  });
}

// What a budget buys of a skyline: its line, with the prior in it where that answers,
// the place of what is bought, and whether it fits.
export function buy(sets, size, budget) {
  const line = skyline(sets, size);
  const place = line.findLastIndex((set) => set.price <= budget);
  if (place >= 0) return { line, place, fits: true };
  const prior = line.findIndex((set) => !set.features.length);
  if (prior >= 0) return { line, place: prior, fits: false };
  const set = sets.find((one) => !one.features.length);
  return { line: [{ ...set, price: costAt(set.cost, size) }, ...line], place: 0, fits: false };
}

// What a set's cost is made of, in computing order: {part, name, price}.
export function partsOf(set, curves, size) {
  const byName = (part) => new Map(curves.parts.filter((one) => one.part === part).map((one) => [one.name, one]));
  const steps = byName("step"), features = byName("feature");
  const parts = [{ part: "overhead", name: "reading the item", price: costAt(curves.overhead, size) }];
  const add = ({ part, name, cost }) => parts.push({ part, name, price: costAt(cost, size) });
  for (const name of set.features) {
    const feature = features.get(name);
    for (const step of feature.steps) {
      if (steps.has(step)) add(steps.get(step));
      steps.delete(step);
    }
    add(feature);
  }
  const rest = costAt(set.cost, size) - parts.reduce((sum, one) => sum + one.price, 0);
  if (set.features.length) parts.push({ part: "model", name: "model", price: Math.max(rest, 0) });
  return parts;
}

// The least and the most that a set with features costs at any size there is.
export function priceRange(facts) {
  const sizes = [facts.smallest_size, facts.largest_size].map((size) => [size].flat());
  const sets = facts.sets.filter((set) => set.features.length);
  const prices = sets.flatMap((set) => sizes.map((size) => costAt(set.cost, size)));
  const some = prices.filter((price) => price > 0);
  return some.length ? [Math.min(...some), Math.max(...some)] : [1e-4, 1e-1];
}
