// Rows and columns of queues, by the words of the policy in force: Volcano's deserved and guarantee,
// or KAI's quota and fair share.

import { count, quantity, reasons, shortName } from "../format.js";
import { address } from "../router.js";

const INDENT = "\u2003"; // an em space for each level of the tree

// KAI's tree names its resources cpu, memory and gpu.
const inTree = (resource) => (resource.endsWith("gpu") ? "gpu" : resource);

// One row for each queue, with the amounts of one resource.
export function queueRows(queues, resource) {
  if (!resource) return [];
  if (queues.tree) {
    return queues.tree.queues.map((queue) => ({
      key: queue.name, name: queue.name, depth: queue.depth, kai: true, pending: queue.pending, waiting: {},
      figures: queue.resources[inTree(resource)] ?? {}, resource,
    }));
  }
  return queues.rows.map((queue) => ({
    ...queue, key: queue.name, resource,
    pending: Object.values(queue.waiting).reduce((sum, number) => sum + number, 0),
    amount: (kind) => queue.amounts[kind][resource] ?? 0,
    // A bound that nobody set is none, and not 0.
    has: (kind) => resource in queue.amounts[kind] || !["guarantee", "capability"].includes(kind),
  }));
}

const FIRST = ["nvidia.com/gpu", "cpu", "memory"];
const rank = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : name.includes("/") ? 0 : FIRST.length);

// `12 gpu, 3 cpu`: the two that `quadrant queue list` shows.
function amounts(byName) {
  return Object.entries(byName).filter(([name, amount]) => amount && name !== "pods")
    .sort(([a], [b]) => rank(a) - rank(b) || (a < b ? -1 : 1)).slice(0, 2)
    .map(([name, amount]) => `${quantity(name, amount)} ${shortName(name)}`).join(", ");
}

const ofTree = (row, figure) => `${row.figures[figure] ?? "-"} ${inTree(row.resource)}`;

export function isKai(queues) {
  return Boolean(queues.tree);
}

const name = { head: "Queue", cell: (row) => ({ text: INDENT.repeat(row.depth) + row.name, href: address("jobs", [], { queue: row.name }) }) };
const waiting = [
  { head: "Waiting", number: true, title: "Jobs that wait", cell: (row) => count(row.pending) },
];

function volcano(kind, head, wide) {
  return { head, number: true, wide, cell: (row) => (row.has(kind) ? quantity(row.resource, row.amount(kind)) : "-") };
}

function kai(figure, head, wide) {
  return { head, number: true, wide, cell: (row) => (row.kai ? row.figures[figure] ?? "-" : "") };
}

// Either dialect's columns; the overview has few of them, which both have.
export function queueColumns(few, ofKai = false) {
  if (few) {
    return [name,
      { head: "Allocated", cell: (row) => (row.kai ? ofTree(row, "allocated") : amounts(row.amounts.allocated)) },
      { head: "Due", title: "Deserved, or KAI's fair share", cell: (row) => (row.kai ? ofTree(row, "fairShare") : amounts(row.amounts.deserved)) },
      ...waiting,
      { head: "Reasons", wide: true, cell: (row) => reasons(row.waiting, 3) }];
  }
  if (ofKai) {
    return [name, kai("quota", "Quota"), kai("limit", "Limit"), kai("weight", "Weight", true), kai("fairShare", "Fair share"),
      kai("allocated", "Allocated"), kai("nonPreemptible", "Non-preemptible", true), kai("requested", "Requested"),
      kai("usage", "Usage", true), { ...waiting[0], head: "Pending" }];
  }
  return [name,
    { head: "State", cell: (row) => (row.overused ? `${row.state}, overused` : row.state) },
    { head: "Weight", number: true, wide: true, cell: (row) => String(row.weight) },
    { head: "Share", number: true, title: "Share of the deserved amount, of the resource it has most of", cell: (row) => row.share.toFixed(2) },
    volcano("guarantee", "Guarantee", true),
    volcano("deserved", "Deserved"),
    { head: "Allocated", number: true, bar: true, cell: (row) => ({
      text: quantity(row.resource, row.amount("allocated")),
      bar: row.amount("allocated") / (row.amount("deserved") || row.amount("allocated") || 1),
    }) },
    volcano("capability", "Capability", true),
    volcano("request", "Request"),
    ...waiting,
    { head: "Reasons", wide: true, cell: (row) => reasons(row.waiting, 3) }];
}
