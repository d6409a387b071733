// @ts-check
/** The page of one run: what it is called, how it is doing, and its tabs. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { href, write } from "./address.js";
import { Badge, CopyButton, ErrorBox, Menu, State, Time, isTyping, tell, useAnswer, useModule } from "./components.js";
import { duration } from "./format.js";
import { TABS, TabPanel } from "./tabs.js";

/** @typedef {import("./address.js").View} View */

const MOST_BESIDE = 1000;

/** How a straggler is told: from a fifth slower than the others on. */
export const SLOW = 1.2;

/**
 * @param {{api: any, view: View, live?: any, keys?: boolean, root?: import("./main.js").Root}} props
 */
export function RunScreen({ api, view, live, root }) {
  const { project, run: id } = view;
  const of = useMemo(() => ({ project, run: id }), [project, id]);
  const [version, setVersion] = useState(0);
  const again = () => setVersion((old) => old + 1);
  const [note, setNote] = useState(/** @type {any} */ (null));
  const [open, setOpen] = useState("");
  const edits = useModule(note || open ? "./dialogs.js" : "").module;
  useEffect(() => {
    if (!live?.subscribe) return undefined;
    return live.subscribe((/** @type {{run: string}[] | null} */ changed) => {
      if (!changed || changed.some((one) => one.run === id)) setVersion((old) => old + 1);
    });
  }, [live?.subscribe, id]);
  const keys = [api, project, id, version];
  const overview = useAnswer((signal) => api.read("overview", of, { signal }), keys);
  const attributes = useAnswer((signal) => api.read("attributes", of, { signal }), keys);
  const journals = useAnswer((signal) => api.read("journals", of, { signal }), keys);
  const ranks = useAnswer((signal) => api.read("ranks", of, { signal }), keys);
  const several = (ranks.data?.length || 0) > 1;
  const stragglers = useAnswer((signal) => (several ? api.read("stragglers", of, { signal }).catch(() => null) : Promise.resolve(null)), [...keys, several]);
  const beside = useAnswer(
    (signal) => api.read("select", { project, query: view.q || null, sort_by: view.sort, ascending: view.ascending, trashed: view.trashed ? null : false, limit: MOST_BESIDE, counted: false, unknown: "tell" }, { signal }),
    [api, project, view.q, view.sort, view.ascending, view.trashed],
  );
  /** @type {Map<string, any>} */
  const values = useMemo(() => new Map((attributes.data || []).map((/** @type {any} */ one) => [one.path, one])), [attributes.data]);
  const valueOf = (/** @type {string} */ path) => values.get(path)?.value;
  // Neptune's addresses have what it calls a run's id, such as KEY-12.
  const lacking = overview.error?.status === 404;
  useEffect(() => {
    if (!lacking) return undefined;
    const abort = new AbortController();
    api.read("select", { project, id: [id], trashed: null }, { signal: abort.signal }).then(
      (/** @type {[string, string][]} */ refs) => refs.length === 1 && refs[0][1] !== id && write({ project: refs[0][0], run: refs[0][1] }),
      () => undefined,
    );
    return () => abort.abort();
  }, [api, project, id, lacking]);
  // A link may be opened while its folder is being read: what comes then is told, but not what came
  // before the first answer to what is new.
  const tries = useRef(0);
  useEffect(() => {
    if (!lacking) tries.current = 0;
    if (!lacking || overview.busy || tries.current > 3) return undefined;
    const timer = setTimeout(again, 1000 * 2 ** tries.current);
    tries.current += 1;
    return () => clearTimeout(timer);
  }, [lacking, overview.busy]);
  const known = overview.data?.run === id;
  const state = known ? overview.data.state : undefined;
  const name = (known && (overview.data.name || valueOf("sys/name"))) || id;
  useEffect(() => tell({ title: name, running: state === "running" ? 1 : 0, crashed: state === "crashed" ? 1 : 0 }), [name, state]);

  const refs = beside.data || [];
  const place = refs.findIndex((/** @type {[string, string]} */ [, one]) => one === id);
  /** A step to the side that was asked for before it was known what lies there. */
  const early = useRef(0);
  const go = (/** @type {number} */ by) => {
    early.current = beside.data ? 0 : early.current + by;
    const next = place < 0 ? undefined : refs[place + by];
    if (next) write({ project: next[0], run: next[1] }, { push: true });
  };
  useEffect(() => {
    if (beside.data && early.current) go(early.current);
  }, [beside.data]);
  useEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      if (isTyping(event) || document.documentElement.dataset.keys === "off") return;
      if (event.key === "[") go(-1);
      else if (event.key === "]") go(1);
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });

  const tab = TABS.some((one) => one.key === view.tab) ? view.tab : "overview";
  const list = useRef(/** @type {HTMLElement | null} */ (null));
  const turnTo = (/** @type {string} */ key) => write({ tab: key === "overview" ? "" : key }, { push: true });
  const onTabKey = (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, Home: -99, End: 99 }[event.key];
    if (!by) return;
    event.preventDefault();
    const now = TABS.findIndex((one) => one.key === tab);
    const next = Math.abs(by) > 1 ? (by > 0 ? TABS.length - 1 : 0) : (now + by + TABS.length) % TABS.length;
    turnTo(TABS[next].key);
    /** @type {HTMLElement | undefined} */ (list.current?.querySelectorAll("[role=tab]")[next])?.focus();
  };

  if (overview.error && !known) {
    return html`<section class="run"><p><a href=${href({ run: "", tab: "" })} onClick=${follow({ run: "", tab: "" })}>‹ all runs</a></p><${ErrorBox} error=${overview.error} onRetry=${overview.again} /></section>`;
  }
  const attempts = attemptsOf(journals.data || []);
  const openings = openingsOf(journals.data || []);
  const slow = (stragglers.data || []).filter((/** @type {any} */ one) => one.slowdown >= SLOW);
  const odd = (ranks.data || []).filter((/** @type {any} */ one) => several && ["hangs", "lost", "missing", "killed", "failed"].includes(one.state));
  const troubles = Object.keys(overview.data?.troubles || {});
  const trashed = valueOf("sys/trashed") === true;
  const own = /** @type {string[]} */ (Array.isArray(valueOf("sys/tags")) ? valueOf("sys/tags") : []);
  const tags = ["sys/tags", "sys/group_tags"].map(valueOf).flatMap((one) => (Array.isArray(one) ? one : []));
  const python = `import seamark\nrun = seamark.init_run(with_id=${JSON.stringify(id)}, project=${JSON.stringify(project)}, mode="read-only")`;
  return html`<section class="run" aria-label=${`Run ${name}`}>
    <header class="run-head">
      <div class="run-line">
        <h1 title=${name}>${name}</h1>
        ${state && html`<${State} state=${state} title=${overview.data.reason} />`}
        ${trashed && html`<${Badge}>in the trash<//>`}
        ${odd.map((/** @type {any} */ one) => html`<${Badge} key=${one.rank} kind="bad" title=${one.why}>rank ${one.rank} ${one.state}<//>`)}
        ${slow.map((/** @type {any} */ one) => html`<${Badge} key=${`s${one.rank}`} kind="warn" title="own time of a step over the median of the other ranks">rank ${one.rank} ${one.slowdown.toFixed(2)}× slower<//>`)}
        ${attempts.length > 1 && html`<${Badge} kind="accent" title="It went on from a checkpoint; replaced points can be shown in its charts">↻ ${attempts.length} attempts<//>`}
        ${openings > Math.max(1, attempts.length) && html`<${Badge} kind="accent" title="Opened so often to record into it, by its id or from a checkpoint">↻ opened ${openings}×<//>`}
        ${troubles.length > 0 && html`<button type="button" class="run-trouble" onClick=${() => turnTo("journals")} title="What is missing or damaged">⚠ ${troubles.map((one) => TROUBLES[one] || one).join(", ")}</button>`}
        <span class="grow"></span>
        <span class="run-beside">
          <button type="button" disabled=${place <= 0} aria-label="Run before this one in the table" title="The run before ([)" onClick=${() => go(-1)}>‹</button>
          <span class="run-place">${place < 0 ? "" : `${place + 1} of ${refs.length}${refs.length === MOST_BESIDE ? "+" : ""}`}</span>
          <button type="button" disabled=${place < 0 || place >= refs.length - 1} aria-label="Run after this one in the table" title="The run after (])" onClick=${() => go(1)}>›</button>
        </span>
        ${known && html`<${Menu} label="Edit" title=${root?.read_only ? root.why || "This folder is read-only" : "Edit this run"} items=${[
          { label: "Tags …", disabled: root?.read_only, onPick: () => setOpen("tags") },
          { label: "Name and description …", disabled: root?.read_only, onPick: () => setOpen("words") },
          { label: trashed ? "Out of the trash" : "Into the trash", disabled: root?.read_only, onPick: async () => (await import("./dialogs.js")).trash(api, [[project, id]], !trashed, setNote, again) },
        ]} />`}
        <${Menu} label="Copy" title="Copy what names this run">
          <div class="run-copy">
            <${CopyButton} label="Id" text=${id} /><code>${id}</code>
            <${CopyButton} label="Path" text=${`${project}/${id}`} /><code>${project}/${id}</code>
            <${CopyButton} label="Python" text=${python} /><code>seamark.init_run(…)</code>
            <${CopyButton} label="Link" text=${() => location.href} /><code>this view, without the token</code>
          </div>
        <//>
      </div>
      <p class="run-facts"><code>${id}</code>
        ${valueOf("sys/creation_time") && html`<span>began <${Time} ns=${valueOf("sys/creation_time")} now=${api.now()} /></span>`}
        ${typeof valueOf("sys/running_time") === "number" && html`<span>ran ${duration(valueOf("sys/running_time"))}</span>`}
        ${valueOf("sys/owner") && html`<span>by ${valueOf("sys/owner")}</span>`}
        ${valueOf("sys/hostname") && html`<span>on ${valueOf("sys/hostname")}</span>`}
        ${tags.map((tag) => html`<span class="tag" key=${tag}><bdi>${tag}</bdi></span>`)}</p>
      ${valueOf("sys/description") && html`<p class="run-description">${valueOf("sys/description")}</p>`}
    </header>
    <div class="run-tabs" role="tablist" aria-label="About this run" ref=${list} onKeyDown=${onTabKey}>
      ${TABS.map(({ key, label }) => html`<button type="button" key=${key} role="tab" id=${`tab-${key}`} aria-selected=${key === tab ? "true" : "false"} aria-controls="tab-panel" tabindex=${key === tab ? 0 : -1} onClick=${() => turnTo(key)}>${label}</button>`)}
    </div>
    <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${tab}`} class="run-panel" key=${`${project}/${id}`}>
      ${attributes.error && html`<${ErrorBox} error=${attributes.error} onRetry=${attributes.again} />`}
      <${TabPanel} tab=${tab} api=${api} view=${view} live=${live} project=${project} id=${id} name=${name} overview=${known ? overview.data : null}
        attributes=${attributes.data || null} journals=${journals.data || null} ranks=${ranks.data || null} timings=${stragglers.data || null} version=${version} />
    </div>
    ${edits && open === "tags" && html`<${edits.TagsDialog} api=${api} refs=${[[project, id]]} known=${[...own].sort()} onClose=${() => setOpen("")} onDone=${again} onNote=${setNote} />`}
    ${edits && open === "words" && html`<${edits.WordsDialog} api=${api} run=${{ project, id }} onClose=${() => setOpen("")} onDone=${again} onNote=${setNote} />`}
    ${edits && html`<${edits.Toast} note=${note} onNote=${setNote} />`}
  </section>`;
}

/** @type {Record<string, string>} */
export const TROUBLES = {
  dropped: "records were dropped",
  gaps: "damaged bytes",
  conflicts: "conflicting records",
  fold_errors: "records that could not be read",
  newer: "written by a newer Seamark",
};

/**
 * @param {any[]} journals
 * @returns {number[]} the attempts of a run, from 0
 */
function attemptsOf(journals) {
  const found = new Set();
  for (const { header } of journals) if (Number.isInteger(header?.attempt) && header.attempt >= 0) found.add(header.attempt);
  return [...found].sort((a, b) => a - b);
}

/**
 * @param {any[]} journals
 * @returns {number} how often the run was opened to record into it
 */
function openingsOf(journals) {
  return new Set(journals.filter(({ header }) => header?.owner && !header.rank).map(({ header }) => header.lineage)).size;
}

/** @param {Partial<View>} change */
function follow(change) {
  return (/** @type {MouseEvent} */ event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    event.preventDefault();
    write(change, { push: true });
  };
}
