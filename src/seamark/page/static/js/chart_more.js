// @ts-check
/** What of a chart is loaded when it is first asked for: its menu, its table, CSV and PNG. */

import { html } from "../vendor/preact.js";
import { aligned, axisName, counted, exact, inOrder, place, variable } from "./chart.js";

/** @typedef {import("./chart.js").Line} Line */
/** @typedef {import("./chart.js").Range} Range */

const MOST_ROWS = 500;

/**
 * @typedef {object} Menu
 * @property {string} title
 * @property {boolean} asTable
 * @property {() => void} onTable
 * @property {() => {lines: Line[], axis: string, canvas: HTMLCanvasElement | undefined, colour: (line: Line, looked: string) => string}} drawn
 * @property {boolean} zoomed
 * @property {() => void} onZoomOut
 * @property {string[]} known
 * @property {(path: string) => void} onAdd
 * @property {(() => void) | undefined} onRemove
 * @property {(call: () => void) => () => void} pick closes the menu, too
 */

/** @param {Menu} props */
export function MenuList({ title, asTable, onTable, drawn, zoomed, onZoomOut, known, onAdd, onRemove, pick }) {
  return html`<div class="chart-menu-list" role="group" aria-label=${`More of ${title}`}>
    <button type="button" onClick=${pick(onTable)}>${asTable ? "As picture" : "As table"} <kbd>t</kbd></button>
    ${zoomed && html`<button type="button" onClick=${pick(onZoomOut)}>Zoom out <kbd>r</kbd></button>`}
    <button type="button" disabled=${asTable} onClick=${pick(() => savePng(drawn(), title))}>Save as PNG</button>
    <button type="button" onClick=${pick(() => saveCsv(drawn(), title))}>Save as CSV</button>
    ${onRemove && html`<button type="button" onClick=${pick(onRemove)}>Remove this chart</button>`}
    ${known.length > 0 && html`<label>Draw in the same chart
      <select onChange=${(/** @type {any} */ event) => {
        const path = event.target.value;
        if (path) pick(() => onAdd(path))();
      }}><option value="">a series …</option>${known.map((path) => html`<option key=${path} value=${path}>${path}</option>`)}</select></label>`}
  </div>`;
}

/**
 * @param {{lines: Line[], axis: string, zoom: Range | null, height: number, onClose: () => void}} props
 */
export function PointsTable({ lines, axis, zoom, height, onClose }) {
  const sorted = lines.map((line) => ({ ...line, parts: inOrder(line.parts) }));
  const [xs, ...columns] = aligned(sorted, false);
  const within = (/** @type {number} */ x) => !zoom || (x >= zoom.low && x <= zoom.high);
  const rows = [];
  let left = 0;
  for (let at = 0; at < xs.length; at++) {
    if (!within(xs[at])) continue;
    if (rows.length < MOST_ROWS) rows.push(at);
    else left++;
  }
  return html`<div class="chart-table" tabindex="0" role="region" aria-label="Values" style=${{ height: `${height}px` }}
    onKeyDown=${(/** @type {KeyboardEvent} */ event) => { if (event.key === "t" || event.key === "Escape") { event.stopPropagation(); onClose(); } }}>
    <table><thead><tr><th scope="col">${axisName(axis)}</th>${sorted.map((line) => html`<th key=${line.key} scope="col">${line.name}</th>`)}</tr></thead>
    <tbody>${rows.map((at) => html`<tr key=${at}><th scope="row">${place(xs[at], axis)}</th>${columns.map((column, number) => html`<td key=${number}>${column[at] === undefined ? "" : column[at] === null ? "not finite" : exact(/** @type {number} */ (column[at]))}</td>`)}</tr>`)}</tbody></table>
    ${left > 0 && html`<p>${counted(left, "further row")}: zoom in, or save as CSV</p>`}
  </div>`;
}

/**
 * @param {readonly Line[]} lines
 * @param {string} axis
 */
export function csvOf(lines, axis) {
  const cell = (/** @type {string | number} */ value) => {
    if (typeof value === "number") return Number.isNaN(value) ? "nan" : Number.isFinite(value) ? String(value) : value > 0 ? "inf" : "-inf";
    const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const smooth = lines.some((line) => line.parts.smooth);
  const rows = [["run", "name", "path", axis, ...(smooth ? ["smoothed"] : []), "mean", "min", "max", "count", "nan", "inf"].map(cell).join(",")];
  for (const { run, name, path, parts } of lines) {
    for (let at = 0; at < parts.x.length; at++) {
      const line = smooth ? [parts.line[at]] : [];
      rows.push([run, name, path, parts.x[at], ...line, parts.mean[at], parts.min[at], parts.max[at], parts.count[at], parts.nan[at], parts.inf[at]].map(cell).join(","));
    }
  }
  return `${rows.join("\n")}\n`;
}

/** @param {Blob} blob @param {string} name */
function saveBlob(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name.replaceAll(/[/\\]/g, "_");
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** @param {{lines: Line[], axis: string}} drawn @param {string} title */
function saveCsv({ lines, axis }, title) {
  saveBlob(new Blob([csvOf(lines, axis)], { type: "text/csv" }), `${title}.csv`);
}

/**
 * @param {ReturnType<Menu["drawn"]>} drawn
 * @param {string} title
 */
function savePng({ lines, axis, canvas: from, colour }, title) {
  if (!from) return;
  const ratio = devicePixelRatio;
  const named = lines.slice(0, 24);
  const canvas = document.createElement("canvas");
  canvas.width = from.width + 24 * ratio;
  canvas.height = from.height + (40 + 18 * named.length + 26) * ratio;
  const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ctx.scale(ratio, ratio);
  const fore = variable("--fg", "#111");
  ctx.fillStyle = variable("--bg", "#fff");
  ctx.fillRect(0, 0, canvas.width, canvas.height);
  ctx.fillStyle = fore;
  ctx.font = "600 15px system-ui, sans-serif";
  ctx.fillText(title, 12, 24);
  ctx.drawImage(from, 12, 34, from.width / ratio, from.height / ratio);
  ctx.font = "12px system-ui, sans-serif";
  let y = 34 + from.height / ratio + 16;
  ctx.textAlign = "center";
  ctx.fillText(axisName(axis), canvas.width / ratio / 2, y);
  ctx.textAlign = "left";
  for (const line of named) {
    y += 18;
    ctx.strokeStyle = colour(line, "");
    ctx.lineWidth = 3;
    ctx.setLineDash(line.dash);
    ctx.beginPath();
    ctx.moveTo(14, y - 4);
    ctx.lineTo(38, y - 4);
    ctx.stroke();
    ctx.fillText(line.name, 46, y);
  }
  canvas.toBlob((blob) => blob && saveBlob(blob, `${title}.png`), "image/png");
}
