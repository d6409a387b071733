// @ts-check
/**
 * One chart: what is drawn of one or several series of some runs. The server makes the parts, of
 * which each has its extremes; here they are only drawn.
 */

import uPlot from "../vendor/uplot.js";
import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { colourOf, useTheme, vividOf } from "./colours.js";
import { useModule } from "./components.js";

/** @typedef {{project: string, id: string, name?: string | null, state?: string | null}} RunRef */
/** @typedef {{low: number, high: number}} Range */
/** @typedef {Record<string, any>} View */
/**
 * @typedef {object} Parts What is drawn of one series.
 * @property {number} width of a part, in units of x; 0 if each part is one point
 * @property {Float64Array} x
 * @property {Float64Array} line what the line goes through: the mean of each part, or smoothed
 * @property {Float64Array} mean
 * @property {Float64Array} min
 * @property {Float64Array} max
 * @property {Float64Array} count
 * @property {Float64Array} nan
 * @property {Float64Array} inf
 * @property {Float64Array} plus x of values of +inf
 * @property {Float64Array} minus x of values of -inf
 * @property {boolean} smooth
 * @property {number} leftOut
 * @property {number} notPositive
 * @property {boolean} falls
 */
/**
 * @typedef {object} Line One line of a chart.
 * @property {string} key
 * @property {string} run whose it is; what a group has in common for one of a group
 * @property {string} project
 * @property {string} path
 * @property {string} name
 * @property {Parts} parts
 * @property {number[]} dash
 * @property {boolean} replaced
 * @property {number} [of] of a group: how many runs it has
 */

const LOADED_AT_ONCE = 8;
const MOST_ALIVE = 24;
const BANDS = 8;
/** The greatest number of which twice is one, too. */
const MOST = Number.MAX_VALUE / 2;
const NEAR_PX = 18;
/** Series in one request, and how long charts that come into view wait for each other. */
const MOST_TOGETHER = 64;
const GATHER_MS = 12;
const SYNC = "seamark";
const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

// ---------------------------------------------------------------------- numbers

/**
 * A number as a person reads it exactly.
 * @param {number} value
 */
export function exact(value) {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "−Inf";
  const told = Math.abs(value) >= 1e15 || (value !== 0 && Math.abs(value) < 1e-6) ? value.toExponential() : String(value);
  return told.replace("-", "−");
}

const GROUPED = new Intl.NumberFormat("en", { maximumFractionDigits: 8 });

/**
 * A number as an axis or a small place shows it.
 * @param {number} value
 * @param {number} [digits]
 */
export function short(value, digits = 4) {
  if (!Number.isFinite(value)) return exact(value);
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) {
    return value.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e").replace("e+", "e").replaceAll("-", "−");
  }
  return GROUPED.format(Number(value.toPrecision(digits))).replace("-", "−");
}

/** @param {number} count @param {string} one */
export function counted(count, one) {
  return `${count.toLocaleString("en")} ${one}${count === 1 ? "" : "s"}`;
}

/** @param {number} seconds */
export function span(seconds) {
  if (!Number.isFinite(seconds)) return "";
  const sign = seconds < 0 ? "−" : "";
  let left = Math.abs(seconds);
  if (left < 60) return `${sign}${Number(left.toPrecision(4))} s`;
  const hours = Math.floor(left / 3600);
  left -= hours * 3600;
  const minutes = Math.floor(left / 60);
  const rest = Math.floor(left - minutes * 60);
  if (hours >= 100) return `${sign}${(hours / 24).toFixed(1)} d`;
  const two = (/** @type {number} */ one) => String(one).padStart(2, "0");
  return hours ? `${sign}${hours}:${two(minutes)}:${two(rest)}` : `${sign}${minutes}:${two(rest)}`;
}

/**
 * @param {number} x
 * @param {string} axis
 */
export function place(x, axis) {
  if (axis === "time") return new Date(x * 1000).toLocaleString(undefined, { hour12: false });
  if (axis === "relative") return span(x);
  return exact(x);
}

/** @param {string} axis */
export function axisName(axis) {
  if (axis === "order") return "order of recording";
  if (axis === "relative") return "time since the run began";
  if (axis === "time") return "time";
  return axis || "step";
}

/** @type {Record<string, string>} */
const UNITS = {
  cpu: "%", gpu: "%", memory: "GiB", process_memory: "GiB", gpu_memory: "GiB", disk_free: "GiB",
  disk_read_rate: "MiB/s", disk_write_rate: "MiB/s", network_receive_rate: "MiB/s",
  network_send_rate: "MiB/s", gpu_power: "W", gpu_temperature: "°C", process_cores: "cores",
};

/** @param {string} path */
export function unitOf(path) {
  if (!path.startsWith("monitoring/")) return "";
  const last = path.slice(path.lastIndexOf("/") + 1);
  return UNITS[last] || UNITS[last.replace(/_\d+$/, "")] || "";
}

// ---------------------------------------------------------------------- what comes

/** @param {any} given @returns {Float64Array} */
export function floats(given) {
  if (given instanceof Float64Array) return given;
  return Float64Array.from(given || [], Number);
}

/**
 * @param {any} drawing as the server sends it
 * @returns {Parts}
 */
export function partsOf(drawing) {
  const curve = drawing.curve;
  const mean = floats(curve.mean);
  const smooth = drawing.mean !== null && drawing.mean !== undefined;
  return {
    width: Number(curve.width),
    x: floats(drawing.x),
    line: smooth ? floats(drawing.mean) : mean,
    mean,
    min: floats(curve.min),
    max: floats(curve.max),
    count: floats(curve.count),
    nan: floats(curve.nan_count),
    inf: floats(curve.inf_count),
    plus: floats(drawing.plus_inf).filter(Number.isFinite),
    minus: floats(drawing.minus_inf).filter(Number.isFinite),
    smooth,
    leftOut: Number(drawing.left_out) || 0,
    notPositive: Number(drawing.not_positive) || 0,
    falls: Boolean(drawing.falls),
  };
}

/**
 * The parts of a drawing of which the server sent only what has changed.
 * @param {Parts} before
 * @param {Parts} now
 * @param {number} kept
 * @returns {Parts}
 */
export function followed(before, now, kept) {
  if (!kept) return now;
  /** @type {any} */
  const made = { ...now };
  for (const name of ["x", "line", "mean", "min", "max", "count", "nan", "inf"]) {
    const a = /** @type {any} */ (before)[name].subarray(0, kept);
    const b = /** @type {any} */ (now)[name];
    const whole = new Float64Array(a.length + b.length);
    whole.set(a);
    whole.set(b, a.length);
    made[name] = whole;
  }
  return made;
}

/** @param {Parts} parts points in the order of x, for lines go from left to right */
export function inOrder(parts) {
  const { x } = parts;
  let sorted = true;
  for (let at = 1; at < x.length && sorted; at++) sorted = !(x[at] < x[at - 1]);
  if (sorted) return parts;
  const order = Array.from(x.keys()).sort((a, b) => x[a] - x[b] || a - b);
  /** @type {any} */
  const made = { ...parts };
  for (const name of ["x", "line", "mean", "min", "max", "count", "nan", "inf"]) {
    const column = /** @type {any} */ (parts)[name];
    made[name] = Float64Array.from(order, (at) => column[at]);
  }
  return /** @type {Parts} */ (made);
}

/**
 * How series are asked for.
 * @param {View} view
 * @param {Range | null} zoom
 * @param {number} px
 */
