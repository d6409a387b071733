// @ts-check
/** The page of one run: its name and state, and its tabs. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { linkTo, write } from "./address.js";
import { Charts, SaveMenu } from "./charts.js";
import { Badge, Bytes, Check, Empty, ErrorBox, Filter, Menu, State, TabList, Time, isTyping, tell, useAnswer, useModule } from "./components.js";
import { CopyButton } from "./copies.js";
import { Bar, FileLink, FilesTab, Group, ImagesTab, ProfileTab, heads, scrolls } from "./files.js";
import { queryOf } from "./finding.js";
import { bytes, clock, count, duration, seconds, whole } from "./format.js";
import { OverviewTab } from "./overview.js";

/** @typedef {import("./address.js").View} View */
/** @typedef {import("./files.js").TabProps} TabProps */

const MOST_BESIDE = 1000;
const LINES = [200, 1000, 5000];

/** @param {string} path */
const isMonitored = (path) => path.startsWith("monitoring/");
/** @param {string} path */
const isTraining = (path) => !isMonitored(path);

/** A straggler is slower than the other ranks by a fifth. */
const SLOW = 1.2;
const BAD = ["hangs", "lost", "missing", "killed", "failed"];

/** Whether a rank is in trouble. @param {any} rank */
function isBad(rank) {
  return BAD.includes(rank.state);
}

/** Whether a rank is a straggler. @param {any} timing */
function isSlow(timing) {
  return timing?.slowdown >= SLOW;
}

