// @ts-check
/**
 * The address of the page: it holds the whole view, so that reloading shows the same. Lists that are
 * too long for the query, which the server is sent, are behind the `#`.
 */

const LONGEST = 2000;
const NEWEST = "sys/creation_time";

/**
 * @typedef {object} View
 * @property {string} root name of the root, "" for the first
 * @property {string} project
 * @property {"runs" | "compare" | "projects"} screen
 * @property {string} q query of runs
 * @property {string[]} cols columns of the table; empty for those shown by themselves
 * @property {string[]} pins columns that stay at the left when the table is scrolled
 * @property {string[]} widths of columns, as path:pixels; those that are remembered go after these
 * @property {string[]} sizes of charts, as key:WIDExHEIGHT (columns, pixels), and of the empty key for the columns that are beside each other;
 *   those that are remembered go after these
 * @property {number} split the part of the window that the table has, in percent; 0: as it is remembered
 * @property {string} sort
 * @property {boolean} ascending
 * @property {number} page from 0
 * @property {string[]} selected runs with a tick; `["*"]`: all that match the query
 * @property {string[]} drawn runs with an eye; empty: the selected ones, else the first ten of the table
 * @property {string} run id of the run that is open, of `project`
 * @property {string} tab
 * @property {string} x "step", "relative", "wall", "order" or a path
 * @property {boolean} logx
 * @property {boolean} logy
 * @property {number} smooth window of the mean, in x units; 0 for none
 * @property {number} ema half-life, in x units; 0 for none
 * @property {boolean} robust
 * @property {boolean} attempts replaced points are shown too
 * @property {string[]} charts charts of several paths, each with a line break between them
 * @property {string[]} pinned charts that come first
 * @property {string[]} hidden runs and groups whose lines are hidden
 * @property {string[]} group paths by which runs are grouped
 * @property {string} order the column by which groups are sorted, with "-" before it for the greatest
 *   first; empty: as their first runs
 * @property {string} stat what is shown of groups, as "median-se"; empty: mean and standard deviation
 * @property {string[]} by paths by which curves are coloured; empty: each run has its own colour
 * @property {string} baseline the run that others are compared with
 * @property {string} view name of the saved view that was opened; a blank for none, not even the default one
 * @property {boolean} trashed the trash is shown
 * @property {boolean} all Compare shows what does not differ too
 * @property {string} filter of charts
 * @property {Record<string, number>} colours slots given by hand, by run
 * @property {Zoom | null} zoom the part of the x axis that charts show
 */

/** @typedef {{low: number, high: number, x: string}} Zoom `x`: of which axis */

/** @type {View} */
export const START = Object.freeze({
  root: "",
  project: "",
  screen: "runs",
  q: "",
  cols: [],
  pins: [],
  widths: [],
  sizes: [],
  split: 0,
  sort: NEWEST,
  ascending: false,
  page: 0,
  selected: [],
  drawn: [],
  run: "",
  tab: "",
  x: "step",
  logx: false,
  logy: false,
  smooth: 0,
  ema: 0,
  robust: false,
  attempts: false,
  charts: [],
  pinned: [],
  hidden: [],
  group: [],
  order: "",
  stat: "",
  by: [],
  baseline: "",
  view: "",
  trashed: false,
  all: false,
  filter: "",
  colours: {},
  zoom: null,
});

const TEXTS = /** @type {const} */ (["stat", "root", "project", "q", "run", "tab", "x", "baseline", "filter", "order", "view"]);
const LISTS = /** @type {const} */ (["cols", "pins", "widths", "sizes", "selected", "drawn", "charts", "pinned", "hidden", "group", "by"]);
const FLAGS = /** @type {const} */ (["logx", "logy", "robust", "attempts", "trashed", "all"]);
const NUMBERS = /** @type {const} */ (["smooth", "ema", "split"]);
const SCREENS = ["runs", "compare", "projects"];

/** @type {Set<(view: View) => void>} */
const listeners = new Set();
/** @type {{said: string, view: View} | null} */
let last = null;

/** What the address says: its query, and what is behind the `#`. */
function address() {
  return location.search + location.hash;
}

/** @returns {View} what the address says; the same object until it changes */
export function read() {
  if (!last || last.said !== address()) last = { said: address(), view: parse(location.search, location.hash) };
  return last.view;
}

/**
 * @param {string} search
 * @param {string} [hash]
 * @returns {View}
 */
export function parse(search, hash = "") {
  const said = new URLSearchParams(search);
  for (const [name, text] of new URLSearchParams(hash.slice(1))) said.append(name, text);
  /** @type {any} */
  const view = { ...START };
  for (const name of TEXTS) view[name] = said.get(name) ?? START[name];
  for (const name of LISTS) {
    const text = said.get(name);
    view[name] = text ? text.split(",").map(unescaped) : [];
  }
  for (const name of FLAGS) view[name] = said.get(name) === "1";
  for (const name of NUMBERS) {
    const given = Number(said.get(name) ?? 0);
    view[name] = Number.isFinite(given) && given > 0 ? given : 0;
  }
  const screen = said.get("screen") ?? "";
  view.screen = SCREENS.includes(screen) ? screen : START.screen;
  const sort = said.get("sort");
  if (sort) {
    view.ascending = !sort.startsWith("-");
    view.sort = view.ascending ? sort : sort.slice(1);
  }
  view.page = Math.max(0, Math.floor(Number(said.get("page") ?? 1)) - 1) || 0;
  const [low, high, ...x] = (said.get("zoom") ?? "").split("~");
  const zoom = { low: Number(low || NaN), high: Number(high || NaN), x: x.join("~") };
  view.zoom = zoom.low < zoom.high && zoom.high - zoom.low < Infinity ? zoom : null;
  view.colours = Object.create(null);
  for (const one of said.getAll("colour")) {
    const dot = one.lastIndexOf(".");
    const slot = Number(one.slice(dot + 1));
    if (dot > 0 && Number.isInteger(slot) && slot >= 0) view.colours[one.slice(0, dot)] = slot;
  }
  return view;
}

