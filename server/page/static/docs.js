// The OpenAPI document for people: every route, with a way to try it, and every shape.

import { ask, read, send, token } from "./api.js";
import { make, makeTable } from "./dom.js";

const find = (id) => document.getElementById(id);

// A schema in a line or a few: names of others are links to them.
function type(schema) {
  const joined = (list, sign) => list.flatMap((one, k) => (k ? [sign, ...type(one)] : type(one)));
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return [make("a", { href: `#${name}` }, name)];
  }
  if (schema.anyOf) return joined(schema.anyOf, " | ");
  if (schema.enum) return [schema.enum.map((one) => JSON.stringify(one)).join(" | ")];
  if (schema.properties) {
    const needed = new Set(schema.required || []);
    const lines = Object.entries(schema.properties).map(([name, one]) =>
      [`  ${name}${needed.has(name) ? ": " : "?: "}`, ...type(one), "\n"]);
    return ["{\n", ...lines.flat(), "}"];
  }
  const kinds = [schema.type || "anything"].flat();
  if (kinds[0] === "array") return ["[", ...(schema.items ? type(schema.items) : ["anything"]), "]"];
  const inside = schema.additionalProperties;
  if (kinds[0] === "object" && typeof inside === "object") return ["{name: ", ...type(inside), "}"];
  return [kinds.join(" | ") + (schema.format ? ` (${schema.format})` : "")];
}

// A shape that may be too wide to see at once, by a name that no other has.
const pre = (name, ...children) => make("pre", { tabindex: 0, role: "region", "aria-label": name }, ...children);

function contents(name, content) {
  return Object.entries(content || {}).map(([kind, one]) => pre(`${name}, ${kind}`, `${kind}  `, type(one.schema || {})));
}

function attempt(method, path, body) {
  const kinds = Object.keys(body?.content || {});
  const where = make("input", { value: path, "aria-label": "Path and query" });
  const kind = make("input", { value: kinds[0] || "", "aria-label": "Content type" });
  const text = make("textarea", { rows: 3, "aria-label": "Body" });
  const said = make("pre", { hidden: true, tabindex: 0, role: "status", "aria-label": "reply" });
  const show = async (event) => {
    event.preventDefault();
    said.hidden = false;
    said.textContent = "...";
    try {
      const more = kinds.length ? { body: text.value, kind: kind.value } : {};
      const reply = await send(where.value.replace(/^\/+/, ""), { method: method.toUpperCase(), ...more });
      said.textContent = `${reply.status} ${reply.statusText}\n${await read(reply, "text")}`;
    } catch (error) {
      said.textContent = error.message;
    }
  };
  const form = make("form", { class: "attempt", onsubmit: show }, where, kinds.length ? [kind, text] : [], make("button", {}, "Send"), said);
  return make("details", {}, make("summary", {}, "Try"), form);
}

function operation(path, method, facts) {
  const route = `${method.toUpperCase()} ${path}`;
  const parameters = (facts.parameters || []).map((one) =>
    [one.name, one.in, make("span", {}, type(one.schema || {})), one.description || ""]);
  const responses = Object.entries(facts.responses || {}).map(([status, one]) =>
    make("div", {}, `${status}: ${one.description}`, status === "200" ? contents(`Answer of ${route}`, one.content) : []));
  return make("details", {},
    make("summary", {}, make("code", {}, route), ` ${facts.summary || ""}`),
    make("p", {}, facts.description || ""),
    parameters.length ? makeTable(`Parameters of ${route}`, ["name", "in", "is", "what"], parameters) : [],
    contents(`Body of ${route}`, facts.requestBody?.content), responses, attempt(method, path, facts.requestBody));
}

async function show() {
  find("said").textContent = "";
  try {
    const described = await ask("openapi.json");
    const routes = Object.entries(described.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, facts]) => operation(path, method, facts)));
    const shapes = Object.entries(described.components.schemas).map(([name, one]) =>
      make("section", { id: name }, make("h3", {}, name), make("p", {}, one.description || ""), pre(`Shape of ${name}`, type(one))));
    find("routes").replaceChildren(make("p", { class: "quiet" }, `Version ${described.info.version}`),
      make("h2", {}, "Routes"), ...routes, make("h2", {}, "Shapes"), ...shapes);
  } catch (error) {
    find("routes").replaceChildren();
    find("said").textContent = error.message;
  }
}

find("door").addEventListener("submit", (event) => {
  event.preventDefault();
  token.set(find("token").value);
  show();
});
show();