export function lookOf(view, zoom, px) {
  /** @type {Record<string, any>} */
  const body = { px, x: view.x || "step", log_x: Boolean(view.logx), log_y: Boolean(view.logy) };
  const smooth = Number(view.smooth);
  const ema = Number(view.ema);
  if (smooth > 0) body.window = smooth;
  else if (ema > 0) body.half_life = ema;
  if (zoom) {
    if (body.log_x) {
      const more = (zoom.high / zoom.low) ** 0.03;
      body.low = zoom.low / more;
      body.high = zoom.high * more;
    } else {
      const more = (zoom.high - zoom.low) * 0.03;
      body.low = zoom.low - more;
      body.high = zoom.high + more;
    }
  }
  return body;
}

// ---------------------------------------------------------------------- what is looked at

/**
 * Which run is looked at, over all charts.
 * @type {{run: string, listeners: Set<(run: string) => void>}}
 */
const looked = { run: "", listeners: new Set() };

/** @param {string} run "" for none */
export function lookAt(run) {
  if (looked.run === run) return;
  looked.run = run;
  for (const listener of [...looked.listeners]) listener(run);
}

/** @returns {string} the run that is looked at; "" for none */
export function lookedAt() {
  return looked.run;
}

/** @returns {string} the run that is looked at, and draws again when that changes */
export function useLookedAt() {
  const [run, setRun] = useState(looked.run);
  useEffect(() => {
    looked.listeners.add(setRun);
    return () => {
      looked.listeners.delete(setRun);
    };
  }, []);
  return run;
}

// ---------------------------------------------------------------------- how many are alive

/** @type {Set<object>} */
const alive = new Set();
/** @type {Set<() => void>} */
const waiting = new Set();

/** @param {object} one @returns {boolean} */
function mayLive(one) {
  if (alive.size >= MOST_ALIVE && !alive.has(one)) return false;
  alive.add(one);
  return true;
}

/** @param {object} one */
function leave(one) {
  if (!alive.delete(one)) return;
  const next = waiting.values().next().value;
  if (next) {
    waiting.delete(next);
    queueMicrotask(next);
  }
}

// ---------------------------------------------------------------------- drawing

/**
 * Columns for uPlot: one x for all lines; where a line has nothing, undefined; a gap is null.
 * @param {readonly Line[]} lines
 * @param {boolean} logy
 * @returns {[number[], ...((number | null | undefined)[])[]]}
 */
export function aligned(lines, logy) {
  const at = lines.map(() => 0);
  /** @type {number[]} */
  const xs = [];
  /** @type {(number | null | undefined)[][]} */
  const columns = lines.map(() => []);
  for (;;) {
    let x = Infinity;
    for (let one = 0; one < lines.length; one++) {
      const own = lines[one].parts.x;
      if (at[one] < own.length && own[at[one]] < x) x = own[at[one]];
    }
    if (x === Infinity) break;
    let rows = 0;
    for (let one = 0; one < lines.length; one++) {
      const { x: own, line } = lines[one].parts;
      let row = 0;
      while (at[one] < own.length && own[at[one]] === x) {
        const value = line[at[one]++];
        columns[one][xs.length + row++] = Number.isFinite(value) && !(logy && value <= 0) ? value : null;
      }
      rows = Math.max(rows, row);
    }
    for (let row = 0; row < rows; row++) xs.push(x);
  }
  for (const column of columns) column.length = xs.length;
  return [xs, ...columns];
}

/** @param {ArrayLike<number>} xs sorted @param {number} x the first place that is not before it */
function firstFrom(xs, x) {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (xs[mid] < x) low = mid + 1;
    else high = mid;
  }
  return low;
}

/**
 * @param {Parts} parts
 * @param {number} x
 * @returns {number} the part that is nearest to x; -1 for none
 */
export function nearestPart(parts, x) {
  const { x: xs } = parts;
  if (!xs.length) return -1;
  const at = firstFrom(xs, x);
  if (at <= 0) return 0;
  if (at >= xs.length) return xs.length - 1;
  return x - xs[at - 1] <= xs[at] - x ? at - 1 : at;
}

/**
 * From where to where y goes, and what lies beyond.
 * @param {readonly Line[]} lines
 * @param {Range | null} window
 * @param {{robust: boolean, logy: boolean, banded: (line: Line) => boolean}} how
 * @returns {{low: number, high: number, above: number, below: number, parts: boolean} | null}
 */
export function yRange(lines, window, how) {
  /** @type {number[]} */
  const means = [];
  let low = Infinity;
  let high = -Infinity;
  /** @param {number} value */
  const take = (value) => {
    if (!Number.isFinite(value) || (how.logy && value <= 0)) return;
    if (value < low) low = value;
    if (value > high) high = value;
  };
  /** @type {[Parts, number, number][]} */
  const shown = [];
  for (const line of lines) {
    const { parts } = line;
    const from = window ? firstFrom(parts.x, window.low) : 0;
    const to = window ? firstFrom(parts.x, window.high + Math.abs(window.high) * 1e-15) : parts.x.length;
    shown.push([parts, from, to]);
    const banded = how.banded(line);
    for (let at = from; at < to; at++) {
      take(parts.line[at]);
      if (banded) {
        take(parts.min[at]);
        take(parts.max[at]);
      }
      if (how.robust && Number.isFinite(parts.mean[at]) && !(how.logy && parts.mean[at] <= 0)) means.push(parts.mean[at]);
    }
  }
  if (low > high) return null;
  let above = 0;
  let below = 0;
  let buckets = false;
  if (how.robust && means.length > 2) {
    means.sort((a, b) => a - b);
    const quantile = (/** @type {number} */ q) => {
      const exactly = q * (means.length - 1);
      const at = Math.floor(exactly);
      return means[at] + (exactly - at) * ((means[at + 1] ?? means[at]) - means[at]);
    };
    [low, high] = [quantile(0.01), quantile(0.99)];
    const room = (high - low) * 0.05 || Math.abs(high) * 0.05;
    for (const [parts, from, to] of shown) {
      for (let at = from; at < to; at++) {
        if (parts.max[at] > high + room) above++;
        if (parts.min[at] < low - room) below++;
        if ((parts.max[at] > high + room || parts.min[at] < low - room) && parts.count[at] > 1) buckets = true;
      }
    }
  }
  // A mean of equal values differs from them in its last bits: no change that fills a chart.
  const flat = high - low <= 1e-12 * Math.max(Math.abs(low), Math.abs(high));
  if (how.logy) {
    const more = flat ? 2 : Math.exp((Math.log(high) - Math.log(low)) / 20);
    return { low: low / more || low, high: Math.min(high * more, Number.MAX_VALUE), above, below, parts: buckets };
  }
  const room = flat ? Math.abs(high) * 0.1 || 1 : (high - low) * 0.05;
  // The distance of both ends is a number, too.
  return { low: Math.max(low - room, -MOST), high: Math.min(high + room, MOST), above, below, parts: buckets };
}

/** @param {string} name @param {string} otherwise */
export function variable(name, otherwise) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || otherwise;
}

/** @param {number} pixels */
function scaled(pixels) {
  return pixels * devicePixelRatio;
}

/**
 * @typedef {object} Row What a line has at an x.
 * @property {Line} line
 * @property {number} at which of its parts
 * @property {number} x
 * @property {number} value where the line is drawn
 * @property {{parts: Parts, at: number} | undefined} near the nearest point, of a part of several
 * @property {number} told the value that is told
 */

/** @typedef {import("./chart_more.js").Closer} Closer */

