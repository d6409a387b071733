// @ts-check
/**
 * The columns of the table of runs: they are chosen, and saved as CSV; by their heads they are moved,
 * pinned, sized and hidden, with the pointer, by keys or by a menu.
 */

import { html, useEffect, useLayoutEffect, useRef, useState } from "../vendor/preact.js";
import { read, write } from "./address.js";
import { ALWAYS, MOST_COLUMNS, titleOf } from "./columns.js";
import { Check, Filter, Menu, kept, useAnswer, useFocused, widthsAt } from "./components.js";
import { csvOf, download } from "./copies.js";
import { matcher, queryOf } from "./finding.js";
import { count, number } from "./format.js";
import { CSV_MOST, tableOf, which } from "./rows.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./rows.js").Ref} Ref */
/** Widths of columns in pixels, by path. @typedef {Map<string, number>} Widths */

const [LEAST, MOST, STEP] = [40, 800, 16];
/** The longest text of widths in an address, and the most widths that are remembered of a project. */
const [SHORT, MOST_KEPT] = [120, 200];
/** A pointer that moves less does not drag. */
const STILL = 5;
/** The cells before the first column: the tick, the name and the state. */
const BEFORE = 3;
/** The part of the table that pinned columns may cover. */
const COVERED = 0.75;
const STYLE = `
.runs.narrowed thead th { scroll-margin-left: 16rem; }
.runs thead .popup { font-weight: 400; }
.runs thead .more > button { width: 100%; min-width: 0; }
.runs thead .more { width: min(24px, 42%); right: 6px; top: 1px; }
.runs thead .numeric > .more { right: auto; left: 0; }
.runs thead th:hover > .more > button { opacity: 1; }
.runs.runs th:has([aria-expanded="true"]) { z-index: 30; }
.runs thead .grip { position: absolute; right: 0; top: 0; bottom: 0; width: 6px; cursor: col-resize; touch-action: none; }
.runs thead .grip:hover, .runs thead .grip:active { background: var(--accent); }
.runs thead .dragged { opacity: 0.6; }
.runs thead [data-drop="before"] { box-shadow: inset 3px 0 var(--accent); }
.runs thead [data-drop="after"] { box-shadow: inset -3px 0 var(--accent); }
@media (max-width: 700px) { .runs thead .grip { display: none; } }`;

const sheet = new CSSStyleSheet();
document.adoptedStyleSheets.push(sheet);
/** What is told to readers of a screen. */
const status = document.createElement("span");
status.className = "unseen";
status.setAttribute("role", "status");
document.body.append(status);
let painted = "";
/** What has the focus again once its column is in its new place. @type {Element | null} */
let focused = null;

/** @param {number} width */
function bounded(width) {
  return Math.round(Math.max(LEAST, Math.min(MOST, width)));
}

/** The widths that are remembered, or else of the address. @param {View} view @returns {Widths} */
function widthsOf({ project, widths }) {
  const said = widths.map((one) => [one.slice(0, one.lastIndexOf(":")), Number(one.slice(one.lastIndexOf(":") + 1))]);
  /** @type {[string, number][]} */
  let known = [];
  try {
    known = [...new Map(JSON.parse(kept.get(widthsAt(project)) || "[]"))];
  } catch {
    // As if nothing were remembered.
  }
  return new Map(/** @type {[string, number][]} */ ([...known, ...said]).filter(([path, width]) => path && width > 0).map(([path, width]) => [path, bounded(width)]));
}

/** @param {string[]} columns @param {Widths} widths */
function keep(columns, widths) {
  const some = [...widths].slice(-MOST_KEPT);
  kept.set(widthsAt(read().project), some.length ? JSON.stringify(some) : "");
  const said = some.filter(([path]) => columns.includes(path)).map((one) => one.join(":"));
  write({ widths: said.join().length <= SHORT ? said : [] });
}

/** Give columns their widths and the pinned ones their places. @param {any} row @param {string[]} columns @param {Widths} widths */
function paint(row, columns, widths) {
  const wide = (/** @type {any} */ cell) => cell.getBoundingClientRect().width;
  const pins = read().pins;
  // Only what is pinned is measured: the table would be laid out at once.
  const most = pins.length ? COVERED * row.closest(".sheet").clientWidth : 0;
  let left = pins.length ? wide(row.cells[0]) + wide(row.cells[1]) : 0;
  const rules = columns.map((path, n) => {
    const at = `:nth-child(${n + BEFORE + 1})`;
    const width = widths.get(path);
    let text = width ? `.runs.narrowed.narrowed tr > ${at} { width: ${width}px; min-width: ${width}px; max-width: ${width}px; overflow: hidden; }\n` : "";
    const own = pins.includes(path) ? width ?? wide(row.cells[n + BEFORE]) : Infinity;
    if (left + own <= most) {
      text += `.narrowed :where(tbody tr) > ${at} { position: sticky; left: ${left}px; z-index: 2; background: var(--bg); }
.runs :where(thead tr) > ${at} { left: ${left}px; z-index: 4; }
.narrowed tr > ${at} { border-right: 1px solid var(--line); }\n`;
      left += own;
    }
    return text;
  });
  const text = `${STYLE}\n@media (min-width: 701px) {\n${rules.join("")}}`;
  if (text !== painted) sheet.replaceSync((painted = text));
}

