// @ts-check
/** The plot of a chart: lines, bands and marks, and what the pointer and the keys do with them. */

import uPlot from "../vendor/uplot.js";
import { highlight, setHighlight, variable } from "./colours.js";
import { load } from "./components.js";
import { drawAbove, drawBehind, faded } from "./drawing.js";
import { clock, short } from "./format.js";
import { aligned, yRange } from "./lines.js";

/** @typedef {import("./lines.js").Line} Line */
/** @typedef {import("./lines.js").Range} Range */
/** @typedef {import("./curves.js").Begin} Begin */
/** @typedef {import("./pointer.js").Row} Row */

/** The most lines that have bands. */
const BANDS = 8;
const NEAR_PX = 18;
const SYNC = "seamark";
const KEYS = ["+", "-", "ArrowLeft", "ArrowRight", "Home", "End"];
const RELATIVE_STEPS = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
  86400, 172800, 432000, 864000, 1728000, 4320000, 8640000,
];
const WHOLE_STEPS = Array.from({ length: 46 }, (_, at) => [1, 2, 5][at % 3] * 10 ** Math.floor(at / 3));

/** About how wide the numbers below the x axis are. @param {uPlot} plot @returns {number[]} */
function widthsOf(plot) {
  const values = /** @type {(string | null)[]} */ (/** @type {any} */ (plot.axes[0])._values ?? []);
  return values.filter(Boolean).map((one) => 7 * Math.max(...String(one).split("\n").map((line) => line.length)));
}

/** @type {typeof import("./pointer.js") | null} */
let pointers = null;

/** @returns {Promise<typeof import("./pointer.js")>} */
async function loadPointers() {
  const module = await load("./pointer.js");
  pointers = module;
  return module;
}

