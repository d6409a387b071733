// @ts-check
/** The box above the table, which finds runs by words and by queries, and completes what is typed. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { useAnswer, useId, useModule } from "./components.js";
import { MOST, hasShort, isWhole, isWords, pathsOf, quotedPath, quotedValue, resolved } from "./finding.js";
import { value as shortly } from "./format.js";

/** @typedef {import("./api.js").Api} Api */

const MOST_VALUES = 4;
const WORDS_MS = 350;
const QUERY_MS = 700;

/**
 * A hook for what runs have at some paths: a few values of each.
 * @param {Api} api @param {string} project @param {string[]} paths
 * @returns {Map<string, string>}
 */
function useValues(api, project, paths) {
  const { data } = useAnswer(
    async (signal) => {
      if (!paths.length) return new Map();
      const { table } = await api.read("table", { project: project || null, columns: paths, limit: 100, unknown: "tell", counted: false }, { signal });
      return new Map(paths.map((path) => {
        const cells = table.cells[table.columns.indexOf(path)] ?? [];
        const found = [...new Set(cells.filter((/** @type {any} */ one) => one !== null).map(shortly))];
        return [path, `${found.slice(0, MOST_VALUES).join(", ")}${found.length > MOST_VALUES ? " …" : ""}`];
      }));
    },
    [api, project, paths.join("\n")],
  );
  return data ?? new Map();
}

/**
 * A hook for what is asked: it replaces short names, and asks which path is meant if there are several.
 * @param {{api: Api, project: string, value: string, known: Set<string> | null, onChange: (q: string, push: boolean) => void}} given
 */
function useAsking({ api, project, value, known, onChange }) {
  const [open, setOpen] = useState(/** @type {{text: string, name: string, paths: string[], chosen: Record<string, string>} | null} */ (null));
  const [other, setOther] = useState(/** @type {string[]} */ ([]));
  /** What was typed last, and what was asked for it. */
  const sent = useRef({ typed: value, next: value });
  const turn = useRef(0);
  /** What waits for the paths. */
  const waits = useRef("");
  // Back leads to the query before this field had the focus, not to each word on the way.
  const began = useRef(false);
  const ask = async (/** @type {string} */ some, chosen = /** @type {Record<string, string>} */ ({}), push = !began.current) => {
    const typed = some.trim();
    const mine = (turn.current += 1);
    waits.current = isWords(typed) ? "" : typed;
    let next = typed;
    setOther([]);
    if (!isWords(typed)) {
      const paths = known ?? (await api.read("paths", { project }).then((all) => new Set(all), () => null));
      if (mine !== turn.current) return null;
      waits.current = "";
      const found = paths && resolved(typed, paths, chosen);
      if (found?.open.length) {
        setOpen({ text: typed, ...found.open[0], chosen });
        return null;
      }
      if (found) {
        next = found.text;
        setOther(found.other);
      }
    }
    setOpen(null);
    sent.current = { typed, next };
    if (next !== value) {
      onChange(next, push);
      began.current = true;
    }
    return next;
  };
  /** Leave what waits for the paths: another text is written. */
  const drop = () => {
    turn.current += 1;
    waits.current = "";
    setOpen(null);
  };
  return { ask, open, other, sent, began, waits, drop, leave: () => setOpen(null) };
}

/**
 * @param {{api: Api, project: string, value: string, error: any, tags: string[],
 *   onChange: (q: string, push: boolean) => void}} props
 */