/** Whether a pinned column can stay in its place beside the others. @param {any} head @param {string[]} columns @param {string} path */
function hasRoom(head, columns, path) {
  const { pins } = read();
  const cells = [...head.parentElement.cells].filter((cell, n) => n < 2 || cell === head || (columns[n - BEFORE] !== path && pins.includes(columns[n - BEFORE])));
  return cells.reduce((sum, cell) => sum + cell.getBoundingClientRect().width, 0) <= COVERED * head.closest(".sheet").clientWidth;
}

/** The columns as the address has them, since keys may be pressed faster than the page is drawn. @param {string[]} columns */
function now(columns) {
  const { cols, pins } = read();
  const all = cols.length ? cols.filter((one) => one !== "sys/name" && one !== "sys/state") : columns;
  return { all, pins: pins.filter((one) => all.includes(one)) };
}

/** @param {string[]} all @param {string[]} pins */
function order(all, pins) {
  const others = read().cols.filter((one) => one === "sys/name" || one === "sys/state");
  write({ cols: [...others, ...all.filter((one) => pins.includes(one)), ...all.filter((one) => !pins.includes(one))], pins });
}

/**
 * Move a column. Between pinned columns it becomes one of them, behind others it is one no longer.
 * @param {string[]} columns @param {string} path @param {number} to its place among the others
 * @param {boolean} [pin] whether it is pinned, wherever it is put
 */
function move(columns, path, to, pin) {
  const { all, pins } = now(columns);
  const others = all.filter((one) => one !== path);
  const first = others.filter((one) => pins.includes(one)).length;
  const isPinned = pin ?? (pins.includes(path) ? to <= first : to < first);
  const at = Math.max(0, Math.min(others.length, to));
  focused = document.activeElement;
  order([...others.slice(0, at), path, ...others.slice(at)], [...pins.filter((one) => one !== path), ...(isPinned ? [path] : [])]);
  status.textContent = `${titleOf(path)}: column ${at + 1} of ${all.length}${isPinned ? ", pinned" : ""}`;
}

/**
 * Follow the pointer until it is lifted; Escape ends it, too.
 * @param {(now: PointerEvent) => void} moved @param {(done: boolean) => void} ended
 */
function follow(moved, ended) {
  const abort = new AbortController();
  const options = { signal: abort.signal, capture: true };
  const end = (/** @type {boolean} */ done) => {
    abort.abort();
    ended(done);
  };
  addEventListener("pointermove", moved, options);
  addEventListener("pointerup", () => end(true), options);
  addEventListener("pointercancel", () => end(false), options);
  addEventListener("keydown", (pressed) => {
    if (pressed.key !== "Escape") return;
    pressed.stopPropagation();
    end(false);
  }, options);
}

/** Drag a head to another place. @param {any} event @param {HTMLTableCellElement} head @param {string[]} columns @param {string} path */
function drag(event, head, columns, path) {
  if (event.button || event.pointerType === "touch" || event.target.closest(".menu, .grip")) return;
  const others = [.../** @type {any} */ (head.parentElement).cells].slice(BEFORE, BEFORE + columns.length).filter((one) => one !== head);
  const view = /** @type {HTMLElement} */ (head.closest(".sheet"));
  const edge = view.getBoundingClientRect();
  let to = -1;
  const mark = () => {
    head.classList.toggle("dragged", to >= 0);
    others.forEach((one, n) => {
      if (to === n) one.dataset.drop = "before";
      else if (to === others.length && n === to - 1) one.dataset.drop = "after";
      else delete one.dataset.drop;
    });
  };
  follow((now) => {
    if (to < 0 && Math.abs(now.clientX - event.clientX) < STILL) return;
    head.setPointerCapture(event.pointerId); // not before, as a click would be one of the head
    view.scrollLeft += now.clientX > edge.right - STEP ? STEP : now.clientX < edge.left + STEP ? -STEP : 0;
    to = others.findIndex((one) => now.clientX < one.getBoundingClientRect().left + one.clientWidth / 2);
    if (to < 0) to = others.length;
    mark();
  }, (done) => {
    const target = to;
    to = -1;
    mark();
    if (target < 0) return;
    // The click that follows sorts nothing.
    const stop = (/** @type {Event} */ click) => click.stopPropagation();
    head.addEventListener("click", stop, true);
    setTimeout(() => head.removeEventListener("click", stop, true));
    if (done) move(columns, path, target);
  });
}

