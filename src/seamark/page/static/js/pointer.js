// @ts-check
/**
 * Parts of a plot that are loaded when they are first needed: the values beside the pointer, keys, the
 * choice of a part with a finger, and numbers beside y axes for which uPlot has none.
 */

import { highlight, variable } from "./colours.js";
import { axisName, place, precise, short } from "./format.js";
import { firstFrom, inOrder, nearestPart, partsOf } from "./lines.js";

/** @typedef {import("./lines.js").Line} Line */
/** @typedef {import("./lines.js").Parts} Parts */
/** @typedef {import("../vendor/uplot.js").default} uPlot */
/** @typedef {{parts: Parts, at: number}} Point */
/**
 * @typedef {object} Row The value of a line at an x.
 * @property {Line} line
 * @property {number} at which of its parts
 * @property {number} x
 * @property {number} value the place of the line
 * @property {Point | undefined} near the nearest point, of a part of several
 * @property {number} told the value that is shown
 */
/** The x whose values are shown, a place in the window, and a listener. @typedef {[number, number, number, ((words: string) => void)?]} Place */
/**
 * @typedef {object} Pointed The chart that is pointed at.
 * @property {uPlot | null} plot
 * @property {Line[]} lines
 * @property {{axis: string, api: any, whole: boolean, colour: (line: Line, highlighted: string) => string}} how
 * @property {Place | null} place
 */

/** The time that the pointer rests before points are asked for. */
const REST_MS = 100;
/** Points in one answer: of more, parts are sent, and the nearest part is asked for again. */
const POINTS = 1000;
const MOST_ROUNDS = 6;
/** Lines whose values are shown beside the pointer. */
const MOST_TOLD = 16;
/** A finger that moves less only taps. */
const DRAGGED_PX = 12;

/**
 * Choose a part of a chart with a finger that moves to the side, as a mouse does. A finger that
 * moves up or down scrolls the page, and two fingers zoom it.
 * @param {uPlot} plot
 * @param {PointerEvent} began
 */
export function drag(plot, began) {
  const { over } = plot;
  const { left: edge, width: most } = over.getBoundingClientRect();
  const at = (/** @type {PointerEvent} */ event) => Math.max(0, Math.min(most, event.clientX - edge));
  const from = at(began);
  const show = (/** @type {number} */ to, /** @type {boolean} */ chosen) =>
    plot.setSelect({ left: Math.min(from, to), top: 0, width: Math.abs(to - from), height: to === from ? 0 : over.clientHeight }, chosen);
  const ended = new AbortController();
  const on = (/** @type {"pointermove" | "pointerup" | "pointercancel"} */ name, /** @type {(event: PointerEvent) => void} */ call) =>
    over.addEventListener(name, (/** @type {PointerEvent} */ event) => event.pointerId === began.pointerId && call(event), { signal: ended.signal });
  const end = (/** @type {PointerEvent} */ event) => {
    ended.abort();
    const far = event.type === "pointerup" && Math.abs(at(event) - from) >= DRAGGED_PX;
    show(far ? at(event) : from, far);
  };
  on("pointermove", (event) => show(at(event), false));
  on("pointerup", end);
  on("pointercancel", end);
}

/**
 * Move along a chart, or zoom it, with a key.
 * @param {Pointed & {how: {onZoom: (zoom: import("./lines.js").Range) => void}, tell: (x: number, left: number, top: number, said: (words: string) => void) => any}} chart
 * @param {KeyboardEvent} event
 * @param {(words: string) => void} said
 */
export function press(chart, { key, shiftKey }, said) {
  const { plot } = chart;
  if (!plot) return;
  const min = /** @type {number} */ (plot.scales.x.min);
  const max = /** @type {number} */ (plot.scales.x.max);
  if (key === "+" || key === "-") {
    const middle = (min + max) / 2;
    const half = ((max - min) / 2) * (key === "+" ? 0.5 : 2);
    chart.how.onZoom({ low: middle - half, high: middle + half });
    return;
  }
  const xs = plot.data[0];
  const low = firstFrom(xs, min);
  const high = Math.max(low, firstFrom(xs, max * (1 + 1e-15)) - 1);
  const now = plot.cursor.idx ?? low - 1;
  const by = (key === "ArrowLeft" ? -1 : 1) * (shiftKey ? 10 : 1);
  let next = key === "Home" ? low : key === "End" ? high : now + by;
  while (next > low && next < high && xs[next] === xs[now]) next += Math.sign(by);
  next = Math.max(low, Math.min(high, next, xs.length - 1));
  const left = plot.valToPos(xs[next], "x");
  plot.setCursor({ left, top: plot.over.clientHeight / 2 });
  chart.tell(xs[next], plot.rect.left + left, plot.rect.top + 20, said);
}

/** @type {HTMLElement | null} */
let tip = null;

function hideTip() {
  if (tip) tip.hidden = true;
}

