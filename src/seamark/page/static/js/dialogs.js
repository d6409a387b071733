// @ts-check
/**
 * Windows above the page: help, and the edits of runs (name, description, tags, trash), which can be
 * undone. And the screen that asks for the token.
 */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { Check, ErrorBox, useId } from "./components.js";
import { count } from "./format.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {[string, string]} Ref project and run id */
/** @typedef {{text: string, bad?: boolean, undo?: () => Promise<any>}} Note */

const AT_ONCE = 200;

/**
 * A window above the page; the browser keeps the focus in it.
 * @param {{title: string, onClose: () => void, children?: any, wide?: boolean}} props
 */
export function Dialog({ title, onClose, children, wide }) {
  /** @type {{current: any}} */
  const ref = useRef(null);
  const id = useId("dialog");
  useEffect(() => {
    const before = /** @type {any} */ (document.activeElement);
    ref.current?.showModal();
    return () => {
      if (before?.isConnected) before.focus();
    };
  }, []);
  const outside = (/** @type {MouseEvent} */ event) => {
    if (event.target === ref.current) onClose();
  };
  return html`<dialog ref=${ref} class=${wide ? "wide" : ""} aria-labelledby=${id} onClose=${onClose}
    onClick=${outside}>
    <div class="dialog">
      <header><h2 id=${id}>${title}</h2>
        <button type="button" class="quiet" aria-label="Close" onClick=${onClose}>✕</button></header>
      ${children}
    </div>
  </dialog>`;
}

/** A text to copy by hand. @param {{text: string, onClose: () => void}} props */
export function TextDialog({ text, onClose }) {
  const field = useRef(/** @type {HTMLTextAreaElement | null} */ (null));
  useEffect(() => field.current?.select(), []);
  return html`<${Dialog} title="Copy this text" onClose=${onClose}>
    <textarea ref=${field} readonly rows=${Math.min(8, text.split("\n").length + 1)} aria-label="Text to copy" value=${text}></textarea><//>`;
}

/**
 * Change runs, at most 200 a request.
 * @param {Api} api
 * @param {Ref[]} refs
 * @param {Record<string, any>} change
 * @returns {Promise<{done: Ref[], failed: Array<{project: string, run: string, hint: string}>}>}
 */
async function edit(api, refs, change) {
  /** @type {Ref[]} */
  const done = [];
  const failed = [];
  for (let at = 0; at < refs.length; at += AT_ONCE) {
    const said = await api.patch("runs", { refs: refs.slice(at, at + AT_ONCE), ...change });
    for (const one of said.runs) {
      if (one.ok) done.push([one.project, one.run]);
      else failed.push(one);
    }
  }
  return { done, failed };
}

/**
 * The tags of runs as they are now, by project and id.
 * @param {Api} api
 * @param {Ref[]} refs
 * @returns {Promise<Map<string, string[]>>}
 */
async function tagsOf(api, refs) {
  const found = new Map();
  for (let at = 0; at < refs.length; at += AT_ONCE) {
    const id = refs.slice(at, at + AT_ONCE).map((one) => one[1]);
    const { table } = await api.read("table", { id, columns: ["sys/tags"], trashed: null, unknown: "tell", limit: 2 * AT_ONCE });
    const tags = table.cells[table.columns.indexOf("sys/tags")] ?? [];
    table.refs.forEach((/** @type {Ref} */ ref, /** @type {number} */ n) => found.set(ref.join("/"), tags[n] ?? []));
  }
  return found;
}

/**
 * Undo a change of tags: give each run back what it had, and take away what it had not.
 * @param {Api} api
 * @param {Ref[]} refs
 * @param {Map<string, string[]>} before the tags that they had
 * @param {string[]} added
 * @param {string[]} removed
 */
