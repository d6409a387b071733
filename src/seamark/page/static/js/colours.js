// @ts-check
/**
 * The colours of runs, and the run that is highlighted. A colour depends on the id of its run, so
 * that it survives filters, sorting and reloading. From the ninth run on, runs are grey until they
 * are highlighted.
 */

import { useEffect, useState } from "../vendor/preact.js";

/** @typedef {"light" | "dark"} Theme */

/** @type {Record<Theme, string[]>} */
export const PALETTE = {
  light: ["#8c00d6", "#ec5f00", "#511631", "#1fa18f", "#1b6774", "#ad1b02", "#b771f6", "#290b89"],
  dark: ["#83fbe4", "#a318e3", "#c43612", "#b381fa", "#2a7883", "#f68916", "#fee938", "#31c3a7"],
};

/** @type {Record<Theme, string>} */
export const GREY = { light: "#858b94", dark: "#7d858f" };

/** The number of runs that have colours of their own at a time. */
export const COLOURED = PALETTE.light.length;

/**
 * The slot that a run prefers, from its id alone.
 * @param {string} id
 */
function slotOf(id) {
  let hash = 0x811c9dc5;
  for (let at = 0; at < id.length; at++) {
    hash = Math.imul(hash ^ id.charCodeAt(at), 0x01000193) >>> 0;
  }
  hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d) >>> 0;
  return ((hash ^ (hash >>> 12)) >>> 0) % COLOURED;
}

/** @type {{key: string, slots: Map<string, number>}} */
let last = { key: "", slots: new Map() };

/**
 * Slots of the runs that are drawn, in the order in which they were chosen: of two that prefer the
 * same slot, the later one takes the next free one. From the ninth on there is none.
 * @param {readonly string[]} drawn
 * @param {Readonly<Record<string, number | string>>} [overrides] slots that a person chose
 * @returns {Map<string, number>}
 */
export function slotsOf(drawn, overrides = {}) {
  const key = JSON.stringify([drawn, overrides]);
  if (last.key === key) return last.slots;
  /** @type {Map<string, number>} */
  const slots = new Map();
  const taken = new Set();
  for (const id of drawn) {
    const slot = Number(overrides[id]);
    if (id in overrides && Number.isInteger(slot) && slot >= 0 && slot < COLOURED) {
      slots.set(id, slot);
      taken.add(slot);
    }
  }
  for (const id of drawn) {
    if (slots.has(id) || taken.size >= COLOURED) continue;
    let slot = slotOf(id);
    while (taken.has(slot)) slot = (slot + 1) % COLOURED;
    slots.set(id, slot);
    taken.add(slot);
  }
  last = { key, slots };
  return slots;
}

/**
 * The colour of a run.
 * @param {string} runId
 * @param {readonly string[]} drawnIds
 * @param {Theme} theme
 * @param {Readonly<Record<string, number | string>>} overrides a slot or "#rrggbb", by run id
 * @param {boolean} [highlighted] a run beyond the eight has the colour that it prefers, not grey
 * @returns {string} "#rrggbb"
 */
export function colourOf(runId, drawnIds, theme, overrides, highlighted = false) {
  const own = overrides[runId];
  const isColour = typeof own === "string" && /^#[0-9a-f]{6}$/i.test(own);
  const found = isColour ? own : (PALETTE[theme][slotsOf(drawnIds, overrides).get(runId) ?? -1] ?? GREY[theme]);
  return highlighted && found === GREY[theme] ? PALETTE[theme][slotOf(runId)] : found;
}

/**
 * A value that several components show.
 * @template T
 */
class Shared {
  /** @param {T} now */
  constructor(now) {
    this.now = now;
    /** @type {Set<(now: T) => void>} */
    this.listeners = new Set();
  }

  /** @param {T} now */
  set(now) {
    this.now = now;
    for (const one of [...this.listeners]) one(now);
  }

  /** @param {(now: T) => void} listener @returns {() => void} ends it */
  listen(listener) {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** A hook that returns the value and draws the component again when it changes. @returns {T} */
  use() {
    const [now, setNow] = useState(this.now);
    useEffect(() => {
      setNow(this.now);
      return this.listen(setNow);
    }, []);
    return now;
  }
}

/**
 * @typedef {object} Valued Colours of runs by what they recorded.
 * @property {string} key of everything in it
 * @property {Record<Theme, Record<string, string>>} colours by run id, or by the label of a group
 * @property {{label: string, runs: number, colour: Record<Theme, string>}[]} values
 * @property {{low: number, high: number, log: boolean} | null} ramp of numbers in their order
 */

/** The colours of runs by what they recorded, if the view asks for them. */
export const valued = new Shared(/** @type {Valued | null} */ (null));
/** The run, or the label of the group, that is highlighted in all charts; "" for none. */
export const highlight = new Shared("");

/** @param {Valued | null} now */
export function setValued(now) {
  if (valued.now?.key !== now?.key) valued.set(now);
}

/** @param {string} run "" for none */
export function setHighlight(run) {
  if (highlight.now !== run) highlight.set(run);
}

/** @param {string} run @returns {Record<string, () => void>} handlers of an element that highlights a run */
export function highlighting(run) {
  const [on, off] = [() => setHighlight(run), () => setHighlight("")];
  return { onMouseEnter: on, onMouseLeave: off, onFocus: on, onBlur: off };
}

/** @returns {Theme} that the page shows now */
function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** A hook that returns the theme and draws the component again when it changes. @returns {Theme} */
export function useTheme() {
  const [theme, setTheme] = useState(currentTheme);
  useEffect(() => {
    const look = () => setTheme(currentTheme());
    const media = matchMedia("(prefers-color-scheme: dark)");
    const observer = new MutationObserver(look);
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    media.addEventListener("change", look);
    look();
    return () => {
      observer.disconnect();
      media.removeEventListener("change", look);
    };
  }, []);
  return theme;
}

/** The value of a CSS variable of the page. @param {string} name @param {string} otherwise */
export function variable(name, otherwise) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim() || otherwise;
}