const RELATIVE_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 432000, 864000, 1728000, 4320000, 8640000,
];

const WHOLE = Array.from({ length: 46 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));

/** @typedef {(words: string) => void} Said */

/** @type {typeof import("./chart_more.js") | null} */
let loadedLater = null;

/** What is loaded when it is first needed. */
export async function further() {
  loadedLater ??= await import("./chart_more.js");
  return loadedLater;
}

/**
 * The uPlot of a chart, and what it needs to be drawn again.
 */
export class Drawn {
  /**
   * @param {HTMLElement} element
   * @param {object} how
   * @param {string} how.axis
   * @param {boolean} how.logx
   * @param {boolean} how.logy
   * @param {boolean} how.robust
   * @param {(line: Line, looked: string) => string} how.colour
   * @param {(zoom: Range | null) => void} how.onZoom
   * @param {() => void} how.onRange
   * @param {number} how.height
   * @param {any} how.api
   * @param {boolean} how.whole whether what was replaced is among the points
   */
  constructor(element, how) {
    this.element = element;
    this.how = how;
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Range | null} */
    this.zoom = null;
    /** @type {{x: number, run: string, number: number}[]} */
    this.resumed = [];
    /** @type {ReturnType<typeof yRange>} */
    this.range = null;
    /** @type {uPlot | null} */
    this.plot = null;
    this.key = "";
    this.hovered = false;
    /** @type {Closer | null} */
    this.closer = null;
    /** What is told: x, where, and to whom else. @type {[number, number, number, Said?] | null} */
    this.place = null;
    this.frame = 0;
    /** @param {string} run */
    this.onLook = (run) => {
      void run;
      if (!this.frame) {
        this.frame = requestAnimationFrame(() => {
          this.frame = 0;
          this.restyle();
        });
      }
    };
    looked.listeners.add(this.onLook);
  }

  /** @param {Line} line */
  banded(line) {
    return !line.replaced && !line.key.endsWith("\nless") && (this.lines.length <= BANDS || line.run === looked.run);
  }

  /**
   * @param {Line[]} lines
   * @param {Range | null} zoom
   */
  show(lines, zoom) {
    this.zoom = zoom;
    this.lines = lines;
    const key = lines.map((line) => line.key).join("\n");
    const data = aligned(lines, this.how.logy);
    if (!lines.some((line) => line.parts.x.length)) {
      this.destroyPlot();
      return;
    }
    if (this.plot && this.key === key) {
      this.plot.batch(() => {
        this.plot?.setData(/** @type {any} */ (data), true);
      });
    } else {
      this.destroyPlot();
      this.key = key;
      this.plot = new uPlot(this.options(), /** @type {any} */ (data), this.element);
      /** @type {any} */ (this.element.closest(".chart") || this.element).uplot = this.plot;
    }
    this.how.onRange();
    this.closer?.forget();
    if (this.place) this.tell(...this.place);
  }

  options() {
    const { axis, logx, logy, height } = this.how;
    const muted = variable("--muted", "#667");
    const grid = variable("--line", "#8884");
    const font = '11px system-ui, sans-serif';
    const time = axis === "time";
    /** @type {any} */
    const across = { stroke: muted, font, ticks: { stroke: grid, width: 1, size: 4 }, grid: { stroke: grid, width: 1 }, size: time ? 38 : 26, gap: 4, space: 64 };
    if (axis === "relative" && !logx) {
      across.incrs = RELATIVE_STEPS;
      across.values = (/** @type {uPlot} */ _, /** @type {number[]} */ at) => at.map((one) => (one === null ? "" : span(one)));
    } else if (!time) {
      // Whole steps have whole numbers below them.
      const whole = !logx && this.lines.every(({ parts: { x, width } }) => width || !x.length || [x[0], x[x.length >> 1], x[x.length - 1]].every(Number.isInteger));
      if (whole) across.incrs = WHOLE;
      across.values = (/** @type {uPlot} */ _, /** @type {(number|null)[]} */ at) => at.map((one) => (one === null ? "" : short(one, 6)));
    }
    return /** @type {any} */ ({
      width: Math.max(120, this.element.clientWidth),
      height,
      padding: [8, 10, 0, 0],
      legend: { show: false },
      scales: {
        x: {
          time,
          distr: logx ? 3 : 1,
          range: () => this.xRange(),
        },
        y: {
          distr: logy ? 3 : 1,
          range: () => {
            this.range = yRange(this.lines, this.zoom, { robust: this.how.robust, logy, banded: (line) => !line.replaced && this.lines.length <= BANDS });
            const found = this.range ?? { low: logy ? 1 : 0, high: logy ? 10 : 1 };
            return [found.low, found.high];
          },
        },
      },
      axes: [
        across,
        {
          stroke: muted, font, ticks: { stroke: grid, width: 1, size: 4 }, grid: { stroke: grid, width: 1 }, gap: 4, space: 34,
          size: (/** @type {uPlot} */ _, /** @type {string[] | null} */ values) => {
            const longest = Math.max(0, ...(values || []).map((one) => (one ? String(one).length : 0)));
            return Math.max(values && values.length > 1 ? 34 : 64, 14 + longest * 6.4);
          },
          values: (/** @type {uPlot} */ _, /** @type {(number|null)[]} */ at) => at.map((one) => (one === null ? "" : short(one, logy ? 3 : 5))),
        },
      ],
      series: [
        {},
        ...this.lines.map((line) => ({
          label: line.name,
          stroke: () => this.strokeOf(line),
          width: this.widthOf(line),
          dash: line.dash.length ? line.dash : undefined,
          points: { show: false },
          spanGaps: false,
        })),
      ],
      cursor: {
        sync: { key: SYNC, scales: ["x", null], setSeries: false },
        drag: { x: true, y: false, setScale: false, dist: 4 },
        points: { size: 7, width: 0, fill: (/** @type {uPlot} */ _, /** @type {number} */ at) => this.strokeOf(this.lines[at - 1]) },
        dataIdx: (/** @type {uPlot} */ plot, /** @type {number} */ series, /** @type {number} */ at) => this.indexNear(plot, series, at),
        bind: {
          dblclick: () => () => {
            this.how.onZoom(null);
            return null;
          },
        },
      },
      hooks: {
        drawAxes: [() => this.drawBehind()],
        draw: [() => this.drawAbove()],
        setSelect: [(/** @type {uPlot} */ plot) => this.selected(plot)],
        setCursor: [(/** @type {uPlot} */ plot) => this.moved(plot)],
        ready: [(/** @type {uPlot} */ plot) => this.bind(plot)],
      },
    });
  }

  /** @returns {[number, number]} */
  xRange() {
    if (this.zoom) return [this.zoom.low, this.zoom.high];
    let low = Infinity;
    let high = -Infinity;
    for (const { x } of this.lines.map((line) => line.parts)) {
      if (x.length && x[0] < low) low = x[0];
      if (x.length && x[x.length - 1] > high) high = x[x.length - 1];
    }
    if (low > high) return this.how.logx ? [1, 10] : [0, 1];
    if (low === high) return this.how.logx ? [low / 2, high * 2] : [low - 0.5, high + 0.5];
    return [low, high];
  }

  /** @param {Line} line */
  strokeOf(line) {
    const colour = this.how.colour(line, looked.run);
    if (!looked.run || looked.run === line.run || !this.lines.some((one) => one.run === looked.run)) return colour;
    return faded(colour, 0.35);
  }

  /** @param {Line} line */
  widthOf(line) {
    return line.run === looked.run ? 2.5 : this.lines.length > 20 ? 1 : 1.5;
  }

  /** @param {uPlot} plot @param {number} series @param {number} at */
  indexNear(plot, series, at) {
    if (series === 0) return at;
    const column = plot.data[series];
    if (column[at] !== undefined && column[at] !== null) return at;
    let before = at;
    let after = at;
    while (before >= 0 && column[before] === undefined) before--;
    while (after < column.length && column[after] === undefined) after++;
    const x = plot.data[0];
    if (before < 0 && after >= column.length) return null;
    const found = before < 0 ? after : after >= column.length ? before : x[at] - x[before] <= x[after] - x[at] ? before : after;
    const away = Math.abs(plot.valToPos(x[found], "x") - plot.valToPos(x[at], "x"));
    return column[found] === null || away > NEAR_PX ? null : found;
  }

  restyle() {
    const { plot } = this;
    if (!plot) return;
    this.lines.forEach((line, at) => {
      plot.series[at + 1].width = scaled(this.widthOf(line)) / devicePixelRatio;
    });
    plot.redraw(false, false);
  }

  /** @param {uPlot} plot */
  currentX(plot) {
    return { min: /** @type {number} */ (plot.scales.x.min), max: /** @type {number} */ (plot.scales.x.max) };
  }

  /** Bands, and what smoothing hides, behind the lines. */
  drawBehind() {
    const { plot } = this;
    if (!plot) return;
    const { ctx } = plot;
    const { left, top, width, height } = plot.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    const x = (/** @type {number} */ value) => plot.valToPos(value, "x", true);
    const y = (/** @type {number} */ value) => plot.valToPos(value, "y", true);
    const floor = top + height;
    for (const line of this.lines) {
      if (!this.banded(line)) continue;
      const { parts } = line;
      const colour = this.how.colour(line, looked.run);
      const strong = !looked.run || looked.run === line.run;
      ctx.fillStyle = faded(colour, strong ? 0.17 : 0.06);
      ctx.strokeStyle = faded(colour, strong ? 0.32 : 0.12);
      ctx.lineWidth = scaled(0.7);
      let from = 0;
      while (from < parts.x.length) {
        if (!Number.isFinite(parts.mean[from])) {
          from++;
          continue;
        }
        let to = from;
        while (to + 1 < parts.x.length && Number.isFinite(parts.mean[to + 1])) to++;
        const low = (/** @type {number} */ at) => (this.how.logy && parts.min[at] <= 0 ? floor : y(parts.min[at]));
        const high = (/** @type {number} */ at) => (this.how.logy && parts.max[at] <= 0 ? floor : y(parts.max[at]));
        if (parts.width || line.of !== undefined) {
          ctx.beginPath();
          if (from === to) ctx.rect(x(parts.x[from]) - scaled(0.75), high(from), scaled(1.5), Math.max(0, low(from) - high(from)));
          else {
            for (let at = from; at <= to; at++) ctx.lineTo(x(parts.x[at]), high(at));
            for (let at = to; at >= from; at--) ctx.lineTo(x(parts.x[at]), low(at));
          }
          ctx.fill();
          // One point that stands out is as wide as a pixel, however light the band is.
          ctx.stroke();
        }
        if (parts.smooth) {
          ctx.beginPath();
          for (let at = from; at <= to; at++) {
            if (!(this.how.logy && parts.mean[at] <= 0)) ctx.lineTo(x(parts.x[at]), y(parts.mean[at]));
          }
          ctx.stroke();
        }
        from = to + 1;
      }
    }
    this.drawResumed(x);
    ctx.restore();
    const { _found: found, _values: values } = /** @type {any} */ (plot.axes[1]);
    if (!found[1] || values.length < 2) further().then((more) => more.drawMarks(plot, this.how.logy), () => undefined);
  }

  /** @param {(value: number) => number} x */
  drawResumed(x) {
    const { plot } = this;
    if (!plot) return;
    const { ctx } = plot;
    const { top, height } = plot.bbox;
    ctx.setLineDash([scaled(2), scaled(3)]);
    ctx.lineWidth = scaled(1);
    ctx.font = `${scaled(11)}px system-ui, sans-serif`;
    ctx.textAlign = "left";
    ctx.textBaseline = "top";
    for (const one of this.resumed) {
      const line = this.lines.find((each) => each.run === one.run);
      if (!line) continue;
      const colour = this.how.colour(line, looked.run);
      const at = Math.round(x(one.x)) + 0.5;
      ctx.strokeStyle = faded(colour, 0.8);
      ctx.fillStyle = colour;
      ctx.beginPath();
      ctx.moveTo(at, top);
      ctx.lineTo(at, top + height);
      ctx.stroke();
      ctx.fillText(`↻${one.number}`, at + scaled(3), top + scaled(2));
    }
    ctx.setLineDash([]);
  }

  /** Points that no line goes through, and marks for what is no number. */
  drawAbove() {
    const { plot } = this;
    if (!plot) return;
    const { ctx } = plot;
    const { left, top, width, height } = plot.bbox;
    const bottom = top + height;
    const x = (/** @type {number} */ value) => plot.valToPos(value, "x", true);
    const y = (/** @type {number} */ value) => plot.valToPos(value, "y", true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left - scaled(5), top - scaled(5), width + scaled(10), height + scaled(10));
    ctx.clip();
    const min = /** @type {number} */ (plot.scales.x.min);
    const max = /** @type {number} */ (plot.scales.x.max);
    for (const line of this.lines) {
      const { parts } = line;
      // What is looked at lies above all others.
      if (line.run === looked.run && this.lines.length > 1) this.trace(line, x, y);
      ctx.fillStyle = this.strokeOf(line);
      const sparse = parts.x.length <= 60 && this.lines.length <= BANDS;
      const hides = (/** @type {number} */ value) => !Number.isFinite(value) || (this.how.logy && value <= 0);
      for (let at = 0; at < parts.x.length; at++) {
        const value = parts.line[at];
        if (hides(value) || parts.x[at] < min || parts.x[at] > max) continue;
        const alone = (at === 0 || hides(parts.line[at - 1])) && (at === parts.x.length - 1 || hides(parts.line[at + 1]));
        if (!alone && !(sparse && !line.dash.length)) continue;
        ctx.beginPath();
        ctx.arc(x(parts.x[at]), y(value), scaled(alone ? 2.5 : 1.8), 0, 2 * Math.PI);
        ctx.fill();
      }
      ctx.fillStyle = this.how.colour(line, looked.run);
      if (line.replaced) continue;
      for (let at = 0; at < parts.x.length; at++) {
        if (!parts.nan[at] || parts.x[at] < min || parts.x[at] > max) continue;
        ctx.fillRect(x(parts.x[at]) - scaled(1), bottom - scaled(7), scaled(2), scaled(7));
      }
      for (const one of parts.plus) if (one >= min && one <= max) triangle(ctx, x(one), top, 1);
      for (const one of parts.minus) if (one >= min && one <= max) triangle(ctx, x(one), bottom, -1);
    }
    ctx.restore();
  }

  /**
   * @param {Line} line
   * @param {(value: number) => number} x
   * @param {(value: number) => number} y
   */
  trace({ parts, dash, run, ...line }, x, y) {
    const ctx = /** @type {uPlot} */ (this.plot).ctx;
    ctx.strokeStyle = this.how.colour({ parts, dash, run, ...line }, run);
    ctx.lineWidth = scaled(2.5);
    ctx.setLineDash(dash.map(scaled));
    ctx.beginPath();
    let pen = false;
    for (let at = 0; at < parts.x.length; at++) {
      const value = parts.line[at];
      const shown = Number.isFinite(value) && !(this.how.logy && value <= 0);
      if (shown && pen) ctx.lineTo(x(parts.x[at]), y(value));
      else if (shown) ctx.moveTo(x(parts.x[at]), y(value));
      pen = shown;
    }
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** @param {uPlot} plot */
  selected(plot) {
    const { left, width } = plot.select;
    if (width < 4) return;
    const low = plot.posToVal(left, "x");
    const high = plot.posToVal(left + width, "x");
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    if (high > low) this.how.onZoom({ low, high });
  }

  /** @param {uPlot} plot */
  bind(plot) {
    plot.over.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      if (event.pointerType === "touch") further().then((more) => more.drag(plot, event), () => undefined);
    });
    plot.over.addEventListener("mouseenter", () => {
      this.hovered = true;
    });
    plot.over.addEventListener("mouseleave", () => {
      this.hovered = false;
      this.hush();
      lookAt("");
    });
  }

  /** @param {uPlot} plot */
  moved(plot) {
    if (!this.hovered) return;
    const { left, top } = plot.cursor;
    if (left === undefined || top === undefined || left < 0) {
      this.hush();
      return;
    }
    const x = plot.posToVal(left, "x");
    const rows = this.tell(x, plot.rect.left + left, plot.rect.top + top);
    let near = NEAR_PX;
    let run = "";
    for (const one of rows) {
      const away = Math.abs(plot.valToPos(one.value, "y") - top);
      if (away < near) [near, run] = [away, one.line.run];
    }
    lookAt(run);
  }

  /**
   * Show what lies at an x beside a place of the window.
   * @param {number} x
   * @param {number} left
   * @param {number} top
   * @param {Said} [said] is told in words, too
   * @returns {Row[]}
   */
  tell(x, left, top, said) {
    if (!this.plot) return [];
    this.place = [x, left, top, said];
    if (loadedLater) return loadedLater.tell(this, this.plot, x, left, top, said);
    further().then(
      () => this.place && this.tell(...this.place),
      () => undefined,
    );
    return [];
  }

  /** Tell nothing more. */
  hush() {
    loadedLater?.hideTip();
    this.place = null;
    this.closer?.stop();
  }

  /** @param {number} width @param {number} height */
  resize(width, height) {
    if (this.plot && (this.plot.width !== width || this.plot.height !== height)) this.plot.setSize({ width, height });
  }

  destroyPlot() {
    if (!this.plot) return;
    if (this.hovered) lookAt("");
    if (this.place) this.hush();
    this.plot.destroy();
    this.plot = null;
    delete (/** @type {any} */ (this.element.closest(".chart") || this.element).uplot);
  }

  destroy() {
    looked.listeners.delete(this.onLook);
    if (this.frame) cancelAnimationFrame(this.frame);
    this.destroyPlot();
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {number} x @param {number} y @param {1 | -1} up */
function triangle(ctx, x, y, up) {
  ctx.beginPath();
  ctx.moveTo(x, y);
  ctx.lineTo(x - scaled(4), y + up * scaled(7));
  ctx.lineTo(x + scaled(4), y + up * scaled(7));
  ctx.fill();
}

/** @param {string} colour "#rrggbb" @param {number} alpha */
function faded(colour, alpha) {
  return `${colour}${Math.round(alpha * 255).toString(16).padStart(2, "0")}`;
}

// ---------------------------------------------------------------------- loading

/**
 * @param {readonly RunRef[]} runs
 * @param {readonly string[]} paths
 * @param {Map<string, Set<string>> | undefined} has which paths each run has, as far as known
 */
function requests(runs, paths, has) {
  const some = has ? runs.filter((run) => paths.some((path) => has.get(run.id)?.has(path))) : runs;
  const parts = [];
  for (let at = 0; at < some.length; at += LOADED_AT_ONCE) {
    const refs = some.slice(at, at + LOADED_AT_ONCE);
    const own = has ? paths.filter((path) => refs.some((run) => has.get(run.id)?.has(path))) : paths;
    parts.push({ refs, paths: own });
  }
  return parts;
}

/**
 * @typedef {object} Asked Charts that ask for the same runs in the same way, as one request.
 * @property {Set<string>} paths
 * @property {any[]} since
 * @property {number} wanted by how many charts
 * @property {AbortController} abort
 * @property {Promise<any[]>} answer
 */

/** @type {Map<string, Asked>} */
const gathering = new Map();

/**
 * Ask for curves together with other charts that come into view at the same moment.
 * @param {any} api
 * @param {{refs: readonly RunRef[], paths: readonly string[]}} part
 * @param {any[]} since
 * @param {Record<string, any>} look
 * @param {AbortSignal} signal
 * @returns {Promise<any[]>}
 */
function curvesOf(api, part, since, look, signal) {
  const refs = part.refs.map((run) => [run.project, run.id]);
  const key = JSON.stringify([api.base, refs, look]);
  let asked = gathering.get(key);
  if (!asked || (asked.paths.size + part.paths.length) * refs.length > MOST_TOGETHER) {
    /** @type {Asked} */
    const made = { paths: new Set(), since: [], wanted: 0, abort: new AbortController(), answer: Promise.resolve([]) };
    made.answer = new Promise((go) => setTimeout(go, GATHER_MS)).then(async () => {
      if (gathering.get(key) === made) gathering.delete(key);
      const body = { refs, paths: [...made.paths], since: made.since, ...look };
      return (await api.read("curves", body, { signal: made.abort.signal })).curves;
    });
    gathering.set(key, made);
    asked = made;
  }
  const mine = asked;
  for (const path of part.paths) mine.paths.add(path);
  mine.since.push(...since);
  mine.wanted++;
  underWay++;
  const leave = () => {
    mine.wanted--;
    if (mine.wanted) return;
    mine.abort.abort();
    // Nobody is to join what is no longer asked.
    if (gathering.get(key) === mine) gathering.delete(key);
  };
  signal.addEventListener("abort", leave, { once: true });
  return mine.answer.finally(() => underWay--).then((curves) => curves.filter((one) => part.paths.includes(one.path)));
}

let underWay = 0;

/** Whether charts wait for what they asked for: what is new is asked for after it, not in its place. */
export function isLoading() {
  return underWay > 0;
}

/**
 * Where attempts begin on the x axis, by run and paths; `stamp` is of what was recorded by then.
 * @typedef {Map<string, {stamp: string, begins: {run: string, number: number, x: number}[]}>} Resumes
 */

/**
 * @typedef {object} ChartProps
 * @property {any} api
 * @property {string[]} paths
 * @property {RunRef[]} runs
 * @property {View} view
 * @property {number} [height]
 * @property {(zoom: Range | null) => void} [onZoom]
 * @property {Range | null} [zoom]
 * @property {string} [title]
 * @property {Map<string, Set<string>>} [has] which paths each run has
 * @property {Map<string, number>} [attempts] how many attempts runs have, by run id
 * @property {{by: Record<string, any>, label: string, refs: [string, string][]}[] | null} [groups]
 * @property {Record<string, number>} [versions] by run id, what grows whenever it recorded something
 * @property {boolean} [pinned]
 * @property {(paths: string[]) => void} [onPin]
 * @property {(paths: string[]) => void} [onCombine]
 * @property {() => string[]} [known] paths that may be added, asked for when they are shown
 * @property {() => void} [onRemove] of a chart that a person made
 * @property {boolean} [seen] it is in view when it is made, as far as is known
 */

/**
 * @param {ChartProps} props
 */
export function Chart(props) {
  const { api, paths, runs, view, height = 220, zoom: given, onZoom, has, attempts, groups, versions } = props;
  const [ownZoom, setOwnZoom] = useState(/** @type {Range | null} */ (null));
  const zoom = given === undefined ? ownZoom : given;
  const setZoom = onZoom ?? setOwnZoom;
  const theme = useTheme();
  const [told, setTold] = useState({ loading: true, error: "", drawn: 0, wait: false });
  const [asTable, setAsTable] = useState(false);
  const [said, setSaid] = useState("");
  const [wide, setWide] = useState(false);
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLElement | null} */ (null));
  const drawn = useRef(/** @type {Drawn | null} */ (null));
  const kept = useRef(/** @type {Map<string, {parts: Parts, cursor: string}>} */ (new Map()));
  /** What each run was asked for when it was loaded last: it is not asked for again. */
  const loaded = useRef(/** @type {Map<string, string>} */ (new Map()));
  const keptOf = useRef("");
  const resumes = useRef(/** @type {Resumes} */ (new Map()));
  const seen = useSeen(root, props.seen);
  const [released, setReleased] = useState(0);
  const [asked, setAsked] = useState(0);
  const me = useMemo(() => ({}), []);

  const ids = runs.map((run) => run.id);
  const axis = view.x || "step";
  const pathsKey = paths.join("\n");
  const runsKey = runs.map((run) => `${run.project}\n${run.id}`).join("\n\n");
  const names = new Map(runs.map((run) => [run.id, run.name || run.id]));
  const groupsKey = groups ? JSON.stringify(groups) : "";
  const base = JSON.stringify([axis, view.logx, view.logy, view.smooth, view.ema]);
  const wantsReplaced = Boolean(view.attempts);

  const colour = (/** @type {Line} */ line, /** @type {string} */ now) => {
    const overrides = view.colours || {};
    if (ids.length === 1 && paths.length > 1 && !groups) return colourOf(line.path, paths, theme, {});
    const every = groups ? groups.map((one) => one.label) : ids;
    return line.run === now ? vividOf(line.run, every, theme, overrides) : colourOf(line.run, every, theme, overrides);
  };

  /** @returns {Line[]} */
  const lines = () => {
    const found = [];
    const every = groups ? groups.map((one) => ({ id: one.label, project: "", of: one.refs.length })) : runs;
    for (const run of every) {
      for (const [number, path] of paths.entries()) {
        for (const attempt of ["", "replaced"]) {
          const one = kept.current.get(`${run.id}\n${path}\n${attempt}`);
          if (!one || (attempt && !wantsReplaced)) continue;
          const name = groups ? run.id : names.get(run.id) || run.id;
          const several = paths.length > 1 ? (ids.length === 1 && !groups ? path : `${name} ${path}`) : name;
          const dash = attempt ? [4, 4] : ids.length > 1 ? DASHES[number % DASHES.length] : [];
          const label = attempt ? `${several} (replaced)` : several;
          /** @type {Line} */
          const line = { key: `${run.id}\n${path}\n${attempt}`, run: run.id, project: run.project, path, name: label, parts: one.parts, dash, replaced: Boolean(attempt) };
          if (groups) line.of = /** @type {any} */ (run).of;
          found.push(line);
        }
      }
    }
    return found;
  };

  const drawnLines = () => lines().flatMap((line) => (line.of === undefined ? [{ ...line, parts: inOrder(line.parts) }] : loadedLater?.ofGroup(line, line.of) ?? []));

  // What is loaded.
  // In the order of recording what was replaced has its place among all others.
  const whole = axis === "order" && wantsReplaced;
  const kind = JSON.stringify([pathsKey, base, groupsKey, whole]);
  useEffect(() => {
    if (!seen) return undefined;
    if (keptOf.current !== kind) {
      if (keptOf.current) setTold((old) => ({ ...old, loading: true, error: "", drawn: old.drawn + 1 }));
      keptOf.current = kind;
      for (const one of [kept, resumes, loaded]) one.current = new Map();
    }
    const abort = new AbortController();
    const px = Math.max(600, Math.min(4000, Math.ceil((canvas.current?.clientWidth || 500) / 250) * 500));
    const look = lookOf(view, zoom, px);
    if (whole) look.attempt = "all";
    const show = (/** @type {boolean} */ loading) => setTold((old) => ({ ...old, loading, error: "", drawn: old.drawn + 1 }));
    const load = async () => {
      if (groups) {
        const found = await (await further()).groupCurves(api, groups, paths, look, abort.signal);
        if (abort.signal.aborted) return;
        kept.current = found;
        show(false);
        return;
      }
      const stamp = (/** @type {RunRef} */ run) => `${versions?.[run.id] || 0} ${(attempts?.get(run.id) || 0) > 1} ${px} ${JSON.stringify(zoom)}`;
      const stale = runs.filter((run) => loaded.current.get(run.id) !== stamp(run));
      for (const part of requests(stale, paths, has)) {
        const since = [];
        for (const run of part.refs) {
          for (const path of part.paths) {
            const before = kept.current.get(`${run.id}\n${path}\n`);
            if (before?.cursor) since.push([run.project, run.id, path, before.cursor]);
          }
        }
        const curves = await curvesOf(api, part, since, look, abort.signal);
        if (abort.signal.aborted) return;
        take(kept.current, curves, "", part);
        const again = axis === "order" ? [] : part.refs.filter((run) => (attempts?.get(run.id) || 0) > 1);
        if (again.length) {
          const hidden = { refs: again, paths: part.paths };
          const curves = await curvesOf(api, hidden, [], { ...look, attempt: "replaced" }, abort.signal);
          if (abort.signal.aborted) return;
          take(kept.current, curves, "replaced", hidden);
          const recorded = (/** @type {RunRef} */ run) => `${versions?.[run.id]} ${attempts?.get(run.id)}`;
          await (await further()).findResumes(api, hidden, axis, resumes.current, recorded, abort.signal);
        }
        for (const run of part.refs) loaded.current.set(run.id, stamp(run));
        show(true);
      }
      setTold((old) => (old.loading || old.error ? { ...old, loading: false, error: "" } : old));
    };
    load().catch((error) => {
      if (abort.signal.aborted) return;
      setTold((old) => ({ ...old, loading: false, error: error?.hint || error?.message || String(error) }));
    });
    return () => abort.abort();
  }, [seen, kind, runsKey, zoom?.low, zoom?.high, versions, attempts, asked, has]);

  // What a server that was away did not answer is asked again when it is back.
  useEffect(() => (told.error ? api.listen((/** @type {string} */ what) => what === "back" && setAsked((old) => old + 1)) : undefined), [api, told.error]);

  // What is alive.
  useEffect(() => {
    const element = canvas.current;
    if (!seen || asTable || !element) return undefined;
    if (!mayLive(me)) {
      const retry = () => setReleased((old) => old + 1);
      waiting.add(retry);
      setTold((old) => ({ ...old, wait: true }));
      return () => {
        waiting.delete(retry);
      };
    }
    const one = new Drawn(element, {
      axis,
      logx: Boolean(view.logx),
      logy: Boolean(view.logy),
      robust: Boolean(view.robust),
      colour,
      onZoom: (range) => setZoom(range),
      onRange: () => setTold((old) => ({ ...old, wait: false })),
      height,
      api,
      whole,
    });
    drawn.current = one;
    one.show(drawnLines(), zoom);
    const observer = new ResizeObserver(() => one.resize(Math.max(120, element.clientWidth), height));
    observer.observe(element);
    return () => {
      observer.disconnect();
      one.destroy();
      drawn.current = null;
      leave(me);
    };
  }, [seen, asTable, theme, axis, view.logx, view.logy, view.robust, runsKey, pathsKey, height, released, groupsKey, JSON.stringify(view.colours), whole]);

  useEffect(() => {
    const one = drawn.current;
    if (!one) return;
    one.resumed = [...resumes.current.values()].flatMap((each) => each.begins);
    one.show(drawnLines(), zoom);
  }, [told.drawn, runsKey, zoom?.low, zoom?.high, wantsReplaced]);

  const all = lines();
  const notes = notesOf(all, kept.current, view, drawn.current?.range ?? null, zoom);
  const title = props.title || (paths.length === 1 ? paths[0] : `${paths[0]} + ${paths.length - 1}`);
  // Of runs that were chosen just now it is not known yet.
  const known = !has || groups || runs.every((run) => has.has(run.id) && (loaded.current.has(run.id) || !paths.some((path) => has.get(run.id)?.has(path))));
  const empty = known && !told.loading && !told.error && !all.some((line) => line.parts.x.length);
  const cut = title.lastIndexOf("/") + 1;
  const unit = paths.every((path) => unitOf(path) === unitOf(paths[0])) ? unitOf(paths[0]) : "";

  /** @param {KeyboardEvent} event */
  const onKey = (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== canvas.current) return;
    const one = drawn.current;
    const plot = one?.plot;
    if (event.key === "t") setAsTable(true);
    else if (event.key === "r" || event.key === "Escape") {
      setZoom(null);
      one?.hush();
    } else if (plot && ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) {
      const xs = plot.data[0];
      const low = firstFrom(xs, /** @type {number} */ (plot.scales.x.min));
      const high = Math.max(low, firstFrom(xs, /** @type {number} */ (plot.scales.x.max) * (1 + 1e-15)) - 1);
      const now = plot.cursor.idx ?? low - 1;
      const by = (event.key === "ArrowLeft" ? -1 : 1) * (event.shiftKey ? 10 : 1);
      let next = event.key === "Home" ? low : event.key === "End" ? high : now + by;
      while (next > low && next < high && xs[next] === xs[now] && by) next += Math.sign(by);
      next = Math.max(low, Math.min(high, next, xs.length - 1));
      plot.setCursor({ left: plot.valToPos(xs[next], "x"), top: plot.over.clientHeight / 2 });
      const place0 = plot.valToPos(xs[next], "x");
      one.tell(xs[next], plot.rect.left + place0, plot.rect.top + 20, setSaid);
    } else if (plot && (event.key === "+" || event.key === "-")) {
      const { min, max } = one.currentX(plot);
      const middle = (min + max) / 2;
      const half = ((max - min) / 2) * (event.key === "+" ? 0.5 : 2);
      setZoom({ low: middle - half, high: middle + half });
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  const words = told.error ? "could not be loaded" : empty ? "no points" : `${counted(all.length, "line")} along ${axisName(axis)}`;
  return html`<section class=${`chart${wide ? " wide" : ""}`} ref=${root} data-paths=${paths.join(" ")} aria-label=${title} aria-busy=${seen && told.loading ? "true" : "false"}>
    <header class="chart-head">
      <h4 class="chart-title" title=${paths.join("\n")}><span class="chart-space">${title.slice(0, cut)}</span><b>${title.slice(cut)}</b>${unit && html` <span class="chart-unit">${unit}</span>`}</h4>
      <span class="chart-tools">
        ${props.onPin && html`<button type="button" class="chart-tool" aria-pressed=${props.pinned ? "true" : "false"} title=${props.pinned ? "Unpin: back to its section" : "Pin: show it first"} aria-label=${`Pin ${title}`} onClick=${() => props.onPin?.(paths)}>${props.pinned ? "★" : "☆"}</button>`}
        <button type="button" class="chart-tool" aria-pressed=${wide ? "true" : "false"} title=${wide ? "Narrow" : "As wide as the page"} aria-label=${`Widen ${title}`} onClick=${() => setWide(!wide)}>⤢</button>
        <${ChartMenu} title=${title} asTable=${asTable} onTable=${() => setAsTable(!asTable)}
          drawn=${() => ({ lines: all, axis, canvas: drawn.current?.plot?.ctx.canvas, colour })}
          zoomed=${zoom !== null} onZoomOut=${() => setZoom(null)}
          known=${props.known} onAdd=${(/** @type {string} */ path) => props.onCombine?.([...paths, path])} onRemove=${props.onRemove} />
      </span>
    </header>
    ${paths.length > 1 && html`<${PathKey} paths=${paths} single=${ids.length === 1 && !groups} colour=${(/** @type {string} */ path) => colourOf(path, paths, theme, {})} />`}
    ${asTable
      ? html`<${More} part="PointsTable" lines=${all} axis=${axis} zoom=${zoom} height=${height} onClose=${() => setAsTable(false)} />`
      : html`<div class="chart-area" style=${{ height: `${height}px` }}>
          <div class="chart-canvas" ref=${canvas} tabindex="0" role="img" aria-roledescription="chart" onKeyDown=${onKey} onBlur=${() => drawn.current?.hush()}
            aria-label=${`${title}: ${words}. Arrow keys move along it, t shows it as a table.`}></div>
          ${told.error && html`<p class="chart-over chart-error" role="alert">${told.error}</p>`}
          ${empty && html`<p class="chart-over">no points${zoom ? " here" : ""}</p>`}
          ${told.loading && !all.length && html`<p class="chart-over chart-loading">…</p>`}
          ${told.wait && !drawn.current && html`<p class="chart-over">24 charts are drawn already: scroll</p>`}
        </div>`}
    <p class="chart-notes">${notes.map((note, at) => html`<span key=${at} class=${note.kind} title=${note.title || ""}>${note.text}</span>`)}</p>
    <p class="visually-hidden" aria-live="polite">${said}</p>
  </section>`;
}

