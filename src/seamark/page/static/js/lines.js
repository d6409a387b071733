// @ts-check
/**
 * The lines of a chart: the parts that the server sends of each series, the columns that uPlot
 * wants of them, and the range of y.
 */

/** @typedef {{project: string, id: string, name?: string | null, state?: string | null}} RunRef */
/** @typedef {{low: number, high: number}} Range */
/**
 * @typedef {object} Parts One series, as it is drawn.
 * @property {number} width of a part, in units of x; 0 if each part is one point
 * @property {Float64Array} x
 * @property {Float64Array} line the values that the line goes through: the mean of each part, or smoothed
 * @property {Float64Array} mean
 * @property {Float64Array} min
 * @property {Float64Array} max
 * @property {Float64Array} count
 * @property {Float64Array} nan
 * @property {Float64Array} inf
 * @property {Float64Array} plus x of values of +inf
 * @property {Float64Array} minus x of values of -inf
 * @property {string} [of] of a group: what the line is, "range" for a mean and the extremes around it
 * @property {boolean} smooth
 * @property {number} leftOut
 * @property {number} notPositive
 * @property {boolean} falls
 */
/**
 * @typedef {object} Line One line of a chart.
 * @property {string} key
 * @property {string} run its id, or the label of a group
 * @property {string} project
 * @property {string} path
 * @property {string} name
 * @property {Parts} parts
 * @property {number[]} dash
 * @property {boolean} replaced
 * @property {number} [of] of a group: the number of its runs
 */

/** @typedef {{by: Record<string, any>, label: string, refs: [string, string][]}} Group */
/**
 * The parts of series by run or group, path, and "replaced" or "". Of a group the line is dashed
 * where runs are missing: `pieces` are the solid and, if there is one, the dashed line.
 * @typedef {Map<string, {parts: Parts, cursor: string, pieces?: Parts[]}>} Kept
 */

/** Twice this number is still finite. */
const MOST = Number.MAX_VALUE / 2;
const COLUMNS = /** @type {const} */ (["x", "line", "mean", "min", "max", "count", "nan", "inf"]);

/** @param {any} given @returns {Float64Array} */
export function floats(given) {
  return given instanceof Float64Array ? given : Float64Array.from(given || [], Number);
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
 * The parts of a drawing of which the server sent only the end.
 * @param {Parts} before
 * @param {Parts} now
 * @param {number} kept how many parts of `before` still hold
 * @returns {Parts}
 */
export function joined(before, now, kept) {
  const made = { ...now };
  for (const name of COLUMNS) {
    made[name] = new Float64Array(kept + now[name].length);
    made[name].set(before[name].subarray(0, kept));
    made[name].set(now[name], kept);
  }
  return made;
}

/** Parts sorted by x, since lines are drawn from left to right. @param {Parts} parts */
export function inOrder(parts) {
  const { x } = parts;
  let sorted = true;
  for (let at = 1; at < x.length && sorted; at++) sorted = !(x[at] < x[at - 1]);
  if (sorted) return parts;
  const order = Array.from(x.keys()).sort((a, b) => x[a] - x[b] || a - b);
  const made = { ...parts };
  for (const name of COLUMNS) made[name] = Float64Array.from(order, (at) => parts[name][at]);
  return made;
}

/** The first place that is not before x. @param {ArrayLike<number>} xs sorted @param {number} x */
export function firstFrom(xs, x) {
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
export function nearestPart({ x: xs }, x) {
  const at = firstFrom(xs, x);
  if (at === 0) return xs.length ? 0 : -1;
  return at === xs.length || x - xs[at - 1] <= xs[at] - x ? at - 1 : at;
}

/** Whether a value has no place on the y axis. @param {number} value @param {boolean} logy */
export function isHidden(value, logy) {
  return !Number.isFinite(value) || (logy && value <= 0);
}

/**
 * Columns for uPlot: one x for all lines; undefined where a line has no point, null for a gap.
 * @param {readonly Line[]} lines
 * @param {boolean} logy
 * @returns {[number[], ...((number | null | undefined)[])[]]}
 */
export function aligned(lines, logy) {
  const first = lines[0].parts.x;
  const isAlike = (/** @type {Line} */ { parts: { x } }) => x.length === first.length && x.every((one, at) => one === first[at]);
  if (lines.every(isAlike)) return [[...first], ...lines.map(({ parts }) => Array.from(parts.line, (one) => (isHidden(one, logy) ? null : one)))];
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
        columns[one][xs.length + row++] = isHidden(value, logy) ? null : value;
      }
      rows = Math.max(rows, row);
    }
    for (let row = 0; row < rows; row++) xs.push(x);
  }
  for (const column of columns) column.length = xs.length;
  return [xs, ...columns];
}

/** @param {number[]} sorted @param {number} q */
function quantile(sorted, q) {
  const exactly = q * (sorted.length - 1);
  const at = Math.floor(exactly);
  return sorted[at] + (exactly - at) * ((sorted[at + 1] ?? sorted[at]) - sorted[at]);
}

/**
 * The range of y, and the number of points beyond it.
 * @param {readonly Line[]} lines
 * @param {Range | null} window of x
 * @param {{robust: boolean, logy: boolean, banded: (line: Line) => boolean}} how
 * @returns {{low: number, high: number, above: number, below: number, parts: boolean} | null}
 */
export function yRange(lines, window, { robust, logy, banded }) {
  /** @type {number[]} */
  const means = [];
  let low = Infinity;
  let high = -Infinity;
  /** @type {[Parts, number, number][]} */
  const shown = [];
  for (const line of lines) {
    const { parts } = line;
    const from = window ? firstFrom(parts.x, window.low) : 0;
    const to = window ? firstFrom(parts.x, window.high + Math.abs(window.high) * 1e-15) : parts.x.length;
    shown.push([parts, from, to]);
    for (const column of banded(line) ? [parts.line, parts.min, parts.max] : [parts.line]) {
      for (let at = from; at < to; at++) {
        if (isHidden(column[at], logy)) continue;
        if (column[at] < low) low = column[at];
        if (column[at] > high) high = column[at];
      }
    }
    if (robust) for (let at = from; at < to; at++) if (!isHidden(parts.mean[at], logy)) means.push(parts.mean[at]);
  }
  if (low > high) return null;
  const beyond = { above: 0, below: 0, parts: false };
  if (means.length > 2) {
    means.sort((a, b) => a - b);
    [low, high] = [quantile(means, 0.01), quantile(means, 0.99)];
    const room = (high - low) * 0.05 || Math.abs(high) * 0.05;
    for (const [parts, from, to] of shown) {
      for (let at = from; at < to; at++) {
        const above = parts.max[at] > high + room;
        const below = parts.min[at] < low - room;
        beyond.above += Number(above);
        beyond.below += Number(below);
        beyond.parts ||= (above || below) && parts.count[at] > 1;
      }
    }
  }
  // The mean of equal values differs from them in the last bits; this is not to fill a chart.
  const flat = high - low <= 1e-12 * Math.max(Math.abs(low), Math.abs(high));
  if (logy) {
    const more = flat ? 2 : Math.exp((Math.log(high) - Math.log(low)) / 20);
    return { low: low / more || low, high: Math.min(high * more, Number.MAX_VALUE), ...beyond };
  }
  const room = flat ? Math.abs(high) * 0.1 || 1 : (high - low) * 0.05;
  // The distance between both ends must be finite, too.
  return { low: Math.max(low - room, -MOST), high: Math.min(high + room, MOST), ...beyond };
}
