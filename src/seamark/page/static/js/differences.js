// @ts-check
/** What runs have beside each other: the code and the configuration of two, line by line, and the images of several. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { runPath } from "./api.js";
import { ErrorBox, Filter, Pager, useAnswer, useLooked } from "./components.js";
import { FileLink, PathName, Picture, isPicture } from "./files.js";
import { matcher } from "./finding.js";
import { bytes, count, number, whole } from "./format.js";

/** @typedef {import("./lines.js").RunRef} RunRef */
/** @typedef {{from: number, to: number, at: number, upTo: number, same: boolean}} Block lines of the left text, and those of the right one */

/** A text that is compared has at most so many bytes and lines. */
const [MOST_BYTES, MOST_LINES] = [4e6, 20_000];
/** The lines that are shown at a time, their characters, and the equal lines around what differs. */
const [SHOWN, WIDEST, AROUND] = [600, 500, 3];
/** The edits after which the way so far is taken; see `blocksOf`. */
const FAR = 400;
/** The files that are compared besides those of `source_code/`, and those that are open at first. */
const TEXTS = /^(ya?ml|json|toml|ini|cfg|conf|txt|md|py|sh|patch|diff)$/i;
const OPEN = 3;
/** Signs that turn the direction of a text: code may look like other code with them. */
const TURNS = /[\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * The parts in which two lists of lines are the same and in which they differ, by Myers' algorithm (An
 * O(ND) difference algorithm, 1986). After `FAR` edits the way that came farthest is taken and it begins
 * again there, so that time and memory are bounded; the result is then right, but may not be the shortest.
 * @param {string[]} left @param {string[]} right
 * @returns {Block[]}
 */
export function blocksOf(left, right) {
  /** @type {Map<string, number>} */
  const numbers = new Map();
  const [a, b] = [left, right].map((lines) => Int32Array.from(lines, (line) => numbers.get(line) ?? (numbers.set(line, numbers.size), numbers.size - 1)));
  /** @type {Block[]} */
  const blocks = [];
  const add = (/** @type {number} */ x, /** @type {number} */ y, /** @type {boolean} */ same) => {
    const last = blocks[blocks.length - 1] ?? { to: 0, upTo: 0, same: !same };
    if (last.same === same) Object.assign(last, { to: x, upTo: y });
    else if (x > last.to || y > last.upTo) blocks.push({ from: last.to, to: x, at: last.upTo, upTo: y, same });
  };
  for (let [x, y] = [0, 0]; x < a.length || y < b.length; ) {
    for (const [toX, toY, same] of wayFrom(a.subarray(x), b.subarray(y))) add(x + toX, y + toY, same);
    const last = blocks[blocks.length - 1];
    [x, y] = [last.to, last.upTo];
  }
  return blocks;
}

/**
 * The way through two lists, to their ends or as far as `FAR` edits lead.
 * @param {Int32Array} a @param {Int32Array} b
 * @returns {[number, number, boolean][]} places, and whether the lines before them are the same
 */
function wayFrom(a, b) {
  const middle = FAR + 1;
  const reached = new Int32Array(2 * middle + 1);
  /** What was reached before each edit. @type {Int32Array[]} */
  const before = [];
  const isDown = (/** @type {(k: number) => number} */ at, /** @type {number} */ k, /** @type {number} */ d) => k === -d || (k !== d && at(k - 1) < at(k + 1));
  let [x, y, d] = [0, 0, 0];
  search: for (; ; d += 1) {
    before.push(reached.slice(middle - d - 1, middle + d + 2));
    let far = -1;
    for (let k = -d; k <= d; k += 2) {
      let to = d === 0 ? 0 : isDown((one) => reached[middle + one], k, d) ? reached[middle + k + 1] : reached[middle + k - 1] + 1;
      while (to < a.length && to - k < b.length && a[to] === b[to - k]) to += 1;
      reached[middle + k] = to;
      const isInside = to <= a.length && to - k <= b.length;
      if (isInside && 2 * to - k > far) [x, y, far] = [to, to - k, 2 * to - k];
      if (to >= a.length && to - k >= b.length && isInside) break search;
    }
    if (d === FAR) break;
  }
  /** @type {[number, number, boolean][]} */
  const way = [];
  for (; d >= 0; d -= 1) {
    const at = (/** @type {number} */ k) => before[d][k + d + 1];
    const k = x - y;
    const down = d > 0 && isDown(at, k, d);
    const begin = d === 0 ? 0 : down ? at(k + 1) : at(k - 1) + 1;
    if (x > begin) way.push([x, y, true]);
    [x, y] = [begin, begin - k];
    if (d > 0) way.push([x, y, false]);
    if (d > 0) [x, y] = down ? [x, y - 1] : [x - 1, y];
  }
  return way.reverse();
}