/** @type {Record<string, string>} */
const TROUBLES = {
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

/** @param {TabProps} props */
function ChartsTab({ tab, api, view, live, project, id, name, attributes, overview }) {
  // Measurements of a machine have no steps of the training.
  const timed = useMemo(() => (view.x === "step" ? { ...view, x: "relative" } : view), [view]);
  const runs = useMemo(() => [{ project, id, name, state: overview?.state }], [project, id, name, overview?.state]);
  if (tab === "charts") return html`<${Charts} key="charts" api=${api} runs=${runs} view=${view} live=${live} wanted=${isTraining} only />`;
  const facts = (attributes || []).filter((one) => /^monitoring\/[^/]+\/environment\//.test(one.path));
  /** @type {Map<string, any[]>} */
  const machines = new Map();
  for (const one of facts) {
    const writer = one.path.split("/")[1];
    machines.set(writer, [...(machines.get(writer) || []), one]);
  }
  return html`<div>${[...machines].map(([writer, values]) => html`<${Group} key=${writer} space=${`monitoring/${writer}/environment`} title=${machineOf(writer, attributes)} values=${values} api=${api} project=${project} id=${id} open=${machines.size === 1} />`)}
    <${Charts} key="system" api=${api} runs=${runs} view=${timed} live=${live} wanted=${isMonitored} open=${OPEN} only /></div>`;
}

/** The title of the facts about a machine. @param {string} writer @param {any[] | null} attributes */
function machineOf(writer, attributes) {
  const host = attributes?.find((one) => one.path === `monitoring/${writer}/hostname`)?.value;
  return `Machine${typeof host === "string" ? ` ${host}` : ""}${writer === "main" ? "" : ` (${writer})`}`;
}

const OPEN = ["monitoring"];

/** A text as a terminal shows it, without colours. @param {string} text */
function plainText(text) {
  // eslint-disable-next-line no-control-regex
  const bare = text.replace(/\u001b\[[0-9;?]*[A-Za-z]|\u001b\][^\u0007]*\u0007/g, "").replace(/\r\n/g, "\n");
  return bare.split("\n").map((line) => line.slice(line.replace(/\r+$/, "").lastIndexOf("\r") + 1).replace(/\r/g, "")).join("\n");
}

/** @param {TabProps} props */
function LogTab({ api, project, id, version, overview }) {
  const [tail, setTail] = useState(LINES[0]);
  const [stream, setStream] = useState("");
  const [follow, setFollow] = useState(true);
  const [filter, setFilter] = useState("");
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const answer = useAnswer((signal) => api.read("log", { project, run: id, tail }, { signal }), [api, project, id, tail, version]);
  const texts = /** @type {[any, string, any][]} */ (answer.data || []);
  const streams = [...new Set(texts.map(([, path]) => path))].sort();
  const shown = texts.filter(([, path, text]) => (!stream || path.endsWith(stream)) && (!filter || String(text).toLowerCase().includes(filter.toLowerCase())));
  useEffect(() => {
    if (follow && box.current) box.current.scrollTop = box.current.scrollHeight;
  }, [answer.data, follow, stream, filter]);
  if (answer.error && !answer.data) return html`<${ErrorBox} error=${answer.error} onRetry=${answer.again} />`;
  if (answer.data && !texts.length) return html`<${Empty} title="Nothing was printed"><p>What a training prints is recorded while it runs, unless <code>capture_stdout=False</code>.</p><//>`;
  return html`<div class="log">
    <div class="log-bar">
      <label>stream <select value=${stream} onChange=${(/** @type {any} */ event) => setStream(event.target.value)}><option value="">both</option><option value="stdout">stdout</option><option value="stderr">stderr</option></select></label>
      <label>last <select value=${tail} onChange=${(/** @type {any} */ event) => setTail(Number(event.target.value))}>${LINES.map((one) => html`<option key=${one} value=${one}>${whole(one)} lines</option>`)}</select></label>
      <${Check} class="check" on=${follow} onCheck=${setFollow}> follow<//>
      <${Filter} hint="Only lines with …" label="Only lines with" value=${filter} onText=${setFilter} />
      <span class="quiet">${count(shown.reduce((sum, [, , text]) => sum + String(text).replace(/\n$/, "").split("\n").length, 0), "line")} of ${count(streams.length, "stream")}${overview?.state === "running" ? ", live" : ""}</span>
      <${CopyButton} text=${() => shown.map(([, , text]) => (typeof text === "string" ? plainText(text) : "")).join("\n")} />
    </div>
    <div class="log-lines" ref=${box} tabindex="0" role="log" aria-live="off" aria-label="What it printed"
      onScroll=${(/** @type {any} */ event) => { const at = event.target; if (follow && at.scrollHeight - at.scrollTop - at.clientHeight > 40) setFollow(false); }}>
      ${shown.map(([time, path, text], at) => html`<div key=${`${time}${at}`} class=${path.endsWith("stderr") ? "err" : ""} title=${`${path}, ${new Date(Number(time) / 1e6).toLocaleString()}`}>${typeof text === "string" ? plainText(text) : html`<${FileLink} api=${api} project=${project} id=${id} file=${{ ...text, name: "text.txt" }} />`}</div>`)}
    </div></div>`;
}

/** @param {TabProps} props */
function RanksTab({ api, ranks, timings }) {
  if (!ranks?.length) return html`<${Empty} title="No rank has recorded anything yet" />`;
  const now = api.now() * 1e6;
  const by = new Map((timings || []).map((one) => [one.rank, one]));
  const slowest = Math.max(0, ...[...by.values()].map((one) => Number(one.p95_s)).filter(Number.isFinite));
  const slow = [...by.values()].filter(isSlow);
  const bad = ranks.filter(isBad);
  const whys = ranks.some((one) => one.why);
  const going = ranks.some((one) => one.state === "running" || one.state === "hangs");
  const verdict = [
    ...bad.map((one) => `Rank ${one.rank} ${/** @type {Record<string, string>} */ ({ lost: "is lost", missing: "is missing", killed: "was killed" })[one.state] || one.state}${one.why ? ` (${one.why})` : ""}.`),
    ...slow.map((one) => `Rank ${one.rank} is ${one.slowdown.toFixed(2)} times as slow as the others.`),
  ];
  return html`<div><p class=${verdict.length ? "verdict warn" : "verdict"}>${verdict.length ? verdict.join(" ") : ranks.length > 1 ? (by.size ? "No rank is slower than the others." : "No rank hangs. None recorded the times of its steps.") : "One rank recorded this run."}</p>
    <div class="scroll" ref=${scrolls}><table class="values"><thead><tr>${heads("rank", "state", whys && "why", "host", "#pid", "last heard of", going && "#no point for")}
      ${by.size > 0 && html`${heads("own time of a step", "#mean", "#p95")}<th scope="col" class="number" title="its own time of a step over the median of the other ranks">slowdown</th>`}</tr></thead>
    <tbody>${ranks.map((one) => {
      const time = by.get(one.rank);
      const own = time ? Number(Number.isNaN(time.own_s) ? time.mean_s : time.own_s) : NaN;
      return html`<tr key=${one.rank}><th scope="row">${one.rank}</th><td><${Badge} kind=${isBad(one) ? "bad" : one.state === "running" ? "good" : "plain"}>${one.state}<//></td>${whys && html`<td class="value">${one.why}</td>`}<td>${one.host ?? ""}</td><td class="number">${one.pid ?? ""}</td>
        <td>${Number(one.last_t) ? html`<${Time} ns=${one.last_t} now=${api.now()} />` : "never"}</td>${going && html`<td class="number">${one.state === "running" || one.state === "hangs" ? clock(Math.max(0, now - Number(one.row_t || one.first_t)) / 1e9) : ""}</td>`}
        ${by.size > 0 && html`<td><${Bar} value=${own} of=${slowest} bad=${isSlow(time)} told /></td><td class="number">${time ? seconds(time.mean_s) : ""}</td><td class="number">${time ? seconds(time.p95_s) : ""}</td><td class="number">${time && Number.isFinite(time.slowdown) ? `${time.slowdown.toFixed(2)}×` : ""}</td>`}</tr>`;
    })}</tbody></table></div></div>`;
}

/** Why a journal was not read to its end. @type {Record<string, string>} */
const STOPPED = {
  incomplete: "its last record is not whole: the writer may be writing it, or was killed in it",
  bad: "damaged: what follows could not be read",
  newer: "written by a newer Seamark; update to read the rest",
  unreadable: "it may not be read by this user",
};

/** @param {TabProps} props */
function JournalsTab({ api, journals, overview, id }) {
  const every = /** @type {any[]} */ (journals);
  const told = [];
  let damaged = 0;
  let dropped = 0;
  for (const one of every) {
    for (const [, length] of one.gaps) damaged += Number(length);
    for (const n of Object.values(one.dropped)) dropped += Number(n);
    if (one.stopped === "incomplete" && !one.closed && overview && overview.state !== "running") told.push(`The end of ${one.file} is torn: what was written last is not whole.`);
    else if (one.stopped && one.stopped !== "incomplete") told.push(`${one.file}: ${STOPPED[one.stopped] || one.stopped}.`);
    if (Number(one.errors)) told.push(`${one.file}: ${count(Number(one.errors), "record")} could not be applied.`);
    for (const [kind, n] of Object.entries(one.unknown || {})) told.push(`${one.file}: ${count(Number(n), "record")} of a kind (${kind}) that this version does not know.`);
  }
  const gaps = every.reduce((sum, one) => sum + one.gaps.length, 0);
  if (gaps) told.unshift(`${count(gaps, "gap")}: ${bytes(damaged)} hold no valid record. What lies around them was read.`);
  if (dropped) told.unshift(`${count(dropped, "call")} of the training ${dropped === 1 ? "was" : "were"} not recorded.`);
  const conflicts = Object.entries(overview?.troubles?.conflicts || {});
  return html`<div class="journals"><div class=${`verdict ${told.length || conflicts.length ? "warn" : ""}`}>
      ${told.length || conflicts.length ? html`<ul>${told.map((one, at) => html`<li key=${at}>${one}</li>`)}${conflicts.map(([path, families]) => html`<li key=${path}>${path} was recorded as several kinds of value: ${/** @type {any[]} */ (families).join(", ")}.</li>`)}</ul>` : "All that the training wrote was read: no gap, nothing dropped, no torn end."}
      <p class="quiet">The same, and what can be mended: <code>seamark fsck ${id}</code> <${CopyButton} text=${`seamark fsck ${id}`} /></p></div>
    <div class="scroll" ref=${scrolls}><table class="values"><thead><tr>${heads("journal", "#attempt", "#rank", "host, pid", "#read", "last record", "end", "#gaps", "dropped")}</tr></thead>
    <tbody>${every.map((one) => html`<tr key=${one.file}><th scope="row"><code>${one.file}</code></th><td class="number">${one.header.attempt === null || one.header.attempt === undefined ? "" : Number(one.header.attempt) + 1}</td><td class="number">${one.header.rank ?? ""}</td><td>${[one.header.host, one.header.pid].filter((each) => each !== null && each !== undefined).join(", ")}</td>
      <td class="number"><${Bytes} n=${one.offset} /></td><td>${Number(one.last_t) ? html`<${Time} ns=${one.last_t} now=${api.now()} />` : ""}</td>
      <td>${one.closed ? "closed" : one.stopped ? html`<${Badge} kind="warn" title=${STOPPED[one.stopped] || ""}>${one.stopped}<//>` : "open"}</td>
      <td class="number">${one.gaps.length ? html`<details><summary>${one.gaps.length}</summary>${one.gaps.map((/** @type {[number, number]} */ [offset, length], /** @type {number} */ at) => html`<div key=${at}>${whole(length)} bytes at ${whole(offset)}</div>`)}</details>` : "0"}</td>
      <td>${Object.entries(one.dropped).map(([reason, n]) => `${whole(/** @type {any} */ (n))} ${reason}`).join(", ") || "none"}
        ${one.notes.length > 0 && html`<details><summary>${count(one.notes.length, "note")}</summary>${one.notes.map((/** @type {[number, string]} */ [offset, note], /** @type {number} */ at) => html`<div key=${at}>at ${whole(offset)}: ${note}</div>`)}</details>`}</td></tr>`)}</tbody></table></div></div>`;
}

/** The tabs, and the answer that each needs. */
const TABS = [
  { key: "overview", label: "Overview", part: OverviewTab, needs: "attributes" },
  { key: "charts", label: "Charts", part: ChartsTab },
  { key: "images", label: "Images", part: ImagesTab, needs: "attributes" },
  { key: "log", label: "Log", part: LogTab },
  { key: "files", label: "Files & checkpoints", part: FilesTab, needs: "attributes" },
  { key: "ranks", label: "Ranks", part: RanksTab, needs: "ranks" },
  { key: "profile", label: "Profile", part: ProfileTab, needs: "attributes" },
  { key: "system", label: "System", part: ChartsTab },
  { key: "journals", label: "Journals", part: JournalsTab, needs: "journals" },
];

/** The open tab, once there is an answer to what it needs. @param {TabProps} props */
function TabPanel(props) {
  const { part, needs } = TABS.find((one) => one.key === props.tab) ?? TABS[0];
  if (needs && !props[/** @type {"attributes" | "ranks" | "journals"} */ (needs)]) return html`<p class="quiet" aria-busy="true">…</p>`;
  return html`<${part} ...${props} />`;
}

/**
 * A hook for the runs before and after one in the table, and the keys that lead there.
 * @param {any} api @param {View} view
 */
function useNeighbours(api, view) {
  const { project } = view;
  const beside = useAnswer(
    (signal) => api.read("select", { project, query: queryOf(view.q) || null, sort_by: view.sort, ascending: view.ascending, trashed: view.trashed ? null : false, limit: MOST_BESIDE, counted: false, unknown: "tell" }, { signal }),
    [api, project, view.q, view.sort, view.ascending, view.trashed],
  );
  const refs = beside.data || [];
  const place = refs.findIndex((/** @type {[string, string]} */ [, one]) => one === view.run);
  /** Steps that were asked for before the neighbours were known. */
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
  return { place, refs, go };
}

/**
 * A hook for a run that is not there. It may have another id, since an address made for Neptune has
 * what is the id there, such as KEY-12. And its folder may be being read: changes are told only
 * after the first question for them, so that the run is asked for a few more times.
 * @param {any} api @param {string} project @param {string} id @param {{error: any, busy: boolean}} overview @param {() => void} again
 */
function useMissing(api, project, id, overview, again) {
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
  const tries = useRef(0);
  useEffect(() => {
    if (!lacking) tries.current = 0;
    if (!lacking || overview.busy || tries.current > 3) return undefined;
    const timer = setTimeout(again, 1000 * 2 ** tries.current);
    tries.current += 1;
    return () => clearTimeout(timer);
  }, [lacking, overview.busy]);
}

/**
 * @param {{api: any, view: View, live?: any, keys?: boolean, root?: import("./api.js").Root}} props
 */
export function RunScreen({ api, view, live, root }) {
  const { project, run: id } = view;
  const of = useMemo(() => ({ project, run: id }), [project, id]);
  const [version, setVersion] = useState(0);
  const again = () => setVersion((old) => old + 1);
  const [note, setNote] = useState(/** @type {any} */ (null));
  const [open, setOpen] = useState(/** @type {any} */ (null));
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
  const { place, refs, go } = useNeighbours(api, view);
  /** @type {Map<string, any>} */
  const values = useMemo(() => new Map((attributes.data || []).map((/** @type {any} */ one) => [one.path, one])), [attributes.data]);
  const valueOf = (/** @type {string} */ path) => values.get(path)?.value;
  useMissing(api, project, id, overview, again);
  const known = overview.data?.run === id;
  const state = known ? overview.data.state : undefined;
  const name = (known && (overview.data.name || valueOf("sys/name"))) || id;
  useEffect(() => tell({ title: name, running: state === "running" ? 1 : 0, crashed: state === "crashed" ? 1 : 0 }), [name, state]);

  const tab = TABS.some((one) => one.key === view.tab) ? view.tab : "overview";
  const turnTo = (/** @type {string} */ key) => write({ tab: key === "overview" ? "" : key }, { push: true });

  if (overview.error && !known) {
    return html`<section class="run"><p><a ...${linkTo({ run: "", tab: "" })}>‹ all runs</a></p><${ErrorBox} error=${overview.error} onRetry=${overview.again} /></section>`;
  }
  const attempts = attemptsOf(journals.data || []);
  const openings = openingsOf(journals.data || []);
  const slow = (stragglers.data || []).filter(isSlow);
  const odd = several ? ranks.data.filter(isBad) : [];
  const troubles = Object.keys(overview.data?.troubles || {});
  const trashed = valueOf("sys/trashed") === true;
  const own = /** @type {string[]} */ (Array.isArray(valueOf("sys/tags")) ? valueOf("sys/tags") : []);
  const tags = ["sys/tags", "sys/group_tags"].map(valueOf).flatMap((one) => (Array.isArray(one) ? one : []));
  const python = `import seamark\nrun = seamark.init_run(with_id=${JSON.stringify(id)}, project=${JSON.stringify(project)}, mode="read-only")`;
  return html`<section class="run" aria-label=${`Run ${name}`}>
    <header class="run-head">
      <div class="run-line">
        <h1 title=${name}>${name}</h1>
        ${state && html`<${State} state=${state} />`}
        ${known && overview.data.reason && html`<span class="run-reason" title=${overview.data.reason}><bdi>${overview.data.reason}</bdi></span>`}
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
          { label: "Tags …", disabled: root?.read_only, onPick: () => setOpen({ kind: "tags", refs: [[project, id]], known: [...own].sort() }) },
          { label: "Name and description …", disabled: root?.read_only, onPick: () => setOpen({ kind: "words", run: { project, id } }) },
          { label: trashed ? "Out of the trash" : "Into the trash", disabled: root?.read_only, onPick: async () => (await import("./dialogs.js")).trash(api, [[project, id]], !trashed, setNote, again) },
        ]} />`}
        ${["overview", "charts", "ranks", "system"].includes(tab) && html`<${SaveMenu} />`}
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
    </header>
    <${TabList} class="run-tabs" label="About this run" id="tab" panel="tab-panel" tabs=${TABS.map((one) => [one.key, one.label])} now=${tab} onTab=${turnTo} />
    <div role="tabpanel" id="tab-panel" aria-labelledby=${`tab-${tab}`} class="run-panel" key=${`${project}/${id}`}>
      ${attributes.error && html`<${ErrorBox} error=${attributes.error} onRetry=${attributes.again} />`}
      <${TabPanel} tab=${tab} api=${api} view=${view} live=${live} project=${project} id=${id} name=${name} overview=${known ? overview.data : null}
        attributes=${attributes.data || null} journals=${journals.data || null} ranks=${ranks.data || null} timings=${stragglers.data || null} version=${version} />
    </div>
    ${edits && html`<${edits.Edits} api=${api} open=${open} note=${note} onOpen=${setOpen} onDone=${again} onNote=${setNote} />`}
  </section>`;
}
