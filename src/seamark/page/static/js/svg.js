// @ts-check
/**
 * Charts as SVG and PNG. A chart is drawn by its uPlot, as on the screen; what that asks of its
 * canvas is written down, so that ticks, numbers, gaps and bands are the same.
 */

import { html, render } from "../vendor/preact.js";
import { GREY, PALETTE, currentTheme, valued, variable } from "./colours.js";
import { drawMarks } from "./pointer.js";

/** @typedef {import("../vendor/uplot.js").default} uPlot */
/** @typedef {{name: string, colour: string, dash: number[], gone?: boolean}} Key one entry of a legend */
/**
 * @typedef {object} Card A chart, as it is saved.
 * @property {string} title
 * @property {string} count
 * @property {{text: string, quiet: boolean}[]} notes
 * @property {string} over what is said in place of a plot
 * @property {Key[]} keys of its paths
 * @property {string} body elements of SVG
 * @property {number} width
 * @property {number} height
 * @property {number} left of its plot
 * @property {number} top of its plot
 * @property {number} x in a picture
 * @property {number} y in a picture
 */
/** The two colours of one that is drawn now, in the light and in the dark theme. @typedef {Map<string, {name: string, light: string, dark: string}>} Inks */
/** @typedef {(colour: string) => string} Ink */

const FONT = "system-ui, sans-serif";
const [ROW_PX, EDGE_PX] = [20, 12];
/** The greatest side and area of a PNG that all browsers draw. */
const [MOST_SIDE, MOST_AREA] = [16_000, 100e6];

/** A text in XML and HTML, without characters that XML lacks. @param {unknown} text */
export function escaped(text) {
  const known = String(text).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\ufffe\uffff]|\p{Surrogate}/gu, "\ufffd");
  return known.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`);
}

/** @param {number} pixels */
const px = (pixels) => String(Math.round(pixels * 100) / 100);

/** @type {CanvasRenderingContext2D | null} */
let scratch = null;

/** @returns {CanvasRenderingContext2D} */
function brush() {
  scratch ??= /** @type {CanvasRenderingContext2D} */ (document.createElement("canvas").getContext("2d"));
  return scratch;
}

/** A colour as "#rrggbb", and how far one sees it. @param {string} style @returns {[string, string]} */
export function hexOf(style) {
  const [, r, g, b, alpha = ""] = /^rgba?\((\d+), (\d+), (\d+)(?:, ([\d.]+))?\)$/.exec(style) ?? [];
  return [r ? `#${[r, g, b].map((one) => Number(one).toString(16).padStart(2, "0")).join("")}` : style, alpha];
}