/** The texts and files of a run that tell its code and configuration. @param {any[]} attributes @returns {Map<string, any>} */
function textsOf(attributes) {
  const found = new Map();
  for (const { path, family, value } of attributes) {
    const isCode = path.startsWith("source_code/");
    if (family === "file" && (isCode || TEXTS.test(String(value.ext)))) found.set(path, value);
    else if (family === "file_set" && isCode) for (const [name, file] of Object.entries(value)) found.set(`${path}/${name}`, file);
    else if (family === "atom" && typeof value === "string" && value.includes("\n") && !/^(sys|monitoring)\//.test(path)) found.set(path, value);
  }
  return found;
}

/** What tells whether two texts or files are the same. @param {any} one */
function digestOf(one) {
  return typeof one === "object" ? one.sha256 : one;
}

/**
 * The code and configuration of two of the runs side by side, read when it comes into view.
 * @param {{api: any, runs: RunRef[], base: string}} props `base`: the id of the left one at first
 */
export function Code({ api, runs, base }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const looked = useLooked(place);
  const [chosen, setChosen] = useState(["", ""]);
  const left = runs.find((one) => one.id === (chosen[0] || base)) ?? runs[0];
  const right = runs.find((one) => one.id === chosen[1] && one !== left) ?? runs.find((one) => one !== left) ?? left;
  const { data, error, again } = useAnswer(
    (signal) => (looked ? Promise.all([left, right].map((run) => api.read("attributes", { project: run.project, run: run.id }, { signal }).then(textsOf))) : Promise.resolve(null)),
    [api, left.id, right.id, looked],
  );
  const paths = useMemo(() => [...new Set((data ?? []).flatMap((one) => [...one.keys()]))].sort(), [data]);
  const differing = data ? paths.filter((path) => digestOf(data[0].get(path)) !== digestOf(data[1].get(path))) : [];
  const choose = (/** @type {number} */ n, /** @type {string} */ label) => html`<select aria-label=${label} value=${[left, right][n].id}
    onChange=${(/** @type {any} */ event) => setChosen([left.id, right.id].map((id, at) => (at === n ? event.target.value : id === event.target.value ? [left.id, right.id][n] : id)))}>
    ${runs.map((one) => html`<option key=${one.id} value=${one.id}>${one.name || one.id}</option>`)}</select>`;
  return html`<section class="both code-of-both" ref=${place} aria-label="Code and configuration">
    <div class="row"><h2>Code and configuration</h2>${runs.length > 2 && html`${choose(0, "The left run")} ${choose(1, "The right run")}`}
      ${data && html`<span class="muted">${differing.length ? `${count(differing.length, "file")} of ${whole(paths.length)} differ${differing.length === 1 ? "s" : ""}` : paths.length ? `The same: ${count(paths.length, "file")}` : "Neither run has recorded any."}</span>`}</div>
    ${error && html`<${ErrorBox} error=${error} onRetry=${again} />`}
    ${data && differing.slice(0, 200).map((path, n) => html`<${Pair} key=${`${left.id} ${right.id} ${path}`} api=${api} path=${path} runs=${[left, right]} given=${data.map((one) => one.get(path))} first=${n < OPEN} />`)}
    ${differing.length > 200 && html`<p class="muted">${whole(differing.length - 200)} more differ.</p>`}
  </section>`;
}

/**
 * Read a text; an object instead of it says why it cannot be compared.
 * @param {any} api @param {RunRef} run @param {any} one @param {AbortSignal} signal
 * @returns {Promise<string | {why: string}>}
 */
async function readText(api, run, one, signal) {
  if (one === undefined || typeof one === "string") return one ?? "";
  if (!one.sha256 || one.gone || one.removed) return { why: "not kept with the run" };
  if (Number(one.size) > MOST_BYTES) return { why: `too large to be compared (${bytes(one.size)})` };
  const blob = await api.blob(runPath(run.project, run.id, `blobs/${one.sha256}`), String(one.name || "file"), { signal });
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await blob.arrayBuffer());
    return text.includes("\0") ? { why: "not a text" } : text;
  } catch {
    return { why: "not a text" };
  }
}

