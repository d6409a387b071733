// @ts-check
/** The tabs of a run's page. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { refOf } from "./address.js";
import { isAbort, runPath } from "./api.js";
import { counted, exact, span, useSeen } from "./chart.js";
import { Charts } from "./charts.js";
import { Badge, Bytes, CopyButton, Empty, ErrorBox, Time, useAnswer } from "./components.js";
import { bytes, duration, number } from "./format.js";

/** @typedef {import("./address.js").View} View */
/**
 * @typedef {object} TabProps
 * @property {string} tab
 * @property {any} api
 * @property {View} view
 * @property {any} live
 * @property {string} project
 * @property {string} id
 * @property {string} name
 * @property {any} overview
 * @property {any[] | null} attributes
 * @property {any[] | null} journals
 * @property {any[] | null} ranks
 * @property {any[] | null} timings
 * @property {number} version grows whenever the run changed
 */

export const TABS = [
  { key: "overview", label: "Overview" },
  { key: "charts", label: "Charts" },
  { key: "images", label: "Images" },
  { key: "log", label: "Log" },
  { key: "files", label: "Files & checkpoints" },
  { key: "ranks", label: "Ranks" },
  { key: "profile", label: "Profile" },
  { key: "system", label: "System" },
  { key: "journals", label: "Journals" },
];

const MOST_IMAGE = 8 * 1024 * 1024;
const MOST_CSV = 4 * 1024 * 1024;
const PICTURES = new Set(["png", "jpg", "jpeg", "webp", "gif"]);
const LINES = [200, 1000, 5000];
/** Namespaces that are not what the training said: shown last, and closed. */
const BEHIND = ["source_code", "profiling", "distributed", "monitoring", "sys"];

/** What a machine has of memory is recorded in GiB. */
const GIBS = /^monitoring\/[^/]+\/environment\/(gpu_)?memory(_limit)?$/;

/** @param {string} path */
const isMonitored = (path) => path.startsWith("monitoring/");
/** @param {string} path */
const isTraining = (path) => !isMonitored(path);

