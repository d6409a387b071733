// @ts-check
/** One chart: its head and menu, its plot or table, and its notes; the legend and the sizes of charts. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { read, subscribe, write } from "./address.js";
import { COLOURED, GREY, PALETTE, Shared, colourOf, dashOf, highlight, highlighting, useTheme } from "./colours.js";
import { Later, Middle, kept, useSeen } from "./components.js";
import { DASHES, useCurves } from "./curves.js";
import { axisName, axisUnit, count, short, unitOf, whole } from "./format.js";
import { Plot } from "./plot.js";

/** @typedef {import("./lines.js").Line} Line */
/** @typedef {import("./lines.js").Range} Range */
/** @typedef {import("./lines.js").Kept} Kept */
/** @typedef {import("./curves.js").View} View */

const MOST_ALIVE = 24;
/** The charts that have a plot. @type {Set<object>} */
const alive = new Set();
/** Charts that wait for one of them to go out of view. @type {Set<() => void>} */
const waiting = new Set();

/**
 * @typedef {object} More
 * @property {string} id of its size
 * @property {number} height with its head
 * @property {number} of the number of runs of which these are some
 * @property {(zoom: Range | null) => void} onZoom
 * @property {Range | null} zoom
 * @property {string} title
 * @property {boolean} pinned
 * @property {() => void} onPin
 * @property {(paths: string[]) => void} onCombine
 * @property {() => string[]} known paths that may be added, asked for when they are shown
 * @property {() => void} [onRemove] of a chart that a person made
 * @property {boolean} [always] whether it is drawn however many others are
 * @typedef {import("./curves.js").Asked & More} ChartProps
 */

/** The colour of a series among several of one run. @param {string} path @param {string[]} paths @param {import("./colours.js").Theme} theme */
function pathColour(path, paths, theme) {
  return PALETTE[theme][paths.indexOf(path) % COLOURED];
}