async function untag(api, refs, before, added, removed) {
  /** @type {Map<string, {refs: Ref[], add_tags: string[], remove_tags: string[]}>} */
  const alike = new Map();
  for (const ref of refs) {
    const had = before.get(ref.join("/")) ?? [];
    const add_tags = removed.filter((tag) => had.includes(tag));
    const remove_tags = added.filter((tag) => !had.includes(tag));
    const key = JSON.stringify([add_tags, remove_tags]);
    const group = alike.get(key) ?? { refs: [], add_tags, remove_tags };
    group.refs.push(ref);
    alike.set(key, group);
  }
  for (const { refs: some, ...change } of alike.values()) {
    if (!change.add_tags.length && !change.remove_tags.length) continue;
    const { failed } = await edit(api, some, change);
    if (failed.length) throw failed[0];
  }
}

/**
 * A note of what was done, and of what was not.
 * @param {string} text
 * @param {Ref[]} done
 * @param {{hint: string}[]} failed
 * @param {() => Promise<any>} undo
 * @returns {Note}
 */
function noteOf(text, done, failed, undo) {
  const not = failed.length ? ` ${count(failed.length, "run")} not: ${failed[0].hint}` : "";
  return { text: text + not, bad: failed.length > 0, undo: done.length ? undo : undefined };
}

/**
 * Put runs into the trash or take them out, with a note that undoes it.
 * @param {Api} api
 * @param {Ref[]} refs
 * @param {boolean} trashed
 * @param {(note: Note) => void} onNote
 * @param {() => void} onDone
 */
export async function trash(api, refs, trashed, onNote, onDone) {
  try {
    const { done, failed } = await edit(api, refs, { trashed });
    const where = trashed ? "in the trash" : "out of the trash";
    const undo = async () => {
      await edit(api, done, { trashed: !trashed });
      onDone();
    };
    onNote(noteOf(`${count(done.length, "run")} ${where}.`, done, failed, undo));
  } catch (/** @type {any} */ error) {
    onNote({ text: `Nothing was changed: ${error.hint ?? error}`, bad: true });
  }
  onDone();
}

/**
 * The note of what was done, for a while.
 * @param {{note: Note | null, onNote: (note: Note | null) => void}} props
 */
function Toast({ note, onNote }) {
  useEffect(() => {
    if (!note) return undefined;
    const timer = setTimeout(() => onNote(null), note.undo ? 15000 : 6000);
    return () => clearTimeout(timer);
  }, [note]);
  const undo = async () => {
    try {
      await note?.undo?.();
      onNote({ text: "Undone." });
    } catch (/** @type {any} */ error) {
      onNote({ text: `Not undone: ${error.hint ?? error}`, bad: true });
    }
  };
  // A screen reader reads a text that appears in an element that was there before.
  const [shown, setShown] = useState(/** @type {Note | null} */ (null));
  useEffect(() => setShown(note), [note]);
  return html`<div class="toasts" role="status">${
    shown &&
    html`<div class="toast ${shown.bad ? "bad" : ""}"><span>${shown.text}</span>
      ${shown.undo && html`<button type="button" onClick=${undo}>Undo</button>`}
      <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => onNote(null)}>✕</button></div>`
  }</div>`;
}

/**
 * A window to add tags to runs and to take them away.
 * @param {{api: Api, refs: Ref[], known: string[], onClose: () => void, onDone: () => void,
 *   onNote: (note: Note) => void}} props
 */
function TagsDialog({ api, refs, known, onClose, onDone, onNote }) {
  const [text, setText] = useState("");
  const [removed, setRemoved] = useState(/** @type {string[]} */ ([]));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const added = text.split(",").map((one) => one.trim()).filter(Boolean);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    if (!added.length && !removed.length) return;
    setBusy(true);
    try {
      const before = await tagsOf(api, refs);
      const { done, failed } = await edit(api, refs, { add_tags: added, remove_tags: removed });
      const undo = async () => {
        await untag(api, done, before, added, removed);
        onDone();
      };
      onNote(noteOf(`Tags of ${count(done.length, "run")} changed.`, done, failed, undo));
      onDone();
      onClose();
    } catch (failed) {
      setError(failed);
      setBusy(false);
    }
  };
  return html`<${Dialog} title="Tags of ${count(refs.length, "run")}" onClose=${onClose}>
    <form onSubmit=${send} class="stack">
      <label>Add (with commas between)
        <input value=${text} autofocus onInput=${(/** @type {any} */ e) => setText(e.target.value)} /></label>
      ${known.length > 0 &&
      html`<fieldset><legend>Take away</legend><div class="pick">${known.map(
        (tag) => html`<${Check} key=${tag} on=${removed.includes(tag)}
          onCheck=${() => setRemoved(removed.includes(tag) ? removed.filter((one) => one !== tag) : [...removed, tag])}><bdi>${tag}</bdi><//>`,
      )}</div></fieldset>`}
      <${ErrorBox} error=${error} />
      <footer><button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="main" disabled=${busy || (!added.length && !removed.length)}>Change tags</button></footer>
    </form>
  <//>`;
}

