// @ts-check
/**
 * The colours of runs, and the run that is highlighted. A run has a hue from the time when it is
 * first drawn; the browser keeps it. Of the runs that are drawn with one hue the second is dashed
 * and the third dotted; further ones are grey until they are highlighted.
 */

import { useEffect, useState } from "../vendor/preact.js";
import { kept } from "./components.js";

/** @typedef {"light" | "dark"} Theme */

/** Hues, the same ones in both themes: neighbours differ most. @type {Record<Theme, string[]>} */
export const PALETTE = {
  light: ["#504cd8", "#33a596", "#d52d42", "#397fc7", "#9a044a", "#999836", "#b14b8d", "#258450", "#7a2280", "#415907"],
  dark: ["#9e85f7", "#17f7d1", "#fe7666", "#72c0fd", "#b96783", "#e8d86d", "#ff89c7", "#82c395", "#a35ab6", "#629338"],
};

/** @type {Record<Theme, string>} */
export const GREY = { light: "#858b94", dark: "#7d858f" };

export const COLOURED = PALETTE.light.length;
/** The dashes of the first, second and third run of a hue. */
const STYLES = [[], [7, 4], [2, 3]];
const STORED = "seamark:hues";
const MOST_STORED = 3000;
/** The ids that are stored: labels of groups are not. */
const ID = /^[\w.:@-]{1,64}$/;

/** Hues by run id, in the order in which they were first drawn. @type {Map<string, number>} */
const hues = new Map();

/** Read what other tabs and visits have stored. */
function readHues() {
  for (const one of kept.get(STORED).split(" ")) {
    const cut = one.lastIndexOf("=");
    const hue = Number(one.slice(cut + 1));
    if (cut > 0 && hue >= 0 && hue < COLOURED && !hues.has(one.slice(0, cut))) hues.set(one.slice(0, cut), Math.floor(hue));
  }
}

function storeHues() {
  readHues();
  const some = [...hues].filter(([id]) => ID.test(id)).slice(-MOST_STORED);
  kept.set(STORED, some.map((one) => one.join("=")).join(" "));
}

readHues();

/** @typedef {{hue: number, dash: number[], grey: boolean}} Style */

/** @type {{drawn: readonly string[], overrides: object, key: string, styles: Map<string, Style>}} */
let last = { drawn: [], overrides: {}, key: "", styles: new Map() };

/**
 * The styles of the runs that are drawn, whatever their order. A run without a hue gets the one that
 * fewest of them have.
 * @param {readonly string[]} drawn
 * @param {Readonly<Record<string, number | string>>} [overrides] hues of the address
 * @returns {Map<string, Style>}
 */
export function stylesOf(drawn, overrides = {}) {
  if (last.drawn === drawn && last.overrides === overrides) return last.styles;
  const key = JSON.stringify([drawn, overrides]);
  if (last.key === key) {
    Object.assign(last, { drawn, overrides });
    return last.styles;
  }
  const given = (/** @type {string} */ id) => (Number.isInteger(overrides[id]) && Number(overrides[id]) < COLOURED ? Number(overrides[id]) : hues.get(id));
  const used = PALETTE.light.map(() => 0);
  /** @type {Map<string, Style>} */
  const styles = new Map();
  const put = (/** @type {string} */ id, /** @type {number} */ hue) => {
    const nth = used[hue]++;
    styles.set(id, { hue, dash: STYLES[nth] ?? [], grey: nth >= STYLES.length });
  };
  // The first of a hue is the one that was drawn first, in whatever order they are drawn now.
  const wanted = new Set(drawn);
  for (const id of [...Object.keys(overrides), ...hues.keys()]) {
    const hue = given(id);
    if (wanted.has(id) && hue !== undefined && !styles.has(id)) put(id, hue);
  }
  const before = hues.size;
  for (const id of drawn) {
    if (styles.has(id)) continue;
    const hue = used.indexOf(Math.min(...used));
    put(id, hue);
    if (!styles.get(id)?.grey) hues.set(id, hue);
  }
  if (hues.size > before) storeHues();
  last = { drawn, overrides, key, styles };
  return styles;
}

/**
 * The colour of a run.
 * @param {string} runId
 * @param {readonly string[]} drawnIds
 * @param {Theme} theme
 * @param {Readonly<Record<string, number | string>>} overrides a hue or "#rrggbb", by run id
 * @param {boolean} [highlighted] a grey run then has its hue
 * @returns {string} "#rrggbb"
 */
export function colourOf(runId, drawnIds, theme, overrides, highlighted = false) {
  const own = overrides[runId];
  if (typeof own === "string" && /^#[0-9a-f]{6}$/i.test(own)) return own === GREY[theme] && highlighted ? PALETTE[theme][0] : own;
  const style = stylesOf(drawnIds, overrides).get(runId);
  return style && (!style.grey || highlighted) ? PALETTE[theme][style.hue] : GREY[theme];
}

/**
 * The dash of a run; those that share a colour on purpose have none.
 * @param {string} runId
 * @param {readonly string[]} drawnIds
 * @param {Readonly<Record<string, number | string>>} overrides
 * @returns {number[]}
 */
export function dashOf(runId, drawnIds, overrides) {
  return typeof overrides[runId] === "string" ? [] : (stylesOf(drawnIds, overrides).get(runId)?.dash ?? []);
}

/**
 * A value that several components show.
 * @template T
 */
export class Shared {
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
export function currentTheme() {
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
