// Making and changing elements. Everything that users name goes through text: no markup is ever
// parsed, so that a job called <script> is a job with an odd name.

export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "text") node.textContent = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== undefined && value !== null) node.setAttribute(name, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

// Writes only what differs: a screen reader and a selection are left alone by a refresh.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

// A list of sentences, changed in place.
export function setLines(list, lines) {
  while (list.children.length > lines.length) list.lastElementChild.remove();
  while (list.children.length < lines.length) list.append(el("li"));
  lines.forEach((line, at) => {
    const item = list.children[at];
    setText(item, line.text);
    if (item.className !== (line.class ?? "")) item.className = line.class ?? "";
  });
}
