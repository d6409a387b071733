// @ts-check
/** The drawing behind and above the lines of a plot: bands, begins of attempts, points and marks. */

import { highlight } from "./colours.js";
import { isHidden } from "./lines.js";

/** @typedef {import("../vendor/uplot.js").default} uPlot */
/** @typedef {import("./lines.js").Line} Line */
/** @typedef {(value: number) => number} Scale from a value to a pixel */
/**
 * @typedef {object} Drawn The chart that is drawn.
 * @property {Line[]} lines
 * @property {import("./curves.js").Begin[]} begins
 * @property {boolean} few whether there is room for points
 * @property {(line: Line) => boolean} banded
 * @property {(line: Line) => string} strokeOf
 * @property {{logy: boolean, colour: (line: Line, highlighted: string) => string}} how
 */

/** @param {number} pixels of the page @returns {number} pixels of the screen */
function scaled(pixels) {
  return pixels * devicePixelRatio;
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
export function faded(colour, alpha) {
  return `${colour}${Math.round(alpha * 255).toString(16).padStart(2, "0")}`;
}

/**
 * Draw within the plot, or up to some pixels around it.
 * @param {uPlot} plot
 * @param {number} around
 * @param {(ctx: CanvasRenderingContext2D, x: Scale, y: Scale) => void} draw
 */
function clipped(plot, around, draw) {
  const { ctx } = plot;
  const { left, top, width, height } = plot.bbox;
  ctx.save();
  ctx.beginPath();
  ctx.rect(left - around, top - around, width + 2 * around, height + 2 * around);
  ctx.clip();
  draw(ctx, (value) => plot.valToPos(value, "x", true), (value) => plot.valToPos(value, "y", true));
  ctx.restore();
}

/** Draw bands, and the values that smoothing hides. @param {uPlot} plot @param {Drawn} drawn */
export function drawBehind(plot, drawn) {
  clipped(plot, 0, (_, x, y) => {
    for (const line of drawn.lines) if (drawn.banded(line)) drawBand(plot, line, drawn.how, x, y);
    drawBegins(plot, drawn, x);
  });
  const { _found: found, _values: values } = /** @type {any} */ (plot.axes[1]);
  if (!found[1] || values.length < 2) import("./pointer.js").then(({ drawMarks }) => drawMarks(plot, drawn.how.logy), () => undefined);
}

/** @param {uPlot} plot @param {Line} line @param {Drawn["how"]} how @param {Scale} x @param {Scale} y */
function drawBand({ ctx, bbox }, line, { logy, colour }, x, y) {
  const { parts } = line;
  const own = colour(line, highlight.now);
  const strong = !highlight.now || highlight.now === line.run;
  ctx.fillStyle = faded(own, strong ? 0.17 : 0.06);
  const edge = (/** @type {number} */ value) => (logy && value <= 0 ? bbox.top + bbox.height : y(value));
  const low = (/** @type {number} */ at) => edge(parts.min[at]);
  const high = (/** @type {number} */ at) => edge(parts.max[at]);
  for (let from = 0; from < parts.x.length; from++) {
    if (!Number.isFinite(parts.mean[from])) continue;
    const first = from;
    while (from + 1 < parts.x.length && Number.isFinite(parts.mean[from + 1])) from++;
    if (parts.width || line.of !== undefined) {
      ctx.strokeStyle = faded(own, strong ? 0.32 : 0.12);
      ctx.lineWidth = scaled(0.7);
      ctx.beginPath();
      if (first === from) ctx.rect(x(parts.x[from]) - scaled(0.75), high(from), scaled(1.5), Math.max(0, low(from) - high(from)));
      else {
        for (let at = first; at <= from; at++) ctx.lineTo(x(parts.x[at]), high(at));
        for (let at = from; at >= first; at--) ctx.lineTo(x(parts.x[at]), low(at));
      }
      ctx.fill();
      // A single point that stands out is one pixel wide, however pale the band is.
      ctx.stroke();
    }
    if (parts.smooth) {
      ctx.strokeStyle = faded(own, strong ? 0.25 : 0.12);
      ctx.lineWidth = scaled(1);
      ctx.beginPath();
      for (let at = first; at <= from; at++) if (!(logy && parts.mean[at] <= 0)) ctx.lineTo(x(parts.x[at]), y(parts.mean[at]));
      ctx.stroke();
    }
  }
}

/** Draw where attempts begin. @param {uPlot} plot @param {Drawn} drawn @param {Scale} x */
function drawBegins({ ctx, bbox: { top, height } }, { begins, lines, how }, x) {
  ctx.setLineDash([scaled(2), scaled(3)]);
  ctx.lineWidth = scaled(1);
  ctx.font = `${scaled(12)}px system-ui, sans-serif`;
  ctx.textAlign = "left";
  ctx.textBaseline = "top";
  for (const one of begins) {
    const line = lines.find((each) => each.run === one.run);
    if (!line) continue;
    const colour = how.colour(line, highlight.now);
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

/** Draw points without a line, marks for NaN and infinities, and the highlighted line. @param {uPlot} plot @param {Drawn} drawn */
export function drawAbove(plot, drawn) {
  const { lines, how } = drawn;
  const { top, height } = plot.bbox;
  const { min, max } = plot.scales.x;
  const isBeyond = (/** @type {number} */ one) => one < Number(min) || one > Number(max);
  clipped(plot, scaled(5), (ctx, x, y) => {
    for (const line of lines) {
      const { parts } = line;
      const { length } = parts.x;
      if (line.run === highlight.now && lines.length > 1) trace(ctx, line, how, x, y);
      ctx.fillStyle = drawn.strokeOf(line);
      const sparse = length <= 60 && drawn.few && !line.dash.length;
      const hides = (/** @type {number} */ at) => at < 0 || at >= length || isHidden(parts.line[at], how.logy);
      for (let at = 0; at < length; at++) {
        if (hides(at) || isBeyond(parts.x[at])) continue;
        const alone = hides(at - 1) && hides(at + 1);
        if (!alone && !sparse) continue;
        ctx.beginPath();
        ctx.arc(x(parts.x[at]), y(parts.line[at]), scaled(alone ? 2.5 : 1.8), 0, 2 * Math.PI);
        ctx.fill();
      }
      ctx.fillStyle = how.colour(line, highlight.now);
      if (line.replaced) continue;
      for (let at = 0; at < length; at++) {
        if (parts.nan[at] && !isBeyond(parts.x[at])) ctx.fillRect(x(parts.x[at]) - scaled(1), top + height - scaled(7), scaled(2), scaled(7));
      }
      for (const one of parts.plus) if (!isBeyond(one)) triangle(ctx, x(one), top, 1);
      for (const one of parts.minus) if (!isBeyond(one)) triangle(ctx, x(one), top + height, -1);
    }
  });
}

/** Draw a line again, above all others. @param {CanvasRenderingContext2D} ctx @param {Line} line @param {Drawn["how"]} how @param {Scale} x @param {Scale} y */
function trace(ctx, line, how, x, y) {
  const { parts, dash, run } = line;
  ctx.strokeStyle = how.colour(line, run);
  ctx.lineWidth = scaled(2.5);
  ctx.setLineDash(dash.map(scaled));
  ctx.beginPath();
  let pen = false;
  for (let at = 0; at < parts.x.length; at++) {
    const shown = !isHidden(parts.line[at], how.logy);
    if (shown && pen) ctx.lineTo(x(parts.x[at]), y(parts.line[at]));
    else if (shown) ctx.moveTo(x(parts.x[at]), y(parts.line[at]));
    pen = shown;
  }
  ctx.stroke();
  ctx.setLineDash([]);
}
