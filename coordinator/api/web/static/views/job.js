// One job: why it waits, what it waited for, what happened to it. The answer is that of
// `quadrant explain` and `quadrant receipt`; it is asked for again when the stream tells that the
// job changed, and never by a timer.

import { refusal, request } from "../api.js";
import { el, setText } from "../dom.js";
import { clock, count, span } from "../format.js";
import { address } from "../router.js";
import { Head } from "../tools.js";
import { explanation } from "./explanation.js";
import { receipt } from "./receipt.js";
import { story } from "./story.js";

const BETWEEN = 2000; // ms between two questions: an explanation looks at every node

export class JobView {
  constructor(route) {
    [this.kind = "Job", this.namespace = "", this.name = ""] = route.parts;
    this.title = `${this.namespace}/${this.name}`;
    this.head = new Head(this.title, `quadrant explain job ${this.title}`, "/apis");
    this.line = el("p", { class: "summary" });
    this.trouble = el("p", { class: "bad", role: "alert" });
    this.asked = el("p", { class: "note" });
    this.parts = el("div");
    this.element = el("div", {}, this.head.element, this.line, this.trouble, this.parts, this.asked);
    this.row = undefined;
    this.last = 0;
    this.asking = false;
    this.closed = false;
  }

  close() {
    this.closed = true;
  }

  update(store) {
    const kind = store.values.kinds[this.kind];
    if (kind === undefined) {
      setText(this.trouble, `${this.kind} is no kind of job`);
      return;
    }
    this.path = `${kind.root}/namespaces/${encodeURIComponent(this.namespace)}/${kind.plural}/${encodeURIComponent(this.name)}/explain?receipt=true`;
    this.head.set(this.title, `quadrant explain ${kind.word} ${this.title}`, this.path);
    const { jobs } = store.tables;
    const { at } = jobs;
    let found = null;
    for (const row of jobs.byKey.values()) {
      if (row[at.name] === this.name && row[at.namespace] === this.namespace && row[at.kind] === this.kind) found = row;
    }
    this.#summary(found, at, store);
    const text = JSON.stringify(found);
    if (text !== this.row) {
      this.row = text;
      this.#askSoon();
    }
  }

  #summary(row, at, store) {
    if (row === null) {
      setText(this.line, "The scheduler has no such job now: it ended and was deleted, or never was.");
      return;
    }
    setText(this.line, `${store.values.kinds[this.kind].kind} in queue ${row[at.queue]}, ${row[at.phase]}, `
      + `${span(store.at - row[at.created])} old: ${count(row[at.running])} of ${count(row[at.tasks])} tasks run, `
      + `${count(row[at.pending])} pending, at least ${count(row[at.minimum])} together`);
  }

  #askSoon() {
    if (this.asking) return;
    this.asking = true;
    setTimeout(() => this.#ask(), Math.max(0, this.last + BETWEEN - performance.now()));
  }

  async #ask() {
    const row = this.row;
    this.last = performance.now();
    try {
      const response = await request(this.path);
      if (!response.ok) throw new Error(await refusal(response));
      const answer = await response.json();
      if (this.closed) return;
      setText(this.trouble, "");
      this.#show(answer);
    } catch (error) {
      setText(this.trouble, `No explanation: ${error.message}`);
    }
    this.asking = false;
    if (row !== this.row && !this.closed) this.#askSoon(); // it changed meanwhile
  }

  #show(answer) {
    const sections = [["Explanation", explanation(answer)], ["Receipt of its waits", receipt(answer)], ["Story", story(answer)]];
    const opened = new Set([...this.parts.querySelectorAll("details[open]")].map((node) => node.id));
    this.parts.replaceChildren(...sections.filter(([, body]) => body).map(([title, body], at) =>
      el("section", { "aria-labelledby": `part-${at}` }, el("h2", { id: `part-${at}`, text: title }), body)));
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    setText(this.asked, `Explained at ${clock(Date.now() / 1000)}; asked again when the job changes.`);
    document.body.dataset.explained = "yes";
  }
}
