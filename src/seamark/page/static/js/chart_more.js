// @ts-check
/**
 * What of a chart is loaded when it is first asked for: what stands beside the pointer, its menu,
 * its table, CSV and PNG, curves of groups, colours of values, where runs were resumed, and the
 * numbers beside rare axes.
 */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { write } from "./address.js";
import { aligned, axisName, counted, exact, floats, inOrder, lookAt, lookedAt, nearestPart, partsOf, place, short, useLookedAt, variable } from "./chart.js";
import { COLOURED, colourOf, GREY, PALETTE, slotsOf, vividOf } from "./colours.js";
import { useAnswer } from "./components.js";

/** @typedef {import("./chart.js").Line} Line */
/** @typedef {import("./chart.js").Parts} Parts */
/** @typedef {import("./chart.js").Row} Row */
/** @typedef {import("./chart.js").Drawn} Drawn */
/** @typedef {import("./chart.js").RunRef} RunRef */
/** @typedef {import("./chart.js").Range} Range */

const MOST_ROWS = 500;
/** How long the pointer rests before points are asked for. */
const REST_MS = 100;
/** In one answer: of more points parts come, of which the nearest is asked for again. */
const POINTS = 1000;
/** Lines whose values stand beside the pointer. */
const MOST_TOLD = 16;
const MOST_ROUNDS = 6;

/**
 * @typedef {object} Menu
 * @property {string} title
 * @property {boolean} asTable
 * @property {() => void} onTable
 * @property {() => {lines: Line[], axis: string, canvas: HTMLCanvasElement | undefined, colour: (line: Line, looked: string) => string}} drawn
 * @property {boolean} zoomed
 * @property {() => void} onZoomOut
 * @property {(() => string[]) | undefined} known
 * @property {(path: string) => void} onAdd
 * @property {(() => void) | undefined} onRemove
 * @property {(call: () => void) => () => void} pick closes the menu, too
 */

