// @ts-check
/** How values are written: short in tables, the same everywhere. */

/** @typedef {number | bigint} Ns nanoseconds since the Unix epoch */

/**
 * A number in a few significant digits; whole numbers as they are.
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
    const [mantissa, exponent] = x.toExponential(Math.min(3, digits - 1)).split("e");
    return minus(`${stripped(mantissa)}e${minus(exponent.replace("+", ""))}`);
  }
  return minus(stripped(size >= 10 ** digits ? x.toFixed(0) : x.toPrecision(digits)));
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
  return digits.startsWith("-") ? `−${digits.slice(1)}` : digits;
}

/**
 * A number in full, for tooltips, CSV and Python.
 * @param {unknown} x
 * @returns {string}
 */
export function exact(x) {
  if (x === null || x === undefined) return "";
  if (x instanceof Date) return x.toISOString();
  if (Array.isArray(x)) return x.map(exact).join(", ");
  if (typeof x === "object") return isFile(x) ? fileName(x) : JSON.stringify(x, plain);
  if (typeof x === "number") {
    if (Number.isNaN(x)) return "nan";
    if (!Number.isFinite(x)) return x > 0 ? "inf" : "-inf";
  }
  return String(x);
}

/** @param {string} _ @param {unknown} one */
function plain(_, one) {
  return typeof one === "bigint" ? one.toString() : one;
}

/** @param {any} x */
function isFile(x) {
  return "sha256" in x || "name" in x;
}

/** @param {any} x */
function fileName(x) {
  return String(x.name ?? x.sha256 ?? "file");
}

/**
 * Any value of a run in a few characters.
 * @param {unknown} x
 * @returns {string}
 */
export function value(x) {
  if (x === null || x === undefined) return "";
  if (typeof x === "number" || typeof x === "bigint") return number(x);
  if (x instanceof Date) return time(x);
  if (typeof x === "boolean") return x ? "true" : "false";
  return exact(x);
}

/**
 * Milliseconds since the Unix epoch of what a server says of time.
 * @param {Ns | Date | null | undefined} ns
 * @returns {number} NaN if there is none
 */
export function millis(ns) {
  if (ns === null || ns === undefined) return NaN;
  if (ns instanceof Date) return ns.getTime();
  return typeof ns === "bigint" ? Number(ns / 1000n) / 1e3 : ns / 1e6;
}

/**
 * A moment in the reader's own time zone, to the second.
 * @param {Ns | Date | null | undefined} ns
 * @returns {string}
 */
export function time(ns) {
  const at = millis(ns);
  if (Number.isNaN(at)) return "";
  const d = new Date(at);
  if (Number.isNaN(d.getTime())) return "";
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}`;
  return `${day} ${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/**
 * How long ago something was: "2 min ago", or its day.
 * @param {Ns | Date | null | undefined} ns
 * @param {number} [now] milliseconds since the Unix epoch
 * @param {boolean} [coarse] `now` is when the minute began
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
 * A length of time: "1 h 02 min".
 * @param {number | null | undefined} s seconds
 * @returns {string}
 */
export function duration(s) {
  if (s === null || s === undefined || !Number.isFinite(s)) return "";
  if (s < 0) return `−${duration(-s)}`;
  if (s < 1e-3) return `${number(Math.round(s * 1e7) / 10)} µs`;
  if (s < 1) return `${number(Math.round(s * 1e4) / 10)} ms`;
  if (s < 10) return `${number(Math.round(s * 100) / 100)} s`;
  const whole = Math.round(s);
  if (whole < 60) return `${whole} s`;
  const two = (/** @type {number} */ n) => String(n).padStart(2, "0");
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${two(whole % 60)} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 2880) return `${Math.floor(minutes / 60)} h ${two(minutes % 60)} min`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
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

/**
 * "1 run", "3 runs".
 * @param {number} n
 * @param {string} word
 * @param {string} [many]
 * @returns {string}
 */
export function count(n, word, many = `${word}s`) {
  return `${n.toLocaleString("en-US")} ${n === 1 ? word : many}`;
}
