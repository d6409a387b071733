// @ts-check
/** Small components and hooks that all screens use. */

import { Component, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { isAbort } from "./api.js";
import { ago, bytes, time, whole } from "./format.js";

/** @typedef {import("./format.js").Ns} Ns */

/** The storage of the browser, which may refuse it to a frame. */
export const kept = {
  /** @param {string} name */
  get(name) {
    try {
      return localStorage.getItem(name) ?? "";
    } catch {
      return "";
    }
  },
  /** @param {string} name @param {string} text */
  set(name, text) {
    try {
      if (text) localStorage.setItem(name, text);
      else localStorage.removeItem(name);
    } catch {
      // The user is asked again next time.
    }
  },
};

/** A component, or another one as its `part`, that is drawn again only if one of its properties differs. */
export class Still extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }

  /** @param {any} props @returns {any} */
  render({ part, ...props }) {
    return html`<${part} ...${props} />`;
  }
}

/** Where the widths of columns are kept. @param {string} project */
export const widthsAt = (project) => `seamark:widths:${project}`;

let numbers = 0;

/** A DOM id that no other part has. @param {string} word */
export function useId(word) {
  return useMemo(() => `${word}-${(numbers += 1)}`, [word]);
}

/**
 * A button that opens a list of `items` to choose from, or `children`.
 * @typedef {{label: any, onPick: () => void, disabled?: boolean, checked?: boolean}} Item
 * @param {{label: any, title?: string, items?: Item[] | (() => Item[]), children?: any,
 *   wide?: boolean, className?: string, press?: string, tabindex?: number}} props a function
 *   of items is called when they are shown; the key `press` opens the list
 */
export function Menu({ label, title, items, children, wide, className = "", press, tabindex }) {
  const [open, setOpen] = useState(false);
  const some = open && typeof items === "function" ? items() : /** @type {Item[]} */ (items);
  /** @type {{current: any}} */
  const root = useRef(null);
  const id = useId("menu");
  const close = (/** @type {boolean} */ back) => {
    setOpen(false);
    const button = root.current?.querySelector("button");
    if (!back) return;
    button?.focus();
    // It may be hidden: keys open it, too.
    if (document.activeElement !== button) document.getElementById("main")?.focus({ preventScroll: true });
  };
  useEffect(() => {
    if (!open) return undefined;
    const popup = root.current?.querySelector(".popup");
    const at = root.current?.querySelector("button").getBoundingClientRect();
    const size = popup.getBoundingClientRect();
    const [above, under] = [at.top - 12, innerHeight - at.bottom - 12];
    const below = size.height <= under || under >= above;
    popup.style.maxHeight = `min(30rem, ${below ? under : above}px)`;
    popup.style.left = `${Math.max(8, Math.min(at.left, innerWidth - size.width - 8))}px`;
    if (below) popup.style.top = `${at.bottom + 4}px`;
    else popup.style.bottom = `${innerHeight - at.top + 4}px`;
    const first = root.current?.querySelector(
      ".popup input, .popup [role^=menuitem]:not([disabled]), .popup button:not([disabled])",
    );
    first?.focus({ preventScroll: true });
    const scrolled = (/** @type {any} */ event) => {
      // A keyboard on the screen scrolls the page while somebody types.
      const typing = popup.querySelector("input:focus");
      if (!popup.contains(event.target) && !typing) close(false);
    };
    addEventListener("scroll", scrolled, true);
    const outside = (/** @type {any} */ event) => {
      if (!root.current?.contains(event.target)) close(false);
    };
    addEventListener("pointerdown", outside);
    // What had the focus may be gone.
    const lost = (/** @type {KeyboardEvent} */ event) => {
      const at = document.activeElement;
      if (event.key === "Escape" && (at === document.body || at?.id === "main")) close(true);
    };
    addEventListener("keydown", lost);
    return () => {
      removeEventListener("keydown", lost);
      removeEventListener("scroll", scrolled, true);
      removeEventListener("pointerdown", outside);
    };
  }, [open]);
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (!open) return;
    if (event.key === "Escape") {
      event.stopPropagation();
      close(true);
    }
    if (items && (event.key === "ArrowDown" || event.key === "ArrowUp")) {
      event.preventDefault();
      const all = [...root.current.querySelectorAll(".popup [role^=menuitem]:not([disabled])")];
      const at = all.indexOf(document.activeElement);
      const next = event.key === "ArrowDown" ? at + 1 : at - 1;
      all[(next + all.length) % all.length]?.focus();
    }
  };
  const left = (/** @type {FocusEvent} */ event) => {
    if (event.relatedTarget && !root.current?.contains(event.relatedTarget)) setOpen(false);
  };
  return html`<div class="menu ${className}" ref=${root} onKeyDown=${keys} onfocusout=${left}>
    <button type="button" title=${title} tabindex=${tabindex} data-key=${press} aria-expanded=${String(open)}
      aria-haspopup=${items ? "menu" : "dialog"} aria-controls=${open ? id : undefined}
      aria-label=${label === "⋯" ? title : undefined} onClick=${() => setOpen(!open)}>${label}<span class="down" aria-hidden="true"></span></button>
    ${open &&
    html`<div class="popup ${wide ? "wide" : ""}" id=${id} role=${items ? "menu" : "dialog"}
      aria-label=${title ?? (typeof label === "string" ? label : undefined)}>
      ${items
        ? some.map(
            (one) => html`<button type="button" class="item" disabled=${one.disabled}
              role=${one.checked === undefined ? "menuitem" : "menuitemcheckbox"}
              aria-checked=${one.checked === undefined ? undefined : String(one.checked)}
              onClick=${() => {
                close(true);
                one.onPick();
              }}>${one.label}</button>`,
          )
        : typeof children === "function"
          ? children(() => close(true))
          : children}
    </div>`}
  </div>`;
}