/** @param {Menu} props */
export function MenuList({ title, asTable, onTable, drawn, zoomed, onZoomOut, known: others, onAdd, onRemove, pick }) {
  const known = useMemo(() => others?.() ?? [], []);
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
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  // What had the focus is gone: the picture that the table stands for, then the table.
  useEffect(() => {
    const chart = box.current?.closest(".chart");
    const lost = () => document.activeElement === document.body;
    const take = (/** @type {Element | null | undefined} */ next) => /** @type {HTMLElement | null} */ (next)?.focus({ preventScroll: true });
    if (lost()) take(box.current);
    return () => {
      if (box.current?.contains(document.activeElement)) setTimeout(() => lost() && take(chart?.querySelector(".chart-canvas")));
    };
  }, []);
  return html`<div class="chart-table" tabindex="0" role="region" aria-label="Values" ref=${box} style=${{ height: `${height}px` }}
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

// ---------------------------------------------------------------------- what lies at an x

/** How far a finger goes at least that does not only tap. */
const DRAGGED_PX = 12;

/**
 * A finger that goes to the side over a chart chooses a part of it, as a mouse does; one that goes
 * up or down scrolls the page, and two of them zoom it.
 * @param {import("../vendor/uplot.js").default} plot
 * @param {PointerEvent} began
 */
export function drag(plot, began) {
  const { over } = plot;
  const { left: edge, width: most } = over.getBoundingClientRect();
  const at = (/** @type {PointerEvent} */ event) => Math.max(0, Math.min(most, event.clientX - edge));
  const from = at(began);
  const show = (/** @type {number} */ to, /** @type {boolean} */ chosen) =>
    plot.setSelect({ left: Math.min(from, to), top: 0, width: Math.abs(to - from), height: to === from ? 0 : over.clientHeight }, chosen);
  const moved = (/** @type {PointerEvent} */ event) => {
    if (event.pointerId === began.pointerId) show(at(event), false);
  };
  const ended = (/** @type {PointerEvent} */ event) => {
    if (event.pointerId !== began.pointerId) return;
    over.removeEventListener("pointermove", moved);
    for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) over.removeEventListener(name, ended);
    const far = event.type === "pointerup" && Math.abs(at(event) - from) >= DRAGGED_PX;
    show(far ? at(event) : from, far);
  };
  over.addEventListener("pointermove", moved);
  for (const name of /** @type {const} */ (["pointerup", "pointercancel"])) over.addEventListener(name, ended);
}

/** @type {HTMLElement | null} */
let tip = null;

export function hideTip() {
  if (tip) tip.hidden = true;
}

/**
 * @param {{title: string, rows: {colour: string, name: string, value: string, more: string, looked: boolean}[], left: number}} told
 * @param {number} x
 * @param {number} y
 */
function showTip(told, x, y) {
  if (!tip) {
    tip = document.createElement("div");
    tip.className = "chart-tip";
    tip.setAttribute("aria-hidden", "true");
    document.body.append(tip);
    // It stands in the window: what it tells of moves away below it, at the latest under a finger.
    addEventListener("scroll", hideTip, { capture: true, passive: true });
  }
  const title = document.createElement("div");
  title.className = "chart-tip-title";
  title.textContent = told.title;
  const table = document.createElement("table");
  for (const one of told.rows) {
    const row = table.insertRow();
    if (one.looked) row.className = "looked";
    const mark = row.insertCell();
    const colour = document.createElement("i");
    colour.style.background = one.colour;
    mark.append(colour);
    row.insertCell().textContent = one.name;
    const value = row.insertCell();
    value.className = "number";
    value.textContent = one.value;
    const more = row.insertCell();
    more.className = "more";
    more.textContent = one.more;
  }
  tip.replaceChildren(title, table);
  if (told.left > 0) {
    const rest = document.createElement("div");
    rest.className = "more";
    rest.textContent = `and ${told.left} more`;
    tip.append(rest);
  }
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = x + 18 + width > innerWidth - 8;
  tip.style.left = `${Math.max(8, right ? x - width - 18 : x + 18)}px`;
  tip.style.top = `${Math.max(8, Math.min(y - height / 2, innerHeight - height - 8))}px`;
}

/**
 * What lies at an x: one row a line, the greatest value first.
 * @param {readonly Line[]} lines
 * @param {number} x
 * @param {number} reach how far a point may be away, in units of x
 * @param {Closer | null} closer
 */
function valuesAt(lines, x, reach, closer) {
  /** @type {Row[]} */
  const found = [];
  for (const line of lines) {
    const { parts } = line;
    const at = nearestPart(parts, x);
    if (at < 0) continue;
    const inside = x >= parts.x[0] - reach && x <= parts.x[parts.x.length - 1] + reach;
    // Of a group that is drawn in two parts one is silent where the other speaks.
    if (!inside || (line.of !== undefined && (Number.isNaN(parts.line[at]) || found.some((one) => one.line.run === line.run && one.line.path === line.path)))) continue;
    const near = isWide(line, at) ? closer?.near(line, x) : undefined;
    const [of, place] = near && !parts.smooth ? [near.parts, near.at] : [parts, at];
    found.push({ line, at, x: (near?.parts ?? parts).x[near?.at ?? at], value: parts.line[at], near, told: of.line[place] });
  }
  const height = (/** @type {number} */ value) => (Number.isNaN(value) ? -Infinity : value);
  return found.sort((a, b) => height(b.told) - height(a.told) || a.line.name.localeCompare(b.line.name));
}

/** Whether a part has points that can be asked for. @param {Line} line @param {number} at */
function isWide({ parts, of, replaced }, at) {
  return parts.count[at] > 1 && of === undefined && !replaced;
}

/** The value of a row, in words. @param {Row} row */
function toldOf({ line, at, near }) {
  return near && !line.parts.smooth ? valueOf(near, near.at) : valueOf(line, at);
}

/** @param {Row} row */
function moreOf({ line, at, near }) {
  const { parts } = line;
  const count = parts.count[at];
  const told = [];
  if (line.of !== undefined) {
    told.push(`mean of ${count} of ${line.of}`);
    if (parts.max[at] > parts.mean[at]) told.push(`± ${short(parts.max[at] - parts.mean[at])}`);
  } else if (parts.smooth) {
    if (near) told.push(`raw ${valueOf(near, near.at)}`);
    told.push(count > 1 ? `raw mean ${short(parts.mean[at])} of ${count}` : `raw ${exact(parts.mean[at])}`);
  } else if (count > 1) {
    told.push(`mean of ${count}: ${near ? `${short(parts.mean[at])}, ` : ""}${short(parts.min[at])} … ${short(parts.max[at])}`);
  }
  if (count > 1 && parts.nan[at]) told.push(`${parts.nan[at]} NaN`);
  if (count > 1 && parts.inf[at]) told.push(`${parts.inf[at]} Inf`);
  return told.join(", ");
}

/** The value of a line's part, in words: what is no number says which it is.
 * @param {{parts: Parts}} line @param {number} at */
function valueOf(line, at) {
  const { parts } = line;
  if (!Number.isNaN(parts.line[at])) return exact(parts.line[at]);
  if (!parts.inf[at]) return "NaN";
  const x = parts.x[at];
  return parts.plus.includes(x) ? "+Inf" : parts.minus.includes(x) ? "−Inf" : "Inf";
}

/** @param {{x: number}[]} rows @param {number} x */
function nearestOf(rows, x) {
  let found = x;
  let near = Infinity;
  for (const one of rows) if (Math.abs(one.x - x) < near) [near, found] = [Math.abs(one.x - x), one.x];
  return found;
}

/**
 * Show what lies at an x beside a place of the window.
 * @param {Drawn} drawn
 * @param {import("../vendor/uplot.js").default} plot
 * @param {number} x
 * @param {number} left
 * @param {number} top
 * @param {(words: string) => void} [said]
 */
export function tell(drawn, plot, x, left, top, said) {
  const { axis, colour } = drawn.how;
  drawn.closer ??= new Closer(drawn);
  const reach = Math.abs(plot.posToVal(6, "x") - plot.posToVal(0, "x"));
  const rows = valuesAt(drawn.lines, x, reach, drawn.closer);
  const centre = nearestOf(rows, x);
  const looked = lookedAt();
  showTip(
    {
      title: `${axisName(axis)} ${place(centre, axis)}`,
      rows: rows.slice(0, MOST_TOLD).map((one) => ({
        colour: colour(one.line, looked),
        name: one.line.name,
        value: toldOf(one),
        more: [one.x === centre ? "" : `at ${place(one.x, axis)}`, moreOf(one)].filter(Boolean).join(", "),
        looked: one.line.run === looked,
      })),
      left: rows.length - MOST_TOLD,
    },
    left,
    top,
  );
  said?.(`${axisName(axis)} ${place(centre, axis)}: ${rows.slice(0, 8).map((row) => `${row.line.name} ${toldOf(row)}`).join("; ")}`);
  drawn.closer.seek(x, rows.slice(0, MOST_TOLD));
  return rows;
}

/**
 * The points nearest to where somebody points, of parts that have several: read once the pointer
 * rests, for all lines of a chart at once, one request at a time.
 */
export class Closer {
  /** @param {Drawn} drawn the chart; is told anew when its points are there */
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
      const { curves } = await api.read("curves", body, { signal: abort.signal });
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
  const found = new Map();
  for (const one of await api.read("group_curves", body, { signal })) {
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
 * Ask where attempts begin on the x axis, of runs whose answer may be another one by now.
 * @param {any} api
 * @param {{refs: readonly RunRef[], paths: readonly string[]}} part
 * @param {string} x
 * @param {import("./chart.js").Resumes} resumes
 * @param {(run: RunRef) => string} stamp of what a run has recorded
 * @param {AbortSignal} signal
 */
export async function findResumes(api, { refs, paths }, x, resumes, stamp, signal) {
  const key = (/** @type {string} */ id) => [id, ...paths].join("\n");
  const stale = refs.filter((run) => resumes.get(key(run.id))?.stamp !== stamp(run));
  if (!stale.length) return;
  const { begins } = await api.read("attempts", { refs: stale.map((run) => [run.project, run.id]), paths, x }, { signal });
  for (const run of stale) {
    // Of several series it is the first point of any.
    const first = new Map();
    for (const [, id, , some] of begins) {
      for (const [attempt, , , at] of id === run.id ? some : []) {
        if (attempt > 0 && Number.isFinite(at)) first.set(Number(attempt) + 1, Math.min(at, first.get(Number(attempt) + 1) ?? at));
      }
    }
    resumes.set(key(run.id), { stamp: stamp(run), begins: [...first].map(([number, at]) => ({ run: run.id, number, x: at })) });
  }
}

/** @param {{groups: any[], theme: any, colours: Record<string, number>}} props */
export function GroupKey({ groups, theme, colours }) {
  const looked = useLookedAt();
  const labels = groups.map((one) => one.label);
  return html`<ul class="charts-key" aria-label="Groups that are drawn">
    ${groups.map(({ label }) => html`<li key=${label}><button type="button" class=${looked === label ? "looked" : ""} onMouseEnter=${() => lookAt(label)} onMouseLeave=${() => lookAt("")} onFocus=${() => lookAt(label)} onBlur=${() => lookAt("")}>
      <i style=${{ background: looked === label ? vividOf(label, labels, theme, colours) : colourOf(label, labels, theme, colours) }}></i><span>${label}</span></button></li>`)}
    <li class="charts-note">mean, and one standard deviation to each side; dashed where runs are missing</li>
  </ul>`;
}

// ---------------------------------------------------------------------- colours of values

/** @typedef {import("./colours.js").Theme} Theme */
/** @typedef {import("./colours.js").Valued} Valued */
/** @typedef {import("./address.js").View} View */

/** Numbers in their order: from the colour that is nearest to the ground to the farthest. */
const RAMPS = /** @type {Record<Theme, string[]>} */ ({
  light: ["#e8590c", "#c2255c", "#7b1fa2", "#1a1060"],
  dark: ["#7660dc", "#d6539f", "#ff8a4c", "#ffe94a"],
});
const MOST_BY = 4;

/** @param {Theme} theme @param {number} part of the way, 0 to 1 */
export function rampAt(theme, part) {
  const stops = RAMPS[theme];
  const at = Math.min(Math.floor(part * (stops.length - 1)), stops.length - 2);
  const rest = part * (stops.length - 1) - at;
  const mixed = [1, 3, 5].map((place) => {
    const [a, b] = [stops[at], stops[at + 1]].map((one) => parseInt(one.slice(place, place + 2), 16));
    return Math.round(a + rest * (b - a)).toString(16).padStart(2, "0");
  });
  return `#${mixed.join("")}`;
}