/**
 * A window for the name and the description of a run. If somebody else has changed the description
 * meanwhile, both are shown.
 * @param {{api: Api, run: {project: string, id: string}, onClose: () => void, onDone: () => void,
 *   onNote: (note: Note) => void}} props
 */
function WordsDialog({ api, run, onClose, onDone, onNote }) {
  const [was, setWas] = useState(/** @type {any} */ (null));
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [theirs, setTheirs] = useState(/** @type {string | null | undefined} */ (undefined));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const field = useRef(/** @type {HTMLInputElement | null} */ (null));
  // The field is disabled, and cannot have the focus, until its value is known.
  useEffect(() => {
    if (was && document.activeElement?.getAttribute("aria-label") === "Close") field.current?.focus();
  }, [was]);
  useEffect(() => {
    const ended = new AbortController();
    api
      .read("some", { project: run.project, run: run.id, paths: ["sys/name", "sys/description"] }, { signal: ended.signal })
      .then((/** @type {any[]} */ said) => {
        const text = (/** @type {string} */ path) => said.find((one) => one.path === path && typeof one.value === "string")?.value ?? null;
        const read = { name: text("sys/name"), description: text("sys/description") };
        setWas(read);
        setName(read.name ?? "");
        setDescription(read.description ?? "");
      }, setError);
    return () => ended.abort();
  }, []);
  const send = async (/** @type {Event} */ event) => {
    event.preventDefault();
    /** @type {Record<string, any>} */
    const change = {};
    if (name !== (was.name ?? "")) change.name = name || null;
    if (description !== (was.description ?? "")) {
      change.description = description || null;
      change.description_was = was.description;
    }
    if (!Object.keys(change).length) {
      onClose();
      return;
    }
    setBusy(true);
    try {
      const ref = /** @type {Ref} */ ([run.project, run.id]);
      const { failed } = await edit(api, [ref], change);
      if (failed.length) throw failed[0];
      const undo = async () => {
        /** @type {Record<string, any>} */
        const back = {};
        if ("name" in change) back.name = was.name;
        if ("description" in change) Object.assign(back, { description: was.description, description_was: description || null });
        await edit(api, [ref], back);
        onDone();
      };
      onNote({ text: "Changed.", undo });
      onDone();
      onClose();
    } catch (/** @type {any} */ refused) {
      setBusy(false);
      setError(refused);
      if (refused.status === 409 && refused.more && "description" in refused.more) {
        setTheirs(refused.more.description);
        setWas({ ...was, description: refused.more.description });
      }
    }
  };
  return html`<${Dialog} title="Name and description" onClose=${onClose}>
    <form onSubmit=${send} class="stack">
      <label>Name <input ref=${field} value=${name} maxlength="1000" disabled=${!was}
        onInput=${(/** @type {any} */ e) => setName(e.target.value)} /></label>
      <label>Description <textarea rows="6" value=${description} maxlength="16384" disabled=${!was}
        onInput=${(/** @type {any} */ e) => setDescription(e.target.value)}></textarea></label>
      <${ErrorBox} error=${error} />
      ${theirs !== undefined &&
      html`<section><h3>What it says now</h3><pre class="theirs">${theirs ?? "(nothing)"}</pre>
        <p class="muted">Saving again replaces it with yours above.</p></section>`}
      <footer><button type="button" onClick=${onClose}>Cancel</button>
        <button type="submit" class="main" disabled=${busy || !was}>Save</button></footer>
    </form>
  <//>`;
}