/** @param {string} name @param {string} className @param {string} [text] */
function element(name, className, text = "") {
  const made = document.createElement(name);
  made.className = className;
  made.textContent = text;
  return made;
}

/**
 * @param {string} title
 * @param {{colour: string, name: string, value: string, more: string, highlighted: boolean}[]} rows
 * @param {number} left how many rows are not shown
 * @param {number} x
 * @param {number} y
 */
function showTip(title, rows, left, x, y) {
  if (!tip) {
    tip = element("div", "chart-tip");
    tip.setAttribute("aria-hidden", "true");
    document.body.append(tip);
    // It does not scroll with the page, so it hides when what it belongs to moves away.
    addEventListener("scroll", hideTip, { capture: true, passive: true });
  }
  const table = document.createElement("table");
  for (const one of rows) {
    const row = table.insertRow();
    if (one.highlighted) row.className = "looked";
    const colour = document.createElement("i");
    colour.style.background = one.colour;
    row.insertCell().append(colour);
    row.insertCell().textContent = one.name;
    row.append(element("td", "number", one.value), element("td", "more", one.more));
  }
  tip.replaceChildren(element("div", "chart-tip-title", title), table, ...(left > 0 ? [element("div", "more", `and ${left} more`)] : []));
  tip.hidden = false;
  const { width, height } = tip.getBoundingClientRect();
  const right = x + 18 + width > innerWidth - 8;
  tip.style.left = `${Math.max(8, right ? x - width - 18 : x + 18)}px`;
  tip.style.top = `${Math.max(8, Math.min(y - height / 2, innerHeight - height - 8))}px`;
}

/** Whether a part has points that can be asked for. @param {Line} line @param {number} at */
function isWide({ parts, of, replaced }, at) {
  return parts.count[at] > 1 && of === undefined && !replaced;
}

/** The value of a part, as text. @param {Point} point */
function valueOf({ parts, at }) {
  if (!Number.isNaN(parts.line[at])) return precise(parts.line[at]);
  if (!parts.inf[at]) return "NaN";
  const x = parts.x[at];
  return parts.plus.includes(x) ? "+Inf" : parts.minus.includes(x) ? "−Inf" : "Inf";
}

/** The value of a row, as text. @param {Row} row */
function toldOf({ line: { parts }, at, near }) {
  return valueOf(near && !parts.smooth ? near : { parts, at });
}

/** The text beside the value of a row. @param {Row} row */
function moreOf({ line, at, near }) {
  const { parts } = line;
  const count = parts.count[at];
  const told = [];
  if (line.of !== undefined) {
    told.push(`${parts.of === "median" ? "median" : "mean"} of ${count} of ${line.of}`);
    if (parts.of === "range") told.push(`${short(parts.min[at])} … ${short(parts.max[at])}`);
    else if (parts.max[at] > parts.line[at]) told.push(`± ${short(parts.max[at] - parts.line[at])}`);
  } else if (parts.smooth) {
    if (near) told.push(`raw ${valueOf(near)}`);
    told.push(count > 1 ? `raw mean ${short(parts.mean[at])} of ${count}` : `raw ${precise(parts.mean[at])}`);
  } else if (count > 1) {
    told.push(`mean of ${count}: ${near ? `${short(parts.mean[at])}, ` : ""}${short(parts.min[at])} … ${short(parts.max[at])}`);
  }
  if (count > 1 && parts.nan[at]) told.push(`${parts.nan[at]} NaN`);
  if (count > 1 && parts.inf[at]) told.push(`${parts.inf[at]} Inf`);
  return told.join(", ");
}

/**
 * Shows the values at an x beside the pointer. Of parts of several points, the nearest points are
 * read once the pointer rests: for all lines of a chart at once, one request at a time.
 */
export class Pointer {
  /** @param {Pointed} chart */
  constructor(chart) {
    this.chart = chart;
    /** The points that were read, by line. @type {Map<string, {parts: Parts, low: number, high: number}>} */
    this.read = new Map();
    this.timer = 0;
    /** @type {AbortController | null} */
    this.abort = null;
    /** The question that is asked, or was asked in vain. */
    this.asked = "";
  }

  /** Show what the chart wants to be shown. @returns {Row[]} */
  tell() {
    const { plot, place: wanted, how } = this.chart;
    if (!plot || !wanted) return [];
    const [x, left, top, said] = wanted;
    const rows = this.valuesAt(x, Math.abs(plot.posToVal(6, "x") - plot.posToVal(0, "x")));
    const centre = rows.reduce((found, one) => (Math.abs(one.x - x) < Math.abs(found - x) ? one.x : found), rows[0]?.x ?? x);
    const title = `${axisName(how.axis)} ${place(centre, how.axis)}`;
    const told = rows.slice(0, MOST_TOLD);
    const lines = told.map((one) => ({
      colour: how.colour(one.line, highlight.now),
      name: one.line.name,
      value: toldOf(one),
      more: [one.x === centre ? "" : `at ${place(one.x, how.axis)}`, moreOf(one)].filter(Boolean).join(", "),
      highlighted: one.line.run === highlight.now,
    }));
    showTip(title, lines, rows.length - MOST_TOLD, left, top);
    said?.(`${title}: ${rows.slice(0, 8).map((row) => `${row.line.name} ${toldOf(row)}`).join("; ")}`);
    this.seek(x, told);
    return rows;
  }