/**
 * Which colours runs have by what they show.
 * @param {any} api
 * @param {readonly RunRef[]} runs
 * @param {{by: Record<string, any>, label: string, refs: [string, string][]}[] | null} groups
 * @param {View} view
 * @param {AbortSignal} signal
 * @returns {Promise<Valued>}
 */
export async function colouring(api, runs, groups, { by, project }, signal) {
  const body = { id: runs.map((run) => run.id), by, columns: [], unknown: "tell", trashed: null, project: project || null };
  const answer = groups && by.every((path) => groups.every((one) => path in one.by)) ? groups : await api.read("groups", body, { signal });
  /** @type {Map<string, {value: any, size: number, keys: string[]}>} */
  const found = new Map();
  for (const one of answer) {
    const some = by.map((path) => one.by[path] ?? null);
    const name = JSON.stringify(some.map((value) => (typeof value === "number" ? exact(value) : value)));
    const same = found.get(name) ?? { value: some.length === 1 ? some[0] : some, size: 0, keys: [] };
    same.size += one.refs.length;
    same.keys.push(...(groups ? [one.label] : one.refs.map((/** @type {[string, string]} */ ref) => ref[1])));
    found.set(name, same);
  }
  const none = (/** @type {any} */ value) => value === null || (Array.isArray(value) && value.length === by.length && by.length > 1 && value.every((one) => one === null));
  const text = (/** @type {any} */ value) => (value === null ? "–" : typeof value === "number" ? short(value) : String(value));
  const label = (/** @type {any} */ value) => (none(value) ? "not set" : Array.isArray(value) ? value.map(text).join(", ") : text(value));
  const set = [...found.values()].filter((one) => !none(one.value));
  const numbers = set.every((one) => Number.isFinite(one.value));
  set.sort((a, b) => (numbers ? a.value - b.value : label(a.value).localeCompare(label(b.value), "en", { numeric: true })));
  const [low, high] = [set[0]?.value, set[set.length - 1]?.value];
  const ramp = numbers && set.length > COLOURED ? { low, high, log: low > 0 && high / low >= 100 } : null;
  const part = (/** @type {number} */ value) => (ramp?.log ? Math.log(value / low) / Math.log(high / low) : value / 2 - low / 2) / (ramp?.log ? 1 : high / 2 - low / 2);
  // Of more than there are colours, those of most runs have them.
  const most = [...set].sort((a, b) => b.size - a.size).slice(0, COLOURED);
  const slots = slotsOf(set.filter((one) => most.includes(one)).map((one) => label(one.value)));
  const colours = /** @type {Valued["colours"]} */ ({ light: {}, dark: {} });
  const values = [...set, ...[...found.values()].filter((one) => none(one.value))].map(({ value, size, keys }) => {
    const slot = slots.get(label(value)) ?? -1;
    const of = (/** @type {Theme} */ theme) => (none(value) ? GREY[theme] : ramp ? rampAt(theme, part(value)) : (PALETTE[theme][slot] ?? GREY[theme]));
    const colour = { light: of("light"), dark: of("dark") };
    for (const key of keys) [colours.light[key], colours.dark[key]] = [colour.light, colour.dark];
    return { label: label(value), runs: size, colour };
  });
  return { key: JSON.stringify([by, values, colours]), colours, values, ramp };
}

