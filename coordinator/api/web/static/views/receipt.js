// The receipt: what a job waited for. Parts sum to their wait, waits to the total, to the millisecond.

import { el } from "../dom.js";
import { exact, plain } from "../format.js";

export function receipt(answer) {
  const { receipt: body } = answer;
  if (!body) return null;
  const sums = Object.entries(body.sums).map(([reason, length]) => `${exact(length)} ${reason}`);
  if (body.earlier.waits) sums.push(`${exact(body.earlier.milliseconds)} in ${plain(body.earlier.waits, "wait")} before`);
  const total = `waited ${exact(body.milliseconds)}${sums.length ? ` = ${sums.join(" + ")}` : ""}`;
  return el("div", { class: "receipt" }, el("p", { class: "receipt-total", text: total }), ...body.waits.map(wait));
}

function wait(body) {
  const begin = String(body.begin).replace("T", " ").replace(/Z$/, "");
  const head = `${begin}  ${body.cause}: waited ${exact(body.milliseconds)}${body.end ? "" : ", and waits still"}`;
  return el("div", {}, el("p", { text: head }), lane(body), el("ul", { class: "parts" }, ...body.parts.map(part)));
}

// The wait as a lane, each part as long as it lasted. The list below says the same.
function lane(body) {
  return el("div", { class: "lane", "aria-hidden": "true" }, ...body.parts.map((each, at) => {
    const piece = el("span", { class: `piece piece-${at % 4}`, title: each.reason });
    piece.style.flexGrow = String(Math.max(1, each.milliseconds));
    return piece;
  }));
}

function part(body, at) {
  const item = el("li", {}, el("span", { class: `key piece-${at % 4}`, "aria-hidden": "true" }),
    el("span", { class: "n", text: exact(body.milliseconds) }), ` ${body.reason}${body.message ? `: ${body.message}` : ""}`);
  if (body.behind.length) {
    const holders = body.behind.map((holder) => `${holder.job} (${Object.entries(holder.held).map(([name, amount]) => `${amount} ${name}`).join(", ")}, queue ${holder.queue})`);
    item.append(el("div", { class: "note", text: `behind ${holders.join(", ")}${body.others ? ` and ${body.others} more` : ""}` }));
  }
  if (body.borrowers.length) item.append(el("div", { class: "note", text: `because of ${body.borrowers.join(", ")}` }));
  return item;
}
