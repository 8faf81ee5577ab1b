// What the server told: the values and tables of the last frame. No figure is computed here.

// Rows of a table by key. Rows are arrays; `at.name` is the place of a column.
class Rows {
  constructor() {
    this.at = {};
    this.byKey = new Map();
    this.changes = 0; // rises with each row that comes, changes or goes
    this.members = 0; // rises only where rows come or go: an order by what never changes stays good
  }

  replace(columns, rows) {
    this.at = Object.fromEntries(columns.map((name, place) => [name, place]));
    this.byKey = new Map(rows.map((row) => [row[0], row]));
    this.changes += 1;
    this.members += 1;
  }

  apply({ rows, gone }) {
    for (const key of gone) this.byKey.delete(key);
    const before = this.byKey.size;
    for (const row of rows) this.byKey.set(row[0], row);
    this.changes += 1;
    if (gone.length || this.byKey.size !== before) this.members += 1;
  }
}

export class Store {
  constructor() {
    this.ready = false;
    this.number = -1;
    this.version = "";
    this.at = 0;
    this.values = {};
    this.tables = { jobs: new Rows(), nodes: new Rows(), events: new Rows() };
  }

  // Everything anew: the first frame, or a reset after this page was too slow or cut off.
  snapshot(frame) {
    this.values = frame.values;
    for (const [name, table] of Object.entries(frame.tables)) {
      this.tables[name].replace(table.columns, table.rows);
    }
    this.#stamp(frame);
  }

  delta(frame) {
    Object.assign(this.values, frame.values);
    for (const [name, changed] of Object.entries(frame.tables)) this.tables[name].apply(changed);
    this.#stamp(frame);
  }

  #stamp(frame) {
    this.number = frame.number;
    this.version = frame.resourceVersion;
    this.at = frame.at;
    this.ready = true;
  }
}
