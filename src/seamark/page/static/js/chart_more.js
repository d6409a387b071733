// @ts-check
/**
 * What of a chart is loaded when it is first asked for: its menu, its table, CSV and PNG, the exact
 * points of a part, curves of groups, and where runs were resumed.
 */

import { html } from "../vendor/preact.js";
import { runPath } from "./api.js";
import { aligned, axisName, counted, exact, floats, inOrder, isWide, nearestPart, partsOf, place, variable } from "./chart.js";

/** @typedef {import("./chart.js").Line} Line */
/** @typedef {import("./chart.js").Parts} Parts */
/** @typedef {import("./chart.js").Row} Row */
/** @typedef {import("./chart.js").RunRef} RunRef */
/** @typedef {import("./chart.js").Range} Range */

const MOST_ROWS = 500;
const MOST_SEARCHED = 20_000;
/** How long the pointer rests before points are asked for. */
const REST_MS = 100;
/** In one answer: of more points parts come, of which the nearest is asked for again. */
const POINTS = 1000;
const MOST_ROUNDS = 6;

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

// ---------------------------------------------------------------------- exact points

/**
 * The points nearest to where somebody points, of parts that have several: read once the pointer
 * rests, for all lines of a chart at once, one request at a time.
 */
export class Closer {
  /** @param {any} drawn the chart; is told anew when its points are there */
  constructor(drawn) {
    this.drawn = drawn;
    /** What was read, by line. @type {Map<string, {parts: Parts, low: number, high: number}>} */
    this.read = new Map();
    this.timer = 0;
    /** @type {AbortController | null} */
    this.abort = null;
    /** What is asked for, or was in vain. */
    this.asked = "";
  }

  /**
   * @param {Line} line
   * @param {number} x
   * @returns {{parts: Parts, at: number} | undefined} the nearest point, if it was read
   */
  near({ key }, x) {
    const found = this.read.get(key);
    if (!found) return undefined;
    const { parts, low, high } = found;
    const at = nearestPart(parts, x);
    if (at < 0 || parts.count[at] > 1) return undefined;
    // As far to the other side nothing may be unread that lies nearer.
    const away = Math.abs(parts.x[at] - x);
    return x - away >= low && x + away <= high ? { parts, at } : undefined;
  }

  /** @param {number} x @param {readonly Row[]} rows */
  seek(x, rows) {
    const lines = rows.filter((row) => isWide(row.line, row.at) && !row.near).map((row) => row.line);
    const asked = JSON.stringify([x, lines.map((line) => line.key)]);
    if (asked === this.asked) return;
    this.stop();
    this.asked = asked;
    if (lines.length) this.timer = setTimeout(() => this.load(x, lines).catch(() => undefined), REST_MS);
  }

  stop() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.abort = null;
    this.asked = "";
  }

  /** The lines have changed. */
  forget() {
    this.stop();
    this.read.clear();
  }

  /** @param {number} x @param {Line[]} lines */
  async load(x, lines) {
    const { api, axis, whole } = this.drawn.how;
    const abort = new AbortController();
    this.abort = abort;
    /** @type {[Line, Parts][]} */
    let left = lines.map((line) => [line, line.parts]);
    for (let round = 0; left.length && round < MOST_ROUNDS; round++) {
      // The middle of a part is a point: none that is farther away is the nearest.
      const away = Math.max(...left.map(([, parts]) => Math.abs(parts.x[nearestPart(parts, x)] - x)));
      const reach = away * (1 + 1e-9) + Math.abs(x) * 1e-15;
      const [low, high] = [x - reach, x + reach];
      const refs = [...new Map(left.map(([line]) => [line.run, [line.project, line.run]])).values()];
      const paths = [...new Set(left.map(([line]) => line.path))];
      const body = { refs, paths, px: POINTS, x: axis, low, high, ...(whole ? { attempt: "all" } : {}) };
      const { curves } = await api.post("curves", body, { signal: abort.signal });
      if (abort.signal.aborted) return;
      /** @type {[Line, Parts][]} */
      const again = [];
      for (const [line] of left) {
        const curve = curves.find((/** @type {any} */ one) => one.project === line.project && one.run === line.run && one.path === line.path);
        if (!curve || curve.drawing.kept) continue;
        const parts = inOrder(partsOf(curve.drawing));
        this.read.set(line.key, { parts, low, high });
        if (parts.x.length && !this.near(line, x) && parts.count[nearestPart(parts, x)] > 1) again.push([line, parts]);
      }
      left = again;
    }
    this.abort = null;
    const { place: told } = this.drawn;
    if (told) this.drawn.tell(...told);
  }
}