/**
 * @param {Map<string, {parts: Parts, cursor: string}>} kept
 * @param {any[]} curves
 * @param {string} attempt
 * @param {{refs: readonly RunRef[], paths: readonly string[]}} asked what has no points is not answered
 */
function take(kept, curves, attempt, asked) {
  const there = new Set(curves.map((curve) => `${curve.run}\n${curve.path}`));
  for (const run of asked.refs) for (const path of asked.paths) if (!there.has(`${run.id}\n${path}`)) kept.delete(`${run.id}\n${path}\n${attempt}`);
  for (const curve of curves) {
    const key = `${curve.run}\n${curve.path}\n${attempt}`;
    const before = kept.get(key);
    const count = Number(curve.drawing.kept) || 0;
    if (count && (!before || before.parts.x.length < count)) continue;
    let parts = partsOf(curve.drawing);
    if (count && before) parts = followed(before.parts, parts, count);
    kept.set(key, { parts, cursor: curve.cursor || curve.drawing.cursor || "" });
  }
}

/**
 * What a picture has to say of itself, in words.
 * @param {readonly Line[]} lines
 * @param {Map<string, {parts: Parts, cursor: string}>} kept
 * @param {View} view
 * @param {ReturnType<typeof yRange>} range
 * @param {Range | null} zoom
 * @returns {{text: string, kind: string, title?: string}[]}
 */