/** What is wider than its place is scrolled with keys, too. @param {HTMLElement | null} box */
function scrolls(box) {
  // It is no part of the page yet.
  requestAnimationFrame(() => {
    if (box && box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
}

/** @param {TabProps} props */
export function TabPanel(props) {
  const { tab, attributes } = props;
  if (tab === "charts" || tab === "system") return html`<${ChartsTab} ...${props} />`;
  if (tab === "log") return html`<${LogTab} ...${props} />`;
  if (tab === "ranks") return html`<${RanksTab} ...${props} />`;
  if (tab === "journals") return html`<${JournalsTab} ...${props} />`;
  if (!attributes) return html`<p class="quiet" aria-busy="true">…</p>`;
  if (tab === "images") return html`<${ImagesTab} ...${props} />`;
  if (tab === "files") return html`<${FilesTab} ...${props} />`;
  if (tab === "profile") return html`<${ProfileTab} ...${props} />`;
  return html`<${OverviewTab} ...${props} />`;
}

// ---------------------------------------------------------------------- overview

/** @param {TabProps} props */
function OverviewTab({ api, project, id, overview, attributes }) {
  const [filter, setFilter] = useState("");
  const every = /** @type {any[]} */ (attributes);
  const by = useMemo(() => new Map(every.map((one) => [one.path, one])), [every]);
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const shown = every.filter((one) => one.path !== "sys/progress" && words.every((word) => one.path.toLowerCase().includes(word) || String(one.value).toLowerCase().includes(word)));
  const metrics = shown.filter((one) => one.family === "float_series" && !BEHIND.includes(one.path.split("/")[0]));
  const rest = shown.filter((one) => one.family !== "float_series");
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const one of rest) {
    const slash = one.path.indexOf("/");
    const space = slash < 0 ? "" : one.path.slice(0, slash);
    groups.set(space, [...(groups.get(space) || []), one]);
  }
  const rank = (/** @type {string} */ space) => (space === "parameters" ? -1 : BEHIND.indexOf(space) + 1);
  const spaces = [...groups.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const bad = overview && (overview.failed || overview.crash || ["failed", "crashed", "killed", "lost"].includes(overview.state));
  return html`<div class="overview">
    ${bad && html`<${Failure} overview=${overview} trace=${by.get(overview.traceback)?.value} />`}
    <${Progress} loops=${by.get("sys/progress")?.value} />
    <${Source} by=${by} />
    <input type="search" class="run-filter" placeholder="Filter values" aria-label="Filter values" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} />
    ${words.length > 0 && !shown.length && html`<p class="quiet">No value matches “${filter}”.</p>`}
    ${metrics.length > 0 && html`<section><h2>Metrics <span class="count">${metrics.length}</span></h2><div class="scroll" ref=${scrolls}><table class="values">
      <thead><tr><th scope="col">series</th><th scope="col" class="number">last</th><th scope="col" class="number">min</th><th scope="col" class="number">max</th><th scope="col" class="number">points</th><th scope="col" class="number">last step</th><th scope="col">not finite</th></tr></thead>
      <tbody>${metrics.map(({ path, value }) => html`<tr key=${path}><th scope="row"><${PathName} path=${path} /></th>${[value.last, value.min, value.max].map((one, at) => html`<td key=${at} class="number" title=${exact(Number(one))}>${number(Number(one), 6)}</td>`)}<td class="number">${Number(value.count).toLocaleString("en")}</td><td class="number">${number(Number(value.last_step), 9)}</td>
        <td>${value.nan_count ? html`<${Badge} kind="bad">${counted(Number(value.nan_count), "NaN")}<//>` : ""} ${value.inf_count ? html`<${Badge} kind="bad">${Number(value.inf_count).toLocaleString("en")} ±Inf<//>` : ""}</td></tr>`)}</tbody></table></div></section>`}
    ${spaces.map((space) => html`<${Group} key=${space} space=${space} values=${groups.get(space)} api=${api} project=${project} id=${id} open=${!BEHIND.includes(space) || words.length > 0} />`)}
  </div>`;
}

/** What is not known of a crash, beside what is. @type {Record<string, string>} */
const CRASHES = {
  "process gone": "It ended without a word: it was killed, or called exit without closing its run.",
  "host rebooted": "The machine was started anew while it ran.",
  "heartbeat lost": "Nothing was heard of it any more: its machine, or the way to its folder, may be gone.",
};

/** @param {{overview: any, trace: unknown}} props */
function Failure({ overview, trace }) {
  const why = overview.reason || overview.crash?.reason || overview.crash?.detail || overview.signal;
  return html`<section class="failure" aria-label="What went wrong">
    <h2>${why ? why.charAt(0).toUpperCase() + why.slice(1) : `It ended as ${overview.state}, and said no reason`}</h2>
    ${overview.crash && html`<p>${[overview.crash.reason !== why && overview.crash.reason, overview.crash.host && `on ${overview.crash.host}`, overview.crash.pid && `pid ${overview.crash.pid}`, overview.crash.detail !== why && overview.crash.detail].filter(Boolean).join(", ")}</p>`}
    ${CRASHES[overview.crash?.reason] && html`<p>${CRASHES[overview.crash.reason]}</p>`}
    ${typeof trace === "string" && html`<details open><summary>Traceback</summary><div class="code"><pre tabindex="0"><code>${trace}</code></pre><${CopyButton} text=${trace} /></div></details>`}
  </section>`;
}

/** @param {{loops: unknown}} props */
function Progress({ loops }) {
  const every = Array.isArray(loops) ? loops.filter((one) => one && typeof one.name === "string" && Number.isFinite(Number(one.done))).slice(0, 20) : [];
  if (!every.length) return null;
  return html`<section class="progress" aria-label="Progress">${every.map((one, at) => {
    const total = Number(one.total);
    const left = Number(one.remaining_s);
    return html`<div key=${at}><span>${one.name} ${Number(one.done).toLocaleString("en")}${total > 0 ? ` of ${total.toLocaleString("en")}` : ""}</span>
      ${total > 0 && html`<progress max=${total} value=${Math.min(total, Number(one.done))} aria-label=${one.name}></progress>`}
      <span class="quiet">${one.remaining_s !== null && one.remaining_s !== undefined && left > 0 ? `about ${duration(left)} left` : ""}</span></div>`;
  })}</section>`;
}

/** @param {{by: Map<string, any>}} props */
function Source({ by }) {
  const text = (/** @type {string} */ path) => (by.has(path) ? String(by.get(path).value) : "");
  const facts = [
    ["program", [text("source_code/entrypoint"), ...(Array.isArray(by.get("source_code/arguments")?.value) ? by.get("source_code/arguments").value : [])].filter(Boolean).join(" ")],
    ["version of the code", text("source_code/version")],
    ["Python", text("source_code/python")],
  ];
  for (const [path, one] of by) if (/^source_code\/(git|commit|branch|dirty|remote)/.test(path) && one.family === "atom" && String(one.value).length < 200) facts.push([path.slice("source_code/".length).replaceAll("/", " "), String(one.value)]);
  const packages = text("source_code/packages");
  const some = facts.filter(([, value]) => value);
  if (!some.length && !packages) return null;
  return html`<section class="source" aria-label="Code"><dl>${some.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd><code>${value}</code></dd></div>`)}
    ${packages && html`<div><dt>packages</dt><dd><details><summary>${counted(packages.split("\n").filter(Boolean).length, "package")}</summary><pre class="packages" tabindex="0">${packages}</pre></details></dd></div>`}</dl></section>`;
}

/** @param {{space: string, values: any[] | undefined, api: any, project: string, id: string, open: boolean}} props */
function Group({ space, values = [], api, project, id, open }) {
  const [shut, setShut] = useState(/** @type {boolean | null} */ (null));
  const closed = shut ?? !open;
  return html`<section><h2><button type="button" class="fold" aria-expanded=${closed ? "false" : "true"} onClick=${() => setShut(!closed)}><span aria-hidden="true">${closed ? "▸" : "▾"}</span> ${space || "at the root"} <span class="count">${values.length}</span></button></h2>
    ${!closed && html`<div class="scroll" ref=${scrolls}><table class="values"><tbody>${values.map((one) => html`<tr key=${one.path}><th scope="row"><${PathName} path=${space ? one.path.slice(space.length + 1) : one.path} /></th><td class="value"><${Value} one=${one} api=${api} project=${project} id=${id} /></td></tr>`)}</tbody></table></div>`}</section>`;
}

/** @param {{path: string}} props */
function PathName({ path }) {
  const cut = path.lastIndexOf("/") + 1;
  return html`<span class="path"><span class="quiet">${path.slice(0, cut)}</span>${path.slice(cut)}</span>`;
}

/** @param {{one: any, api: any, project: string, id: string}} props */
function Value({ one, api, project, id }) {
  const { value, family, type } = one;
  if (value instanceof Date) return html`<${Time} ns=${value} full />`;
  if (family === "float_series") return html`<span>${number(Number(value.last), 6)} <span class="quiet">last of ${Number(value.count).toLocaleString("en")}</span></span>`;
  if (family === "string_set") return html`${[...value].map((/** @type {string} */ tag) => html`<span class="tag" key=${tag}>${tag}</span>`)}`;
  if (family === "file") return html`<${FileLink} api=${api} project=${project} id=${id} file=${value} />`;
  if (family === "file_set") return html`<span>${counted(Object.keys(value).length, "file")}</span>`;
  if (family === "string_series") return html`<${Long} text=${typeof value.last === "string" ? value.last : ""} note=${`last of ${counted(Number(value.count), "text")}`} />`;
  if (family === "file_series" || family === "histogram_series") return html`<span class="quiet">${counted(Number(value.count), family === "file_series" ? "file" : "histogram")}, steps ${number(Number(value.first_step))} to ${number(Number(value.last_step))}</span>`;
  if (GIBS.test(one.path) && typeof value === "number") return html`<span title=${exact(value)}>${number(value, 4)} GiB</span>`;
  if (type === "float" && typeof value === "number") return html`<code>${exact(value)}</code>`;
  if (typeof value === "string") return html`<${Long} text=${value} />`;
  return html`<${Long} text=${typeof value === "object" && value !== null ? JSON.stringify(value, (_, each) => (typeof each === "bigint" ? each.toString() : each), 1) : String(value)} code />`;
}

/** @param {{text: string, note?: string, code?: boolean}} props */
function Long({ text, note, code }) {
  const flat = text.replace(/\s*\n\s*/g, " ");
  const tail = note ? html` <span class="quiet">${note}</span>` : "";
  if (text.length <= 160 && (!text.includes("\n") || code)) return html`<span class=${code ? "code-like" : ""}>${flat}</span>${tail}`;
  return html`<details class="long"><summary>${flat.slice(0, 140)}…</summary><pre tabindex="0">${text.slice(0, 200_000)}</pre>${text.length > 200_000 && html`<p class="quiet">and ${(text.length - 200_000).toLocaleString("en")} more characters</p>`}</details>${tail}`;
}

// ---------------------------------------------------------------------- charts

/** @param {TabProps} props */
function ChartsTab({ tab, api, view, live, project, id, name, attributes, overview }) {
  // What a machine measures has no steps of the training: they would only count.
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
  return html`<div>${[...machines].map(([writer, values]) => html`<${Group} key=${writer} space=${`monitoring/${writer}/environment`} values=${values} api=${api} project=${project} id=${id} open=${machines.size === 1} />`)}
    <${Charts} key="system" api=${api} runs=${runs} view=${timed} live=${live} wanted=${isMonitored} open=${OPEN} only /></div>`;
}

const OPEN = ["monitoring"];

// ---------------------------------------------------------------------- images

/** @param {any} file */
function isPicture(file) {
  return PICTURES.has(String(file?.ext || "").toLowerCase());
}

/** @param {TabProps} props */
function ImagesTab({ api, view, project, id, name, attributes, version }) {
  const every = /** @type {any[]} */ (attributes);
  const series = every.filter((one) => one.family === "file_series" && isPicture(one.value.last));
  const single = every.filter((one) => one.family === "file" && isPicture(one.value));
  const others = view.selected.filter((one) => one !== "*").map((key) => refOf(key, project)).filter(([, other]) => other !== id).slice(0, 7);
  const [beside, setBeside] = useState(others.length > 0);
  const runs = useMemo(() => [{ project, id, name }, ...(beside ? others.map(([project, id]) => ({ project, id, name: "" })) : [])], [project, id, name, beside, JSON.stringify(others)]);
  const names = useAnswer(
    (signal) => (others.length ? api.read("table", { id: others.map(([, one]) => one), columns: ["sys/name"], unknown: "tell", trashed: null }, { signal }) : Promise.resolve(null)),
    [api, JSON.stringify(others)],
  );
  /** @type {Map<string, string>} */
  const named = new Map((names.data?.table.refs || []).map((/** @type {[string, string]} */ [, one], /** @type {number} */ at) => [one, names.data.names?.[at] || names.data.table.cells[names.data.table.columns.indexOf("sys/name")]?.[at] || one]));
  if (!series.length && !single.length) return html`<${Empty} title="No images"><p>Log some: <code>run["samples"].append(File.as_image(picture), step=step)</code></p><//>`;
  return html`<div class="images">
    ${others.length > 0 && html`<label class="check"><input type="checkbox" checked=${beside} onChange=${(/** @type {any} */ event) => setBeside(event.target.checked)} /> beside the ${counted(others.length, "other selected run")}</label>`}
    ${series.map((one) => html`<${ImageSeries} key=${one.path} api=${api} path=${one.path} version=${version} runs=${runs.map((run) => ({ ...run, name: run.name || named.get(run.id) || run.id }))} />`)}
    ${single.length > 0 && html`<div class="image-row">${single.map((one) => html`<figure key=${one.path}><figcaption>${one.path}</figcaption><${Picture} api=${api} project=${project} id=${id} file=${one.value} label=${one.path} /></figure>`)}</div>`}
  </div>`;
}

/** @param {{api: any, path: string, runs: {project: string, id: string, name: string}[], version: number}} props */
function ImageSeries({ api, path, runs, version }) {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const seen = useSeen(ref);
  const [at, setAt] = useState(-1);
  const key = runs.map((run) => run.id).join("\n");
  const answer = useAnswer(
    (signal) => (seen ? Promise.all(runs.map((run) => api.read("files", { project: run.project, run: run.id, path }, { signal }).catch(() => []))) : Promise.resolve(null)),
    [api, path, key, seen, version],
  );
  const found = /** @type {any[][]} */ (answer.data || []);
  const steps = useMemo(() => [...new Set(found.flat().map((one) => Number(one.step)))].sort((a, b) => a - b), [answer.data]);
  const now = at < 0 || at >= steps.length ? steps.length - 1 : at;
  const step = steps[now];
  return html`<section class="image-series" ref=${ref}><h2><${PathName} path=${path} /></h2>
    ${steps.length > 0 && html`<label class="image-slider">step <input type="range" min="0" max=${steps.length - 1} value=${now} aria-valuetext=${`step ${number(step, 9)}`} onInput=${(/** @type {any} */ event) => setAt(Number(event.target.value))} />
      <output>${number(step, 9)}</output> <span class="quiet">${now + 1} of ${steps.length}</span></label>`}
    <div class="image-row">${runs.map((run, nth) => {
      const here = (found[nth] || []).filter((one) => Number(one.step) === step);
      return html`<figure key=${run.id}>${runs.length > 1 && html`<figcaption>${run.name}</figcaption>`}
        ${here.length ? here.map((one, each) => html`<${Picture} key=${`${one.file.sha256}${each}`} api=${api} project=${run.project} id=${run.id} file=${one.file} label=${`${path}, step ${number(step, 9)}, ${run.name}`} />${(one.name || one.description) && html`<p class="quiet">${[one.name, one.description].filter(Boolean).join(": ")}</p>`}`) : answer.data && html`<p class="image-none quiet">none at this step</p>`}</figure>`;
    })}</div>
  </section>`;
}

/** Addresses of images that were fetched, the newest last. @type {Map<string, string>} */
const fetched = new Map();
const MOST_FETCHED = 64;

/** @param {{api: any, project: string, id: string, file: any, label: string}} props */
function Picture({ api, project, id, file, label }) {
  const key = `${project}/${id}/${file.sha256}`;
  const [url, setUrl] = useState(fetched.get(key) || "");
  const [error, setError] = useState(/** @type {any} */ (null));
  const large = Number(file.size) > MOST_IMAGE;
  useEffect(() => {
    setError(null);
    if (large || !file.sha256) return undefined;
    const before = fetched.get(key);
    setUrl(before || "");
    if (before) return undefined;
    const abort = new AbortController();
    api.blob(runPath(project, id, `blobs/${file.sha256}`), file.name || `file.${file.ext}`, { signal: abort.signal }).then(
      (/** @type {Blob} */ blob) => {
        const made = URL.createObjectURL(blob);
        fetched.set(key, made);
        for (const [old, address] of fetched) {
          if (fetched.size <= MOST_FETCHED) break;
          fetched.delete(old);
          URL.revokeObjectURL(address);
        }
        if (!abort.signal.aborted) setUrl(made);
      },
      (/** @type {any} */ failed) => !isAbort(failed) && setError(failed),
    );
    return () => abort.abort();
  }, [key, large]);
  if (large || !file.sha256) return html`<p class="image-none">${large ? `${bytes(file.size)}: ` : ""}<${FileLink} api=${api} project=${project} id=${id} file=${file} /></p>`;
  if (error) return html`<p class="image-none">${String(error.hint || error)}</p>`;
  return url ? html`<img src=${url} alt=${label} />` : html`<div class="image-none" aria-busy="true">…</div>`;
}

// ---------------------------------------------------------------------- log

/** @param {string} text what a terminal would have done with it, without colours */
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
      <label>last <select value=${tail} onChange=${(/** @type {any} */ event) => setTail(Number(event.target.value))}>${LINES.map((one) => html`<option key=${one} value=${one}>${one.toLocaleString("en")} lines</option>`)}</select></label>
      <label class="check"><input type="checkbox" checked=${follow} onChange=${(/** @type {any} */ event) => setFollow(event.target.checked)} /> follow</label>
      <input type="search" placeholder="Only lines with …" aria-label="Only lines with" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} />
      <span class="quiet">${counted(shown.length, "line")} of ${counted(streams.length, "stream")}${overview?.state === "running" ? ", live" : ""}</span>
      <${CopyButton} text=${() => shown.map(([, , text]) => (typeof text === "string" ? plainText(text) : "")).join("\n")} />
    </div>
    <div class="log-lines" ref=${box} tabindex="0" role="log" aria-live="off" aria-label="What it printed"
      onScroll=${(/** @type {any} */ event) => { const at = event.target; if (follow && at.scrollHeight - at.scrollTop - at.clientHeight > 40) setFollow(false); }}>
      ${shown.map(([time, path, text], at) => html`<div key=${`${time}${at}`} class=${path.endsWith("stderr") ? "err" : ""} title=${`${path}, ${new Date(Number(time) / 1e6).toLocaleString()}`}>${typeof text === "string" ? plainText(text) : html`<${FileLink} api=${api} project=${project} id=${id} file=${{ ...text, name: "text.txt" }} />`}</div>`)}
    </div></div>`;
}

// ---------------------------------------------------------------------- files

/** @param {string} path @param {any} file */
function isCheckpoint(path, file) {
  return `/${path}/`.includes("/checkpoints/") || ["ckpt", "pt", "pth", "safetensors"].includes(String(file?.ext || "").toLowerCase());
}

/** @param {{api: any, project: string, id: string, file: any}} props */
function FileLink({ api, project, id, file }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const name = String(file?.name || (file?.ext ? `file.${file.ext}` : "file"));
  if (!file?.sha256 || file.gone) return html`<span title=${refersTo(file)}>${name}</span>`;
  const take = async () => {
    setBusy(true);
    setError(null);
    try {
      const url = await api.link(project, id, file.sha256, { name });
      const link = document.createElement("a");
      link.href = url;
      link.download = name;
      document.body.append(link);
      link.click();
      link.remove();
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  return html`<button type="button" class="link" disabled=${busy} title=${`Download ${name}`} onClick=${take}>${name} <span aria-hidden="true">⤓</span></button>${error && html` <span class="bad" role="alert">${String(error.hint || error)}</span>`}`;
}

/** @param {any} file where it lies that is not kept with the run */
function refersTo(file) {
  return String(file?.uri || file?.ref || file?.reference || file?.path || "");
}

/** Which of some contents are not there. @param {any} api @param {string} at @param {string[]} sha256 @param {AbortSignal} signal */
async function absentOf(api, at, sha256, signal) {
  const found = new Set();
  for (let from = 0; from < sha256.length; from += 1000) {
    const { absent } = await api.post(at, { sha256: sha256.slice(from, from + 1000) }, { signal });
    for (const one of absent) found.add(one);
  }
  return found;
}

/** @param {TabProps} props */
function FilesTab({ api, project, id, attributes, overview, version }) {
  const [filter, setFilter] = useState("");
  /** @type {{path: string, file: any, note: string}[]} */
  const files = [];
  for (const one of /** @type {any[]} */ (attributes)) {
    if (one.family === "file") files.push({ path: one.path, file: one.value, note: "" });
    else if (one.family === "file_set") for (const [name, file] of Object.entries(one.value)) files.push({ path: `${one.path}/${name}`, file, note: "" });
    else if (one.family === "file_series") files.push({ path: one.path, file: one.value.last, note: `last of ${counted(Number(one.value.count), "file")}` });
    else if (one.family === "artifact") files.push({ path: one.path, file: one.value, note: "artifact" });
  }
  const digests = [...new Set(files.map((one) => one.file?.sha256).filter(Boolean))];
  const { data: absent } = useAnswer((signal) => absentOf(api, runPath(project, id, "contents"), digests, signal), [api, project, id, digests.join(), version]);
  for (const one of files) if (absent?.has(one.file?.sha256)) one.file = { ...one.file, gone: true };
  const lost = overview?.state === "running" ? html`<${Badge} kind="warn" title="It is still to be sent, or was deleted">not here yet<//>` : html`<${Badge} kind="bad" title="The content is not here: it was never sent, or was deleted">gone<//>`;
  const scores = /** @type {any[]} */ (attributes).filter((one) => /(^|\/)best_model_score$/.test(one.path));
  const best = new Set(/** @type {any[]} */ (attributes).filter((one) => /(^|\/)best_model_path$/.test(one.path)).map((one) => String(one.value).split(/[/\\]/).pop()));
  if (!files.length) return html`<${Empty} title="No files"><p>Keep one: <code>run["model"].upload("model.pt")</code></p><//>`;
  const shown = files.filter((one) => one.path.toLowerCase().includes(filter.toLowerCase()));
  const checkpoints = shown.filter((one) => isCheckpoint(one.path, one.file));
  const others = shown.filter((one) => !checkpoints.includes(one));
  const size = (/** @type {typeof files} */ some) => some.reduce((sum, one) => sum + (Number(one.file?.size) || 0), 0);
  const table = (/** @type {string} */ title, /** @type {typeof files} */ some) => html`<section><h2>${title} <span class="count">${some.length}, ${bytes(size(some))}</span></h2><div class="scroll" ref=${scrolls}><table class="values files">
    <thead><tr><th scope="col">path</th><th scope="col">file</th><th scope="col" class="number">size</th><th scope="col">kept</th><th scope="col">SHA-256</th></tr></thead>
    <tbody>${some.map(({ path, file, note }) => {
      const name = String(file?.name || "");
      return html`<tr key=${path}><th scope="row"><${PathName} path=${path} /> ${note && html`<span class="quiet">${note}</span>`} ${best.has(name) && html`<${Badge} kind="good" title=${scores.map((one) => `${one.path} ${number(Number(one.value))}`).join(", ")}>best<//>`}</th>
        <td><${FileLink} api=${api} project=${project} id=${id} file=${file} /></td><td class="number"><${Bytes} n=${file?.size} /></td>
        <td>${file?.removed || file?.gone ? lost : file?.sha256 ? "with the run" : html`<span title=${refersTo(file)}>only where it was${refersTo(file) ? `: ${refersTo(file)}` : ""}</span>`}</td><td><code title=${file?.sha256 || ""}>${String(file?.sha256 || "").slice(0, 12)}</code></td></tr>`;
    })}</tbody></table></div></section>`;
  return html`<div><input type="search" class="run-filter" placeholder="Filter files" aria-label="Filter files" value=${filter} onInput=${(/** @type {any} */ event) => setFilter(event.target.value)} />
    ${checkpoints.length > 0 && table("Checkpoints", checkpoints)}${others.length > 0 && table("Files", others)}
    ${!shown.length && html`<p class="quiet">No file matches “${filter}”.</p>`}</div>`;
}

// ---------------------------------------------------------------------- ranks

/** @param {TabProps} props */
function RanksTab({ api, ranks, timings }) {
  if (!ranks) return html`<p class="quiet" aria-busy="true">…</p>`;
  if (!ranks.length) return html`<${Empty} title="No rank has recorded anything yet" />`;
  const now = api.now() * 1e6;
  const by = new Map((timings || []).map((one) => [one.rank, one]));
  const slowest = Math.max(0, ...[...by.values()].map((one) => Number(one.p95_s)).filter(Number.isFinite));
  const slow = [...by.values()].filter((one) => one.slowdown >= 1.2);
  const bad = ranks.filter((one) => ["hangs", "lost", "missing", "killed", "failed"].includes(one.state));
  const whys = ranks.some((one) => one.why);
  const going = ranks.some((one) => one.state === "running" || one.state === "hangs");
  const verdict = [
    ...bad.map((one) => `Rank ${one.rank} ${/** @type {Record<string, string>} */ ({ lost: "is lost", missing: "is missing", killed: "was killed" })[one.state] || one.state}${one.why ? ` (${one.why})` : ""}.`),
    ...slow.map((one) => `Rank ${one.rank} is ${one.slowdown.toFixed(2)} times as slow as the others.`),
  ];
  return html`<div><p class=${verdict.length ? "verdict warn" : "verdict"}>${verdict.length ? verdict.join(" ") : ranks.length > 1 ? (by.size ? "No rank is slower than the others." : "No rank hangs. None recorded the times of its steps.") : "One rank recorded this run."}</p>
    <div class="scroll" ref=${scrolls}><table class="values"><thead><tr><th scope="col">rank</th><th scope="col">state</th>${whys && html`<th scope="col">why</th>`}<th scope="col">host</th><th scope="col" class="number">pid</th><th scope="col">last heard of</th>${going && html`<th scope="col" class="number">no point for</th>`}
      ${by.size > 0 && html`<th scope="col">own time of a step</th><th scope="col" class="number">mean</th><th scope="col" class="number">p95</th><th scope="col" class="number" title="its own time of a step over the median of the other ranks">slowdown</th>`}</tr></thead>
    <tbody>${ranks.map((one) => {
      const time = by.get(one.rank);
      const own = time ? Number(Number.isNaN(time.own_s) ? time.mean_s : time.own_s) : NaN;
      return html`<tr key=${one.rank}><th scope="row">${one.rank}</th><td><${Badge} kind=${["hangs", "lost", "missing", "killed", "failed"].includes(one.state) ? "bad" : one.state === "running" ? "good" : "plain"}>${one.state}<//></td>${whys && html`<td class="value">${one.why}</td>`}<td>${one.host ?? ""}</td><td class="number">${one.pid ?? ""}</td>
        <td>${Number(one.last_t) ? html`<${Time} ns=${one.last_t} now=${api.now()} />` : "never"}</td>${going && html`<td class="number">${one.state === "running" || one.state === "hangs" ? span(Math.max(0, now - Number(one.row_t || one.first_t)) / 1e9) : ""}</td>`}
        ${by.size > 0 && html`<td><${Bar} value=${own} of=${slowest} bad=${time?.slowdown >= 1.2} told /></td><td class="number">${time ? seconds(time.mean_s) : ""}</td><td class="number">${time ? seconds(time.p95_s) : ""}</td><td class="number">${time && Number.isFinite(time.slowdown) ? `${time.slowdown.toFixed(2)}×` : ""}</td>`}</tr>`;
    })}</tbody></table></div></div>`;
}

/** @param {number} value */
function seconds(value) {
  if (!Number.isFinite(value)) return "";
  const [size, unit] = value >= 1 || value === 0 ? [value, "s"] : value >= 1e-3 ? [value * 1e3, "ms"] : [value * 1e6, "µs"];
  return `${Number(size.toPrecision(4))} ${unit}`;
}

/** @param {{value: number, of: number, bad?: boolean, told?: boolean}} props */
function Bar({ value, of, bad = false, told = false }) {
  if (!Number.isFinite(value)) return null;
  return html`<span class=${`bar ${bad ? "bad" : ""}`} title=${seconds(value)}><i style=${{ width: `${of > 0 ? Math.max(1, (100 * value) / of) : 0}%` }}></i></span>${told && html` <span class="number">${seconds(value)}</span>`}`;
}

// ---------------------------------------------------------------------- profile

/** @param {string} text @returns {string[][]} */
export function rowsOfCsv(text) {
  const rows = [];
  /** @type {string[]} */
  let row = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const one = text[at];
    if (quoted) {
      if (one !== '"') cell += one;
      else if (text[at + 1] === '"') cell += text[++at];
      else quoted = false;
    } else if (one === '"') quoted = true;
    else if (one === "," || one === "\n") {
      row.push(cell);
      cell = "";
      if (one === "\n") {
        rows.push(row);
        row = [];
      }
    } else if (one !== "\r") cell += one;
  }
  if (cell || row.length) rows.push([...row, cell]);
  return rows;
}

/** @param {TabProps} props */
function ProfileTab({ api, project, id, attributes }) {
  const every = /** @type {any[]} */ (attributes);
  const tables = every.filter((one) => one.family === "file" && /(^|\/)profiling\/(.*\/)?summary$/.test(one.path) && one.value?.ext === "csv");
  if (!tables.length) return html`<${Empty} title="No profiler ran"><p>Lightning: <code>Trainer(profiler=TimeProfiler())</code>; Ignite: <code>BasicTimeProfiler().attach(trainer, run=run)</code>.</p><//>`;
  return html`<div>${tables.map((one) => {
    const space = one.path.slice(0, one.path.lastIndexOf("/"));
    const cost = every.find((each) => each.path === `${space}/largest_cost`);
    const picture = every.find((each) => each.path === `${space}/picture` && each.family === "file");
    return html`<section key=${one.path}><h2>${space}</h2>${cost && html`<p class="verdict">${String(cost.value)}</p>`}
      <${ProfileTable} api=${api} project=${project} id=${id} file=${one.value} />
      ${picture && html`<details><summary>Picture</summary><div class="image-row"><figure><${Picture} api=${api} project=${project} id=${id} file=${picture.value} label=${`${space}: where the time went`} /></figure></div></details>`}</section>`;
  })}</div>`;
}

/** @param {{api: any, project: string, id: string, file: any}} props */
function ProfileTable({ api, project, id, file }) {
  const large = Number(file.size) > MOST_CSV;
  const answer = useAnswer(
    (signal) => (large ? Promise.resolve("") : api.blob(runPath(project, id, `blobs/${file.sha256}`), "summary.csv", { signal }).then((/** @type {Blob} */ blob) => blob.text())),
    [api, project, id, file.sha256],
  );
  const [sort, setSort] = useState("self_s");
  if (answer.error) return html`<${ErrorBox} error=${answer.error} onRetry=${answer.again} />`;
  if (large || answer.data === undefined) return html`<p><${FileLink} api=${api} project=${project} id=${id} file=${file} /></p>`;
  const [head = [], ...rows] = rowsOfCsv(answer.data);
  const column = (/** @type {string} */ name) => head.indexOf(name);
  const number = (/** @type {string[]} */ row, /** @type {string} */ name) => (column(name) < 0 ? NaN : Number(row[column(name)]));
  const text = (/** @type {string[]} */ row, /** @type {string} */ name) => row[column(name)] || "";
  const most = Math.max(0, ...rows.map((row) => number(row, sort)).filter(Number.isFinite));
  const sorted = [...rows].sort((a, b) => number(b, sort) - number(a, sort)).slice(0, 200);
  const heads = [["count", "count"], ["total_s", "total"], ["self_s", "own"], ["mean_s", "mean"], ["p50_s", "median"], ["p95_s", "p95"], ["max_s", "max"]];
  return html`<div class="scroll" ref=${scrolls}><table class="values profile"><thead><tr><th scope="col">what</th><th scope="col">time</th>${heads.map(([name, label]) => html`<th key=${name} scope="col" class="number" aria-sort=${sort === name ? "descending" : "none"}><button type="button" class="fold" onClick=${() => setSort(name)}>${label}${sort === name ? " ▼" : ""}</button></th>`)}</tr></thead>
    <tbody>${sorted.map((row, at) => html`<tr key=${at}><th scope="row"><span class="quiet">${[text(row, "kind"), text(row, "event")].filter(Boolean).join(" ")}${text(row, "clock") === "cuda" ? " (GPU)" : ""}</span> ${text(row, "name")}</th>
      <td>${sort === "count" ? html`<${Bar} value=${number(row, "total_s")} of=${Math.max(0, ...rows.map((one) => number(one, "total_s")))} />` : html`<${Bar} value=${number(row, sort)} of=${most} />`}</td>
      ${heads.map(([name]) => html`<td key=${name} class="number">${name === "count" ? number(row, name).toLocaleString("en") : seconds(number(row, name))}</td>`)}</tr>`)}</tbody></table></div>`;
}

// ---------------------------------------------------------------------- journals

/** What is told of a journal that was not read to its end. @type {Record<string, string>} */
const STOPPED = {
  incomplete: "its last record is not whole: the writer may be writing it, or was killed in it",
  bad: "damaged: what follows could not be read",
  newer: "written by a newer Seamark; update to read the rest",
  unreadable: "it may not be read by this user",
};

/** @param {TabProps} props */
function JournalsTab({ api, journals, overview, id }) {
  if (!journals) return html`<p class="quiet" aria-busy="true">…</p>`;
  const told = [];
  let damaged = 0;
  let dropped = 0;
  for (const one of journals) {
    for (const [, length] of one.gaps) damaged += Number(length);
    for (const count of Object.values(one.dropped)) dropped += Number(count);
    if (one.stopped === "incomplete" && !one.closed && overview && overview.state !== "running") told.push(`The end of ${one.file} is torn: what was written last is not whole.`);
    else if (one.stopped && one.stopped !== "incomplete") told.push(`${one.file}: ${STOPPED[one.stopped] || one.stopped}.`);
    if (Number(one.errors)) told.push(`${one.file}: ${counted(Number(one.errors), "record")} could not be applied.`);
    for (const [kind, count] of Object.entries(one.unknown || {})) told.push(`${one.file}: ${counted(Number(count), "record")} of a kind (${kind}) that this version does not know.`);
  }
  const gaps = journals.reduce((sum, one) => sum + one.gaps.length, 0);
  if (gaps) told.unshift(`${counted(gaps, "gap")}: ${bytes(damaged)} hold no valid record. What lies around them was read.`);
  if (dropped) told.unshift(`${counted(dropped, "call")} of the training ${dropped === 1 ? "was" : "were"} not recorded.`);
  const conflicts = Object.entries(overview?.troubles?.conflicts || {});
  return html`<div class="journals"><div class=${`verdict ${told.length || conflicts.length ? "warn" : ""}`}>
      ${told.length || conflicts.length ? html`<ul>${told.map((one, at) => html`<li key=${at}>${one}</li>`)}${conflicts.map(([path, families]) => html`<li key=${path}>${path} was recorded as several kinds of value: ${/** @type {any[]} */ (families).join(", ")}.</li>`)}</ul>` : "All that the training wrote was read: no gap, nothing dropped, no torn end."}
      <p class="quiet">The same, and what can be mended: <code>seamark fsck ${id}</code> <${CopyButton} text=${`seamark fsck ${id}`} /></p></div>
    <div class="scroll" ref=${scrolls}><table class="values"><thead><tr><th scope="col">journal</th><th scope="col" class="number">attempt</th><th scope="col" class="number">rank</th><th scope="col">host, pid</th><th scope="col" class="number">read</th><th scope="col">last record</th><th scope="col">end</th><th scope="col" class="number">gaps</th><th scope="col">dropped</th></tr></thead>
    <tbody>${journals.map((one) => html`<tr key=${one.file}><th scope="row"><code>${one.file}</code></th><td class="number">${one.header.attempt === null || one.header.attempt === undefined ? "" : Number(one.header.attempt) + 1}</td><td class="number">${one.header.rank ?? ""}</td><td>${[one.header.host, one.header.pid].filter((each) => each !== null && each !== undefined).join(", ")}</td>
      <td class="number"><${Bytes} n=${one.offset} /></td><td>${Number(one.last_t) ? html`<${Time} ns=${one.last_t} now=${api.now()} />` : ""}</td>
      <td>${one.closed ? "closed" : one.stopped ? html`<${Badge} kind="warn" title=${STOPPED[one.stopped] || ""}>${one.stopped}<//>` : "open"}</td>
      <td class="number">${one.gaps.length ? html`<details><summary>${one.gaps.length}</summary>${one.gaps.map((/** @type {[number, number]} */ [offset, length], /** @type {number} */ at) => html`<div key=${at}>${Number(length).toLocaleString("en")} bytes at ${Number(offset).toLocaleString("en")}</div>`)}</details>` : "0"}</td>
      <td>${Object.entries(one.dropped).map(([reason, count]) => `${Number(count).toLocaleString("en")} ${reason}`).join(", ") || "none"}
        ${one.notes.length > 0 && html`<details><summary>${counted(one.notes.length, "note")}</summary>${one.notes.map((/** @type {[number, string]} */ [offset, note], /** @type {number} */ at) => html`<div key=${at}>at ${Number(offset).toLocaleString("en")}: ${note}</div>`)}</details>`}</td></tr>`)}</tbody></table></div></div>`;
}