/** @param {ChartProps} props */
export function Chart(props) {
  const { paths, runs, view, title, zoom, onZoom, has, groups } = props;
  const theme = useTheme();
  const [asTable, setAsTable] = useState(false);
  const [said, setSaid] = useState("");
  const [full, setFull] = useState(0);
  const height = full || props.height - HEAD_PX;
  const root = useRef(/** @type {HTMLElement | null} */ (null));
  const canvas = useRef(/** @type {HTMLElement | null} */ (null));
  const seen = useSeen(root, true);
  const every = groups ? groups.map((one) => one.label) : runs.map((run) => run.id);
  const byPath = runs.length === 1 && !groups && paths.length > 1;
  const curves = useCurves({ ...props, dashOf: (run) => (byPath ? [] : dashOf(run, every, view.colours || {})) }, seen, canvas);
  const { told } = curves;
  const axis = view.x || "step";
  const single = runs.length === 1 && !groups;

  const colour = (/** @type {Line} */ line, /** @type {string} */ highlighted) => {
    if (byPath) return pathColour(line.path, paths, theme);
    return colourOf(line.run, every, theme, view.colours || {}, line.run === highlighted);
  };
  const inks = every.map((id) => colourOf(id, every, theme, view.colours || {})).join();
  const gone = useMemo(() => new Set(every.length > 1 ? view.hidden : []), [every.length > 1, view.hidden.join()]);
  const { plot, wait } = usePlot({ ...props, height }, curves, seen && !asTable ? canvas : null, `${theme} ${inks}`, colour, gone);

  const all = curves.lines().filter((line) => !gone.has(line.run));
  const cut = title.lastIndexOf("/") + 1;
  const units = new Set(paths.map(unitOf));
  const unit = units.size === 1 ? [...units][0] : "";
  // Whether runs that were just chosen have points is not known yet.
  const known = groups || runs.every((run) => has.has(run.id) && curves.isLoaded(run));
  const empty = known && !told.loading && !told.error && !curves.lines().some((line) => line.parts.x.length);

  const onKey = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape" && full) setFull(0);
    else if (event.ctrlKey || event.metaKey || event.altKey || event.target !== canvas.current) return;
    else if (event.key === "t") setAsTable(true);
    else if (!plot.current?.press(event, setSaid)) return;
    event.preventDefault();
    event.stopPropagation();
  };

  const words = told.error ? "could not be loaded" : empty ? "no points" : `${count(all.length, "line")} along ${axisName(axis)}`;
  return html`<section class=${`chart${full ? " full" : ""}`} ref=${root} onKeyDown=${onKey} data-paths=${paths.join(" ")} aria-label=${title} aria-busy=${seen && told.loading ? "true" : "false"}>
    <header class="chart-head">
      <h4 class="chart-title" title=${paths.join("\n")}><span class="chart-space">${title.slice(0, cut)}</span><b>${title.slice(cut)}</b>${unit && html` <span class="chart-unit">${unit}</span>`}</h4>
      <span class="chart-count">${countOf(props, all, told.loading ? curves : null)}</span>
      <span class="chart-tools">
        <button type="button" class="chart-tool" aria-pressed=${props.pinned ? "true" : "false"} title=${props.pinned ? "Unpin: back to its section" : "Pin: show it first"} aria-label=${`Pin ${title}`} onClick=${props.onPin}>${props.pinned ? "★" : "☆"}</button>
        <button type="button" class="chart-tool" aria-pressed=${full ? "true" : "false"} title=${full ? "As before (Escape)" : "Full screen"} aria-label=${`Full screen ${title}`} onClick=${() => setFull(full ? 0 : innerHeight - HEAD_PX)}>⤢</button>
        <${ChartMenu} title=${title} asTable=${asTable} onTable=${() => setAsTable(!asTable)}
          drawn=${() => ({ lines: all, axis, root: root.current, colour })}
          zoomed=${zoom !== null} onZoomOut=${() => onZoom(null)}
          known=${props.known} onAdd=${(/** @type {string} */ path) => props.onCombine([...paths, path])} onRemove=${props.onRemove} />
      </span>
    </header>
    ${paths.length > 1 && html`<${PathKey} paths=${paths} single=${single} colour=${(/** @type {string} */ path) => pathColour(path, paths, theme)} />`}
    ${asTable
      ? html`<${Later} of="./menu.js" part="PointsTable" lines=${all} axis=${axis} zoom=${zoom} height=${height} onClose=${() => setAsTable(false)} />`
      : html`<div class="chart-area" style=${{ height: `${height}px` }}>
          <div class="chart-canvas" ref=${canvas} tabindex="0" role="img" aria-roledescription="chart" onBlur=${() => plot.current?.hush()}
            aria-label=${`${title}: ${words}. Arrow keys move along it, t shows it as a table.`}></div>
          ${told.error && html`<p class="chart-over chart-error" role="alert">${told.error}</p>`}
          ${empty && html`<p class="chart-over">no points${zoom ? " here" : ""}</p>`}
          ${told.loading && !all.length && html`<p class="chart-over chart-loading">…</p>`}
          ${wait && !plot.current && html`<p class="chart-over">${MOST_ALIVE} charts are drawn already: scroll</p>`}
        </div>`}
    ${!full && !asTable && html`<${Corner} id=${props.id} title=${title} />`}
    <p class="chart-notes">${notesOf(all, curves.kept.current, view, plot.current?.range).map((note, at) => html`<span key=${at} class=${note.kind} title=${note.title || ""}>${note.text}</span>`)}</p>
    <p class="unseen" aria-live="polite">${said}</p>
  </section>`;
}

/** What is to be drawn, by chart: an older drawing of it is not made. @type {Map<object, () => void>} */
const undrawn = new Map();

/** Draw in a task of its own: clicks and other charts do not wait until all are drawn. @param {object} chart @param {() => void} draw */
function drawSoon(chart, draw) {
  if (!undrawn.size) setTimeout(drawNext);
  undrawn.set(chart, draw);
}

