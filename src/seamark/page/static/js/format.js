// @ts-check
/** The text of numbers, units, sizes and times, the same on all screens. */

/** @typedef {number | bigint} Ns nanoseconds since the Unix epoch */

/**
 * A number in a few significant digits; whole numbers in full.
 * @param {unknown} x
 * @param {number} [digits]
 * @returns {string}
 */
export function number(x, digits = 5) {
  if (x === null || x === undefined) return "";
  if (typeof x === "bigint") return grouped(x.toString());
  if (typeof x !== "number") return String(x);
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (Number.isInteger(x) && Math.abs(x) < 1e15) return grouped(String(x));
  const size = Math.abs(x);
  if (size < 1e-4 || size >= 1e7) {
    const [mantissa, exponent] = x.toExponential(digits - 1).split("e");
    return minus(`${stripped(mantissa)}e${minus(exponent.replace("+", ""))}`);
  }
  return minus(stripped(size >= 10 ** digits ? x.toFixed(0) : x.toPrecision(digits)));
}

const MOST_DIGITS = 17;

/**
 * The digits with which a number looks different from its neighbours, unless it is the same.
 * @param {unknown} x
 * @param {unknown[]} others
 */
export function digitsBeside(x, others) {
  let digits = 5;
  for (const one of others) {
    if (typeof x !== "number" || typeof one !== "number" || one === x || !(Math.abs(one - x) <= 1e-3 * Math.abs(x))) continue;
    while (digits < MOST_DIGITS && number(one, digits) === number(x, digits)) digits += 1;
  }
  return digits;
}

/** @param {string} digits */
function grouped(digits) {
  const bare = digits.replace("-", "");
  const shown = bare.length > 4 ? bare.replace(/\B(?=(\d{3})+$)/g, ",") : bare;
  return digits.startsWith("-") ? `−${shown}` : shown;
}

/** @param {string} digits */
function stripped(digits) {
  return digits.includes(".") ? digits.replace(/\.?0+$/, "") : digits;
}

/** @param {string} digits */
function minus(digits) {
  return digits.replace(/^-/, "−");
}

/**
 * A number with all its digits.
 * @param {number} x
 */
export function precise(x) {
  if (Number.isNaN(x)) return "NaN";
  if (!Number.isFinite(x)) return x > 0 ? "+Inf" : "−Inf";
  const text = Math.abs(x) >= 1e15 || (x !== 0 && Math.abs(x) < 1e-6) ? x.toExponential() : String(x);
  return text.replace("-", "−");
}

/** @type {Intl.NumberFormat | undefined} */
let commas;

/**
 * A number for an axis or another small place.
 * @param {number} x
 * @param {number} [digits]
 */
export function short(x, digits = 4) {
  if (!Number.isFinite(x)) return precise(x);
  const size = Math.abs(x);
  if (size !== 0 && (size >= 1e6 || size < 1e-3)) {
    return x.toExponential(Math.max(0, digits - 2)).replace(/\.?0+e/, "e").replace("e+", "e").replaceAll("-", "−");
  }
  commas ??= new Intl.NumberFormat("en", { maximumFractionDigits: 8 });
  return minus(commas.format(Number(x.toPrecision(digits))));
}

/** A whole number with commas. @param {number | bigint} n */
export function whole(n) {
  return Number(n).toLocaleString("en");
}

/**
 * "1 run", "3 runs".
 * @param {number} n
 * @param {string} word
 */
export function count(n, word) {
  return `${whole(n)} ${word}${n === 1 ? "" : "s"}`;
}

/**
 * Any value in full, for tooltips, CSV and Python.
 * @param {unknown} x
 * @returns {string}
 */
export function exact(x) {
  if (x === null || x === undefined) return "";
  if (x instanceof Date) return x.toISOString();
  if (Array.isArray(x)) return x.map(exact).join(", ");
  if (typeof x === "object") return "sha256" in x || "name" in x ? String(/** @type {any} */ (x).name ?? /** @type {any} */ (x).sha256 ?? "file") : json(x);
  if (typeof x === "number") {
    if (Number.isNaN(x)) return "nan";
    if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  }
  return String(x);
}

