// @ts-check
/** The menu of charts that chooses how curves are smoothed. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { write } from "./address.js";
import { short } from "./format.js";

/** Widths to choose from: 0, 1, 2, 5, 10 and so on. @param {number} at */
function niceWidth(at) {
  return at <= 0 ? 0 : [1, 2, 5][(at - 1) % 3] * 10 ** Math.floor((at - 1) / 3);
}

/** @param {number} width */
function niceAt(width) {
  for (let at = 0; at <= 21; at++) if (niceWidth(at) >= width) return at;
  return 21;
}

/** @param {{view: import("./address.js").View, unit: string, axis: string}} props */
export function Smoothing({ view, unit, axis }) {
  const kind = view.ema > 0 ? "ema" : "mean";
  const width = view.ema > 0 ? view.ema : view.smooth;
  const [shown, setShown] = useState(width);
  const [of, setOf] = useState(kind);
  const range = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => range.current?.focus(), []);
  useEffect(() => {
    setShown(width);
    if (width) setOf(kind);
  }, [width, kind]);
  const smooth = (/** @type {number} */ value, /** @type {string} */ how) => write(how === "ema" ? { ema: value, smooth: 0 } : { smooth: value, ema: 0 });
  const timer = useRef(0);
  const later = (/** @type {number} */ value) => {
    setShown(value);
    clearTimeout(timer.current);
    timer.current = /** @type {any} */ (setTimeout(() => smooth(value, of), 150));
  };
  return html`<div class="pad smooth"><label>width <input type="range" min="0" max="21" step="1" ref=${range} value=${niceAt(shown)} aria-valuetext=${shown ? `${short(shown)} ${unit}` : "off"}
      title="Wide window: calmer line; what was recorded stays behind it" onInput=${(/** @type {any} */ event) => later(niceWidth(Number(event.target.value)))} /></label>
    <select aria-label="Kind of smoothing" value=${of} onChange=${(/** @type {any} */ event) => { setOf(event.target.value); if (shown) smooth(shown, event.target.value); }}>
      <option value="mean">mean of</option><option value="ema">half-life</option></select>
    <input type="number" class="charts-width" min="0" step="any" aria-label=${`Width in ${unit || axis}`} value=${shown || ""} placeholder="off" onChange=${(/** @type {any} */ event) => later(Math.max(0, Number(event.target.value) || 0))} /> ${unit}</div>`;
}
