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

// A reply's body as "json", "text" or "arrayBuffer"; Failed where it is none.
export async function read(reply, form) {
  try {
    return await reply[form]();
  } catch (error) {
    const isOther = error instanceof SyntaxError;
    throw new Failed(isOther ? "What came is nothing that polydom answers; something else is at this address." : "The answer broke off.");
  }
}

// What a good reply holds; Failed where it is not good.
export async function ask(path, { form = "json", ...options } = {}) {
  const reply = await send(path, options);
  if (reply.ok) return read(reply, form);
  const text = await read(reply, "text");
  let said = {};
  try {
    said = JSON.parse(text);
  } catch {} // not one of our errors: something else answers at this address
  throw new Failed(said.error || `${reply.status} ${reply.statusText}`, reply.status, said.code);
}

export function withModel(path, model, more = {}) {
  const query = new URLSearchParams({ ...(model === null ? {} : { model }), ...more });
  return query.size ? `${path}?${query}` : path;
}