/** @param {string} text */
function linesOf(text) {
  const lines = text.split(/\r?\n/);
  if (lines[lines.length - 1] === "") lines.pop();
  return lines;
}

/**
 * One file of two runs, read when it is opened and in view.
 * @param {{api: any, path: string, runs: RunRef[], given: any[], first: boolean}} props
 */
function Pair({ api, path, runs, given, first }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const [open, setOpen] = useState(first);
  const looked = useLooked(place, open);
  const { data, error, again } = useAnswer(
    (signal) => (looked ? Promise.all(given.map((one, n) => readText(api, runs[n], one, signal))) : Promise.resolve(null)),
    [api, looked, ...given.map(digestOf)],
  );
  const only = given.findIndex((one) => one === undefined);
  const lines = useMemo(() => data && data.every((one) => typeof one === "string") && data.map((one) => linesOf(/** @type {string} */ (one))), [data]);
  const isLong = lines && lines.some((one) => one.length > MOST_LINES);
  const whys = (data ?? []).map((one, n) => (typeof one === "object" ? one.why : isLong ? `${count(/** @type {string[][]} */ (lines)[n].length, "line")}, too many to be compared` : ""));
  return html`<section ref=${place}>
    <h3><button type="button" class="fold" aria-expanded=${String(open)} onClick=${() => setOpen(!open)}><span aria-hidden="true">${open ? "▾" : "▸"}</span> <${PathName} path=${path} />
      ${only >= 0 && html` <small>only in <bdi>${runs[1 - only].name}</bdi></small>`}</button></h3>
    ${open && error && html`<${ErrorBox} error=${error} onRetry=${again} />`}
    ${open && whys.some(Boolean) && html`<ul>${runs.map((run, n) => given[n] !== undefined && html`<li key=${run.id}><bdi>${run.name}</bdi>: ${typeof given[n] === "object" ? html`<${FileLink} api=${api} project=${run.project} id=${run.id} file=${given[n]} />, ` : ""}${whys[n] || "a text"}</li>`)}</ul>`}
    ${open && lines && !isLong && html`<${Lines} lines=${lines} path=${path} runs=${runs} />`}
  </section>`;
}

/** The lines to show, with long equal parts folded. @param {Block[]} blocks @param {Set<number>} opened @returns {({n: number, folded: number} | [Block, number])[]} a folded block and how many of its lines are, or a block and a place in it */
function shownOf(blocks, opened) {
  return blocks.flatMap((one, n) => {
    const size = Math.max(one.to - one.from, one.upTo - one.at);
    const every = Array.from({ length: size }, (_, at) => /** @type {[Block, number]} */ ([one, at]));
    const [head, tail] = [n ? AROUND : 0, n < blocks.length - 1 ? AROUND : 0];
    if (!one.same || opened.has(n) || size <= head + tail + 1) return every;
    return [...every.slice(0, head), { n, folded: size - head - tail }, ...every.slice(size - tail)];
  });
}

