// What happened to a job, oldest first, as a lane of moments with their sentences.

import { el } from "../dom.js";

export function story(answer) {
  if (!answer.story?.length) return null;
  return el("ol", { class: "story" }, ...answer.story.map((entry) => {
    const names = entry.names ?? [];
    const more = entry.tasks - names.length;
    const tasks = names.length ? `  [${names.join(", ")}${more > 0 ? ` and ${more} more` : ""}]` : "";
    return el("li", {},
      el("time", { datetime: entry.time, text: entry.time.replace("T", " ").replace(/Z$/, "") }), " ",
      el("strong", { text: entry.count > 1 ? `${entry.reason} x${entry.count}` : entry.reason }), " ",
      el("span", { text: `${entry.message}${tasks}` }));
  }));
}
