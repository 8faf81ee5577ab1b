// The tree of queues with the figures of one resource.

import { el, setText } from "../dom.js";
import { count } from "../format.js";
import { setQuery } from "../router.js";
import { Table } from "../table.js";
import { Head } from "../tools.js";
import { isKai, queueColumns, queueRows } from "./queue_columns.js";

export class QueuesView {
  title = "Queues";

  constructor(route) {
    this.resource = route.query.get("resource") ?? "";
    this.head = new Head("Queues", "quadrant queue list", "/apis/scheduling.volcano.sh/v1beta1/queues");
    this.select = el("select", { id: "resource", onchange: () => this.#choose() });
    this.total = el("span", { class: "total" });
    this.place = el("div");
    this.element = el("div", {}, this.head.element,
      el("p", { class: "filters" }, el("label", { for: "resource", text: "Resource " }), this.select, " ", this.total), this.place);
    this.table = null;
  }

  #choose() {
    this.resource = this.select.value;
    setQuery({ resource: this.resource });
    if (this.store) this.update(this.store);
  }

  update(store) {
    this.store = store;
    const { queues, resources } = store.values;
    const ofKai = isKai(queues);
    if (this.table === null || this.ofKai !== ofKai) {
      this.ofKai = ofKai;
      this.table = new Table({ label: "Queues", key: (row) => row.key, columns: queueColumns(false, ofKai), empty: "No queues." });
      this.place.replaceChildren(this.table.element);
      const json = ofKai ? "/apis/quadrant.dev/v1alpha1/queuetree" : "/apis/scheduling.volcano.sh/v1beta1/queues";
      this.head.set("Queues", "quadrant queue list", json);
    }
    if (this.select.options.length !== resources.length) {
      this.select.replaceChildren(...resources.map((name) => el("option", { value: name, text: name })));
    }
    const resource = resources.includes(this.resource) ? this.resource : resources[0];
    if (resource && this.select.value !== resource) this.select.value = resource;
    const rows = queueRows(queues, resource);
    setText(this.total, `${count(rows.length)} queues`);
    this.table.setRows(rows);
  }
}