/** The uPlot of a chart, and all that is needed to draw it again. */
export class Plot {
  /**
   * @param {HTMLElement} element
   * @param {object} how
   * @param {string} how.axis
   * @param {boolean} how.logx
   * @param {boolean} how.logy
   * @param {boolean} how.robust
   * @param {(line: Line, highlighted: string) => string} how.colour
   * @param {string[]} how.greys the colours of lines that are drawn beneath the others
   * @param {(zoom: Range | null) => void} how.onZoom
   * @param {() => void} how.onShow
   * @param {number} how.height
   * @param {any} how.api
   * @param {boolean} how.whole whether replaced points are among the points
   * @param {string} how.kind of lines: those of another one are drawn by another uPlot
   */
  constructor(element, how) {
    this.element = element;
    this.how = how;
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Range | null} */
    this.zoom = null;
    /** The begins of attempts. @type {Begin[]} */
    this.begins = [];
    /** @type {ReturnType<typeof yRange>} */
    this.range = null;
    /** @type {uPlot | null} */
    this.plot = null;
    this.key = "";
    /** In pixels; 0 until it is known without a layout. */
    this.width = 0;
    this.hovered = false;
    /** @type {import("./pointer.js").Pointer | null} */
    this.pointer = null;
    /** The place of the values that are shown. @type {import("./pointer.js").Place | null} */
    this.place = null;
    this.frame = 0;
    this.stopListening = highlight.listen(() => {
      this.frame ||= requestAnimationFrame(() => {
        this.frame = 0;
        this.restyle();
      });
    });
  }

  /**
   * @param {Line[]} lines
   * @param {Range | null} zoom
   */
  show(lines, zoom) {
    this.zoom = zoom;
    const isGrey = (/** @type {Line} */ line) => this.how.greys.includes(this.how.colour(line, ""));
    lines = [...lines.filter(isGrey), ...lines.filter((line) => !isGrey(line))];
    this.lines = lines;
    const key = [this.how.kind, ...lines.map((line) => line.key)].join("\n");
    if (!lines.some((line) => line.parts.x.length)) {
      this.destroyPlot();
      return;
    }
    const data = /** @type {any} */ (aligned(lines, this.how.logy));
    if (this.plot && this.key === key) {
      this.plot.batch(() => this.plot?.setData(data, true));
    } else {
      this.destroyPlot();
      this.key = key;
      this.plot = new uPlot(this.options(), data, this.element);
      this.owner().uplot = this.plot;
    }
    this.how.onShow();
    this.pointer?.forget();
    if (this.place) this.tell(...this.place);
  }

  /** The element that has the uPlot as a property. @returns {any} */
  owner() {
    return this.element.closest(".chart") || this.element;
  }

  options() {
    const { axis, logx, logy, height } = this.how;
    const grid = { stroke: variable("--line", "#8884"), width: 1 };
    const both = { stroke: variable("--muted", "#667"), font: "12px system-ui, sans-serif", ticks: { ...grid, size: 4 }, grid, gap: 3 };
    const time = axis === "time";
    const written = (/** @type {(one: number) => string} */ text) => (/** @type {uPlot} */ _, /** @type {(number | null)[]} */ at) => at.map((one) => (one === null ? "" : text(one)));
    /** @type {any} */
    const across = { ...both, size: time ? 36 : 22, space: time || axis === "relative" ? 90 : 64 };
    if (axis === "relative" && !logx) Object.assign(across, { incrs: RELATIVE_STEPS, values: written(clock) });
    else if (!time) {
      // Whole steps have whole numbers below them.
      const whole = !logx && this.lines.every(({ parts: { x, width } }) => width || !x.length || [x[0], x[x.length >> 1], x[x.length - 1]].every(Number.isInteger));
      if (whole) across.incrs = WHOLE_STEPS;
      across.values = written((one) => short(one, 6));
    }
    return /** @type {any} */ ({
      width: Math.max(120, this.width || this.element.clientWidth),
      height,
      // The last number below the axis is not cut.
      padding: [6, (/** @type {uPlot} */ plot) => Math.max(8, ...widthsOf(plot).slice(-1).map((one) => one / 2 + 2)), 0, 0],
      legend: { show: false },
      scales: {
        x: { time, distr: logx ? 3 : 1, range: () => this.xRange() },
        y: {
          distr: logy ? 3 : 1,
          range: () => {
            this.range = yRange(this.lines, this.zoom, { robust: this.how.robust, logy, banded: (line) => !line.replaced && this.few });
            const found = this.range ?? { low: logy ? 1 : 0, high: logy ? 10 : 1 };
            return [found.low, found.high];
          },
        },
      },
      axes: [
        across,
        {
          ...both,
          space: 34,
          size: (/** @type {uPlot} */ _, /** @type {string[] | null} */ values) => {
            const longest = Math.max(0, ...(values || []).map((one) => (one ? String(one).length : 0)));
            return Math.max(values && values.length > 1 ? 34 : 64, 12 + longest * 7);
          },
          values: written((one) => short(one, logy ? 3 : 5)),
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
        drawAxes: [(/** @type {uPlot} */ plot) => drawBehind(plot, this)],
        draw: [(/** @type {uPlot} */ plot) => drawAbove(plot, this)],
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

  /** Whether there is room for bands and points. */
  get few() {
    return this.lines.length <= BANDS;
  }

  /** @param {Line} line */
  banded(line) {
    return !line.replaced && !line.key.endsWith("\nless") && (this.few || line.run === highlight.now);
  }

  /** @param {Line} line */
  strokeOf(line) {
    const colour = this.how.colour(line, highlight.now);
    if (this.how.greys.includes(colour)) return faded(colour, highlight.now ? 0.2 : 0.35);
    const others = highlight.now && highlight.now !== line.run && this.lines.some((one) => one.run === highlight.now);
    return others ? faded(colour, 0.35) : colour;
  }

  /** @param {Line} line */
  widthOf(line) {
    return line.run === highlight.now ? 2.5 : this.lines.length > 20 ? 1 : 1.5;
  }

  /** Draw what is highlighted in its style. */
  restyle() {
    const { plot } = this;
    if (!plot) return;
    this.lines.forEach((line, at) => (plot.series[at + 1].width = this.widthOf(line)));
    plot.redraw(false, false);
  }

  /** The point of a series that the cursor marks. @param {uPlot} plot @param {number} series @param {number} at */
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

  /** Zoom to what was selected. @param {uPlot} plot */
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
      if (event.pointerType === "touch") loadPointers().then(({ drag }) => drag(plot, event), () => undefined);
    });
    plot.over.addEventListener("mouseenter", () => (this.hovered = true));
    plot.over.addEventListener("mouseleave", () => {
      this.hovered = false;
      this.hush();
      setHighlight("");
    });
  }

  /** Show the values where the pointer is, and highlight the run whose line is near. @param {uPlot} plot */
  moved(plot) {
    if (!this.hovered) return;
    const { left, top } = plot.cursor;
    if (left === undefined || top === undefined || left < 0) {
      this.hush();
      return;
    }
    const rows = this.tell(plot.posToVal(left, "x"), plot.rect.left + left, plot.rect.top + top);
    let near = NEAR_PX;
    let run = "";
    for (const one of rows) {
      const away = Math.abs(plot.valToPos(one.value, "y") - top);
      if (away < near) [near, run] = [away, one.line.run];
    }
    setHighlight(run);
  }

  /**
   * Show the values at an x beside a place of the window.
   * @param {number} x
   * @param {number} left
   * @param {number} top
   * @param {(words: string) => void} [said] is told them as text
   * @returns {Row[]}
   */
  tell(x, left, top, said) {
    if (!this.plot) return [];
    this.place = [x, left, top, said];
    if (pointers) {
      this.pointer ??= new pointers.Pointer(this);
      return this.pointer.tell();
    }
    loadPointers().then(() => this.place && this.tell(...this.place), () => undefined);
    return [];
  }

  /** Show no values any more. */
  hush() {
    this.place = null;
    this.pointer?.hush();
  }

  /**
   * Move along the chart, or zoom it, with a key.
   * @param {KeyboardEvent} event
   * @param {(words: string) => void} said
   * @returns {boolean} whether the key does something
   */
  press(event, said) {
    if (event.key === "r" || event.key === "Escape") {
      this.how.onZoom(null);
      this.hush();
      return true;
    }
    if (!this.plot || !KEYS.includes(event.key)) return false;
    loadPointers().then(({ press }) => press(this, event, said), () => undefined);
    return true;
  }

  /** @param {number} width 0 if it is not known @param {number} height */
  resize(width, height) {
    this.width = Math.round(width);
    this.how.height = height;
    const size = { width: Math.max(120, this.width || this.element.clientWidth), height };
    if (this.plot && (this.plot.width !== size.width || this.plot.height !== height)) this.plot.setSize(size);
  }

  destroyPlot() {
    if (!this.plot) return;
    if (this.hovered) setHighlight("");
    if (this.place) this.hush();
    this.plot.destroy();
    this.plot = null;
    delete this.owner().uplot;
  }

  destroy() {
    this.stopListening();
    if (this.frame) cancelAnimationFrame(this.frame);
    this.destroyPlot();
  }
}
