// Ways to choose an item: an image's file, a typed text, a record's columns.

import { make } from "./dom.js";

const SHOWN_WORDS = 100;

// Each has an `element`, `request()` that gives what to POST and how curl would,
// `fill(sample)`, what it `reads` a sample as, and, where it is known, a `size`.
export function makeForm(facts, onchange) {
  const Form = { image: ImageForm, text: TextForm, record: RecordForm }[facts.kind];
  return new Form(facts, onchange);
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

class ImageForm {
  reads = "arrayBuffer";

  constructor(facts, onchange) {
    this.isPair = facts.size.length === 2;
    this.onchange = onchange;
    this.input = make("input", { type: "file", id: "image-file", accept: "image/*", onchange: () => this.take(this.input.files[0]) });
    this.preview = make("img", { alt: "The image that is asked about", hidden: true, onload: () => this.measure(), onerror: () => this.measure() });
    this.element = make("div", { class: "drop" }, this.preview,
      make("label", { for: "image-file" }, "Drop an image, paste one, or choose a file "), this.input,
      make("p", { class: "quiet" }, "It goes to this server only."));
    this.element.addEventListener("dragover", (event) => event.preventDefault());
    this.element.addEventListener("drop", (event) => {
      event.preventDefault();
      this.take(event.dataTransfer.files[0]);
    });
  }

  paste(event) {
    const file = [...event.clipboardData.files].find((one) => one.type.startsWith("image/"));
    if (file) this.take(file);
  }

  take(file) {
    if (!file) return;
    this.file = file;
    this.size = null;
    URL.revokeObjectURL(this.preview.src);
    this.preview.src = URL.createObjectURL(file);
  }

  // What a browser cannot show, the server may yet read, or say why not.
  measure() {
    const { naturalWidth: width, naturalHeight: height } = this.preview;
    this.preview.hidden = !width;
    if (width) this.size = this.isPair ? [width, height] : [width * height];
    this.onchange();
  }

  fill(bytes) {
    this.take(new File([bytes], "sample"));
  }

  request() {
    if (!this.file) return null;
    const kind = this.file.type || "application/octet-stream";
    const named = this.file.name === "sample" ? "image.jpg" : this.file.name;
    return { body: this.file, kind, curl: `--data-binary @${quoted(named)} -H 'Content-Type: ${kind}'` };
  }
}

class TextForm {
  reads = "text";

  constructor(facts, onchange) {
    this.isPair = facts.size.length === 2;
    this.input = make("textarea", { id: "item-text", rows: 6, oninput: onchange });
    this.onchange = onchange;
    this.element = make("div", {}, make("label", { for: "item-text" }, "Text"), this.input);
  }

  get size() {
    return this.isPair || !this.input.value ? null : [[...this.input.value].length];
  }

  fill(text) {
    this.input.value = text;
    this.onchange();
  }

  request() {
    const text = this.input.value;
    return text && { body: text, kind: "text/plain; charset=utf-8", curl: `--data-raw ${quoted(text)} -H 'Content-Type: text/plain'` };
  }
}

class RecordForm {
  reads = "json";

  constructor(facts, onchange) {
    this.onchange = onchange;
    this.sample = {};
    this.fields = new Map();
    const columns = facts.features.flatMap((feature) => feature.columns || []);
    for (const column of columns) if (!this.fields.has(column.name)) this.fields.set(column.name, this.field(column));
    this.element = make("div", { class: "columns" }, [...this.fields.values()].map(({ label }) => label));
  }

  field({ name, kind, words = [] }) {
    if (kind === "text") {
      const input = make("textarea", { rows: 3, oninput: this.onchange });
      return { kind, input, label: make("label", {}, make("span", {}, name), input) };
    }
    const list = `words-of-${this.fields.size}`;
    const input = make("input", {
      type: "text", autocomplete: "off", inputmode: kind === "number" ? "decimal" : undefined, list: words.length ? list : undefined,
      placeholder: { number: "number", date: "2026-11-23" }[kind] || words.slice(0, 2).join(", "), oninput: this.onchange,
    });
    const known = words.length ? make("datalist", { id: list }, words.slice(0, SHOWN_WORDS).map((word) => make("option", { value: word }))) : null;
    return { kind, input, label: make("label", {}, make("span", {}, name), input, known) };
  }

  fill(record) {
    this.sample = record;
    for (const [name, { input }] of this.fields) input.value = record[name] ?? "";
    this.onchange();
  }

  // A sample's value goes as it came. What is no number where one is needed goes as it
  // is typed: the server says what is wrong.
  valueOf(name, kind, typed) {
    if (typed === String(this.sample[name])) return this.sample[name];
    return kind === "number" && Number.isFinite(Number(typed)) ? Number(typed) : typed;
  }

  request() {
    const record = {};
    for (const [name, { kind, input }] of this.fields) {
      const typed = input.value.trim();
      if (typed) record[name] = this.valueOf(name, kind, typed);
    }
    const body = JSON.stringify({ record });
    return { body, kind: "application/json", curl: `--json ${quoted(body)}` };
  }
}