/** @param {{lines: string[][], path: string, runs: RunRef[]}} props */
function Lines({ lines: [left, right], path, runs }) {
  const blocks = useMemo(() => blocksOf(left, right), [left, right]);
  const [opened, setOpened] = useState(/** @type {Set<number>} */ (new Set()));
  const [most, setMost] = useState(SHOWN);
  const all = useMemo(() => shownOf(blocks, opened), [blocks, opened]);
  const [less, more] = blocks.filter((one) => !one.same).reduce(([less, more], one) => [less + one.to - one.from, more + one.upTo - one.at], [0, 0]);
  return html`<table class="diff"><caption><bdi class="unseen">${path}</bdi> −${whole(less)} +${whole(more)} lines</caption>
    <colgroup><col class="line" /><col /><col class="line" /><col /></colgroup>
    <thead><tr>${runs.map((run, n) => html`<th scope="col" colspan="2" key=${n}><bdi>${run.name || run.id}</bdi></th>`)}</tr></thead>
    <tbody>${all.slice(0, most).map((one, n) => {
      if (!Array.isArray(one)) return html`<tr class="folded" key=${n}><td colspan="4"><button type="button" class="link" onClick=${() => setOpened(new Set([...opened, one.n]))}>${count(one.folded, "equal line")}</button></td></tr>`;
      const [block, at] = one;
      const [x, y] = [block.from + at, block.at + at];
      return html`<tr key=${n}>${sideOf(left, x, x < block.to, block.same ? "" : "del", y < block.upTo ? right[y] : undefined)}${sideOf(right, y, y < block.upTo, block.same ? "" : "ins", x < block.to ? left[x] : undefined)}</tr>`;
    })}</tbody></table>
    ${all.length > most && html`<button type="button" onClick=${() => setMost(most + SHOWN)}>${whole(Math.min(SHOWN, all.length - most))} more of ${whole(all.length)} lines</button>`}
    ${!less && !more && html`<p class="muted">They differ in the ends of lines only.</p>`}`;
}

/**
 * One side of a line: its number and its text, of which the part that the other side lacks is marked.
 * @param {string[]} lines @param {number} n @param {boolean} isThere @param {"" | "del" | "ins"} tag @param {string | undefined} other
 */
function sideOf(lines, n, isThere, tag, other) {
  if (!isThere) return html`<td class="none"></td><td class="none"></td>`;
  const text = lines[n].slice(0, WIDEST);
  const rest = lines[n].length > WIDEST && html`<small> … ${whole(lines[n].length - WIDEST)} more characters</small>`;
  const seen = (/** @type {string} */ part) => part.replace(TURNS, (one) => `‹U+${one.charCodeAt(0).toString(16).toUpperCase()}›`);
  if (!tag) return html`<td class="line">${n + 1}</td><td>${seen(text)}${rest}</td>`;
  let [from, end] = [0, text.length];
  let upTo = other?.slice(0, WIDEST).length ?? 0;
  if (other !== undefined) {
    while (from < end && from < upTo && text[from] === other[from]) from += 1;
    while (end > from && upTo > from && text[end - 1] === other[upTo - 1]) [end, upTo] = [end - 1, upTo - 1];
  }
  const marked = other !== undefined && 3 * (from + text.length - end) > text.length;
  const part = marked ? html`${seen(text.slice(0, from))}<mark>${seen(text.slice(from, end))}</mark>${seen(text.slice(end))}` : seen(text);
  return html`<td class="line ${tag}">${n + 1}</td><td class=${tag}>${tag === "del" ? html`<del>${part}</del>` : html`<ins>${part}</ins>`}${rest}</td>`;
}

/** The paths that are shown at a time. */
const PAGE = 20;

/**
 * A row for each path, a column for each run, and a slider for the step of all; asked for in view.
 * @param {{api: any, runs: RunRef[], version: number}} props
 */