/**
 * A message across the page.
 * @param {{kind?: "bad" | "warn" | "note", children?: any, action?: string, onAction?: () => void}} props
 */
export function Banner({ kind = "note", children, action, onAction }) {
  return html`<div class="banner ${kind}" role=${kind === "note" ? "status" : "alert"}>
    <span>${children}</span>
    ${action && html`<button type="button" onClick=${onAction}>${action}</button>`}
  </div>`;
}

/**
 * A word in a frame, whose colour is that of its kind.
 * @param {{kind?: string, title?: string, children?: any}} props
 */
export function Badge({ kind = "plain", title, children }) {
  return html`<span class="badge ${kind}" title=${title}>${children}</span>`;
}

/** Sign and style of each state. @type {Record<string, [string, string]>} */
export const STATES = {
  created: ["○", "created"],
  running: ["●", "running"],
  completed: ["✓", "completed"],
  failed: ["✕", "failed"],
  crashed: ["✕", "crashed"],
  interrupted: ["■", "interrupted"],
  suspended: ["‖", "suspended"],
};

/**
 * The state of a run: a sign and its word, which may be left to those who point at it or hear it.
 * @param {{state: unknown, title?: string, brief?: boolean}} props
 */
export function State({ state, title, brief }) {
  const word = String(state ?? "unknown").toLowerCase();
  const [sign, kind] = STATES[word] ?? ["–", "other"];
  return html`<span class="state ${kind}" title=${brief ? [word, title].filter(Boolean).join(": ") : title}><i aria-hidden="true">${sign}</i>${brief ? html`<span class="unseen">${word}</span>` : word}</span>`;
}

/**
 * A field that filters a list.
 * @param {{label: string, hint?: string, value: string, onText: (text: string) => void, own?: any, class?: string}} props
 *   `own`: a reference to the field
 */
export function Filter({ label, hint = label, value, onText, own, ...more }) {
  return html`<input type="search" ref=${own} placeholder=${hint} aria-label=${label} value=${value} onInput=${(/** @type {any} */ event) => onText(event.target.value)} ...${more} />`;
}

/** A hook for an element that has the focus as soon as it is there. */
export function useFocused() {
  /** @type {{current: any}} */
  const ref = useRef(null);
  useEffect(() => ref.current?.focus({ preventScroll: true }), []);
  return ref;
}

/**
 * A box to tick, and its label.
 * @param {{on: boolean, onCheck: (on: boolean) => void, own?: any, disabled?: boolean, children?: any, class?: string, title?: string}} props
 *   `own`: a reference to the box
 */
export function Check({ on, onCheck, own, disabled, children, ...more }) {
  return html`<label ...${more}><input type="checkbox" ref=${own} checked=${on} disabled=${disabled} onChange=${(/** @type {any} */ event) => onCheck(event.target.checked)} />${children}</label>`;
}

/**
 * A list of tabs, to which arrow keys lead, too.
 * @param {{label: string, id: string, panel: string, tabs: [string, string][], now: string, onTab: (key: string) => void, class: string}} props
 *   `id`: what the ids of tabs begin with; `panel`: the id of what the open tab shows; `tabs`: keys and texts
 */