/** Which value has which colour. @param {{valued: Valued, by: string[], theme: Theme}} props */
export function ValueKey({ valued: { values, ramp }, by, theme }) {
  const grey = (/** @type {{label: string, colour: Record<Theme, string>}} */ one) => one.colour[theme] === GREY[theme];
  const shown = values.filter((one) => (ramp ? grey(one) : one.label === "not set" || !grey(one)));
  const stops = [0, 0.25, 0.5, 0.75, 1].map((part) => rampAt(theme, part));
  return html`<ul class="charts-key" aria-label="What colours stand for"><li class="charts-note">${by.join(", ")}:</li>
    ${ramp && html`<li class="charts-ramp"><span>${short(ramp.low)}</span><i style=${{ background: `linear-gradient(90deg, ${stops.join(", ")})` }}></i><span>${short(ramp.high)}</span>${ramp.log && " (log)"}</li>`}
    ${shown.map((one) => html`<li key=${one.label} class="charts-value"><i style=${{ background: one.colour[theme] }}></i><bdi>${one.label}</bdi> <small>${counted(one.runs, "run")}</small></li>`)}
    ${!ramp && values.length > shown.length && html`<li class="charts-note">${counted(values.length - shown.length, "further value")} in grey</li>`}
  </ul>`;
}

