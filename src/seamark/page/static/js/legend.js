// @ts-check
/** The legend of charts, and the sizes that a person gave to them. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { read, subscribe, write } from "./address.js";
import { Shared, colourOf, dashOf, highlight, highlighting } from "./colours.js";
import { Middle, kept } from "./components.js";

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
