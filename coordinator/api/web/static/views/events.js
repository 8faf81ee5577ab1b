// Rows of events, as `quadrant events` has them.

import { clock, count } from "../format.js";

export function eventColumns() {
  return [
    { head: "Time", cell: (row) => clock(row[2]) },
    { head: "Type", wide: true, cell: (row) => ({ text: row[3], class: row[3] === "Warning" ? "warn" : "" }) },
    { head: "Reason", cell: (row) => row[4] },
    { head: "Object", cell: (row) => `${row[5].toLowerCase()}/${row[6]}` },
    { head: "Times", number: true, wide: true, cell: (row) => count(row[8]) },
    { head: "Message", cell: (row) => row[7] },
  ];
}

// An event that happens again moves up: it is the latest news. Those of one second keep their order.
export function newestFirst(table, of = () => true) {
  return [...table.byKey.values()].filter(of).sort((a, b) => b[2] - a[2] || (a[0] < b[0] ? 1 : -1));
}