/** @param {unknown} x @param {number} [indent] */
export function json(x, indent) {
  return JSON.stringify(x, (_, one) => (typeof one === "bigint" ? one.toString() : one), indent);
}

/**
 * Any value in a few characters.
 * @param {unknown} x
 * @param {number} [digits] of a number
 * @returns {string}
 */
export function value(x, digits) {
  if (typeof x === "number" || typeof x === "bigint") return number(x, digits);
  return x instanceof Date ? time(x) : exact(x);
}

/**
 * Put all digits of numbers into what is copied of a table, whose cells have them in their titles.
 * @param {any} event
 */
export function copyExact(event) {
  const selection = getSelection();
  if (!selection || selection.isCollapsed) return;
  /** @type {HTMLTableCellElement[]} */
  const cells = [...event.currentTarget.querySelectorAll("th, td")].filter((cell) => selection.containsNode(cell, true));
  if (!cells.some((cell) => cell.classList.contains("numeric"))) return;
  /** @type {Map<any, string[]>} */
  const lines = new Map();
  for (const cell of cells) {
    const whole = cell.classList.contains("numeric") ? cell.title : cell.querySelector("a")?.title;
    const text = whole || cell.innerText.trim().replace(/\s+/g, " ");
    lines.set(cell.parentElement, [...(lines.get(cell.parentElement) ?? []), text]);
  }
  event.clipboardData.setData("text/plain", [...lines.values()].map((one) => one.join("\t")).join("\n"));
  event.preventDefault();
}

// ---------------------------------------------------------------------- units

/** The units of `seamark.reading.text`, by the last part of a path. */
const UNITS = new Map(Object.entries({
  cpu: "%", gpu: "%", memory: "GiB", process_memory: "GiB", gpu_memory: "GiB", disk_free: "GiB",
  disk_read_rate: "MiB/s", disk_write_rate: "MiB/s", network_receive_rate: "MiB/s",
  network_send_rate: "MiB/s", gpu_power: "W", gpu_temperature: "°C", process_cores: "cores",
}));
/** The facts about a machine that have a unit, which is the same for all. */
const FACTS = ["memory", "memory_limit", "gpu_memory"];

/** The unit of a series or a fact of a machine; "" if there is none. @param {string} path */
export function unitOf(path) {
  const [place, name = ""] = path.split("/").slice(-2);
  if (!path.startsWith("monitoring/")) return "";
  const known = name.replace(/_\d+$/, "");
  if (place === "environment") return FACTS.includes(known) ? "GiB" : "";
  return UNITS.get(known) ?? "";
}

/** A distance between two values of a path, with its sign and unit. @param {number} delta @param {string} path */
export function difference(delta, path) {
  const unit = unitOf(path);
  const text = path === "sys/running_time" ? duration(delta) : `${number(delta)}${unit && ` ${unit}`}`;
  return `${delta > 0 ? "+" : ""}${text}`;
}

/**
 * A size: "1.2 MB" (powers of 1,000).
 * @param {number | bigint | null | undefined} n
 * @returns {string}
 */
export function bytes(n) {
  if (n === null || n === undefined) return "";
  let size = Number(n);
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (Math.abs(size) >= 999.5 && at < units.length - 1) {
    size /= 1000;
    at += 1;
  }
  return `${at && Math.abs(size) < 99.95 ? size.toFixed(1) : Math.round(size)} ${units[at]}`;
}

// ---------------------------------------------------------------------- times

/**
 * Milliseconds since the Unix epoch.
 * @param {Ns | Date | null | undefined} ns
 * @returns {number} NaN if there is none
 */
function millis(ns) {
  if (ns === null || ns === undefined) return NaN;
  if (ns instanceof Date) return ns.getTime();
  return typeof ns === "bigint" ? Number(ns / 1000n) / 1e3 : ns / 1e6;
}

/** @param {number} n */
function two(n) {
  return String(n).padStart(2, "0");
}

