// A map of the nodes: a cell for each, by shard. How full it is is a shade; what it is otherwise is
// a pattern, so that nobody needs to tell colours apart. The table beneath has the same numbers.

import { el, setAttribute, setText } from "../dom.js";
import { count, percent, plural } from "../format.js";

const GAP = 10; // px between two shards
const LABEL = 14; // px of a shard's name
const LARGEST = 14;
const SMALLEST = 3;
const TALL = 360; // px that the map may have before its cells shrink

export class NodeMap {
  constructor() {
    this.canvas = el("canvas", { role: "img", class: "map" });
    this.note = el("p", { class: "note" });
    this.element = el("figure", {}, this.canvas, el("figcaption", {}, legend(), this.note));
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.again = () => this.last && this.draw(...this.last);
    this.scheme.addEventListener("change", this.again);
    this.observer = new ResizeObserver(this.again);
    this.observer.observe(this.element);
  }

  close() {
    this.scheme.removeEventListener("change", this.again);
    this.observer.disconnect();
  }

  draw(rows, options) {
    this.last = [rows, options];
    const { at } = options;
    const width = Math.max(200, Math.floor(this.element.clientWidth));
    const shards = new Map();
    for (const row of rows) {
      if (!shards.has(row[at.shard])) shards.set(row[at.shard], []);
      shards.get(row[at.shard]).push(row);
    }
    const groups = [...shards].sort(([a], [b]) => a - b);
    const { cell, height, places } = layout(groups, width);
    const scale = window.devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = height * scale;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    this.cells = { cell, places };
    paint(context, { places, cell, options, style: getComputedStyle(this.canvas) });
    const text = groups.map(([shard, nodes]) => `${name(shard)} ${plural(nodes.length, "node")}, ${percent(...sums(nodes, options))} of ${options.resource} used`
      + (options.down.has(shard) ? ", worker down" : "")).slice(0, 64).join("; ");
    setAttribute(this.canvas, "aria-label", `Map of ${count(rows.length)} nodes: ${text}`);
  }

  // The node under the pointer; by keyboard the table has it.
  #point(event) {
    if (!this.last) return;
    const { cell, places } = this.cells;
    const [, { at, place, resource }] = this.last;
    for (const { x, y, columns, nodes } of places) {
      const column = Math.floor((event.offsetX - x) / cell);
      const line = Math.floor((event.offsetY - y) / cell);
      const row = column >= 0 && column < columns && line >= 0 ? nodes[line * columns + column] : undefined;
      if (row) {
        setText(this.note, `${row[at.name]}: ${row[at.state]}, ${percent(row[at.used][place], row[at.total][place])} of ${resource} used, ${plural(row[at.promised], "task")} promised`);
        return;
      }
    }
    setText(this.note, "");
  }
}

const name = (shard) => (shard < 0 ? "no shard" : `shard-${shard}`);

function sums(nodes, { at, place }) {
  return ["used", "total"].map((column) => nodes.reduce((sum, row) => sum + (row[at[column]][place] ?? 0), 0));
}

// Shards beneath each other, each as wide as the map; the largest cells with which it is not too
// tall.
function layout(groups, width) {
  for (let cell = LARGEST; ; cell -= 1) {
    const columns = Math.max(1, Math.floor(width / cell));
    let y = 0;
    const places = groups.map(([shard, nodes]) => {
      const place = { shard, nodes, columns, x: 0, y: y + LABEL };
      y += LABEL + Math.ceil(nodes.length / columns) * cell + GAP;
      return place;
    });
    if (y <= TALL || cell === SMALLEST) return { cell, height: Math.max(1, y), places };
  }
}

function paint(context, { places, cell, options, style }) {
  const { at, place, down } = options;
  const colour = (variable) => style.getPropertyValue(variable).trim();
  const ramp = Array.from({ length: 6 }, (_, step) => colour(`--ramp-${step}`));
  const [ink, paper] = [colour("--ink"), colour("--muted")];
  const side = cell > 5 ? cell - 1 : cell - 0.5;
  context.font = "11px system-ui, sans-serif";
  for (const { shard, nodes, columns, y } of places) {
    context.fillStyle = paper;
    context.fillText(`${name(shard)}, ${plural(nodes.length, "node")}${down.has(shard) ? ", worker down" : ""}`, 0, y - 3);
    nodes.forEach((row, number) => {
      const left = (number % columns) * cell;
      const top = y + Math.floor(number / columns) * cell;
      const total = row[at.total][place] || 0;
      const share = total ? row[at.used][place] / total : 0;
      context.fillStyle = ramp[share <= 0 ? 0 : Math.min(5, 1 + Math.floor(share * 4.999))];
      context.fillRect(left, top, side, side);
      context.strokeStyle = context.fillStyle = ink;
      context.lineWidth = 1;
      if (row[at.state] !== "Ready") line(context, left, top + side, left + side, top); // hatched
      if (down.has(shard)) line(context, left, top, left + side, top + side); // the other way
      if (row[at.promised]) context.fillRect(left + side / 2 - 1, top + side / 2 - 1, 2, 2);
    });
  }
}

function line(context, x, y, toX, toY) {
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(toX, toY);
  context.stroke();
}

function legend() {
  const shades = [0, 1, 3, 5].map((step) => el("span", { class: `shade shade-${step}`, "aria-hidden": "true" }));
  return el("p", { class: "note" }, "used: none ", ...shades, " all.  / cordoned or set aside,  \\ its worker is down,  \u25aa a task is promised a place.");
}