function notesOf(lines, kept, view, range, zoom) {
  const notes = [];
  let nan = 0;
  let inf = 0;
  let leftOut = 0;
  let notPositive = 0;
  let falls = false;
  let points = 0;
  let low = Infinity;
  let high = -Infinity;
  let width = 0;
  let replaced = 0;
  let own = 0;
  for (const [key, one] of kept) if (key.endsWith("\nreplaced")) replaced += one.parts.count.reduce((a, b) => a + b, 0);
  for (const { parts, replaced: hidden } of lines) {
    if (hidden) continue;
    own++;
    for (let at = 0; at < parts.x.length; at++) {
      nan += parts.nan[at];
      inf += parts.inf[at];
      points += parts.count[at];
      if (parts.x[at] < low) low = parts.x[at];
      if (parts.x[at] > high) high = parts.x[at];
    }
    leftOut += parts.leftOut;
    notPositive += parts.notPositive;
    falls ||= parts.falls;
    if (Number.isFinite(parts.width)) width = Math.max(width, parts.width);
  }
  const axis = view.x || "step";
  const unit = axis === "time" || axis === "relative" ? "s" : axis === "order" ? "points" : axis === "step" ? "steps" : `of ${axis}`;
  if (range?.above) notes.push({ kind: "note", text: `▲ ${range.parts ? "at least " : ""}${counted(range.above, "point")} above`, title: "beyond the robust range of y" });
  if (range?.below) notes.push({ kind: "note", text: `▼ ${range.parts ? "at least " : ""}${counted(range.below, "point")} below`, title: "beyond the robust range of y" });
  if (nan) notes.push({ kind: "bad", text: `${nan.toLocaleString("en")} NaN`, title: "ticks at the bottom" });
  if (inf) notes.push({ kind: "bad", text: `${inf.toLocaleString("en")} ±Inf`, title: "triangles at the top (+) and at the bottom (−)" });
  if (leftOut && view.logx && ["step", "order", "time", "relative"].includes(axis)) notes.push({ kind: "note", text: `${counted(leftOut, "point")} at x ≤ 0 left out` });
  else if (leftOut) notes.push({ kind: "note", text: `${counted(leftOut, "point")} without a place on x left out`, title: `before the first finite ${axis}` });
  if (notPositive) notes.push({ kind: "note", text: `${counted(notPositive, "value")} ≤ 0 not on the log axis` });
  if (falls) notes.push({ kind: "note", text: "x goes back: several passes lie above each other", title: "x = order of recording shows them apart" });
  if (replaced) notes.push({ kind: "note", text: `${counted(replaced, "replaced point")}${view.attempts ? " dashed" : ""}`, title: "recorded after the checkpoint that a later attempt went on from" });
  const smooth = Number(view.smooth);
  const ema = Number(view.ema);
  if (smooth > 0 && points) {
    const about = own && high > low ? Math.max(1, Math.round((points / own) * Math.min(1, smooth / (high - low)))) : 1;
    notes.push({ kind: "quiet", text: `mean of ${short(smooth)} ${unit}, ${about === 1 ? "1 point" : `about ${about.toLocaleString("en")} points`}` });
  } else if (ema > 0) notes.push({ kind: "quiet", text: `average, half of it from the last ${short(ema)} ${unit}` });
  if (width > 1e-300 && points && !view.logx) notes.push({ kind: "quiet", text: `mean and range of each ${short(width)} ${unit}`, title: "zoom in to see single points" });
  void zoom;
  return notes;
}

