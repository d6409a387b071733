// @ts-check
/** The values and files of a run: how each is shown, and the tabs of images, files and profiles. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { refOf } from "./address.js";
import { isAbort, runPath } from "./api.js";
import { Badge, Bytes, Check, Empty, ErrorBox, Filter, Time, useAnswer, useSeen } from "./components.js";
import { saveLink } from "./copies.js";
import { bytes, count, json, number, precise, seconds, unitOf, whole } from "./format.js";

/** @typedef {import("./address.js").View} View */
/**
 * @typedef {object} TabProps The properties of a tab.
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

const MOST_CHARACTERS = 200_000;
const MOST_CSV = 4 * 1024 * 1024;
const MOST_IMAGE = 8 * 1024 * 1024;
const PICTURES = new Set(["png", "jpg", "jpeg", "webp", "gif"]);

/** Heads of a table; those with a # are of numbers. @param {(string | false)[]} names */
export function heads(...names) {
  return names.map((name) => name && html`<th scope="col" class=${name.startsWith("#") ? "number" : undefined}>${name.replace("#", "")}</th>`);
}

/** Let keys scroll an element that is wider than its place. @param {HTMLElement | null} box */
export function scrolls(box) {
  // It is not in the page yet.
  requestAnimationFrame(() => {
    if (box && box.scrollWidth > box.clientWidth) box.tabIndex = 0;
  });
}

/** @param {{space: string, title?: string, values: any[] | undefined, api: any, project: string, id: string, open: boolean}} props */
export function Group({ space, title = space, values = [], api, project, id, open }) {
  const [shut, setShut] = useState(/** @type {boolean | null} */ (null));
  const closed = shut ?? !open;
  return html`<section><h2><button type="button" class="fold" aria-expanded=${closed ? "false" : "true"} onClick=${() => setShut(!closed)}><span aria-hidden="true">${closed ? "▸" : "▾"}</span> <bdi>${title || "at the root"}</bdi> <span class="count">${values.length}</span></button></h2>
    ${!closed && html`<div class="scroll" ref=${scrolls}><table class="values"><tbody>${values.map((one) => html`<tr key=${one.path}><th scope="row"><${PathName} path=${space ? one.path.slice(space.length + 1) : one.path} /></th><td class="value"><${Value} one=${one} api=${api} project=${project} id=${id} /></td></tr>`)}</tbody></table></div>`}</section>`;
}

/** @param {{path: string}} props */
export function PathName({ path }) {
  const cut = path.lastIndexOf("/") + 1;
  return html`<span class="path"><span class="quiet">${path.slice(0, cut)}</span>${path.slice(cut)}</span>`;
}

/** @param {{one: any, api: any, project: string, id: string}} props */
function Value({ one, api, project, id }) {
  const { value, family, type } = one;
  if (value instanceof Date) return html`<${Time} ns=${value} full />`;
  if (family === "float_series") return html`<span>${number(Number(value.last), 6)} <span class="quiet">last of ${whole(value.count)}</span></span>`;
  if (family === "string_set") return html`${[...value].map((/** @type {string} */ tag) => html`<span class="tag" key=${tag}>${tag}</span>`)}`;
  if (family === "file") return html`<${FileLink} api=${api} project=${project} id=${id} file=${value} />`;
  if (family === "file_set") return html`<span>${count(Object.keys(value).length, "file")}</span>`;
  if (family === "string_series") return html`<${Long} text=${typeof value.last === "string" ? value.last : ""} note=${`last of ${count(Number(value.count), "text")}`} />`;
  if (family === "file_series" || family === "histogram_series") return html`<span class="quiet">${count(Number(value.count), family === "file_series" ? "file" : "histogram")}, steps ${number(Number(value.first_step))} to ${number(Number(value.last_step))}</span>`;
  const unit = unitOf(one.path);
  if (unit && typeof value === "number") return html`<span title=${precise(value)}>${number(value, 4)} ${unit}</span>`;
  if (type === "float" && typeof value === "number") return html`<span class="number">${precise(value)}</span>`;
  if (typeof value === "string") return html`<${Long} text=${value} />`;
  return html`<${Long} text=${typeof value === "object" && value !== null ? json(value, 1) : String(value)} code=${typeof value === "object"} />`;
}

/** @param {{text: string, note?: string, code?: boolean}} props */
function Long({ text, note, code }) {
  const flat = text.replace(/\s*\n\s*/g, " ");
  const tail = note ? html` <span class="quiet">${note}</span>` : "";
  if (text.length <= 160 && (!text.includes("\n") || code)) return html`<span class=${code ? "code-like" : ""}>${flat}</span>${tail}`;
  return html`<details class="long"><summary>${flat.slice(0, 140)}…</summary><pre tabindex="0">${text.slice(0, MOST_CHARACTERS)}</pre>${text.length > MOST_CHARACTERS && html`<p class="quiet">and ${whole(text.length - MOST_CHARACTERS)} more characters</p>`}</details>${tail}`;
}

/** @param {{api: any, project: string, id: string, file: any}} props */
export function FileLink({ api, project, id, file }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(false);
  const name = String(file?.name || (file?.ext ? `file.${file.ext}` : "file"));
  if (!file?.sha256 || file.gone) return html`<span title=${refersTo(file)}>${name}</span>`;
  const take = async () => {
    setBusy(true);
    setError(null);
    try {
      saveLink(name, await api.link(project, id, file.sha256, { name }));
    } catch (failed) {
      setError(failed);
    }
    setBusy(false);
  };
  return html`<button type="button" class="link" disabled=${busy} title=${`Download ${name}`} onClick=${take}>${name} <span aria-hidden="true">⤓</span></button>${error && html` <span class="bad" role="alert">${String(error.hint || error)}</span>`}`;
}

