// @ts-check
/** Two panes with a handle between them; on a phone, one of them at a time. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { read, write } from "./address.js";
import { TabList, kept } from "./components.js";

/** Below this width, the panes are above each other. */
const BESIDE = 1100;
/** The height of what is above the panes. */
const ABOVE = 88;
const STEP = 16;

/** A hook that returns the size of the window. */
function useWindow() {
  const [size, setSize] = useState({ width: innerWidth, height: innerHeight });
  useEffect(() => {
    const changed = () => setSize({ width: innerWidth, height: innerHeight });
    addEventListener("resize", changed);
    return () => removeEventListener("resize", changed);
  }, []);
  return size;
}

/** What scrolls by itself: the table and the charts. */
const SCROLLED = ".left > .sheet, .right";
/** How long it is waited for what was scrolled to. */
const PATIENT_MS = 30_000;
/** How often it is looked for, and how often it must be there. */
const [LOOK_MS, STILL] = [60, 5];
let restoring = 0;

/** Scroll the panes to where they were at this place of the history, once they are as long as then. */
function restore() {
  /** @type {number[] | undefined} */
  const tops = history.state?.tops;
  const latest = Date.now() + PATIENT_MS;
  let still = 0;
  stay();
  const step = () => {
    const some = document.querySelectorAll(SCROLLED);
    some.forEach((one, n) => one.scrollTo({ top: tops?.[n] }));
    // A table of another order begins at its top when it comes.
    still = tops?.every((top, n) => Math.abs(some[n]?.scrollTop - top) < 2) ? still + 1 : 0;
    restoring = still > STILL || Date.now() > latest ? 0 : setTimeout(step, LOOK_MS);
  };
  if (tops) step();
}

/** Stay where it is scrolled to. */
function stay() {
  clearTimeout(restoring);
  restoring = 0;
}

addEventListener("popstate", restore);
for (const kind of ["wheel", "keydown", "pointerdown"]) addEventListener(kind, stay, true);
addEventListener("scrollend", (/** @type {any} */ { target }) => {
  if (restoring || !target.matches?.(SCROLLED)) return;
  history.replaceState({ ...history.state, tops: Array.from(document.querySelectorAll(SCROLLED), (one) => one.scrollTop) }, "");
}, true);

/**
 * The panes of runs and charts.
 * @param {{name: string, left: any, right: any}} props `name`: whose size of the panes is remembered
 */
export function Split({ name, left, right }) {
  const { width, height } = useWindow();
  const [tab, setTab] = useState("Runs");
  const beside = width >= BESIDE;
  if (width <= 700 || (!beside && height <= 500)) return html`<${Tabs} tab=${tab} onTab=${setTab} left=${left} right=${right} />`;
  const whole = beside ? width : height - ABOVE;
  const usual = beside ? Math.min(640, Math.round(0.3667 * whole)) : Math.round(0.45 * whole);
  return html`<${Panes} key=${`${beside}:${name}`} place=${`seamark:split:${beside ? "" : "rows:"}${name}`} beside=${beside} left=${left} right=${right}
    least=${beside ? 320 : 120} whole=${whole} usual=${usual} />`;
}

/**
 * @param {{place: string, beside: boolean, left: any, right: any, least: number, whole: number, usual: number}} props
 */
function Panes({ place, beside, left, right, least, whole, usual }) {
  const most = Math.round(0.7 * whole);
  const [dragged, setDragged] = useState(0);
  const given = dragged || (beside && (read().split * whole) / 100) || Number(kept.get(place));
  const bounded = (/** @type {number} */ size) => Math.round(Math.max(least, Math.min(most, size)));
  const size = bounded(given || usual);
  const keep = (/** @type {number} */ to) => {
    const next = to && bounded(to);
    setDragged(0);
    kept.set(place, next ? String(next) : "");
    write(beside ? { split: Math.round((1e4 * next) / whole) / 100 } : {});
  };
  const at = (/** @type {PointerEvent} */ event) => (beside ? event.clientX : event.clientY);
  const pressed = (/** @type {any} */ event) => {
    if (event.button) return;
    const handle = event.currentTarget;
    const from = size - at(event);
    handle.setPointerCapture(event.pointerId);
    const moved = (/** @type {PointerEvent} */ now) => setDragged(bounded(from + at(now)));
    const ended = (/** @type {PointerEvent} */ now) => {
      handle.removeEventListener("pointermove", moved);
      for (const kind of ["pointerup", "pointercancel"]) handle.removeEventListener(kind, ended);
      if (at(now) !== at(event)) keep(from + at(now));
    };
    handle.addEventListener("pointermove", moved);
    for (const kind of ["pointerup", "pointercancel"]) handle.addEventListener(kind, ended);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const by = /** @type {Record<string, number>} */ (beside ? { ArrowLeft: -STEP, ArrowRight: STEP } : { ArrowUp: -STEP, ArrowDown: STEP })[event.key];
    const to = by ? size + by : { Home: least, End: most }[event.key];
    if (!to) return;
    event.preventDefault();
    keep(to);
  };
  useEffect(restore, []);
  return html`<div class="split ${beside ? "beside" : "above"}" style=${{ [beside ? "--left" : "--upper"]: `${size}px` }}>
    <section class="left" id="runs" aria-label="Runs">${left}</section>
    <div class="handle" role="separator" tabindex="0" aria-orientation=${beside ? "vertical" : "horizontal"} aria-controls="runs" aria-label="Size of the table"
      aria-valuemin=${least} aria-valuemax=${most} aria-valuenow=${size} aria-valuetext="${size} pixels" title="Drag, or press arrow keys; a double click makes it as at first"
      onPointerDown=${pressed} onKeyDown=${keys} onDblClick=${() => keep(0)}></div>
    <div class="right">${right}</div>
  </div>`;
}

/** @param {{tab: string, onTab: (tab: string) => void, left: any, right: any}} props */
function Tabs({ tab, onTab, left, right }) {
  return html`<div class="split phone">
    <section class="left" id="panel-Runs" role="tabpanel" aria-labelledby="pane-Runs" hidden=${tab !== "Runs"}>${left}</section>
    ${tab === "Charts" && html`<div class="right" id="panel-Charts" role="tabpanel" aria-labelledby="pane-Charts">${right}</div>`}
    <${TabList} class="panes" label="Runs or charts" id="pane" panel="panel-${tab}" tabs=${[["Runs", "Runs"], ["Charts", "Charts"]]} now=${tab} onTab=${onTab} />
  </div>`;
}
