// @ts-check
/**
 * Which colour a run is drawn in: a function of its id, so that filters, sorting and reloading
 * change nothing. More than eight runs: the others are grey until they are looked at.
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

/** How many runs have colours of their own at a time. */
export const COLOURED = PALETTE.light.length;

/**
 * The slot that a run would like, from its id alone.
 * @param {string} id
 */
export function slotOf(id) {
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
 * Slots of the runs that are drawn, in the order in which they were chosen: of two that would like
 * the same the later one takes the next that is free. From the ninth on there is none.
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
    if (slots.has(id)) continue;
    if (taken.size >= COLOURED) continue;
    let slot = slotOf(id);
    while (taken.has(slot)) slot = (slot + 1) % COLOURED;
    slots.set(id, slot);
    taken.add(slot);
  }
  last = { key, slots };
  return slots;
}

/**
 * @param {string} runId
 * @param {readonly string[]} drawnIds
 * @param {Theme} [theme]
 * @param {Readonly<Record<string, number | string>>} [overrides] a slot or "#rrggbb", by run id
 * @returns {string} "#rrggbb"; grey for a run that has none of the eight
 */
export function colourOf(runId, drawnIds, theme = currentTheme(), overrides = {}) {
  const own = overrides[runId];
  if (typeof own === "string" && /^#[0-9a-f]{6}$/i.test(own)) return own;
  const slot = slotsOf(drawnIds, overrides).get(runId);
  return slot === undefined ? GREY[theme] : PALETTE[theme][slot];
}

/**
 * The colour of a run while it is looked at, also if it is one of many.
 * @param {string} runId
 * @param {readonly string[]} drawnIds
 * @param {Theme} [theme]
 * @param {Readonly<Record<string, number | string>>} [overrides]
 */
export function vividOf(runId, drawnIds, theme = currentTheme(), overrides = {}) {
  const found = colourOf(runId, drawnIds, theme, overrides);
  return found === GREY[theme] ? PALETTE[theme][slotOf(runId)] : found;
}

/**
 * @typedef {object} Valued Colours of runs that are drawn by what they show.
 * @property {string} key what it was made of
 * @property {Record<Theme, Record<string, string>>} colours by run id, or by what a group is called
 * @property {{label: string, runs: number, colour: Record<Theme, string>}[]} values
 * @property {{low: number, high: number, log: boolean} | null} ramp of numbers in their order
 */

/** @type {{now: Valued | null, listeners: Set<(now: Valued | null) => void>}} */
const valued = { now: null, listeners: new Set() };

/** @param {Valued | null} now */
export function setValued(now) {
  if (valued.now?.key === now?.key) return;
  valued.now = now;
  for (const one of [...valued.listeners]) one(now);
}

/** @returns {Valued | null} and draws again when it changes */
export function useValued() {
  const [now, setNow] = useState(valued.now);
  useEffect(() => {
    valued.listeners.add(setNow);
    setNow(valued.now);
    return () => void valued.listeners.delete(setNow);
  }, []);
  return now;
}

/** @returns {Theme} what the page shows now */
export function currentTheme() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}

/** @returns {Theme} and draws again when it changes */
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