export function Images({ api, runs, version }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const looked = useLooked(place);
  const [filter, setFilter] = useState("");
  const [page, setPage] = useState(0);
  const [at, setAt] = useState(/** @type {number | null} */ (null));
  const [known, setKnown] = useState(/** @type {ReadonlySet<number>} */ (new Set()));
  const id = runs.map((run) => run.id);
  const { data, error, again } = useAnswer(
    (signal) => (looked ? api.read("fields", { id, project: null, trashed: null, unknown: "tell" }, { signal }) : Promise.resolve(null)),
    [api, id.join(), looked],
  );
  const paths = useMemo(() => (data ?? []).filter((/** @type {any} */ one) => one.family === "file_series").map((/** @type {any} */ one) => one.path), [data]);
  const fits = matcher(filter);
  const shown = paths.filter(fits);
  const now = Math.min(page, Math.max(0, Math.ceil(shown.length / PAGE) - 1));
  const steps = useMemo(() => [...known].sort((a, b) => a - b), [known]);
  const step = at ?? steps[steps.length - 1] ?? 0;
  const nth = steps.filter((one) => one <= step).length - 1;
  const learn = (/** @type {number[]} */ more) => setKnown((/** @type {ReadonlySet<number>} */ was) => (more.every((one) => was.has(one)) ? was : new Set([...was, ...more])));
  return html`<section class="both images-of-all" ref=${place} aria-label="Images">
    ${error && html`<${ErrorBox} error=${error} onRetry=${again} />`}
    ${paths.length > 0 && html`<div><div class="row"><h2>Images</h2>
      <label class="image-slider">step <input type="range" min="0" max=${Math.max(0, steps.length - 1)} value=${nth} aria-valuetext=${`step ${number(step, 9)}`} onInput=${(/** @type {any} */ event) => setAt(steps[Number(event.target.value)])} />
        <output>${number(step, 9)}</output></label>
      <span class="grow"></span>${paths.length > PAGE && html`<${Filter} label="Filter images" value=${filter} onText=${(/** @type {string} */ text) => [setFilter(text), setPage(0)]} />`}</div>
    <div class="grid"><table><caption class="unseen">Images of ${runs.length} runs at step ${number(step, 9)}</caption>
      <thead><tr><th scope="col">${number(shown.length)} of ${number(paths.length)}</th>${runs.map((run) => html`<th scope="col" key=${run.id} title=${run.name}><bdi>${run.name || run.id}</bdi></th>`)}</tr></thead>
      <tbody>${shown.slice(now * PAGE, (now + 1) * PAGE).map((/** @type {string} */ path) => html`<tr key=${path}><th scope="row"><${PathName} path=${path} /></th>
        ${runs.map((run) => html`<${Cell} key=${run.id} api=${api} path=${path} run=${run} step=${step} version=${version} onSteps=${learn} />`)}</tr>`)}</tbody></table></div>
    <${Pager} page=${now} size=${PAGE} total=${shown.length} word="images" onPage=${setPage} /></div>`}
  </section>`;
}

/**
 * The images of a run at a step, or at its last one before that; read when they are in view.
 * @param {{api: any, path: string, run: RunRef, step: number, version: number, onSteps: (steps: number[]) => void}} props
 */
function Cell({ api, path, run, step, version, onSteps }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const looked = useLooked(place);
  const { data, error } = useAnswer(
    (signal) => (looked ? api.read("files", { project: run.project, run: run.id, path }, { signal }) : Promise.resolve(null)),
    [api, run.id, path, looked, version],
  );
  const every = /** @type {any[]} */ (data ?? []);
  useEffect(() => {
    if (every.length) onSteps(every.map((one) => Number(one.step)));
  }, [data]);
  const last = every.reduce((most, one) => (Number(one.step) <= step ? Math.max(most, Number(one.step)) : most), -Infinity);
  const here = every.filter((one) => Number(one.step) === last);
  const label = `${path}, step ${number(last, 9)}, ${run.name}`;
  return html`<td ref=${place}>${error && error.status !== 404 && html`<p class="bad">${String(error.hint)}</p>`}
    ${here.slice(0, 4).map((one, n) => (isPicture(one.file) ? html`<${Picture} key=${n} api=${api} project=${run.project} id=${run.id} file=${one.file} label=${label} />` : html`<p class="muted" key=${n}>${String(one.file?.name || "no image")}</p>`))}
    ${here.length > 4 && html`<small>${number(here.length - 4)} more </small>`}
    ${here.length > 0 ? last !== step && html`<small>step ${number(last, 9)}</small>` : (data || error) && html`<small>none by then</small>`}</td>`;
}