  /** Show nothing. */
  hush() {
    hideTip();
    this.stop();
  }

  /** Forget the points, since the lines have changed. */
  forget() {
    this.stop();
    this.read.clear();
  }

  /**
   * The values at an x: one row a line, the greatest value first.
   * @param {number} x
   * @param {number} reach how far away a point may be, in units of x
   */
  valuesAt(x, reach) {
    /** @type {Row[]} */
    const found = [];
    for (const line of this.chart.lines) {
      const { parts } = line;
      const at = nearestPart(parts, x);
      if (at < 0 || x < parts.x[0] - reach || x > parts.x[parts.x.length - 1] + reach) continue;
      // Of the two lines of a group, one has no value where the other one has.
      if (line.of !== undefined && (Number.isNaN(parts.line[at]) || found.some((one) => one.line.run === line.run && one.line.path === line.path))) continue;
      const near = isWide(line, at) ? this.near(line, x) : undefined;
      const told = near && !parts.smooth ? near.parts.line[near.at] : parts.line[at];
      found.push({ line, at, x: near ? near.parts.x[near.at] : parts.x[at], value: parts.line[at], near, told });
    }
    const height = (/** @type {number} */ value) => (Number.isNaN(value) ? -Infinity : value);
    return found.sort((a, b) => height(b.told) - height(a.told) || a.line.name.localeCompare(b.line.name));
  }

  /**
   * @param {Line} line
   * @param {number} x
   * @returns {Point | undefined} the nearest point, if it was read
   */
  near({ key }, x) {
    const found = this.read.get(key);
    if (!found) return undefined;
    const { parts, low, high } = found;
    const at = nearestPart(parts, x);
    if (at < 0 || parts.count[at] > 1) return undefined;
    // On the other side, no unread point may be nearer.
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

  /** @param {number} x @param {Line[]} lines */
  async load(x, lines) {
    const { api, axis, whole } = this.chart.how;
    const abort = new AbortController();
    this.abort = abort;
    let left = lines.map((line) => ({ line, parts: line.parts }));
    for (let round = 0; left.length && round < MOST_ROUNDS; round++) {
      // The middle of a part is a point: the nearest point is at most as far away.
      const away = Math.max(...left.map(({ parts }) => Math.abs(parts.x[nearestPart(parts, x)] - x)));
      const reach = away * (1 + 1e-9) + Math.abs(x) * 1e-15;
      const [low, high] = [x - reach, x + reach];
      const refs = [...new Map(left.map(({ line }) => [line.run, [line.project, line.run]])).values()];
      const paths = [...new Set(left.map(({ line }) => line.path))];
      const body = { refs, paths, px: POINTS, x: axis, low, high, ...(whole ? { attempt: "all" } : {}) };
      const { curves } = await api.read("curves", body, { signal: abort.signal });
      if (abort.signal.aborted) return;
      left = left.flatMap(({ line }) => {
        const curve = curves.find((/** @type {any} */ one) => one.project === line.project && one.run === line.run && one.path === line.path);
        if (!curve || curve.drawing.kept) return [];
        const parts = inOrder(partsOf(curve.drawing));
        this.read.set(line.key, { parts, low, high });
        return parts.x.length && !this.near(line, x) && parts.count[nearestPart(parts, x)] > 1 ? [{ line, parts }] : [];
      });
    }
    this.abort = null;
    this.tell();
  }
}

/**
 * The places of the numbers beside an axis of any size.
 * @param {number} low
 * @param {number} high
 * @param {number} most
 * @param {boolean} log
 * @returns {number[]}
 */
export function marksOf(low, high, most, log) {
  const decades = Math.log10(high) - Math.log10(low);
  const powers = log && decades > 2;
  const apart = (high - low) / most;
  const unit = 10 ** Math.floor(Math.log10(apart));
  const step = powers ? Math.ceil(decades / most) : ([1, 2, 2.5, 5].find((one) => one * unit >= apart) ?? 10) * unit;
  const found = [];
  const place = (/** @type {number} */ n) => (powers ? 10 ** (n * step) : n * step);
  for (let n = Math.ceil((powers ? Math.log10(low) : low) / step); place(n) <= high && found.length < 2 * most; n++) found.push(place(n));
  return found;
}

/**
 * Draw numbers beside a y axis where uPlot has none: it counts to 1e17, in steps of at least 1e-17.
 * They are drawn behind the rest.
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
  ctx.font = `${12 * one}px system-ui, sans-serif`;
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
