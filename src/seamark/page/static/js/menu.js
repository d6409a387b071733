// @ts-check
/** The menu of a chart: its values as a table, and as CSV, PNG and SVG files. */

import { html, useEffect, useMemo, useRef } from "../vendor/preact.js";
import { csvOf, download } from "./copies.js";
import { axisName, count, place, precise } from "./format.js";
import { aligned, inOrder } from "./lines.js";

/** @typedef {import("./lines.js").Line} Line */
/** @typedef {import("./lines.js").Range} Range */
/** @typedef {{lines: Line[], axis: string, root: HTMLElement | null, colour: (line: Line, highlighted: string) => string}} Drawn */

const MOST_ROWS = 500;
/** The most lines that a picture names. */
const MOST_NAMED = 24;

/**
 * @param {{title: string, asTable: boolean, onTable: () => void, drawn: () => Drawn, zoomed: boolean, onZoomOut: () => void,
 *   known?: () => string[], onAdd: (path: string) => void, onRemove?: () => void, pick: (call: () => void) => () => void}} props
 *   `pick` closes the menu, too
 */
export function MenuList({ title, asTable, onTable, drawn, zoomed, onZoomOut, known: others, onAdd, onRemove, pick }) {
  const known = useMemo(() => others?.() ?? [], []);
  return html`<div class="chart-menu-list" role="group" aria-label=${`More of ${title}`}>
    <button type="button" onClick=${pick(onTable)}>${asTable ? "As picture" : "As table"} <kbd>t</kbd></button>
    ${zoomed && html`<button type="button" onClick=${pick(onZoomOut)}>Zoom out <kbd>r</kbd></button>`}
    <button type="button" disabled=${asTable} onClick=${pick(() => savePicture(drawn(), title, "png"))}>Save as PNG</button>
    <button type="button" disabled=${asTable} onClick=${pick(() => savePicture(drawn(), title, "svg"))}>Save as SVG</button>
    <button type="button" onClick=${pick(() => saveCsv(drawn(), title))}>Save as CSV</button>
    ${onRemove && html`<button type="button" onClick=${pick(onRemove)}>Remove this chart</button>`}
    ${known.length > 0 && html`<label>Draw in the same chart
      <select onChange=${(/** @type {any} */ event) => {
        const path = event.target.value;
        if (path) pick(() => onAdd(path))();
      }}><option value="">a series …</option>${known.map((path) => html`<option key=${path} value=${path}>${path}</option>`)}</select></label>`}
  </div>`;
}

/** @param {{lines: Line[], axis: string, zoom: Range | null, height: number, onClose: () => void}} props */
export function PointsTable({ lines, axis, zoom, height, onClose }) {
  const sorted = lines.map((line) => ({ ...line, parts: inOrder(line.parts) }));
  const [xs, ...columns] = aligned(sorted, false);
  const within = Array.from(xs.keys()).filter((at) => !zoom || (xs[at] >= zoom.low && xs[at] <= zoom.high));
  const left = within.length - MOST_ROWS;
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  // The focus goes from the picture to the table that replaces it, and back.
  useEffect(() => {
    const chart = box.current?.closest(".chart");
    const lost = () => document.activeElement === document.body;
    const take = (/** @type {Element | null | undefined} */ next) => /** @type {HTMLElement | null} */ (next)?.focus({ preventScroll: true });
    if (lost()) take(box.current);
    return () => {
      if (box.current?.contains(document.activeElement)) setTimeout(() => lost() && take(chart?.querySelector(".chart-canvas")));
    };
  }, []);
  const text = (/** @type {number | null | undefined} */ one) => (one === undefined ? "" : one === null ? "not finite" : precise(one));
  return html`<div class="chart-table" tabindex="0" role="region" aria-label="Values" ref=${box} style=${{ height: `${height}px` }}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === "t" || event.key === "Escape") { event.stopPropagation(); onClose(); } }}>
    <table><thead><tr><th scope="col">${axisName(axis)}</th>${sorted.map((line) => html`<th key=${line.key} scope="col">${line.name}</th>`)}</tr></thead>
    <tbody>${within.slice(0, MOST_ROWS).map((at) => html`<tr key=${at}><th scope="row">${place(xs[at], axis)}</th>${columns.map((column, number) => html`<td key=${number}>${text(column[at])}</td>`)}</tr>`)}</tbody></table>
    ${left > 0 && html`<p>${count(left, "further row")}: zoom in, or save as CSV</p>`}
  </div>`;
}

/** @param {Drawn} drawn @param {string} title */
function saveCsv({ lines, axis }, title) {
  const smooth = lines.some((line) => line.parts.smooth);
  /** @type {(string | number)[][]} */
  const rows = [["run", "name", "path", axis, ...(smooth ? ["smoothed"] : []), "mean", "min", "max", "count", "nan", "inf"]];
  for (const { run, name, path, parts } of lines) {
    const columns = [parts.x, ...(smooth ? [parts.line] : []), parts.mean, parts.min, parts.max, parts.count, parts.nan, parts.inf];
    for (let at = 0; at < parts.x.length; at++) rows.push([run, name, path, ...columns.map((column) => column[at])]);
  }
  download(`${title}.csv`, `${csvOf(rows, "\n")}\n`, "text/csv");
}

/** @param {Drawn} drawn @param {string} title @param {"png" | "svg"} kind */
async function savePicture({ lines, axis, root, colour }, title, kind) {
  const { cardOf, inksOf, pictureOf, pngOf } = await import("./svg.js");
  if (!root) return;
  const inks = inksOf();
  const ink = (/** @type {string} */ hex) => inks.get(hex)?.light ?? hex;
  const keys = lines.slice(0, MOST_NAMED).map((line) => ({ name: line.name, colour: colour(line, ""), dash: line.dash }));
  const picture = pictureOf({ title, facts: [`x: ${axisName(axis)}`], keys, heads: [], cards: [cardOf(root, ink)] }, ink);
  download(`${title}.${kind}`, kind === "svg" ? picture.svg : await pngOf(picture), "image/svg+xml");
}
