// The state of the page is in its address: #/view/part/part?name=value. So a link shows another
// person what one sees, and the browser's own keys go back and forth.

export function current() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [view, ...parts] = path.split("/").map(decodeURIComponent);
  return { view: view || "overview", parts, query: new URLSearchParams(query) };
}

export function address(view, parts = [], query = {}) {
  const path = [view, ...parts].map(encodeURIComponent).join("/");
  const filled = Object.entries(query).filter(([, value]) => value);
  const text = new URLSearchParams(filled).toString();
  return `#/${path}${text ? `?${text}` : ""}`;
}

// Changes a part of the address without a new entry in the history: a filter is typed letter by
// letter.
export function setQuery(changes) {
  const { view, parts, query } = current();
  const merged = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", address(view, parts, merged));
}
