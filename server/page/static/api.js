// Requests to the server that this page came from, with the token that was typed.

const PATIENCE_MS = 20000;
const KEPT = "polydom token";
const home = new URL("../../", import.meta.url);

// What a request did not give, in the server's own words where it said any.
export class Failed extends Error {
  constructor(message, status = 0, code = "") {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const token = {
  get: () => sessionStorage.getItem(KEPT) || "",
  set: (typed) => sessionStorage.setItem(KEPT, typed),
};

export const address = (path) => new URL(path, home).href;

// The reply, whatever its status; Failed where there is none.
export async function send(path, { body, kind, method } = {}) {
  const headers = kind ? { "content-type": kind } : {};
  if (token.get()) headers.authorization = `Bearer ${token.get()}`;
  try {
    return await fetch(address(path), {
      method: method || (body === undefined ? "GET" : "POST"),
      body, headers, cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch {
    throw new Failed("The server does not answer.");
  }
}

// The reply where it is good; Failed where it is not.
export async function ask(path, options) {
  const reply = await send(path, options);
  if (reply.ok) return reply;
  let said = {};
  try {
    said = await reply.json();
  } catch {} // not one of our errors: something else answers at this address
  throw new Failed(said.error || `${reply.status} ${reply.statusText}`, reply.status, said.code);
}

export async function askJson(path, options) {
  const reply = await ask(path, options);
  try {
    return await reply.json();
  } catch {
    throw new Failed("What came is not what polydom answers; something else is at this address.");
  }
}

export function withModel(path, model, more = {}) {
  const query = new URLSearchParams({ ...(model === null ? {} : { model }), ...more });
  return query.size ? `${path}?${query}` : path;
}
