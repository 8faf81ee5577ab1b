// What the shards do: workers, levels and conflicts, a map of the nodes, and its numbers as a table.

import { el, setText } from "../dom.js";
import { count, percent, quantity, shortName } from "../format.js";
import { setQuery } from "../router.js";
import { Table } from "../table.js";
import { Head } from "../tools.js";
import { eventColumns, newestFirst } from "./events.js";
import { NodeMap } from "./map.js";

const LEVELS = [["L1", "idle, own shard"], ["L2", "idle, another shard"], ["L3", "will be idle, own shard"], ["L4", "will be idle, another shard"]];
const RESULTS = [["committed", "Committed"], ["rechecked", "Rechecked"], ["conflicts_true", "True conflicts"], ["conflicts_read", "Read conflicts"]];

export class ShardsView {
  title = "Shards";

  constructor(route) {
    this.resource = route.query.get("resource") ?? "";
    this.filterText = route.query.get("filter") ?? "";
    this.head = new Head("Shards", "quadrant shard list", "/apis/quadrant.dev/v1alpha1/shards");
    this.workers = new Table({ label: "Workers", key: (row) => row.name, columns: workerColumns(), empty: "No shards." });
    this.work = new Table({ label: "Levels and conflicts by home shard", key: (row) => row.name, columns: workColumns(), empty: "No shards." });
    this.events = new Table({ label: "Events of shards", key: (row) => row[0], columns: eventColumns(), empty: "Nothing happened to a shard." });
    this.select = el("select", { id: "resource", onchange: () => this.#chosen() });
    this.filter = el("input", { id: "filter", type: "search", spellcheck: "false", placeholder: "node or shard", value: this.filterText, oninput: () => this.#chosen() });
    this.total = el("span", { class: "total", role: "status" });
    this.map = new NodeMap();
    this.place = el("div");
    this.nodes = null;
    const section = (id, title, ...children) => el("section", { "aria-labelledby": id }, el("h2", { id, text: title }), ...children);
    this.element = el("div", {}, this.head.element,
      section("h-workers", "Workers", this.workers.element),
      section("h-work", "Levels and conflicts by home shard", this.work.element),
      section("h-events", "Losses and recoveries", this.events.element),
      section("h-nodes", "Nodes", el("p", { class: "filters" },
        el("label", { for: "resource", text: "Resource" }), " ", this.select, " ",
        el("label", { for: "filter", text: "Filter" }), " ", this.filter, " ", this.total), this.map.element, this.place));
  }

  close() {
    this.map.close();
  }

  #chosen() {
    this.resource = this.select.value;
    this.filterText = this.filter.value;
    setQuery({ resource: this.resource, filter: this.filterText });
    if (this.store) this.update(this.store);
  }

  update(store) {
    this.store = store;
    const { shards, resources } = store.values;
    this.workers.setRows(shards);
    this.work.setRows(shards);
    this.events.setRows(newestFirst(store.tables.events, (row) => row[5] === "Shard"));
    if (this.select.options.length !== resources.length) {
      this.select.replaceChildren(...resources.map((name) => el("option", { value: name, text: name })));
    }
    const place = Math.max(0, resources.indexOf(this.resource));
    if (resources.length) this.select.value = resources[place];
    this.#showNodes(store, place);
  }

  #showNodes(store, place) {
    const { nodes } = store.tables;
    const { at } = nodes;
    if (this.nodes === null) {
      this.nodes = new Table({ label: "Nodes", key: (row) => row[0], columns: this.#columns(at), empty: "No node matches." });
      this.nodes.element.classList.add("tall");
      this.place.replaceChildren(this.nodes.element);
    }
    this.position = place;
    if (this.members !== nodes.members) {
      this.members = nodes.members;
      // By what never changes of a node, but for its shard on the map: rows stay where they are.
      this.ordered = [...nodes.byKey.values()].sort((a, b) => (a[at.name] < b[at.name] ? -1 : 1)).map((row) => row[0]);
    }
    const text = this.filterText.trim().toLowerCase();
    const rows = this.ordered.map((key) => nodes.byKey.get(key))
      .filter((row) => !text || `${row[at.name]} shard-${row[at.shard]}`.toLowerCase().includes(text));
    setText(this.total, `${count(rows.length)} of ${count(nodes.byKey.size)} nodes`);
    this.nodes.setRows(rows);
    const down = new Set(store.values.shards.filter((shard) => !shard.up).map((shard) => Number(shard.name.slice(6))));
    this.map.draw(rows, { at, place, down, resource: store.values.resources[place] });
  }

  #columns(at) {
    const resource = () => this.store.values.resources[this.position] ?? "";
    const amount = (row, column) => row[at[column]][this.position] ?? 0;
    return [
      { head: "Node", cell: (row) => row[at.name] },
      { head: "Shard", cell: (row) => (row[at.shard] < 0 ? "none" : `shard-${row[at.shard]}`) },
      { head: "State", cell: (row) => ({ text: row[at.state], class: row[at.state] === "Ready" ? "" : "warn" }) },
      { head: "Used", number: true, cell: (row) => quantity(resource(), amount(row, "used")) },
      { head: "Total", number: true, cell: (row) => quantity(resource(), amount(row, "total")) },
      { head: "Share", number: true, bar: true, cell: (row) => share(amount(row, "used"), amount(row, "total")) },
      { head: "Promised tasks", number: true, wide: true, cell: (row) => count(row[at.promised]) },
    ];
  }
}

const share = (used, total) => (total ? { text: percent(used, total), bar: used / total } : { text: "-", bar: 0 });

function workerColumns() {
  const number = (head, name, title, wide) => ({ head, title, number: true, wide, cell: (row) => count(row[name]) });
  return [
    { head: "Shard", cell: (row) => row.name },
    { head: "State", cell: (row) => ({ text: row.up ? "Up" : "Down", class: row.up ? "good" : "bad" }) },
    number("Nodes", "nodes", "Nodes in use"), number("Desired", "desired", "Nodes it should have", true),
    number("Outstanding", "outstanding", "Tasks in its turns"), number("Turns", "turns", "Open turns"),
    number("Waiting", "waiting", "Turns that wait for a call", true), number("Calls", "calls", "Calls under way", true),
    number("Limit", "turnLimit", "Most open turns", true), number("Lost", "lost", "Turns lost with a worker"),
    { head: "Idle", wide: true, cell: (row) => short(row.idle) },
    { head: "Epoch", wide: true, cell: (row) => row.epoch ?? "none" },
    { head: "Process", number: true, wide: true, cell: (row) => String(row.pid ?? "none") },
    { head: "Note", wide: true, cell: (row) => row.refused ?? "" },
  ];
}

const short = (amounts) => Object.entries(amounts).filter(([name]) => name !== "pods").map(([name, amount]) => `${amount} ${shortName(name)}`).join(", ");

function workColumns() {
  const level = ([name, words]) => ({ head: name, title: words, number: true, cell: (row) => count(row.levels[name] ?? 0) });
  const result = ([name, head]) => ({ head, number: true, cell: (row) => count(row.statements[name] ?? 0) });
  return [{ head: "Home shard", cell: (row) => row.name }, ...LEVELS.map(level), ...RESULTS.map(result)];
}