function drawNext() {
  const [next] = undrawn;
  if (!next) return;
  undrawn.delete(next[0]);
  if (undrawn.size) setTimeout(drawNext);
  next[1]();
}

/**
 * A hook that draws a chart, unless as many are drawn already as a browser bears.
 * @param {ChartProps} props
 * @param {ReturnType<typeof useCurves>} curves
 * @param {{current: HTMLElement | null} | null} canvas null if nothing is to be drawn
 * @param {string} inks the theme and the colours of the runs
 * @param {(line: Line, highlighted: string) => string} colour
 * @param {ReadonlySet<string>} gone the runs whose lines are hidden
 */
function usePlot({ api, paths, runs, view, groups, zoom, onZoom, height, always }, curves, canvas, inks, colour, gone) {
  const plot = useRef(/** @type {Plot | null} */ (null));
  /** Whether it waits for another chart; a new object draws the notes anew. */
  const [state, setState] = useState({ wait: false });
  const [released, setReleased] = useState(0);
  const me = useMemo(() => ({}), []);
  const { logx = false, logy = false, robust = false } = view;
  const axis = view.x || "step";
  const kind = JSON.stringify([inks, runs.map((run) => [run.project, run.id]), paths, groups, axis, logx, logy, robust, curves.whole]);
  const how = { axis, logx, logy, robust, colour, greys: Object.values(GREY), height, api, whole: curves.whole, kind, onZoom, onShow: () => setState({ wait: false }) };
  useEffect(() => {
    const element = canvas?.current;
    if (!element) return undefined;
    if (!always && alive.size >= MOST_ALIVE && !alive.has(me)) {
      const retry = () => setReleased((old) => old + 1);
      waiting.add(retry);
      setState({ wait: true });
      return () => void waiting.delete(retry);
    }
    alive.add(me);
    const made = new Plot(element, how);
    plot.current = made;
    const observer = new ResizeObserver(([{ contentRect }]) => {
      made.resize(contentRect.width, made.how.height);
      curves.onResize();
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      undrawn.delete(me);
      made.destroy();
      plot.current = null;
      alive.delete(me);
      const next = waiting.values().next().value;
      if (!next) return;
      waiting.delete(next);
      queueMicrotask(next);
    };
  }, [canvas !== null, released]);

  useEffect(() => plot.current?.resize(plot.current.width, height), [height]);

  useEffect(() => {
    const made = plot.current;
    if (!made) return;
    made.how = how;
    const draw = () => {
      made.begins = curves.begins();
      made.show(curves.drawnLines().filter((line) => !gone.has(line.run)), zoom);
    };
    // What is saved is read as soon as it has its points.
    if (always) draw();
    else drawSoon(me, draw);
  }, [canvas !== null, released, kind, curves.told.drawn, zoom?.low, zoom?.high, view.attempts, gone]);
  return { plot, wait: state.wait };
}

/**
 * The number of runs that are drawn and wait, or of the points of one.
 * @param {ChartProps} props
 * @param {readonly Line[]} lines
 * @param {ReturnType<typeof useCurves> | null} waits null if nothing is asked
 */
function countOf({ runs, of, groups }, lines, waits) {
  const own = lines.filter((line) => !line.replaced);
  if (groups) return own.length ? count(new Set(own.map((line) => line.run)).size, "group") : "";
  const loading = waits ? runs.filter((run) => !waits.isLoaded(run)).length : 0;
  const rest = loading ? `, ${whole(loading)} loading` : "";
  if (of > 1) return `${whole(new Set(own.map((line) => line.run)).size)} of ${count(of, "run")}${rest}`;
  const shown = own.reduce((sum, { parts }) => sum + parts.x.length, 0);
  const all = own.reduce((sum, { parts }) => sum + parts.count.reduce((a, b) => a + b, 0), 0);
  return shown && all > shown ? `${whole(shown)} of ${count(all, "point")}` : all ? count(all, "point") : "";
}

/**
 * The notes on a chart.
 * @param {readonly Line[]} lines
 * @param {Kept} kept
 * @param {View} view
 * @param {Plot["range"] | undefined} range
 * @returns {{text: string, kind: string, title?: string}[]}
 */
function notesOf(lines, kept, view, range) {
  const sum = { nan: 0, inf: 0, leftOut: 0, notPositive: 0, points: 0, replaced: 0 };
  const own = lines.filter((line) => !line.replaced).map((line) => line.parts);
  let low = Infinity;
  let high = -Infinity;
  let width = 0;
  for (const [key, one] of kept) if (key.endsWith("\nreplaced")) sum.replaced += one.parts.count.reduce((a, b) => a + b, 0);
  for (const parts of own) {
    for (let at = 0; at < parts.x.length; at++) {
      sum.nan += parts.nan[at];
      sum.inf += parts.inf[at];
      sum.points += parts.count[at];
      if (parts.x[at] < low) low = parts.x[at];
      if (parts.x[at] > high) high = parts.x[at];
    }
    sum.leftOut += parts.leftOut;
    sum.notPositive += parts.notPositive;
    if (Number.isFinite(parts.width)) width = Math.max(width, parts.width);
  }
  const axis = view.x || "step";
  const isSeries = axisUnit(axis, "") === "";
  const unit = axisUnit(axis, `of ${axis}`);
  const smooth = Number(view.smooth);
  const ema = Number(view.ema);
  /** @type {{text: string, kind: string, title?: string}[]} */
  const notes = [];
  const note = (/** @type {unknown} */ holds, /** @type {string} */ kind, /** @type {string} */ text, /** @type {string} */ title = "") => holds && notes.push({ kind, text, title });
  const beyond = (/** @type {number} */ n) => `${range?.parts ? "at least " : ""}${count(n, "point")}`;
  note(range?.above, "note", `▲ ${beyond(range?.above ?? 0)} above`, "beyond the robust range of y");
  note(range?.below, "note", `▼ ${beyond(range?.below ?? 0)} below`, "beyond the robust range of y");
  note(sum.nan, "bad", `${whole(sum.nan)} NaN`, "ticks at the bottom");
  note(sum.inf, "bad", `${whole(sum.inf)} ±Inf`, "triangles at the top (+) and at the bottom (−)");
  if (view.logx && !isSeries) note(sum.leftOut, "note", `${count(sum.leftOut, "point")} at x ≤ 0 left out`);
  else note(sum.leftOut, "note", `${count(sum.leftOut, "point")} without a place on x left out`, `before the first finite ${axis}`);
  note(sum.notPositive, "note", `${count(sum.notPositive, "value")} ≤ 0 not on the log axis`);
  note(own.some((parts) => parts.falls), "note", "x goes back: several passes lie above each other", "x = order of recording shows them apart");
  note(sum.replaced, "note", `${count(sum.replaced, "replaced point")}${view.attempts ? " dashed" : ""}`, "recorded after the checkpoint that a later attempt went on from");
  if (smooth > 0 && sum.points) {
    const about = high > low ? Math.max(1, Math.round((sum.points / own.length) * Math.min(1, smooth / (high - low)))) : 1;
    note(true, "quiet", `mean of ${short(smooth)} ${unit}, ${about === 1 ? "1 point" : `about ${whole(about)} points`}`);
  } else note(ema > 0, "quiet", `average, half of it from the last ${short(ema)} ${unit}`);
  note(width > 1e-300 && sum.points && !view.logx, "quiet", `mean and range of each ${short(width)} ${unit}`, "zoom in to see single points");
  return notes;
}

/** The dashes or colours of paths. @param {{paths: string[], single: boolean, colour: (path: string) => string}} props */
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
    ${open && html`<${Later} of="./menu.js" part="MenuList" ...${props} pick=${pick} />`}
  </span>`;
}

/** @typedef {{id: string, name: string, title?: string, onOpen?: () => void}} Item */

/**
 * Hide what is shown and the other way around, or show one alone, or all again.
 * @param {Item[]} items
 * @param {string} id
 * @param {boolean} alone
 */
function toggle(items, id, alone) {
  const now = new Set(read().hidden);
  const others = items.map((one) => one.id).filter((one) => one !== id);
  const isAlone = !now.has(id) && others.every((one) => now.has(one));
  const next = new Set(now);
  if (alone) for (const one of [id, ...others]) next[one === id || isAlone ? "delete" : "add"](one);
  else next[next.has(id) ? "delete" : "add"](id);
  write({ hidden: [...next] });
}

const NAME_PX = 150;
const MORE_PX = 70;
/** The room of what stands beside a name, and of a letter. */
const [BESIDE_PX, LETTER_PX] = [50, 7.2];

/**
 * One row of what is drawn, which can be opened. A click hides, another one shows; a double click
 * shows one alone.
 * @param {{items: Item[], label: string, theme: any, colours: Record<string, any>, gone: string[], note?: any}} props `gone`: whose lines are hidden
 */
export function Legend({ items, label, theme, colours, gone, note }) {
  const now = highlight.use();
  const [open, setOpen] = useState(false);
  const [room, setRoom] = useState(0);
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => {
    const observer = new ResizeObserver(() => setRoom(list.current?.clientWidth ?? 0));
    if (list.current) observer.observe(list.current);
    return () => observer.disconnect();
  }, []);
  const ids = items.map((one) => one.id);
  let left = room - MORE_PX;
  let fits = items.findIndex(({ name }) => (left -= BESIDE_PX + Math.min(NAME_PX, name.length * LETTER_PX)) < 0);
  if (fits < 0) fits = items.length;
  const shown = open ? items : items.slice(0, Math.max(1, fits));
  const more = items.length - shown.length;
  return html`<ul class=${`charts-key${open ? " open" : ""}`} aria-label=${label} ref=${list}>
    ${shown.map(({ id, name, title, onOpen }) => html`<li key=${id} class=${now === id ? "looked" : ""}><button type="button" aria-pressed=${gone.includes(id) ? "false" : "true"} title=${`${title ?? name}: a click hides or shows it, a double click or Alt shows it alone`}
      ...${highlighting(id)} onClick=${(/** @type {MouseEvent} */ event) => toggle(items, id, event.altKey)} onDblClick=${() => toggle(items, id, true)}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => {
        if (event.key !== "Enter" || !event.altKey) return;
        event.preventDefault();
        toggle(items, id, true);
      }}>
      <svg width="16" height="8" aria-hidden="true"><line x1="0" y1="4" x2="16" y2="4" stroke=${colourOf(id, ids, theme, colours, now === id)} stroke-width="3" stroke-dasharray=${dashOf(id, ids, colours).map((one) => one * 0.7).join(" ")} /></svg><${Middle} text=${name} /></button>${
        onOpen && html`<button type="button" class="charts-open" aria-label=${`Open ${name}`} title="Open" onClick=${onOpen}>↗</button>`}</li>`)}
    ${(more > 0 || open) && html`<li><button type="button" class="charts-more" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${open ? "less" : `+${more}`}</button></li>`}
    ${note && html`<li class="charts-note">${note}</li>`}
  </ul>`;
}

/** @typedef {{wide: number, height: number}} Size `wide`: columns; `height`: pixels */

const STORED = "seamark:sizes";
const [LEAST_HEIGHT, USUAL_HEIGHT, MOST_HEIGHT] = [160, 196, 600];
const [MOST_WIDE, MOST_BESIDE] = [3, 4];
const MOST_STORED = 200;
/** The height of what is above the plot. */
export const HEAD_PX = 24;

/** The sizes of an address, and those that are remembered. @param {import("./address.js").View} view @returns {Record<string, Size>} */
function sizesOf(view) {
  const found = Object.create(null);
  try {
    Object.assign(found, JSON.parse(kept.get(STORED) || "{}"));
  } catch {
    // As if nothing were remembered.
  }
  for (const one of view.sizes) {
    const at = one.lastIndexOf(":");
    const [wide, height] = one.slice(at + 1).split("x").map((text) => Math.round(Number(text)) || 0);
    found[one.slice(0, at)] = { wide: Math.max(0, Math.min(MOST_BESIDE, wide)), height };
  }
  return found;
}

/** Sizes by the keys of charts. */
export const sizes = new Shared(sizesOf(read()));
subscribe((view) => {
  const next = sizesOf(view);
  if (JSON.stringify(next) !== JSON.stringify(sizes.now)) sizes.set(next);
});

/** The sizes of the charts that are shown, for an address. */
export function sizesSeen() {
  const keys = [...document.querySelectorAll(".charts-slot")].map((one) => /** @type {HTMLElement} */ (one).dataset.key ?? "");
  return ["", ...keys].flatMap((key) => (sizes.now[key] ? [`${key}:${sizes.now[key].wide}x${sizes.now[key].height}`] : []));
}

/** @param {Partial<Size> | undefined} size @returns {Size} */
function bounded(size) {
  const within = (/** @type {number} */ low, /** @type {number} */ high, /** @type {any} */ given) => Math.max(low, Math.min(high, Math.round(Number(given)) || low));
  return { wide: within(1, MOST_WIDE, size?.wide), height: within(LEAST_HEIGHT, MOST_HEIGHT, size?.height ?? USUAL_HEIGHT) };
}

/** @param {string} key */
export function sizeOf(key) {
  return bounded(sizes.now[key]);
}

/**
 * @param {string} key "" for the number of charts that are beside each other
 * @param {Partial<Size>} change
 * @param {boolean} [done] whether it is remembered
 */
export function resize(key, change, done = true) {
  const { [key]: _, ...rest } = sizes.now;
  const size = key ? bounded({ ...sizeOf(key), ...change }) : { wide: Number(change.wide), height: 0 };
  const isUsual = key ? size.wide === 1 && size.height === USUAL_HEIGHT : !size.wide;
  sizes.set(isUsual ? rest : { ...rest, [key]: size });
  if (!done) return;
  kept.set(STORED, JSON.stringify(Object.fromEntries(Object.entries(sizes.now).slice(-MOST_STORED))));
  write({ sizes: sizesSeen() });
}

const STEP_PX = 20;

/** The corner by which a chart is sized: with the pointer, or with the arrow keys. @param {{id: string, title: string}} props */
export function Corner({ id, title }) {
  const keys = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -STEP_PX], ArrowDown: [0, STEP_PX] });
  const onKey = (/** @type {KeyboardEvent} */ event) => {
    const by = keys[event.key];
    if (!by) return;
    const { wide, height } = sizeOf(id);
    resize(id, { wide: wide + by[0], height: height + by[1] });
    event.preventDefault();
    event.stopPropagation();
  };
  const onDown = (/** @type {any} */ event) => {
    if (event.button) return;
    const at = event.currentTarget;
    const from = sizeOf(id);
    const width = at.closest(".chart").clientWidth / Number(at.closest(".charts-slot")?.dataset.columns || 1);
    at.setPointerCapture(event.pointerId);
    const moved = (/** @type {PointerEvent} */ now) =>
      resize(id, { wide: from.wide + Math.round((now.clientX - event.clientX) / width), height: from.height + now.clientY - event.clientY }, false);
    at.addEventListener("pointermove", moved);
    at.addEventListener("lostpointercapture", () => {
      at.removeEventListener("pointermove", moved);
      resize(id, {});
    }, { once: true });
  };
  return html`<button type="button" class="chart-corner" aria-label=${`Size of ${title}`} title="Drag, or press the arrow keys; a double click makes it as at first"
    onKeyDown=${onKey} onPointerDown=${onDown} onDblClick=${() => resize(id, { wide: 1, height: USUAL_HEIGHT })}></button>`;
}