/** Choose by what curves are coloured. @param {{api: any, runs: RunRef[], view: View}} props */
export function ColourChooser({ api, runs, view }) {
  const [text, setText] = useState("");
  const input = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => input.current?.focus(), []);
  const ids = runs.map((run) => run.id);
  const { data, error } = useAnswer(
    (/** @type {AbortSignal} */ signal) => api.read("fields", { id: ids, project: view.project || null, trashed: null, unknown: "tell", limit: 1000 }, { signal }),
    [api, ids.join()],
  );
  const paths = (data ?? []).filter((/** @type {any} */ one) => one.differing && ["atom", "float_series"].includes(one.family)).map((/** @type {any} */ one) => one.path);
  const word = text.toLowerCase();
  const found = [...new Set([...view.by, ...paths])].filter((path) => path.toLowerCase().includes(word)).slice(0, 100);
  const toggle = (/** @type {string} */ path) => write({ by: view.by.includes(path) ? view.by.filter((one) => one !== path) : [...view.by, path].slice(-MOST_BY) });
  return html`<div class="pad"><input type="search" ref=${input} placeholder="Type to filter" aria-label="Filter parameters" value=${text} onInput=${(/** @type {any} */ event) => setText(event.target.value)} />
    <div class="pick" role="group" aria-label="Colour by">
      ${found.map((path) => html`<label key=${path}><input type="checkbox" checked=${view.by.includes(path)} onChange=${() => toggle(path)} /><bdi>${path}</bdi></label>`)}
      ${!found.length && html`<p class="muted">${error ? String(error.hint) : data ? "Nothing differs." : "Looking …"}</p>`}
    </div><button type="button" disabled=${!view.by.length} onClick=${() => write({ by: [] })}>By run</button></div>`;
}