/**
 * The address of a view behind the path: "?…", and "#…" for lists that would make it too long.
 * @param {View} view
 * @returns {string}
 */
export function search(view) {
  let text = written(view);
  const behind = new URLSearchParams();
  /** @type {any} */
  const rest = { ...view };
  for (const name of /** @type {const} */ (["drawn", "selected", "charts", "cols", "hidden", "sizes", "colours"])) {
    if (text.length <= LONGEST) break;
    if (name === "colours") for (const one of coloursOf(view)) behind.append("colour", one);
    else if (view[name].length) behind.set(name, view[name].map(escaped).join(","));
    rest[name] = START[name];
    text = written(rest);
  }
  const more = behind.toString();
  return more ? `${text || "?v=1"}#${legible(more)}` : text;
}

/** @param {View} view */
function coloursOf(view) {
  return Object.entries(view.colours).map(([run, slot]) => `${run}.${slot}`);
}

/** Slashes, commas and colons need no escape, and are easier to read. @param {string} text */
function legible(text) {
  return text.replace(/%2F/g, "/").replace(/%2C/g, ",").replace(/%3A/g, ":");
}

/** @param {View} view @returns {string} */
function written(view) {
  const said = new URLSearchParams();
  for (const name of TEXTS) if (view[name] !== START[name]) said.set(name, view[name]);
  if (view.screen !== START.screen) said.set("screen", view.screen);
  if (view.sort !== START.sort || view.ascending) {
    said.set("sort", view.ascending ? view.sort : `-${view.sort}`);
  }
  if (view.page) said.set("page", String(view.page + 1));
  for (const name of LISTS) if (view[name].length) said.set(name, view[name].map(escaped).join(","));
  for (const name of FLAGS) if (view[name]) said.set(name, "1");
  for (const name of NUMBERS) if (view[name]) said.set(name, String(view[name]));
  if (view.zoom) said.set("zoom", `${view.zoom.low}~${view.zoom.high}~${view.zoom.x}`);
  for (const one of coloursOf(view)) said.append("colour", one);
  const text = said.toString();
  return text && `?v=1&${legible(text)}`;
}

/** @param {string} text */
function escaped(text) {
  return text.replace(/[%,]/g, encodeURIComponent);
}

/** @param {string} text */
function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The view after a change. A zoom belongs to the runs that are shown.
 * @param {Partial<View>} change
 * @returns {View}
 */
function changed(change) {
  const elsewhere = "run" in change || "project" in change || "root" in change;
  return { ...read(), ...(elsewhere ? { zoom: null } : {}), ...change };
}

/**
 * The address of a view that differs from the one shown, for links.
 * @param {Partial<View>} change
 * @returns {string}
 */
export function href(change) {
  return search(changed(change)) || location.pathname;
}

/**
 * A handler of links that stays in the page, unless a key or a button asks for another tab.
 * @param {() => void} call
 */
export function plainClick(call) {
  return (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    call();
  };
}

/** The attributes of a link to a view that differs from the one shown. @param {Partial<View>} change */
export function linkTo(change) {
  return { href: href(change), onClick: plainClick(() => write(change, { push: true })) };
}

/**
 * Change the view.
 * @param {Partial<View>} change
 * @param {{push?: boolean}} [options] `push`: Back leads to what is shown now; opening something
 *   does that, typing does not
 */
export function write(change, { push = false } = {}) {
  const view = changed(change);
  const wanted = search(view);
  if (wanted === address()) {
    if (last && last.said === wanted) last.view = view;
  } else {
    const target = `${location.pathname}${wanted}`;
    if (push) history.pushState(null, "", target);
    else history.replaceState(history.state, "", target);
    // The browser may write the same address in other letters.
    last = { said: address(), view };
  }
  for (const one of [...listeners]) one(view);
}

/**
 * @param {(view: View) => void} listener
 * @returns {() => void} ends it
 */
export function subscribe(listener) {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

addEventListener("popstate", () => {
  const view = read();
  for (const one of [...listeners]) one(view);
});

/**
 * The key of a run in `selected`, `drawn` and `baseline`: its id, with its project in front if another
 * one is shown.
 * @param {string} project
 * @param {string} id
 * @param {string} shown
 */
export function keyOf(project, id, shown) {
  return project === shown ? id : `${project}/${id}`;
}

/**
 * @param {string} key
 * @param {string} shown
 * @returns {[string, string]} project and run id
 */
export function refOf(key, shown) {
  const slash = key.lastIndexOf("/");
  return slash < 0 ? [shown, key] : [key.slice(0, slash), key.slice(slash + 1)];
}
