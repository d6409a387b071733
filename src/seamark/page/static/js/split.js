// @ts-check
/** Two panes with a handle between them; on a phone, one of them at a time. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { kept } from "./components.js";

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
    least=${beside ? 320 : 120} most=${Math.round(0.7 * whole)} usual=${usual} />`;
}

/**
 * @param {{place: string, beside: boolean, left: any, right: any, least: number, most: number, usual: number}} props
 */
function Panes({ place, beside, left, right, least, most, usual }) {
  const [given, setGiven] = useState(Number(kept.get(place)) || 0);
  const bounded = (/** @type {number} */ size) => Math.round(Math.max(least, Math.min(most, size)));
  const size = bounded(given || usual);
  const keep = (/** @type {number} */ to) => {
    setGiven(to && bounded(to));
    kept.set(place, to ? String(bounded(to)) : "");
  };
  const at = (/** @type {PointerEvent} */ event) => (beside ? event.clientX : event.clientY);
  const pressed = (/** @type {any} */ event) => {
    if (event.button) return;
    const handle = event.currentTarget;
    const from = size - at(event);
    handle.setPointerCapture(event.pointerId);
    const moved = (/** @type {PointerEvent} */ now) => setGiven(bounded(from + at(now)));
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
  const keys = (/** @type {any} */ event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    onTab(tab === "Runs" ? "Charts" : "Runs");
    (event.target.previousElementSibling ?? event.target.nextElementSibling).focus();
  };
  return html`<div class="split phone">
    <section class="left" id="panel-Runs" role="tabpanel" aria-labelledby="pane-Runs" hidden=${tab !== "Runs"}>${left}</section>
    ${tab === "Charts" && html`<div class="right" id="panel-Charts" role="tabpanel" aria-labelledby="pane-Charts">${right}</div>`}
    <div class="panes" role="tablist" aria-label="Runs or charts" onKeyDown=${keys}>
      ${["Runs", "Charts"].map((one) => html`<button type="button" key=${one} role="tab" id="pane-${one}" aria-selected=${String(one === tab)} aria-controls=${one === tab ? `panel-${one}` : undefined}
        tabindex=${one === tab ? 0 : -1} onClick=${() => onTab(one)}>${one}</button>`)}
    </div>
  </div>`;
}
