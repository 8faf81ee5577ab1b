// The page: one store, one stream, one view at a time.

import { el, setText } from "./dom.js";
import { clock } from "./format.js";
import { current } from "./router.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { askToken } from "./token.js";
import { JobView } from "./views/job.js";
import { JobsView } from "./views/jobs.js";
import { OverviewView } from "./views/overview.js";
import { QueuesView } from "./views/queues.js";
import { ShardsView } from "./views/shards.js";

const VIEWS = {
  overview: OverviewView, queues: QueuesView, jobs: JobsView, job: JobView, shards: ShardsView,
};
const KEYS = { o: "overview", q: "queues", j: "jobs", s: "shards" };

const main = document.getElementById("main");
const link = document.getElementById("link");
const time = document.getElementById("clock");
const store = new Store();
let view = null;
let shownAs = "";
let due = false;

// Frames may come faster than they can be drawn: one drawing for all that came meanwhile.
function changed() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
  });
}

function draw() {
  if (!store.ready || view === null) return;
  setText(time, `as of ${clock(store.at)}`);
  view.update(store);
  document.body.dataset.ready = String(store.number);
}

function show() {
  const route = current();
  const Made = VIEWS[route.view] ?? OverviewView;
  const name = route.view in VIEWS ? route.view : "overview";
  const whole = [name, ...route.parts].join("/");
  if (whole !== shownAs) {
    view?.close?.();
    view = new Made(route);
    main.replaceChildren(view.element);
    // The first view leaves the focus where a browser has it; later ones begin at their head.
    if (shownAs) main.focus({ preventScroll: true });
    shownAs = whole;
    scrollTo(0, 0);
  } else view.go?.(route);
  const marked = name === "job" ? "jobs" : name;
  for (const item of document.querySelectorAll("nav a")) {
    if (item.dataset.view === marked) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
  document.title = `${view.title} - Quadrant`;
  draw();
}

function state(word, sentence) {
  setText(link, sentence ? `${word}: ${sentence}` : word);
  document.body.dataset.link = word;
}

// g and a letter go to a view; / goes to the filter. Not while somebody types.
let pressed = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, dialog")) return;
  if (pressed === "g" && KEYS[event.key]) location.hash = `#/${KEYS[event.key]}`;
  else if (event.key === "/" && document.getElementById("filter")) {
    document.getElementById("filter").focus();
    event.preventDefault();
  }
  pressed = event.key;
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address is the view's
  main.focus();
});

document.body.append(el("footer", {},
  el("p", { text: "Keys: g o overview, g q queues, g j jobs, g s shards, / filter. Read-only." })));
window.addEventListener("hashchange", show);
show();
new Stream({ store, changed, state, askToken }).run();