/**
 * Where numbers stand beside an axis of any size.
 * @param {number} low
 * @param {number} high
 * @param {number} most
 * @param {boolean} log
 * @returns {number[]}
 */
export function marksOf(low, high, most, log) {
  const decades = Math.log10(high) - Math.log10(low);
  const apart = (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(apart));
  const step = log && decades > 2 ? Math.ceil(decades / most) : ([1, 2, 2.5, 5].find((one) => one * unit >= apart) ?? 10) * unit;
  const found = [];
  const place = (/** @type {number} */ n) => (log && decades > 2 ? 10 ** (n * step) : n * step);
  for (let n = Math.ceil((log && decades > 2 ? Math.log10(low) : low) / step); place(n) <= high && found.length < 2 * most; n++) found.push(place(n));
  return found;
}

/**
 * Numbers beside a y axis where uPlot has none: it counts to 1e17, and in steps of 1e-17 or more.
 * They come behind what is drawn already.
 * @param {import("../vendor/uplot.js").default} plot
 * @param {boolean} log
 */
export function drawMarks(plot, log) {
  const { ctx } = plot;
  const { left, width, height } = plot.bbox;
  const { min, max } = plot.scales.y;
  const one = devicePixelRatio;
  ctx.save();
  ctx.globalCompositeOperation = "destination-over";
  ctx.fillStyle = variable("--muted", "#667");
  ctx.strokeStyle = variable("--line", "#8884");
  ctx.lineWidth = one;
  ctx.font = `${11 * one}px system-ui, sans-serif`;
  ctx.textAlign = "right";
  ctx.textBaseline = "middle";
  ctx.beginPath();
  for (const value of marksOf(Number(min), Number(max), height / (34 * one), log)) {
    const at = Math.round(plot.valToPos(value, "y", true)) + 0.5;
    ctx.moveTo(left - 4 * one, at);
    ctx.lineTo(left + width, at);
    ctx.fillText(short(value), left - 8 * one, at);
  }
  ctx.stroke();
  ctx.restore();
}