export function TabList({ label, id, panel, tabs, now, onTab, ...more }) {
  const keys = (/** @type {any} */ event) => {
    const at = tabs.findIndex(([key]) => key === now);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: -1 }[/** @type {string} */ (event.key)];
    if (to === undefined) return;
    event.preventDefault();
    const next = (to + tabs.length) % tabs.length;
    onTab(tabs[next][0]);
    event.currentTarget.children[next].focus();
  };
  return html`<div role="tablist" aria-label=${label} onKeyDown=${keys} ...${more}>${tabs.map(([key, text]) => html`<button type="button" key=${key} role="tab" id="${id}-${key}"
    aria-selected=${String(key === now)} aria-controls=${key === now ? panel : undefined} tabindex=${key === now ? 0 : -1} onClick=${() => onTab(key)}>${text}</button>`)}</div>`;
}

/**
 * A note that there is nothing, and what to do about it.
 * @param {{title: string, children?: any}} props
 */
export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

/**
 * An error, and a way to try again.
 * @param {{error: any, onRetry?: () => void}} props
 */
export function ErrorBox({ error, onRetry }) {
  if (!error || isAbort(error)) return null;
  const text = String(error.hint || error.message || error);
  return html`<div class="error" role="alert">
    <pre>${text}</pre>
    ${onRetry && html`<button type="button" onClick=${onRetry}>Try again</button>`}
  </div>`;
}

/**
 * @param {{page: number, size: number, total: number, onPage: (page: number) => void,
 *   word?: string}} props
 */
export function Pager({ page, size, total, onPage, word = "runs" }) {
  const last = Math.max(0, Math.ceil(total / size) - 1);
  if (last === 0) return null;
  const from = page * size + 1;
  const to = Math.min(total, from + size - 1);
  const turn = (/** @type {number} */ at, /** @type {string} */ sign, /** @type {string} */ name) =>
    html`<button type="button" class="quiet" disabled=${at < 0 || at > last || at === page} onClick=${() => onPage(at)} aria-label="${name} page" title="${name} page">${sign}</button>`;
  return html`<nav class="pager" aria-label="Pages">
    ${turn(0, "«", "First")}${turn(page - 1, "‹", "Previous")}
    <span>${whole(from)}–${whole(to)} of ${whole(total)}${word && ` ${word}`}</span>
    ${turn(page + 1, "›", "Next")}${turn(last, "»", "Last")}
  </nav>`;
}

/** The shortest name that is shortened, and the characters that stay of its end. */
const [LONG_NAME, END] = [14, 9];
/** Letters from right to left, and signs that turn the direction: such a text cannot be cut anywhere. */
const TURNS = /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufeff]/;

/** A name that is shortened in its middle where it has too little room. @param {{text: string}} props */
export function Middle({ text }) {
  if (text.length < LONG_NAME || TURNS.test(text)) return html`<bdi class="middle"><span>${text}</span></bdi>`;
  // No pair of surrogates is cut.
  const at = text.length - END - Number(/[\udc00-\udfff]/.test(text[text.length - END]));
  return html`<bdi class="middle"><span>${text.slice(0, at)}</span><span>${text.slice(at)}</span></bdi>`;
}

/**
 * A moment: its age, in full when pointed at.
 * @param {{ns: Ns | Date | null | undefined, now?: number, full?: boolean, coarse?: boolean}} props
 */
export function Time({ ns, now, full, coarse }) {
  const said = time(ns);
  if (!said) return null;
  return html`<time dateTime=${said.replace(" ", "T")} title=${said}>${full ? said : ago(ns, now, coarse)}</time>`;
}

/** @param {{n: number | bigint | null | undefined}} props */
export function Bytes({ n }) {
  if (n === null || n === undefined) return null;
  return html`<span title="${String(n)} bytes">${bytes(n)}</span>`;
}

/**
 * A hook that calls `make` whenever `keys` change. The answer before stays until the next one; a
 * request that is no longer wanted is aborted.
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} make
 * @param {any[]} keys
 * @returns {{data: T | undefined, error: any, busy: boolean, again: () => void}}
 */
export function useAnswer(make, keys) {
  const [state, setState] = useState(/** @type {any} */ ({ data: undefined, error: null, busy: true }));
  const [turn, setTurn] = useState(0);
  // Asked before the page is painted.
  useLayoutEffect(() => {
    const ended = new AbortController();
    setState((/** @type {any} */ was) => ({ ...was, busy: true }));
    make(ended.signal).then(
      (data) => !ended.signal.aborted && setState({ data, error: null, busy: false }),
      (error) =>
        !ended.signal.aborted &&
        !isAbort(error) &&
        setState((/** @type {any} */ was) => ({ ...was, error, busy: false })),
    );
    return () => ended.abort();
  }, [...keys, turn]);
  return { ...state, again: () => setTurn((/** @type {number} */ n) => n + 1) };
}

