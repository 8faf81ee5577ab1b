// Is it well, is it keeping up, who has what, what happened: in sentences first.

import { el, setLines, setText } from "../dom.js";
import { count, percent, plural, quantity, reasons } from "../format.js";
import { Table } from "../table.js";
import { Head } from "../tools.js";
import { eventColumns, newestFirst } from "./events.js";
import { queueColumns, queueRows } from "./queue_columns.js";

const COUNTED = [
  ["jobs", ["submitted", "running", "pending", "finished", "deleted"]],
  ["tasks", ["submitted", "running", "pending", "bound", "finished", "deleted"]],
];

export class OverviewView {
  title = "Overview";

  constructor() {
    this.head = new Head("Overview", "quadrant top", "/apis/quadrant.dev/v1alpha1/status");
    this.health = el("ul", { class: "sentences" });
    this.numbers = {};
    const counts = COUNTED.map(([what, words]) => el("dl", { class: "counts", "aria-label": what },
      ...words.map((word) => el("div", {},
        el("dt", { text: `${what} ${word}` }),
        this.numbers[`${what}.${word}`] = el("dd", { id: `${what}-${word}` })))));
    this.resources = new Table({
      label: "Resources", key: (row) => row.name, empty: "No nodes yet.",
      columns: [
        { head: "Resource", cell: (row) => row.name },
        { head: "Used", number: true, cell: (row) => quantity(row.name, row.used) },
        { head: "Total", number: true, cell: (row) => quantity(row.name, row.total) },
        { head: "Share", number: true, bar: true, cell: (row) => ({ text: percent(row.used, row.total), bar: row.used / row.total }) },
      ],
    });
    this.queues = new Table({ label: "Queues", key: (row) => row.key, columns: queueColumns(true), empty: "No queues." });
    this.events = new Table({ label: "Last events", key: (row) => row[0], columns: eventColumns(), empty: "Nothing happened yet." });
    this.element = el("div", {}, this.head.element,
      el("section", { "aria-labelledby": "h-health" }, el("h2", { id: "h-health", text: "Health" }), this.health),
      el("section", { "aria-labelledby": "h-counts" }, el("h2", { id: "h-counts", text: "Jobs and tasks" }), ...counts),
      el("div", { class: "pair" },
        el("section", { "aria-labelledby": "h-res" }, el("h2", { id: "h-res", text: "Resources" }), this.resources.element),
        el("section", { "aria-labelledby": "h-queues" }, el("h2", { id: "h-queues", text: "Queues" }), this.queues.element)),
      el("section", { "aria-labelledby": "h-events" }, el("h2", { id: "h-events", text: "Last events" }), this.events.element));
  }

  update(store) {
    const { status, health, queues } = store.values;
    setLines(this.health, sentences(status, health));
    for (const [id, node] of Object.entries(this.numbers)) {
      const [what, word] = id.split(".");
      setText(node, count(status[what][word]));
    }
    const resources = Object.entries(status.resources).filter(([name, amount]) => name !== "pods" && amount.total)
      .map(([name, amount]) => ({ name, ...amount }));
    resources.sort((a, b) => !a.name.includes("/") - !b.name.includes("/") || (a.name < b.name ? -1 : 1));
    this.resources.setRows(resources);
    this.queues.setRows(queueRows(queues, store.values.resources[0]));
    this.events.setRows(newestFirst(store.tables.events));
  }
}

// What is wrong first; each sentence has a word for its state, not a colour alone.
function sentences(status, health) {
  const failed = health.checks.filter((check) => !check.healthy);
  const lines = failed.map((check) => ({
    text: `${check.needed ? "Failed" : "Warning"}: ${check.name}: ${check.message}`,
    class: check.needed ? "bad" : "warn",
  }));
  if (!failed.length) lines.push({ text: `OK: all ${health.checks.length} health checks pass`, class: "good" });
  const up = status.shards.filter((shard) => shard.up).length;
  lines.push({
    text: `${up === status.shards.length ? "OK" : "Warning"}: ${up} of ${plural(status.shards.length, "shard worker")} up`
      + (status.workers_lost ? `, ${status.workers_lost} lost since this coordinator leads` : ""),
    class: up === status.shards.length ? "good" : "warn",
  });
  const waiting = reasons(status.pending_reasons, 4);
  lines.push({ text: waiting ? `${plural(status.jobs.pending, "job")} wait: ${waiting}` : "No job waits" });
  const { committed, rechecked, conflicts_true: lost, conflicts_read: read } = status.statements;
  lines.push({
    text: `${plural(committed, "statement")} committed, ${count(rechecked)} of them rechecked; `
      + `${count(lost + read)} refused (${count(lost)} true, ${count(read)} read conflicts)`,
  });
  return lines;
}
