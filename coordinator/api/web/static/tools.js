// What every view has at its head: its title, the command that shows the same, its JSON.

import { base, refusal, request, token } from "./api.js";
import { el, setAttribute, setText } from "./dom.js";

// A link cannot send a header: with a token the answer is fetched, and shown from memory.
async function openJson(event) {
  if (!token()) return;
  event.preventDefault();
  const response = await request(new URL(event.target.href).pathname + new URL(event.target.href).search);
  const text = response.ok ? await response.text() : await refusal(response);
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  el("a", { href: url, download: "quadrant.json" }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export class Head {
  constructor(title, command, json) {
    this.title = el("h1", { text: title });
    this.command = el("code");
    this.copied = el("span", { role: "status", class: "copied" });
    this.button = el("button", { type: "button", text: "Copy as command", onclick: () => this.#copy() });
    this.link = el("a", { text: "JSON", onclick: openJson });
    this.element = el("div", { class: "head" }, this.title,
      el("p", { class: "tools" }, this.command, this.button, this.link, this.copied));
    this.set(title, command, json);
  }

  set(title, command, json) {
    setText(this.title, title);
    setText(this.command, command);
    setAttribute(this.link, "href", new URL(json.replace(/^\//, ""), base).href);
  }

  async #copy() {
    try {
      await navigator.clipboard.writeText(this.command.textContent);
      setText(this.copied, "copied");
    } catch {
      // Only a page of a secure origin may write there: the text is marked, so that a key copies it.
      getSelection().selectAllChildren(this.command);
      setText(this.copied, "marked: press Ctrl-C");
    }
    setTimeout(() => setText(this.copied, ""), 3000);
  }
}
