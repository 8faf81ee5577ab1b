// A table that keeps only the rows in sight in the document, so that 200,000 rows cost what fifty
// do. Rows keep their order and their elements on a refresh: nothing moves under the hand, and the
// focus stays.

import { el, setAttribute, setText } from "./dom.js";

const HEIGHT = 24; // px of a row, as in page.css
const BEYOND = 8; // rows above and below those in sight

// A cell is text, or {text, href, class, bar}; `bar` is a part of one, drawn behind the text.
function fill(cell, content) {
  const { text = "", href, class: name = "", bar } = typeof content === "object" ? content : { text: content };
  let target = cell;
  if (href !== undefined) {
    if (cell.firstElementChild?.tagName !== "A") cell.replaceChildren(el("a"));
    target = cell.firstElementChild;
    setAttribute(target, "href", href);
  } else if (cell.firstElementChild) cell.replaceChildren();
  setText(target, String(text));
  const className = [cell.dataset.class, name].filter(Boolean).join(" ");
  if (cell.className !== className) cell.className = className;
  if (bar !== undefined) cell.style.setProperty("--part", `${Math.min(100, 100 * bar).toFixed(1)}%`);
}

export class Table {
  // columns: {head, cell(row), number, wide, bar, title}; the first one names the row.
  constructor({ label, columns, key, empty = "none" }) {
    Object.assign(this, { columns, key, empty, rows: [], shown: new Map() });
    this.top = this.#spacer();
    this.bottom = this.#spacer();
    this.body = el("tbody", {}, this.top, this.bottom);
    const heads = columns.map((column) => el("th", {
      scope: "col", class: this.#classes(column), title: column.title, text: column.head,
    }));
    this.table = el("table", {},
      el("caption", { class: "unseen", text: label }), el("thead", {}, el("tr", {}, ...heads)), this.body);
    this.none = el("p", { class: "none", text: empty, hidden: true });
    this.element = el("div", { class: "scroller", tabindex: "0", role: "group", "aria-label": label },
      this.table, this.none);
    this.element.addEventListener("scroll", () => this.#draw(), { passive: true });
    this.observer = new ResizeObserver(() => this.#draw());
    this.observer.observe(this.element);
  }

  #classes({ number, wide, bar }) {
    return [number && "n", wide && "wide", bar && "bar"].filter(Boolean).join(" ");
  }

  #spacer() {
    return el("tr", { "aria-hidden": "true", class: "spacer" }, el("td", { colspan: this.columns.length }));
  }

  setRows(rows) {
    this.rows = rows;
    // Rows outside the document count too for who hears the table.
    setAttribute(this.table, "aria-rowcount", String(rows.length + 1));
    this.none.hidden = rows.length > 0;
    this.#draw();
  }

  #draw() {
    const { scrollTop, clientHeight } = this.element;
    const sight = Math.ceil((clientHeight || 400) / HEIGHT);
    const last = Math.max(0, this.rows.length - sight);
    const first = Math.max(0, Math.min(last, Math.floor(scrollTop / HEIGHT)) - BEYOND);
    const end = Math.min(this.rows.length, first + sight + 2 * BEYOND);
    const wanted = new Map();
    for (let at = first; at < end; at += 1) wanted.set(this.key(this.rows[at]), at);
    for (const [key, line] of this.shown) {
      if (wanted.has(key)) continue;
      // The focus must not fall to the page's top with a row that leaves.
      if (line.contains(document.activeElement)) this.element.focus({ preventScroll: true });
      line.remove();
      this.shown.delete(key);
    }
    let next = this.top.nextElementSibling;
    for (const [key, at] of wanted) {
      let line = this.shown.get(key);
      if (line === undefined) {
        line = this.#line();
        this.shown.set(key, line);
      }
      if (line === next) next = next.nextElementSibling;
      else this.body.insertBefore(line, next);
      setAttribute(line, "aria-rowindex", String(at + 2));
      this.columns.forEach((column, place) => fill(line.children[place], column.cell(this.rows[at])));
    }
    this.top.style.height = `${first * HEIGHT}px`;
    this.bottom.style.height = `${(this.rows.length - end) * HEIGHT}px`;
  }

  #line() {
    const cells = this.columns.map((column, place) => el(place ? "td" : "th", {
      ...(place ? {} : { scope: "row" }), class: this.#classes(column), "data-class": this.#classes(column),
    }));
    return el("tr", {}, ...cells);
  }
}