/** The place of a file that is not kept with the run. @param {any} file */
function refersTo(file) {
  return String(file?.uri || file?.ref || file?.reference || file?.path || "");
}

/** @param {any} file */
export function isPicture(file) {
  return PICTURES.has(String(file?.ext || "").toLowerCase());
}

/** @param {TabProps} props */
export function ImagesTab({ api, view, project, id, name, attributes, version }) {
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
    ${others.length > 0 && html`<${Check} class="check" on=${beside} onCheck=${setBeside}> beside the ${count(others.length, "other selected run")}<//>`}
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
export function Picture({ api, project, id, file, label }) {
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

/** @param {string} path @param {any} file */
function isCheckpoint(path, file) {
  return `/${path}/`.includes("/checkpoints/") || ["ckpt", "pt", "pth", "safetensors"].includes(String(file?.ext || "").toLowerCase());
}

/** The contents that are missing. @param {any} api @param {string} at @param {string[]} sha256 @param {AbortSignal} signal */
async function absentOf(api, at, sha256, signal) {
  const found = new Set();
  for (let from = 0; from < sha256.length; from += 1000) {
    const { absent } = await api.post(at, { sha256: sha256.slice(from, from + 1000) }, { signal });
    for (const one of absent) found.add(one);
  }
  return found;
}

/** @param {TabProps} props */
export function FilesTab({ api, project, id, attributes, overview, version }) {
  const [filter, setFilter] = useState("");
  /** @type {{path: string, file: any, note: string}[]} */
  const files = [];
  for (const one of /** @type {any[]} */ (attributes)) {
    if (one.family === "file") files.push({ path: one.path, file: one.value, note: "" });
    else if (one.family === "file_set") for (const [name, file] of Object.entries(one.value)) files.push({ path: `${one.path}/${name}`, file, note: "" });
    else if (one.family === "file_series") files.push({ path: one.path, file: one.value.last, note: `last of ${count(Number(one.value.count), "file")}` });
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
    <thead><tr>${heads("path", "file", "#size", "kept", "SHA-256")}</tr></thead>
    <tbody>${some.map(({ path, file, note }) => {
      const name = String(file?.name || "");
      return html`<tr key=${path}><th scope="row"><${PathName} path=${path} /> ${note && html`<span class="quiet">${note}</span>`} ${best.has(name) && html`<${Badge} kind="good" title=${scores.map((one) => `${one.path} ${number(Number(one.value))}`).join(", ")}>best<//>`}</th>
        <td><${FileLink} api=${api} project=${project} id=${id} file=${file} /></td><td class="number"><${Bytes} n=${file?.size} /></td>
        <td>${file?.removed || file?.gone ? lost : file?.sha256 ? "with the run" : html`<span title=${refersTo(file)}>only where it was${refersTo(file) ? `: ${refersTo(file)}` : ""}</span>`}</td><td><code title=${file?.sha256 || ""}>${String(file?.sha256 || "").slice(0, 12)}</code></td></tr>`;
    })}</tbody></table></div></section>`;
  return html`<div><${Filter} class="run-filter" label="Filter files" value=${filter} onText=${setFilter} />
    ${checkpoints.length > 0 && table("Checkpoints", checkpoints)}${others.length > 0 && table("Files", others)}
    ${!shown.length && html`<p class="quiet">No file matches “${filter}”.</p>`}</div>`;
}

/** @param {{value: number, of: number, bad?: boolean, told?: boolean}} props */
export function Bar({ value, of, bad = false, told = false }) {
  if (!Number.isFinite(value)) return null;
  return html`<span class=${`bar ${bad ? "bad" : ""}`} title=${seconds(value)}><i style=${{ width: `${of > 0 ? Math.max(1, (100 * value) / of) : 0}%` }}></i></span>${told && html` <span class="number">${seconds(value)}</span>`}`;
}

/** @param {string} text @returns {string[][]} */
function rowsOfCsv(text) {
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
export function ProfileTab({ api, project, id, attributes }) {
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
export function ProfileTable({ api, project, id, file }) {
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
  const columns = [["count", "count"], ["total_s", "total"], ["self_s", "own"], ["mean_s", "mean"], ["p50_s", "median"], ["p95_s", "p95"], ["max_s", "max"]];
  return html`<div class="scroll" ref=${scrolls}><table class="values profile"><thead><tr>${heads("what", "time")}${columns.map(([name, label]) => html`<th key=${name} scope="col" class="number" aria-sort=${sort === name ? "descending" : "none"}><button type="button" class="fold" onClick=${() => setSort(name)}>${label}${sort === name ? " ▼" : ""}</button></th>`)}</tr></thead>
    <tbody>${sorted.map((row, at) => html`<tr key=${at}><th scope="row"><span class="quiet">${[text(row, "kind"), text(row, "event")].filter(Boolean).join(" ")}${text(row, "clock") === "cuda" ? " (GPU)" : ""}</span> ${text(row, "name")}</th>
      <td>${sort === "count" ? html`<${Bar} value=${number(row, "total_s")} of=${Math.max(0, ...rows.map((one) => number(one, "total_s")))} />` : html`<${Bar} value=${number(row, sort)} of=${most} />`}</td>
      ${columns.map(([name]) => html`<td key=${name} class="number">${name === "count" ? whole(number(row, name)) : seconds(number(row, name))}</td>`)}</tr>`)}</tbody></table></div>`;
}
