// The blocks of an explanation, in the words of `quadrant explain`.

import { el } from "../dom.js";
import { plain } from "../format.js";

const amounts = (byName) => {
  const entries = Object.entries(byName ?? {});
  const shown = entries.filter(([name]) => name !== "pods");
  return (shown.length ? shown : entries).map(([name, amount]) => `${amount} ${name}`).join(" + ") || "nothing";
};

export function explanation(answer) {
  const rows = [
    ["Why", why(answer)],
    ["Room", answer.room ? [answer.room] : []],
    ["Gang", (answer.gang ?? []).map(role)],
    ["Quota", (answer.quota ?? []).map(quota)],
    ["Nodes", funnel(answer)],
    ["Near", (answer.near ?? []).map(near)],
    ["If", (answer.if ?? []).map((entry) => change(entry, answer))],
    ["Ahead", ahead(answer)],
    ["Tried", tried(answer.attempts)],
    ["Placed", (answer.places ?? []).map(place)],
    ["Next", answer.next ? [next(answer)] : []],
  ];
  return el("dl", { class: "blocks" }, ...rows.filter(([, lines]) => lines.length).flatMap(([word, lines]) => [
    el("dt", { text: word }), el("dd", {}, ...lines.map((line) => (line instanceof Node ? line : el("div", { text: line })))),
  ]));
}

function why(answer) {
  if (!answer.reason) return answer.message ? [answer.message] : [];
  const lines = [el("div", {}, el("strong", { text: answer.reason }), `: ${answer.message}`)];
  if (answer.position) lines.push(`position ${answer.position} of ${answer.waiting} in queue ${answer.queue}`);
  if (answer.shard !== null && answer.shard !== undefined) {
    lines.push(`evaluated at ${answer.evaluatedAt.slice(11, 19)}Z by shard-${answer.shard}`);
  }
  if (answer.incomplete) lines.push(`incomplete: ${answer.incomplete}`);
  return lines;
}

function role(row) {
  const least = row.minimum ? ` (at least ${row.minimum})` : "";
  return `${row.role || "tasks"}: ${row.running} of ${row.tasks} run${least}${row.leaving ? `, ${row.leaving} leaving` : ""}`;
}

function quota(row) {
  const words = [["asks", "asks"], ["deserved", "deserves"], ["guarantee", "is guaranteed"], ["quota", "has a quota of"],
    ["fairShare", "a fair share of"], ["capability", "may have"]];
  const told = words.filter(([name]) => row[name] && Object.keys(row[name]).length).map(([name, word]) => `${word} ${amounts(row[name])}`);
  return [`${row.queue}: has ${amounts(row.allocated)}`, ...told].join(", ");
}

// Every node stands under the first check that excludes it, so that the bars sum to all of them.
function funnel(answer) {
  const { nodes } = answer;
  if (!nodes) return [];
  const steps = [...nodes.first.map((step) => [step.check, step.count]), ["fit", nodes.fits]];
  const line = (text, number) => {
    const bar = el("span", { class: "funnel-bar" });
    bar.style.width = `${(100 * number) / Math.max(1, nodes.total)}%`;
    return el("div", { class: "funnel" }, el("span", { class: "n", text: String(number) }), el("span", { text }), bar);
  };
  return [`${nodes.total} = ${steps.map(([word, number]) => `${number} ${word}`).join(" + ")}`,
    ...steps.map(([word, number]) => line(word, number))];
}

function near(row) {
  const lacks = row.lacks.map((lack) => `${lack.needs} ${lack.resource}: idle ${lack.idle}`
    + (lack.futureIdle === lack.idle ? "" : `, future idle ${lack.futureIdle}`));
  const shard = row.shard === null || row.shard === undefined ? "" : ` (shard-${row.shard})`;
  const held = row.heldBy?.length ? `, held by ${row.heldBy.join(", ")}` : "";
  return `${row.node}${shard} needs ${lacks.join("; ")}${held}`;
}

function change(entry, answer) {
  const more = entry.nodes ? ` +${entry.nodes} nodes,` : "";
  if (entry.fits) return `${entry.change}:${more} fits now`;
  if (answer.reason === "WaitingForQuota") return `${entry.change}: no change`;
  return `${entry.change}:${more} ${plain(entry.starts, "task")} could start`;
}

function ahead(answer) {
  const jobs = answer.ahead ?? [];
  const more = (answer.position || 1) - 1 - jobs.length;
  return jobs.length ? [jobs.join(", ") + (more > 0 ? ` and ${more} more` : "")] : [];
}

export function tried(tries) {
  if (!tries) return [];
  const turns = tries.placed + tries.nominated + tries.infeasible;
  const conflicts = tries.trueConflicts + tries.readConflicts;
  if (!turns && !conflicts) return [];
  const words = ["placed", "nominated", "infeasible"].filter((name) => tries[name]).map((name) => `${tries[name]} ${name}`);
  if (conflicts) words.push(`${tries.readConflicts} read and ${tries.trueConflicts} true conflicts`);
  return [`${plain(turns, "turn")} on ${plain(tries.shards, "shard")}: ${words.join(", ")}`];
}

function place(row) {
  const words = [`${row.node}: ${plain(row.tasks, "task")}`];
  if (row.shard !== null && row.shard !== undefined) words.push(`shard-${row.shard}`);
  if (row.level) words.push(`${row.level} (${row.because})`);
  return words.join(", ");
}

function next({ next: step, eta }) {
  const seconds = (value) => (value < 120 ? `${value.toFixed(0)}s` : `${(value / 60).toFixed(0)}min`);
  return eta ? `${step}; estimate ${seconds(eta.p50)} to ${seconds(eta.p90)} (p50 to p90 of ${eta.basis})` : step;
}