// ---------------------------------------------------------------------- groups, and attempts

/**
 * What group curves are drawn as: the band is one standard deviation to each side.
 * @param {any} group
 * @returns {Parts}
 */
function partsOfGroup(group) {
  const mean = floats(group.mean);
  const std = floats(group.std);
  const spread = std.map((one) => (Number.isFinite(one) ? one : 0));
  const none = new Float64Array(mean.length);
  return {
    width: Number(group.width), x: floats(group.x), line: mean, mean,
    min: mean.map((one, at) => one - spread[at]), max: mean.map((one, at) => one + spread[at]),
    count: floats(group.n), nan: none, inf: none, plus: new Float64Array(0),
    minus: new Float64Array(0), smooth: false, leftOut: 0, notPositive: 0, falls: false,
  };
}

/**
 * Of a group the line is dashed where runs are missing: two lines that meet.
 * @param {Line} line
 * @param {number} of
 * @returns {Line[]}
 */
export function ofGroup(line, of) {
  const { parts } = line;
  const size = parts.count.length;
  const full = Float64Array.from(parts.line);
  const less = Float64Array.from(parts.line);
  let some = false;
  for (let at = 0; at < size; at++) {
    if (parts.count[at] < of) {
      some = true;
      full[at] = NaN;
    } else if (!(at + 1 < size && parts.count[at + 1] < of) && !(at > 0 && parts.count[at - 1] < of)) less[at] = NaN;
  }
  const whole = { ...line, of };
  if (!some) return [whole];
  const behind = { ...line, of, key: `${line.key}less`, dash: [5, 4], parts: { ...parts, line: less } };
  return [{ ...whole, parts: { ...parts, line: full } }, behind];
}

/**
 * @param {any} api
 * @param {{by: Record<string, any>, label: string, refs: [string, string][]}[]} groups
 * @param {readonly string[]} paths
 * @param {Record<string, any>} look
 * @param {AbortSignal} signal
 * @returns {Promise<Map<string, {parts: Parts, cursor: string}>>} by what a chart keeps them by
 */
export async function groupCurves(api, groups, paths, look, signal) {
  const body = { groups: groups.map((one) => ({ by: one.by, refs: one.refs })), paths, ...look };
  const answer = await api.post("curves/groups", body, { signal });
  const found = new Map();
  for (const one of answer.groups) {
    const own = groups.find((each) => sameBy(each.by, one.by));
    if (own) found.set(`${own.label}\n${one.path}\n`, { parts: partsOfGroup(one), cursor: "" });
  }
  return found;
}

/** @param {Record<string, any>} a @param {Record<string, any>} b */
function sameBy(a, b) {
  const keys = Object.keys(a);
  return keys.every((key) => JSON.stringify(a[key]) === JSON.stringify(b[key]));
}

/**
 * Look where attempts began, in the points of one series if they are few.
 * @param {any} api
 * @param {RunRef} run
 * @param {readonly string[]} paths
 * @param {Map<string, {parts: Parts, cursor: string}>} kept
 * @param {Map<string, {step: number, time: number, number: number}[]>} resumes
 * @param {AbortSignal} signal
 */
export async function findResumes(api, run, paths, kept, resumes, signal) {
  for (const path of paths) {
    const key = `${run.id}\n${path}`;
    const count = kept.get(`${key}\n`)?.parts.count.reduce((a, b) => a + b, 0) || 0;
    if (resumes.has(key)) return;
    if (!count || count > MOST_SEARCHED) continue;
    const { points } = await api.post(runPath(run.project, run.id, "points"), { paths: [path] }, { signal });
    const { attempt, step, time_ns: time } = points[path];
    /** @type {Map<number, {step: number, time: number, number: number}>} */
    const first = new Map();
    for (let at = 0; at < attempt.length; at++) {
      if (attempt[at] > 0 && !first.has(attempt[at])) first.set(attempt[at], { step: step[at], time: time[at] / 1e9, number: attempt[at] + 1 });
    }
    resumes.set(key, [...first.values()]);
    return;
  }
}