export function QueryField({ api, project, value, error, tags, onChange }) {
  const [text, setText] = useState(value);
  const [caret, setCaret] = useState(0);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  /** @type {{current: any}} */
  const field = useRef(null);
  const id = useId("query");
  const { data } = useAnswer(
    (signal) => (open ? api.read("paths", { project }, { signal }).then((all) => new Set(all)) : Promise.resolve(null)),
    [api, project, open],
  );
  /** @type {Set<string>} */
  const paths = data ?? new Set();
  const asking = useAsking({ api, project, value, known: data ?? null, onChange });
  // A blank at the end stays, since more is about to be typed, and a short name until the end.
  /** @type {{current: string | null}} */
  const met = useRef(null);
  useEffect(() => {
    const isOther = met.current === null || asking.sent.current.next !== value;
    met.current = value;
    if (!isOther) return;
    if (text.trim() !== value) setText(value);
    // Short names in an address that somebody has written.
    if (hasShort(value)) asking.ask(value, {}, false).then((next) => next !== null && setText(next));
  }, [value]);
  const completing = useModule(open ? "./completing.js" : "").module;
  const place = completing?.placeOf(text.slice(0, caret));
  const which = asking.open;
  /** @type {string[]} */
  const found = which ? which.paths.slice(0, 4 * MOST) : open && completing ? completing.proposals(place, paths, tags) : [];
  const shown = found.length > 0 && (which !== null || !(found.length === 1 && found[0] === place.typed));
  const values = useValues(api, project, which ? found : []);

  useEffect(() => document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);

  // A complete query is sent while somebody types, another one when Enter is pressed.
  useEffect(() => {
    const typed = text.trim();
    if (typed === value || typed === asking.sent.current.typed || !isWhole(typed)) return undefined;
    const words = isWords(typed);
    const end = typed.split(/\s/).pop() ?? "";
    // The name of a column, which is to be compared with something.
    if (words && end && (typed !== text || pathsOf(end, paths).some((one) => one !== end || paths.has(one)))) return undefined;
    const timer = setTimeout(() => asking.waits.current === typed || asking.ask(text), words ? WORDS_MS : QUERY_MS);
    return () => clearTimeout(timer);
  }, [text]);

  const finish = async (/** @type {string} */ some, chosen = /** @type {Record<string, string>} */ ({})) => {
    setOpen(false);
    setAt(-1);
    const next = await asking.ask(some, chosen);
    if (next !== null) setText(next);
    asking.began.current = false;
  };
  const take = (/** @type {string} */ one) => {
    if (which) {
      field.current?.focus();
      finish(which.text, { ...which.chosen, [which.name]: one });
      return;
    }
    const put = place.want === "path" ? quotedPath(one) : place.want === "value" && /[^\w.-]/.test(one) ? quotedValue(one) : one;
    const after = text.slice(caret).replace(/^[\w./`-]+/, place.typed ? "" : "$&").replace(/^ /, "");
    const made = `${text.slice(0, place.from)}${put} `;
    setText(made + after);
    setAt(-1);
    setCaret(made.length);
    // At once: keys may be pressed before the page is drawn again.
    field.current.focus();
    field.current.value = made + after;
    field.current.setSelectionRange(made.length, made.length);
  };
  const typed = (/** @type {any} */ event) => {
    setText(event.target.value);
    setCaret(event.target.selectionStart ?? event.target.value.length);
    setOpen(true);
    setAt(-1);
    asking.drop();
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (shown) {
        const step = event.key === "ArrowDown" ? 1 : -1;
        setAt((at + step + found.length + (at < 0 && step < 0 ? 1 : 0)) % found.length);
      } else if (!open) {
        setOpen(true);
        setCaret(field.current.selectionStart);
      }
    } else if ((event.key === "Enter" || event.key === "Tab") && shown && at >= 0) {
      event.preventDefault();
      take(found[at]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      finish(text);
    } else if (event.key === "Escape") {
      event.preventDefault();
      setOpen(false);
      asking.leave();
      // The keys of the table act again.
      if (at < 0) document.getElementById("main")?.focus({ preventScroll: true });
      setAt(-1);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      setOpen(false);
    }
  };
  return html`<div class="query" role="search">
    <input ref=${field} type="text" role="combobox" aria-label="Find runs: words or a query" spellcheck=${false} autocomplete="off"
      autocapitalize="off" placeholder="Find runs: name, tag, id, or val/loss < 0.3" value=${text}
      aria-expanded=${String(shown)} aria-controls=${id} aria-autocomplete="list" data-key="/"
      aria-activedescendant=${shown && at >= 0 ? `${id}-${at}` : undefined}
      aria-invalid=${error && !which ? "true" : undefined} aria-describedby=${error ? `${id}-error` : undefined}
      onInput=${typed} onKeyDown=${keys}
      onClick=${(/** @type {any} */ e) => setCaret(e.target.selectionStart)}
      onBlur=${() => {
        asking.began.current = false;
        if (asking.sent.current.next === value && text.trim() === asking.sent.current.typed) setText(value);
        setTimeout(() => setOpen(false), 150);
      }} />
    ${text &&
    html`<button type="button" class="quiet" aria-label="Clear the query" onClick=${() => {
      finish("");
      field.current?.focus();
    }}>✕</button>`}
    ${which && html`<p class="unseen" role="alert">${which.paths.length} paths end in ${which.name}: choose one.</p>`}
    <div class="popup" id=${id} role="listbox" aria-label=${which ? `Which ${which.name}?` : "What may come"} hidden=${!shown}>
      ${which && html`<div class="which" role="presentation">Which <code>${which.name}</code>? ${which.paths.length > found.length && `The first ${found.length} of ${which.paths.length}: write more of the path.`}</div>`}
      ${shown &&
      found.map(
        (one, n) => html`<div key=${one} id=${`${id}-${n}`} role="option" aria-selected=${String(n === at)}
          onPointerDown=${(/** @type {Event} */ e) => {
            e.preventDefault();
            take(one);
          }}><bdi>${one}</bdi>${which && html`<small><bdi>${values.get(one) ?? ""}</bdi></small>`}</div>`,
      )}
    </div>
    ${asking.other.length > 0 && !error && html`<p class="note" role="status">${asking.other.map((name) => html`<span key=${name}><code>${name}</code> is a path of its own. <button type="button" class="link" onPointerDown=${(/** @type {Event} */ e) => e.preventDefault()}
      onClick=${() => finish(asking.sent.current.typed, { [name]: `parameters/${name}` })}>Use parameters/${name}</button> </span>`)}</p>`}
    ${error && !which && html`<div class="query-error" id=${`${id}-error`} role="alert"><pre>${String(error.hint ?? error)}</pre></div>`}
  </div>`;
}