/** @type {Map<string, any>} */
const modules = new Map();
/** @type {Promise<any> | undefined} */
let styles;

/** Fetch a module that is not needed at first, and the styles of all such. @param {string} name of a file beside this one */
export async function load(name) {
  styles ??= new Promise((go, fail) => {
    const onerror = () => {
      styles = undefined;
      link.remove();
      fail(new Error("The styles of the page cannot be fetched."));
    };
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: new URL("../later.css", import.meta.url).href, onload: go, onerror });
    document.head.append(link);
  });
  return (await Promise.all([import(name), styles]))[0];
}

/**
 * A hook that fetches a module when it is first drawn.
 * @param {string} name of a file beside this one; "" for none yet
 * @param {(name: string) => Promise<any>} [fetched]
 * @returns {{module: any, error: any}}
 */
export function useModule(name, fetched = load) {
  const [state, setState] = useState({ module: modules.get(name), error: null });
  useLayoutEffect(() => {
    if (!name || state.module) return undefined;
    let wanted = true;
    fetched(name).then(
      (module) => {
        modules.set(name, module);
        if (wanted) setState({ module, error: null });
      },
      (error) => wanted && setState({ module: undefined, error }),
    );
    return () => {
      wanted = false;
    };
  }, [name]);
  return state;
}

/**
 * A component of a module that is fetched when it is first drawn.
 * @param {Record<string, any>} props `of`: the file; `part`: the name of the component; `wait`: what
 *   is shown until then; `onRetry`: offered if the file cannot be fetched; `fetched`: see `useModule`;
 *   the rest is handed on
 */
export function Later({ of, part, wait = null, onRetry, fetched, ...props }) {
  const { module, error } = useModule(of, fetched);
  if (error) return html`<${ErrorBox} error=${error} onRetry=${onRetry} />`;
  return module ? html`<${module[part]} ...${props} />` : wait;
}

/** @type {IntersectionObserver | null} */
let watcher = null;
/** @type {WeakMap<Element, (seen: boolean) => void>} */
const watched = new WeakMap();

/**
 * A hook that returns whether an element is in view, or nearly.
 * @param {{current: Element | null}} ref
 * @param {boolean} first until the browser has said it
 */
export function useSeen(ref, first = false) {
  const [seen, setSeen] = useState(first);
  useEffect(() => {
    const element = ref.current;
    if (!element) return undefined;
    watcher ??= new IntersectionObserver(
      (entries) => {
        for (const entry of entries) watched.get(entry.target)?.(entry.isIntersecting);
      },
      /** @type {any} */ ({ rootMargin: "120px 0px", scrollMargin: "120px 0px" }),
    );
    watched.set(element, setSeen);
    watcher.observe(element);
    return () => {
      watcher?.unobserve(element);
      watched.delete(element);
    };
  }, []);
  return seen;
}

/**
 * A hook that returns whether an element has been in view, or nearly, while it was wanted.
 * @param {{current: Element | null}} ref @param {boolean} wanted
 */
export function useLooked(ref, wanted = true) {
  const seen = useSeen(ref);
  const [looked, setLooked] = useState(false);
  if (seen && wanted && !looked) setLooked(true);
  return looked;
}

/** @param {any} event @returns {boolean} whether a key belongs to a field, not to the page */
export function isTyping(event) {
  const at = event.target;
  if (event.ctrlKey || event.metaKey || event.altKey) return true;
  if (!(at instanceof HTMLElement)) return false;
  if (at.closest("dialog, .popup, [contenteditable]")) return true;
  const typed = /** @type {any} */ (at).type;
  return at.matches("textarea, select") || (at.matches("input") && !["checkbox", "radio", "button"].includes(typed));
}

/** With some shown runs that are running, or while a first one is waited for, changes are asked for more often. */
export const pace = { running: 0, waiting: false };

/**
 * Set the title of the tab, and how soon changes are asked for.
 * @param {{running?: number, crashed?: number, title?: string}} said
 */
export function tell({ running = 0, crashed = 0, title = "" }) {
  const more = running > 0 && pace.running === 0;
  pace.running = running;
  if (more) dispatchEvent(new Event("seamark:pace"));
  const parts = [];
  if (running) parts.push(`${running} running`);
  if (crashed) parts.push(`${crashed} crashed`);
  document.title = [parts.join(", "), title, "Seamark"].filter(Boolean).join(" · ");
}