/** The colours of the page. @returns {Inks} */
export function inksOf() {
  const theme = currentTheme();
  /** @type {Inks} */
  const inks = new Map();
  const put = (/** @type {string} */ name, /** @type {string} */ light, /** @type {string} */ dark, now = theme === "dark" ? dark : light) => {
    brush().fillStyle = now;
    const hex = String(brush().fillStyle);
    if (!inks.has(hex)) inks.set(hex, { name, light, dark });
  };
  for (const { cssRules } of document.styleSheets) {
    for (const rule of /** @type {any} */ (cssRules)) {
      if (rule.selectorText !== ":root") continue;
      for (const name of ["--bg", "--fg", "--muted", "--line"]) {
        const both = /light-dark\((#\w+), ?(#\w+)\)/.exec(rule.style.getPropertyValue(name));
        if (both) put(name, both[1], both[2], variable(name, both[1]));
      }
    }
  }
  PALETTE.light.forEach((light, at) => put(`--hue${at}`, light, PALETTE.dark[at]));
  put("--grey", GREY.light, GREY.dark);
  valued.now?.values.forEach(({ colour }, at) => put(`--value${at}`, colour.light, colour.dark));
  for (const [id, light] of Object.entries(valued.now?.colours.light ?? {})) put(`--value-${inks.size}`, light, valued.now?.colours.dark[id] ?? light);
  return inks;
}

/** What a path has, in the pixels of a canvas. */
class Trail {
  constructor(scale = 1, title = "") {
    this.scale = scale;
    this.title = title;
    this.d = "";
    this.box = [0, 0, 0, 0];
  }
  /** @param {number[]} some */
  at(...some) {
    return some.map((one) => px(one / this.scale)).join(" ");
  }
  /** @param {number} x @param {number} y */
  moveTo(x, y) {
    this.d += `M${this.at(x, y)}`;
  }
  /** @param {number} x @param {number} y */
  lineTo(x, y) {
    this.d += `${this.d ? "L" : "M"}${this.at(x, y)}`;
  }
  /** @param {number} x @param {number} y @param {number} width @param {number} height */
  rect(x, y, width, height) {
    this.box = [x, y, width, height];
    this.d += `M${this.at(x, y)}h${this.at(width)}v${this.at(height)}h${this.at(-width)}z`;
  }
  /** @param {number} x @param {number} y @param {number} r of a whole circle */
  arc(x, y, r) {
    this.d += `M${this.at(x - r, y)}a${this.at(r, r)} 0 1 0 ${this.at(2 * r)} 0a${this.at(r, r)} 0 1 0 ${this.at(-2 * r)} 0z`;
  }
}

/** The name of SVG in files of their own. */
function namespace() {
  const box = document.createElement("div");
  render(html`<svg />`, box);
  return box.firstElementChild?.namespaceURI;
}

let clips = 0;

/**
 * What a plot draws, as elements of SVG.
 * @param {uPlot} plot
 * @param {Ink} ink
 * @returns {string}
 */
function elementsOf(plot, ink) {
  const ctx = /** @type {any} */ (plot.ctx);
  const scale = devicePixelRatio;
  const { left, top, width, height } = plot.bbox;
  /** @type {{head: string, d: string, tail: string}[]} */
  const made = [];
  /** @type {Map<string, string>} */
  const boxes = new Map();
  /** @type {string[]} */
  const kept = [];
  let clip = "";
  let path = new Trail(scale);
  const painted = (/** @type {string} */ kind, /** @type {string} */ style) => {
    const [hex, alpha] = hexOf(style);
    return ` ${kind}="${ink(hex)}"${alpha && ` ${kind}-opacity="${alpha}"`}`;
  };
  const put = (/** @type {string} */ look, /** @type {Trail} */ { d, title }) => {
    if (!d) return;
    const { e, f } = ctx.getTransform();
    const head = `<path${look}${clip}${e || f ? ` transform="translate(${px(e / scale)} ${px(f / scale)})"` : ""} d="`;
    const before = made[made.length - 1];
    // Points of one colour are one element.
    if (before?.head === head && look.startsWith(" fill")) before.d += d;
    else made.push({ head, d, tail: title ? `"><title>${escaped(title)}</title></path>` : '"/>' });
  };
  const own = {
    beginPath: () => (path = new Trail(scale)),
    closePath: () => (path.d += "z"),
    moveTo: (/** @type {number} */ x, /** @type {number} */ y) => path.moveTo(x, y),
    lineTo: (/** @type {number} */ x, /** @type {number} */ y) => path.lineTo(x, y),
    rect: (/** @type {[number, number, number, number]} */ ...box) => path.rect(...box),
    arc: (/** @type {number} */ x, /** @type {number} */ y, /** @type {number} */ r) => path.arc(x, y, r),
    clearRect: () => undefined,
    save: () => {
      kept.push(clip);
      CanvasRenderingContext2D.prototype.save.call(ctx);
    },
    restore: () => {
      clip = kept.pop() ?? "";
      CanvasRenderingContext2D.prototype.restore.call(ctx);
    },
    // uPlot itself clips to the plot only.
    clip: (/** @type {any} */ given) => {
      const [x, y, w, h] = (given ? [left - scale, top - scale, width + 2 * scale, height + 2 * scale] : path.box).map((one) => px(one / scale));
      const box = `<rect x="${x}" y="${y}" width="${w}" height="${h}"/>`;
      if (!boxes.has(box)) boxes.set(box, `clip${(clips += 1)}`);
      clip = ` clip-path="url(#${boxes.get(box)})"`;
    },
    stroke: (given = path) => {
      const dash = ctx.getLineDash().map((/** @type {number} */ one) => px(one / scale)).join(" ");
      put(`${painted("stroke", ctx.strokeStyle)} stroke-width="${px(ctx.lineWidth / scale)}"${dash && ` stroke-dasharray="${dash}"`}`, given);
    },
    fill: (given = path) => put(painted("fill", ctx.fillStyle), given),
    fillRect: (/** @type {[number, number, number, number]} */ ...box) => {
      const one = new Trail(scale);
      one.rect(...box);
      own.fill(one);
    },
    fillText: (/** @type {string} */ text, /** @type {number} */ x, /** @type {number} */ y) => {
      const size = Number(/([\d.]+)px/.exec(ctx.font)?.[1] ?? 12) / scale;
      const anchor = { center: "middle", right: "end", end: "end" }[/** @type {string} */ (ctx.textAlign)] ?? "start";
      const down = { top: 0.85, middle: 0.35, bottom: -0.2 }[/** @type {string} */ (ctx.textBaseline)] ?? 0;
      const { e, f } = ctx.getTransform();
      // The first number below the axis is not cut.
      const at = anchor === "middle" ? Math.max(x + e, ctx.measureText(text).width / 2) : x + e;
      made.push({ head: `<text${painted("fill", ctx.fillStyle)} text-anchor="${anchor}" x="${px(at / scale)}" y="${px((y + f) / scale + down * size)}"${size === 12 ? "" : ` font-size="${px(size)}"`}>`, d: escaped(text), tail: "</text>" });
    },
  };
  const lines = /** @type {any[]} */ (plot.series.slice(1));
  const builders = lines.map((one) => one.paths);
  lines.forEach((one) => {
    one._paths = null;
    one.paths = (/** @type {any} */ u, /** @type {number} */ n, /** @type {number} */ from, /** @type {number} */ to) => {
      const trail = new Trail(scale, one.label);
      let pen = false;
      for (let at = from; at <= to; at++) {
        const value = u.data[n][at];
        if (value === undefined) continue;
        if (value !== null) trail[pen ? "lineTo" : "moveTo"](u.valToPos(u.data[0][at], "x", true), u.valToPos(value, "y", true));
        pen = value !== null;
      }
      return { stroke: trail, fill: null, clip: null, band: null, gaps: null, flags: 1 };
    };
  });
  Object.assign(ctx, own);
  try {
    plot.batch(() => plot.redraw());
    const { _found: found, _values: values } = /** @type {any} */ (plot.axes[1]);
    if (!found?.[1] || values.length < 2) drawMarks(plot, plot.scales.y.distr === 3);
  } finally {
    for (const name of Object.keys(own)) delete ctx[name];
    lines.forEach((one, at) => Object.assign(one, { _paths: null, paths: builders[at] }));
    plot.redraw();
  }
  const defs = [...boxes].map(([box, id]) => `<clipPath id="${id}">${box}</clipPath>`).join("");
  return `<g fill="none" stroke-linejoin="round" font-size="12">${defs && `<defs>${defs}</defs>`}${made.map(({ head, d, tail }) => head + d + tail).join("")}</g>`;
}

/** A chart that is on the page. @param {HTMLElement} element @param {Ink} ink @returns {Card} */
export function cardOf(element, ink) {
  const text = (/** @type {string} */ one) => element.querySelector(one)?.textContent?.trim() ?? "";
  const { uplot } = /** @type {any} */ (element);
  const area = /** @type {HTMLElement | null} */ (element.querySelector(".chart-area"));
  const keys = [...element.querySelectorAll(".chart-paths li")].map((one) => {
    const line = one.querySelector("line");
    return { name: one.textContent ?? "", colour: line?.getAttribute("stroke") ?? "", dash: (line?.getAttribute("stroke-dasharray") ?? "").split(" ").map(Number) };
  });
  return {
    title: text(".chart-title"), count: text(".chart-count"), over: uplot ? "" : text(".chart-over"), keys,
    notes: [...element.querySelectorAll(".chart-notes span")].map((one) => ({ text: one.textContent ?? "", quiet: one.classList.contains("quiet") })),
    body: uplot ? elementsOf(uplot, ink) : "",
    width: element.offsetWidth, height: element.offsetHeight, left: area?.offsetLeft ?? 0, top: area?.offsetTop ?? 0, x: 0, y: 0,
  };
}

/** A text with no more than some width. @param {string} text @param {number} room @param {string} font */
function fitting(text, room, font) {
  const ctx = brush();
  ctx.font = font;
  const letters = Array.from(text.slice(0, 1000));
  if (text.length <= 1000 && ctx.measureText(text).width <= room) return text;
  let [low, high] = [0, letters.length];
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (ctx.measureText(`${letters.slice(0, middle).join("")}…`).width <= room) low = middle;
    else high = middle - 1;
  }
  return `${letters.slice(0, low).join("")}…`;
}

/** @param {Key} key @param {Ink} ink */
export function swatch({ colour, dash }, ink) {
  const dashes = dash.filter(Boolean).join(" ");
  return `<line x2="22" stroke="${colour.startsWith("#") ? ink(colour) : "currentColor"}" stroke-width="2.5"${dashes && ` stroke-dasharray="${dashes}"`}/>`;
}

/**
 * Charts in one picture on a white ground.
 * @param {{title: string, facts: string[], keys: Key[], heads: {text: string, y: number}[], cards: Card[]}} page
 * @param {Ink} ink
 */
export function pictureOf({ title, facts, keys, heads, cards }, ink) {
  const width = Math.max(320, ...cards.map((one) => one.x + one.width)) + 2 * EDGE_PX;
  const inside = width - 2 * EDGE_PX;
  /** @type {string[]} */
  const made = [];
  const write = (/** @type {number} */ x, /** @type {number} */ y, /** @type {string} */ text, /** @type {number} */ room, more = "", size = 12) => {
    const shown = fitting(text, room, `${more.includes("600") ? "600 " : ""}${size}px ${FONT}`);
    made.push(`<text x="${px(x)}" y="${px(y)}" font-size="${size}"${more}>${escaped(shown)}</text>`);
    return brush().measureText(shown).width;
  };
  const legend = (/** @type {Key[]} */ some, /** @type {number} */ from, /** @type {number} */ y, /** @type {number} */ room) => {
    let x = from;
    for (const key of some) {
      const name = fitting(key.name, Math.min(300, room - 30), `12px ${FONT}`);
      const long = 44 + brush().measureText(name).width;
      if (x > from && x + long > from + room) [x, y] = [from, y + ROW_PX];
      made.push(`<g transform="translate(${px(x)} ${y - 4})" color="#57616c">${swatch(key, ink)}</g>`);
      write(x + 28, y, name, Infinity);
      x += long;
    }
    return y;
  };
  let y = EDGE_PX + 14;
  write(EDGE_PX, y, title, inside, ' font-weight="600"', 15);
  for (const fact of facts.filter(Boolean)) write(EDGE_PX, (y += ROW_PX), fact, inside, ' fill="#57616c"');
  if (keys.length) y = legend(keys, EDGE_PX, y + ROW_PX + 4, inside);
  const base = y + EDGE_PX;
  for (const one of heads) write(EDGE_PX, base + one.y, one.text, inside, ' font-weight="600"', 14);
  for (const card of cards) {
    const [left, top] = [EDGE_PX + card.x, base + card.y];
    made.push(`<rect x="${px(left + 0.5)}" y="${px(top + 0.5)}" width="${card.width - 1}" height="${card.height - 1}" rx="6" fill="none" stroke="#dce1e6"/>`);
    const used = write(left + 8, top + 16, card.title, card.width - 16, ' font-weight="600"', 13);
    if (used + 60 < card.width) write(left + 16 + used, top + 16, card.count, card.width - used - 24, ' fill="#57616c"');
    if (card.keys.length) legend(card.keys, left + 8, top + 36, card.width - 16);
    made.push(`<g transform="translate(${px(left + card.left)} ${px(top + card.top)})">${card.body}</g>`);
    write(left + card.width / 2, top + card.height / 2, card.over, card.width - 16, ' fill="#57616c" text-anchor="middle"');
    const notes = card.notes.filter((one) => !one.quiet).map((one) => one.text).join(" · ");
    write(left + card.width - 10, top + card.top + 14, notes, card.width - 80, ' fill="#b3261e" text-anchor="end" stroke="#fff" stroke-width="3" paint-order="stroke"');
  }
  const height = Math.ceil(base + Math.max(0, ...cards.map((one) => one.y + one.height)) + EDGE_PX);
  return { width, height, svg: `<svg xmlns="${namespace()}" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="${FONT}" fill="#1a2026"><title>${escaped(title)}</title><rect width="${width}" height="${height}" fill="#fff"/>${made.join("\n")}</svg>\n` };
}

/** @param {ReturnType<typeof pictureOf>} picture @returns {Promise<Blob>} */
export async function pngOf({ svg, width, height }) {
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    const scale = Math.min(2, MOST_SIDE / Math.max(width, height), Math.sqrt(MOST_AREA / (width * height)));
    const canvas = document.createElement("canvas");
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
    const blob = await new Promise((/** @type {(made: Blob | null) => void} */ go) => canvas.toBlob(go, "image/png"));
    if (!blob) throw new Error("The browser cannot draw a picture of this size: save SVG.");
    return blob;
  } finally {
    URL.revokeObjectURL(url);
  }
}