/**
 * The menu and the handle of a head. That of the first column also gives all columns their widths.
 * @param {{path: string, columns: string[], view: View}} props
 */
export function Tools({ path, columns, view }) {
  const n = columns.indexOf(path);
  const ref = useRef(/** @type {any} */ (null));
  const head = () => /** @type {HTMLTableCellElement} */ (ref.current.parentElement);
  const title = titleOf(path);
  const size = (/** @type {number} */ width) => keep(columns, widthsOf(read()).set(path, bounded(width)));
  // Keys may be pressed faster than the table is painted.
  const wide = () => widthsOf(read()).get(path) ?? head().getBoundingClientRect().width;
  const step = (/** @type {number} */ by) => size(wide() + by);
  const fit = () => {
    const widths = widthsOf(read());
    widths.delete(path);
    paint(head().parentElement, columns, widths);
    const cells = [.../** @type {any} */ (head().closest("table")).rows].flatMap((row) => row.cells[n + BEFORE] ?? []);
    const most = Math.max(...cells.map((one) => one.scrollWidth));
    if (most > head().clientWidth) widths.set(path, bounded(most + 1));
    keep(columns, widths);
  };
  useLayoutEffect(() => {
    const own = head();
    own.setAttribute("aria-label", title);
    if (!own.contains(focused)) return;
    /** @type {HTMLElement} */ (focused).focus({ preventScroll: true });
    focused = null;
    own.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [n]);
  // Before the next press of a key or a button.
  useLayoutEffect(() => {
    const own = head();
    const ended = new AbortController();
    const keys = (/** @type {KeyboardEvent} */ event) => {
      if (event.target !== own.firstElementChild || event.ctrlKey || event.metaKey || event.altKey) return;
      const at = now(columns).all.indexOf(path);
      const does = /** @type {Record<string, () => void>} */ ({ "+": () => step(STEP), "-": () => step(-STEP) });
      if (event.shiftKey) Object.assign(does, { ArrowLeft: () => at > 0 && move(columns, path, at - 1), ArrowRight: () => move(columns, path, at + 1) });
      if (!does[event.key]) return;
      event.preventDefault();
      does[event.key]();
    };
    own.addEventListener("keydown", keys, ended);
    own.addEventListener("pointerdown", (event) => drag(event, own, columns, path), ended);
    return () => ended.abort();
  }, [columns]);
  const grip = (/** @type {any} */ event) => {
    if (event.button) return;
    event.preventDefault();
    event.currentTarget.setPointerCapture(event.pointerId);
    const [from, widths] = [wide(), widthsOf(read())];
    let width = 0;
    follow((now) => {
      width = bounded(from + now.clientX - event.clientX);
      paint(head().parentElement, columns, new Map(widths).set(path, width));
    }, (done) => {
      if (width && done) size(width);
      else paint(head().parentElement, columns, widths);
    });
  };
  const items = () => {
    const { all, pins } = now(columns);
    const first = all.filter((one) => one !== path && pins.includes(one)).length;
    const isPinned = pins.includes(path);
    const part = isPinned ? 0 : first;
    const room = hasRoom(head(), columns, path);
    const key = (/** @type {string} */ label, /** @type {string} */ one) => html`<span>${label}</span><small>${one}</small>`;
    return [
      { label: key("Move left", "Shift ←"), disabled: n === 0, onPick: () => move(columns, path, n - 1) },
      { label: key("Move right", "Shift →"), disabled: n === all.length - 1, onPick: () => move(columns, path, n + 1) },
      { label: "Move to the first place", disabled: n === part, onPick: () => move(columns, path, part, isPinned) },
      { label: isPinned ? "Unpin" : room ? "Pin to the left" : "Pin to the left: too little room", disabled: !isPinned && !room, onPick: () => move(columns, path, first, !isPinned) },
      { label: key("Wider", "+"), onPick: () => step(STEP) },
      { label: key("Narrower", "−"), onPick: () => step(-STEP) },
      { label: "Fit to its values", onPick: fit },
      { label: "Hide", disabled: all.length < 2, onPick: () => order(all.filter((one) => one !== path), pins.filter((one) => one !== path)) },
    ];
  };
  return html`<${Menu} className="more" label="⋯" title="Column ${title}" items=${items} />
    <span class="grip" ref=${ref} aria-hidden="true" title="Drag: the width; a double click fits it" onPointerDown=${grip} onDblClick=${fit}></span>
    ${n === 0 && html`<${Layout} columns=${columns} view=${view} of=${ref} />`}`;
}

/** Keeps the widths and the places of columns. @param {{columns: string[], view: View, of: {current: any}}} props */
function Layout({ columns, view, of }) {
  const again = () => paint(of.current.closest("tr"), columns, widthsOf(view));
  useLayoutEffect(again);
  // Other tables, which may have no tools yet, are as they are.
  useLayoutEffect(() => () => sheet.replaceSync((painted = "")), []);
  useEffect(() => {
    const observer = new ResizeObserver(again);
    for (const cell of of.current.closest("tr").cells) observer.observe(cell);
    observer.observe(of.current.closest(".sheet"));
    return () => observer.disconnect();
  }, [columns, view]);
  return null;
}

/**
 * The list of columns to choose from, in a menu.
 *
 * @typedef {{path: string, family: string, count: number, differing: boolean}} Field
 * @param {{api: Api, view: View, shown: string[], onChange: (cols: string[]) => void}} props
 */
export function Chooser({ api, view, shown, onChange }) {
  const focused = useFocused();
  const [text, setText] = useState("");
  const [differing, setDiffering] = useState(true);
  const { data, error, busy } = useAnswer(
    (signal) => api.read("fields", { project: view.project || null, query: queryOf(view.q) || null, unknown: "tell" }, { signal }),
    [api, view.project, view.q],
  );
  const fits = matcher(text);
  /** @type {Field[]} */
  const fields = (data ?? []).filter((/** @type {Field} */ one) => fits(one.path));
  const others = shown.filter((path) => !fields.some((one) => one.path === path) && fits(path));
  const found = [...others.map((path) => ({ path, family: "", count: 0 })), ...fields.filter((one) => !differing || one.differing || shown.includes(one.path))];
  // Those that are shown come first, in their order.
  const places = new Map(shown.map((path, n) => [path, n]));
  found.sort((a, b) => (places.get(a.path) ?? shown.length) - (places.get(b.path) ?? shown.length));
  const full = shown.length >= MOST_COLUMNS;
  const toggle = (/** @type {string} */ path) =>
    onChange(shown.includes(path) ? shown.filter((one) => one !== path) : [...shown, path]);
  const numeric = ["float_series", "statistic"];
  return html`<div class="pad">
    <${Filter} own=${focused} hint="Words, * or /…/" label="Filter columns" value=${text} onText=${setText} />
    <${Check} on=${differing} onCheck=${setDiffering}> Only those that differ<//>
    <div class="pick" role="group" aria-label="Columns">
      ${found.slice(0, 200).map((one) => {
        const on = shown.includes(one.path);
        return html`<${Check} key=${one.path} on=${on} disabled=${full && !on} onCheck=${() => toggle(one.path)}>
          <bdi>${titleOf(one.path) === one.path ? one.path : `${titleOf(one.path)} (${one.path})`}</bdi>${view.pins.includes(one.path) && " (pinned)"}
          ${one.count > 0 && html`<small>${count(one.count, "run")}</small>`}
          ${numeric.includes(one.family) &&
          html`<span class="aggregates">${["min", "max"].map((word) => {
            const path = `${one.path}:${word}`;
            return html`<button type="button" aria-pressed=${String(shown.includes(path))}
              disabled=${full && !shown.includes(path)} title=${path}
              onClick=${() => toggle(path)}>${word}</button>`;
          })}</span>`}
        <//>`;
      })}
      ${found.length > 200 && html`<p class="muted">${number(found.length - 200)} more: type to filter.</p>`}
      ${!found.length && html`<p class="muted">${busy ? "Looking …" : error ? String(error.hint) : fields.length ? `None that differs: take the tick away to see ${fields.length} more.` : "None."}</p>`}
    </div>
    <div class="row"><small class="grow">${shown.length} of at most ${MOST_COLUMNS}</small>
      <button type="button" onClick=${() => onChange([])}>As at first</button></div>
  </div>`;
}

/**
 * Save a table as CSV.
 * @param {Api} api
 * @param {View} view
 * @param {string[]} columns
 * @param {Ref[] | null} refs of which runs; null: all that match
 * @returns {Promise<{saved: number, total: number}>}
 */
export async function saveTable(api, view, columns, refs) {
  const project = view.project;
  const asked = [...new Set([...ALWAYS, ...columns])];
  const of = refs ? { project: project || null, id: refs.map((one) => one[1]), trashed: null, sort_by: view.sort, ascending: view.ascending, unknown: "tell" } : which(view);
  const made = tableOf(await api.read("table", { ...of, columns: asked, limit: CSV_MOST }), "");
  const lines = made.rows.map((row) => [row.ref[0], row.ref[1], ...asked.map((one) => row.values.get(one))]);
  download(`${(project || "runs").replaceAll("/", "-")}.csv`, csvOf([["project", "run", ...asked], ...lines], "\r\n"), "text/csv;charset=utf-8");
  return { saved: made.rows.length, total: made.total };
}