/** @type {IntersectionObserver | null} */
let watcher = null;
/** @type {WeakMap<Element, (seen: boolean) => void>} */
const watched = new WeakMap();

/**
 * Whether an element is in view, or nearly.
 * @param {{current: Element | null}} ref
 * @param {boolean} first as long as the browser has not said
 */
export function useSeen(ref, first = false) {
  const [seen, setSeen] = useState(first);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    watcher ??= new IntersectionObserver(
      (entries) => {
        for (const entry of entries) watched.get(entry.target)?.(entry.isIntersecting);
      },
      { rootMargin: "120px 0px" },
    );
    watched.set(element, setSeen);
    watcher.observe(element);
    return () => {
      watcher?.unobserve(element);
      watched.delete(element);
    };
  }, []);
  return seen;
}

// ---------------------------------------------------------------------- beside the picture

/**
 * @param {{paths: string[], single: boolean, colour: (path: string) => string}} props
 */
function PathKey({ paths, single, colour }) {
  return html`<ul class="chart-paths">${paths.map((path, at) => {
    const dash = single ? [] : DASHES[at % DASHES.length];
    return html`<li key=${path}><svg width="22" height="8" aria-hidden="true"><line x1="0" y1="4" x2="22" y2="4" stroke=${single ? colour(path) : "currentColor"} stroke-width="2" stroke-dasharray=${dash.join(" ")} /></svg>${path}</li>`;
  })}</ul>`;
}

