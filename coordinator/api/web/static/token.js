// Asks for a token, once for a tab.

import { keepToken } from "./api.js";
import { el } from "./dom.js";

let open = null;

// Resolves when the user has sent one.
export function askToken(sentence) {
  open ??= new Promise((resolve) => {
    const field = el("input", {
      id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true,
    });
    const form = el("form", {},
      el("h1", { text: "This server asks for a token" }),
      el("p", { text: sentence }),
      el("p", { text: "It is kept for this tab alone, and sent in a header." }),
      el("label", { for: "token", text: "Token" }), field,
      el("button", { type: "submit", text: "Use it" }));
    const dialog = el("dialog", { "aria-label": "Token" }, form);
    dialog.addEventListener("cancel", (event) => event.preventDefault());
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      keepToken(field.value.trim());
      dialog.close();
      dialog.remove();
      open = null;
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
  return open;
}