/**
 * A moment in the reader's own time zone, to the second.
 * @param {Ns | Date | null | undefined} ns
 * @returns {string}
 */
export function time(ns) {
  const d = new Date(millis(ns));
  if (Number.isNaN(d.getTime())) return "";
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return `${day} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/**
 * The age of a moment: "2 min ago", or its day.
 * @param {Ns | Date | null | undefined} ns
 * @param {number} [now] milliseconds since the Unix epoch
 * @param {boolean} [coarse] `now` is the begin of the minute
 * @returns {string}
 */
export function ago(ns, now = Date.now(), coarse = false) {
  const at = millis(ns);
  if (Number.isNaN(at)) return "";
  const s = Math.max(0, (now - at) / 1000);
  if (coarse && s < 30) return "just now";
  if (s < 90 && !coarse) return `${Math.floor(s)} s ago`;
  if (s < 90 * 60) return `${Math.round(s / 60)} min ago`;
  if (s < 36 * 3600) return `${Math.round(s / 3600)} h ago`;
  if (s < 60 * 86400) return `${Math.round(s / 86400)} d ago`;
  return time(ns).slice(0, 10);
}

/**
 * A length of time in words: "1 h 02 min".
 * @param {number | null | undefined} s seconds
 * @returns {string}
 */
export function duration(s) {
  if (s === null || s === undefined || !Number.isFinite(s)) return "";
  if (s < 0) return `−${duration(-s)}`;
  if (s < 1e-3) return `${number(Math.round(s * 1e7) / 10)} µs`;
  if (s < 1) return `${number(Math.round(s * 1e4) / 10)} ms`;
  if (s < 10) return `${number(Math.round(s * 100) / 100)} s`;
  const rounded = Math.round(s);
  if (rounded < 60) return `${rounded} s`;
  if (rounded < 3600) return `${Math.floor(rounded / 60)} min ${two(rounded % 60)} s`;
  const minutes = Math.round(rounded / 60);
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/**
 * A length of time as a clock shows it: "1:02:03".
 * @param {number} s seconds
 */
export function clock(s) {
  if (!Number.isFinite(s)) return "";
  const sign = s < 0 ? "−" : "";
  const size = Math.abs(s);
  if (size < 60) return `${sign}${Number(size.toPrecision(4))} s`;
  const hours = Math.floor(size / 3600);
  if (hours >= 100) return `${sign}${(hours / 24).toFixed(1)} d`;
  const minutes = Math.floor((size % 3600) / 60);
  const rest = two(Math.floor(size % 60));
  return hours ? `${sign}${hours}:${two(minutes)}:${rest}` : `${sign}${minutes}:${rest}`;
}

/**
 * A length of time in one unit, with four digits: "12.34 ms".
 * @param {number} s seconds
 */
export function seconds(s) {
  if (!Number.isFinite(s)) return "";
  const [size, unit] = s >= 1 || s === 0 ? [s, "s"] : s >= 1e-3 ? [s * 1e3, "ms"] : [s * 1e6, "µs"];
  return `${Number(size.toPrecision(4))} ${unit}`;
}

// ---------------------------------------------------------------------- x axes

/**
 * A place on the x axis of a chart.
 * @param {number} x
 * @param {string} axis
 */
export function place(x, axis) {
  if (axis === "time") return new Date(x * 1000).toLocaleString(undefined, { hour12: false });
  return axis === "relative" ? clock(x) : precise(x);
}

/** Names and units of the x axes that are no series. */
const AXES = new Map([
  ["step", ["step", "steps"]],
  ["order", ["order of recording", "points"]],
  ["relative", ["time since the run began", "s"]],
  ["time", ["time", "s"]],
]);

/** @param {string} axis */
export function axisName(axis) {
  return AXES.get(axis || "step")?.[0] ?? axis;
}

/** @param {string} axis @param {string} other the unit of an axis that is a series */
export function axisUnit(axis, other) {
  return AXES.get(axis)?.[1] ?? other;
}