/** The menu of a chart, whose list is loaded when it is first opened. @param {Record<string, any>} props */
function ChartMenu(props) {
  const [open, setOpen] = useState(false);
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    if (!open) return undefined;
    const away = (/** @type {Event} */ event) => {
      if (!box.current?.contains(/** @type {Node} */ (event.target))) setOpen(false);
    };
    document.addEventListener("pointerdown", away);
    return () => document.removeEventListener("pointerdown", away);
  }, [open]);
  const back = () => {
    setOpen(false);
    box.current?.querySelector("button")?.focus();
  };
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || !open) return;
    back();
    event.stopPropagation();
  };
  const pick = (/** @type {() => void} */ call) => () => {
    back();
    call();
  };
  return html`<span class="chart-menu" ref=${box} onKeyDown=${onKey}>
    <button type="button" class="chart-tool" aria-expanded=${open ? "true" : "false"} aria-label=${`More of ${props.title}`} title="More" onClick=${() => setOpen(!open)}>⋯</button>
    ${open && html`<${More} part="MenuList" ...${props} pick=${pick} />`}
  </span>`;
}

/** A part of chart_more.js. @param {Record<string, any>} props */
export function More({ part, ...props }) {
  const { module, error } = useModule("./chart_more.js");
  if (error) return html`<p class="chart-error" role="alert">${String(error)}</p>`;
  return module ? html`<${module[part]} ...${props} />` : null;
}

/**
 * A small line for a table, of at least two numbers.
 * @param {{values: ArrayLike<number> | null | undefined, colour?: string, width?: number, height?: number}} props
 */
export function Sparkline({ values, colour = "currentColor", width = 72, height = 18 }) {
  const every = Array.from(values || [], Number);
  const finite = every.filter(Number.isFinite);
  if (finite.length < 2) return html`<svg class="sparkline" width=${width} height=${height} aria-hidden="true"></svg>`;
  const low = Math.min(...finite);
  const high = Math.max(...finite);
  let path = "";
  let pen = "M";
  every.forEach((value, at) => {
    if (!Number.isFinite(value)) {
      pen = "M";
      return;
    }
    const x = 1 + (at / (every.length - 1)) * (width - 2);
    const y = high > low ? 2 + (1 - (value - low) / (high - low)) * (height - 4) : height / 2;
    path += `${pen}${x.toFixed(1)} ${y.toFixed(1)}`;
    pen = "L";
  });
  return html`<svg class="sparkline" width=${width} height=${height} role="img" aria-label=${`from ${short(finite[0])} to ${short(finite[finite.length - 1])}`}><path d=${path} fill="none" stroke=${colour} stroke-width="1.5" stroke-linejoin="round" /></svg>`;
}
