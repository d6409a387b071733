// @ts-check
/** The field for queries, which completes what is typed. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { AGGREGATES } from "./columns.js";
import { useAnswer, useId } from "./components.js";

/** @typedef {import("./api.js").Api} Api */

const STATES = ["created", "running", "completed", "failed", "interrupted", "suspended", "crashed"];
const OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "=~", "!~", "CONTAINS", "NOT CONTAINS", "IN", "NOT IN", "MATCHES", "IS MISSING", "IS NOT MISSING"];
/** Attributes that every query may name. */
const SYSTEM = ["state", "name", "tags", "creation_time", "running_time", "owner", "description", "id", "hostname", "crash_reason", "failed", "group_tags", "modification_time"].map((one) => `sys/${one}`);
const JOINS = ["AND", "OR", "AND NOT"];
const MOST = 12;
const TOKEN = /\s+|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|>=|<=|!=|<>|==|=~|!~|[=<>(),]|[^\s"'`=<>!~(),]+|./gsu;

/**
 * The kind of word that is expected at the caret.
 * @typedef {{want: "path" | "operator" | "value" | "join", from: number, typed: string,
 *   path: string}} Place
 */

/**
 * @param {string} text up to the caret
 * @returns {Place}
 */
export function placeOf(text) {
  /** @type {Place["want"]} */
  let want = "path";
  let path = "";
  let list = false;
  /** @type {Place} */
  let last = { want, from: text.length, typed: "", path };
  for (const match of text.matchAll(TOKEN)) {
    const token = match[0];
    if (/^\s/.test(token)) {
      last = { want, from: match.index + token.length, typed: "", path };
      continue;
    }
    last = { want, from: match.index, typed: token, path };
    const word = token.toUpperCase();
    if (list) {
      if (token === ")") {
        list = false;
        want = "join";
      }
    } else if (want === "path") {
      if (token !== "(" && word !== "NOT") {
        path = token.replace(/`/g, "");
        want = "operator";
      }
    } else if (want === "operator") {
      if (word === "IS" || word === "NOT") continue;
      if (word === "IN") want = "value";
      else if (["MISSING", "NULL", "NONE"].includes(word)) want = "join";
      else if (/^([=<>!~]+|CONTAINS|MATCHES)$/.test(word)) want = "value";
    } else if (want === "value") {
      if (token === "(") list = true;
      else want = "join";
    } else if (word === "AND" || word === "OR") {
      want = "path";
    }
    if (token === "(" || token === ")" || token === ",") {
      last = { want: list ? "value" : want, from: match.index + token.length, typed: "", path };
    }
  }
  return last;
}

/** @param {string} path @returns {string} as a query names it */
export function quotedPath(path) {
  return /^[^\W\d][\w./-]*(:\w+)?$/u.test(path) && !/^(and|or|not|in|is)$/i.test(path) ? path : `\`${path}\``;
}

/** @param {any} value @returns {string} as a query names it */
export function quotedValue(value) {
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  return `"${String(value).replace(/[\\"]/g, "\\$&")}"`;
}

/**
 * The words that may come at the caret, the likeliest first.
 * @param {Place} place
 * @param {string[]} paths
 * @param {string[]} tags
 * @returns {string[]}
 */
export function proposals(place, paths, tags) {
  const typed = place.typed.replace(/[`"']/g, "").toLowerCase();
  const among = (/** @type {string[]} */ all) => {
    const starts = all.filter((one) => one.toLowerCase().startsWith(typed));
    const holds = all.filter((one) => !starts.includes(one) && one.toLowerCase().includes(typed));
    return [...starts, ...holds];
  };
  if (place.want === "path") {
    const colon = place.typed.lastIndexOf(":");
    const before = place.typed.slice(0, colon).replace(/`/g, "");
    if (colon > 0 && paths.includes(before)) return among(AGGREGATES.map((one) => `${before}:${one}`));
    const found = among([...new Set([...SYSTEM, ...paths])]);
    // Facts about the machine come last.
    found.sort((a, b) => Number(/^(sys|monitoring|source_code)\//.test(a)) - Number(/^(sys|monitoring|source_code)\//.test(b)));
    return found.filter((one) => one.toLowerCase() !== typed || one !== place.typed).slice(0, MOST);
  }
  if (place.want === "operator") return typed && place.typed !== place.path ? among(OPERATORS) : OPERATORS;
  if (place.want === "join") return place.typed ? [] : JOINS;
  if (place.path === "sys/state") return among(STATES);
  if (place.path === "sys/tags" || place.path === "sys/group_tags") return among(tags).slice(0, MOST);
  return [];
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
  // A blank at the end stays, since more is about to be typed.
  useEffect(() => {
    if (text.trim() !== value) setText(value);
  }, [value]);
  const { data } = useAnswer(
    (signal) => (open ? api.read("paths", { project }, { signal }) : Promise.resolve(undefined)),
    [api, project, open],
  );
  const place = placeOf(text.slice(0, caret));
  const found = open ? proposals(place, data ?? [], tags) : [];
  const shown = found.length > 0 && !(found.length === 1 && found[0] === place.typed);

  useEffect(() => document.getElementById(`${id}-${at}`)?.scrollIntoView({ block: "nearest" }), [at]);

  // Back leads to the query before this field had the focus, not to each word on the way.
  /** @type {{current: boolean}} */
  const began = useRef(false);
  const ask = (/** @type {string} */ some) => {
    if (some.trim() === value) return;
    onChange(some.trim(), !began.current);
    began.current = true;
  };
  // A complete query is sent while somebody types, another one when Enter is pressed.
  useEffect(() => {
    if (text === value) return undefined;
    if (text.trim() === value) return undefined;
    const whole = !text.trim() || (placeOf(`${text} `).want === "join" && place.want !== "operator");
    if (!whole) return undefined;
    const timer = setTimeout(() => ask(text), 700);
    return () => clearTimeout(timer);
  }, [text]);

  const take = (/** @type {string} */ one) => {
    const put = place.want === "path" ? quotedPath(one) : place.want === "value" && /[^\w.-]/.test(one) ? quotedValue(one) : one;
    const after = text.slice(caret).replace(/^[\w./`-]+/, place.typed ? "" : "$&").replace(/^ /, "");
    const made = `${text.slice(0, place.from)}${put} `;
    setText(made + after);
    setAt(-1);
    setCaret(made.length);
    requestAnimationFrame(() => {
      field.current?.focus();
      field.current?.setSelectionRange(made.length, made.length);
    });
  };
  const typed = (/** @type {any} */ event) => {
    setText(event.target.value);
    setCaret(event.target.selectionStart ?? event.target.value.length);
    setOpen(true);
    setAt(-1);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!open) {
        setOpen(true);
        setCaret(field.current.selectionStart);
      } else if (shown) {
        const step = event.key === "ArrowDown" ? 1 : -1;
        setAt((at + step + found.length + (at < 0 && step < 0 ? 1 : 0)) % found.length);
      }
    } else if ((event.key === "Enter" || event.key === "Tab") && shown && at >= 0) {
      event.preventDefault();
      take(found[at]);
    } else if (event.key === "Enter") {
      event.preventDefault();
      setOpen(false);
      ask(text);
      began.current = false;
    } else if (event.key === "Escape" && open) {
      event.preventDefault();
      setOpen(false);
      setAt(-1);
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      setOpen(false);
    }
  };
  return html`<div class="query" role="search">
    <input ref=${field} type="text" role="combobox" aria-label="Query" spellcheck=${false} autocomplete="off"
      autocapitalize="off" placeholder="Query: val/loss:min < 0.3 AND sys/state = running" value=${text}
      aria-expanded=${String(shown)} aria-controls=${id} aria-autocomplete="list" data-key="/"
      aria-activedescendant=${shown && at >= 0 ? `${id}-${at}` : undefined}
      aria-invalid=${error ? "true" : undefined} aria-describedby=${error ? `${id}-error` : undefined}
      onInput=${typed} onKeyDown=${keys}
      onClick=${(/** @type {any} */ e) => setCaret(e.target.selectionStart)}
      onBlur=${() => {
        began.current = false;
        setTimeout(() => setOpen(false), 150);
      }} />
    ${text &&
    html`<button type="button" class="quiet" aria-label="Clear the query" onClick=${() => {
      setText("");
      ask("");
      field.current?.focus();
    }}>✕</button>`}
    <div class="popup" id=${id} role="listbox" aria-label="What may come" hidden=${!shown}>
      ${shown &&
      found.map(
        (one, n) => html`<div key=${one} id=${`${id}-${n}`} role="option" aria-selected=${String(n === at)}
          onPointerDown=${(/** @type {Event} */ e) => {
            e.preventDefault();
            take(one);
          }}><bdi>${one}</bdi></div>`,
      )}
    </div>
    ${error && html`<div class="query-error" id=${`${id}-error`} role="alert"><pre>${String(error.hint ?? error)}</pre></div>`}
  </div>`;
}