/**
 * The open window, if there is one, and the note of what was done.
 * @param {{api: Api, open: any, note: Note | null, onOpen: (open: any) => void, onDone: () => void, onNote: (note: Note | null) => void}} props
 */
export function Edits({ api, open, note, onOpen, onDone, onNote }) {
  const part = { tags: TagsDialog, words: WordsDialog }[/** @type {"tags" | "words"} */ (open?.kind)];
  return html`${part && html`<${part} api=${api} ...${open} onClose=${() => onOpen(null)} onDone=${onDone} onNote=${onNote} />`}
    <${Toast} note=${note} onNote=${onNote} />`;
}

const KEYS = [
  ["/", "find or query runs"],
  ["j k", "next, previous row"],
  ["x", "select the row"],
  ["e", "draw the row, or no longer"],
  ["Enter", "open the row"],
  ["c", "compare what is selected"],
  ["g", "group"],
  ["Shift ← →", "on the head of a column: move it"],
  ["+ −", "there: wider, narrower"],
  ["s", "smooth"],
  ["l", "log y"],
  ["r", "zoom out"],
  ["t", "charts as tables"],
  ["[ ]", "previous, next run"],
  ["?", "this help"],
];

/** @param {{onClose: () => void, keys: boolean, onKeys: (on: boolean) => void}} props */
export function Help({ onClose, keys, onKeys }) {
  return html`<${Dialog} title="Keys and queries" onClose=${onClose} wide>
    <div class="columns">
      <section><h3>Keys</h3>
        <${Check} on=${keys} onCheck=${onKeys}> Single keys do something<//>
        <dl class="keys">${KEYS.map(([key, does]) => html`<dt><kbd>${key}</kbd></dt><dd>${does}</dd>`)}</dl>
      </section>
      <section><h3>The box</h3>
        <dl class="keys below">
          <dt><code>${"resnet best"}</code></dt><dd>words of the name, a tag or the id, in any order</dd>
          <dt><code>${"resnet-*"}</code>, <code>/v[12]$/</code></dt><dd>anything for <code>*</code>; a regular expression</dd>
          <dt><code>${"lr < 0.01"}</code></dt><dd>a parameter or another path that ends so</dd>
          <dt><code>${"tag = best AND state = failed"}</code></dt><dd>tags and states</dd>
          <dt><code>${"val/loss < 0.3"}</code></dt><dd>the last value of a series</dd>
          <dt><code>${"val/loss:min < 0.3"}</code></dt><dd>or its <code>min</code>, <code>max</code>, <code>mean</code></dd>
          <dt><code>parameters/model = "resnet"</code></dt><dd>a text</dd>
          <dt><code>${"parameters/lr > 0.01 AND NOT tag = bad"}</code></dt><dd>several</dd>
          <dt><code>${"sys/creation_time > -2d"}</code></dt><dd>of the last two days</dd>
        </dl>
      </section>
    </div>
  <//>`;
}

/** The screen that asks for the token. @param {{login: string, hint: string, onToken: (token: string) => void}} props */
export function TokenEntry({ login, hint, onToken }) {
  const [text, setText] = useState("");
  const given = (/** @type {Event} */ event) => {
    event.preventDefault();
    // A whole address may be pasted, too.
    const found = /#token=([^&\s]+)/.exec(text);
    const token = found ? decodeURIComponent(found[1]) : text.trim();
    if (token) onToken(token);
  };
  const line = "seamark ui --print-token";
  return html`<main class="narrow">
    <h1>Seamark wants your token</h1>
    ${hint && html`<p class="bad">${hint}</p>`}
    <p>${
      login === "account"
        ? "The token of your account, as `seamark login` uses it."
        : html`It is in the address that <code>seamark ui</code> printed, or said by${" "}
          <code>${line}</code>.`
    }</p>
    <form onSubmit=${given} class="row">
      <label class="grow">Token
        <input type="password" autocomplete="off" spellcheck=${false} autofocus value=${text}
          onInput=${(/** @type {any} */ e) => setText(e.target.value)} /></label>
      <button type="submit" class="main">Open</button>
    </form>
  </main>`;
}
