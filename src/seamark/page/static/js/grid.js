// @ts-check
/** The images of several runs in one grid, at one step. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { ErrorBox, Filter, Pager, useAnswer, useSeen } from "./components.js";
import { PathName, Picture, isPicture } from "./files.js";
import { matcher } from "./finding.js";
import { number } from "./format.js";

/** @typedef {import("./lines.js").RunRef} RunRef */

/** The paths that are shown at a time. */
const PAGE = 20;

/**
 * A row for each path, a column for each run, and a slider for the step of all; asked for in view.
 * @param {{api: any, runs: RunRef[], version: number}} props
 */
export function Images({ api, runs, version }) {
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  const seen = useSeen(place);
  const [looked, setLooked] = useState(false);
  if (seen && !looked) setLooked(true);
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
  const seen = useSeen(place);
  const [looked, setLooked] = useState(false);
  if (seen && !looked) setLooked(true);
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
