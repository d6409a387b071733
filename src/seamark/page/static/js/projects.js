// @ts-check
/** The projects of a root, and the description of one of them. */

import { html, useEffect } from "../vendor/preact.js";
import { START, linkTo, write } from "./address.js";
import { Api } from "./api.js";
import { Banner, Empty, ErrorBox, Time, tell, useAnswer } from "./components.js";
import { Code, CopyButton } from "./copies.js";
import { count, number } from "./format.js";

/** @typedef {import("./address.js").View} View */
/** @typedef {import("./api.js").Root} Root */
/**
 * @typedef {{project: string, runs: number, running: number, failed?: number, crashed: number, trashed: number,
 *   last_record_ns: bigint | number | null}} Project
 */

const FIVE_LINES = `import seamark
run = seamark.init_run(project="first")
run["params"] = {"lr": 0.1}
for step in range(100): run["loss"].append(1 / (1 + step), step=step)
run.stop()`;

/**
 * A link within the page.
 * @param {{change: Partial<View>, children?: any, className?: string}} props
 */
function Go({ change, children, className }) {
  return html`<a class=${className} ...${linkTo(change)}>${children}</a>`;
}

/**
 * The folders that cannot be read: which, why, and what to do.
 * @param {{count: number, root: Root, token: string}} props
 */
export function Unread({ count, root, token }) {
  const { data } = useAnswer((signal) => new Api("api/v1/", token).get("", { signal }), [token, count]);
  /** @type {[string, string][]} */
  const first = data?.roots?.find((/** @type {Root} */ one) => one.api === root.api)?.unread_first ?? [];
  return html`<${Banner} kind="warn">${count === 1 ? "1 folder" : `${number(count)} folders`} cannot be read: new runs in there are missing, others are as they were.
    ${first.map(([path, why]) => html`<span key=${path}> <code><bdi>${path}</bdi></code> (${why}) </span>`)}${count > first.length && first.length > 0 && ` and ${number(count - first.length)} more. `}
    Give yourself the right to read: <code>chmod -R u+rX</code>, or ask whose they are; <code>seamark fsck</code> tells of each.<//>`;
}

/**
 * @param {{api: import("./api.js").Api, view: View, live: import("./api.js").Live, root: Root,
 *   roots: Root[]}} props
 */
export function ProjectsScreen({ api, view, live, root, roots }) {
  const { data, error, busy, again } = useAnswer(
    (signal) => api.read("projects", {}, { signal }),
    [api, live.tick],
  );
  /** @type {Project[]} */
  const all = data ?? [];
  const inside = view.project
    ? all.filter((one) => one.project === view.project || one.project.startsWith(`${view.project}/`))
    : all;
  const sum = (/** @type {"runs" | "running" | "crashed" | "trashed"} */ what) => inside.reduce((n, one) => n + one[what], 0);
  useEffect(() => tell({ running: sum("running"), crashed: sum("crashed"), title: view.project || "projects" }), [data, view.project]);
  const described = useAnswer(
    (signal) =>
      view.project
        ? api.read("table", { kind: "project", project: view.project, columns: ["sys/description"], unknown: "tell" }, { signal })
        : Promise.resolve(null),
    [api, view.project],
  );
  const about = described.data?.table;
  const own = about?.refs.findIndex((/** @type {string[]} */ one) => one[0] === view.project) ?? -1;
  const description = own < 0 ? null : about.cells[about.columns.indexOf("sys/description")]?.[own];
  const at = (/** @type {string} */ project) => ({ ...START, root: view.root, project });
  return html`<div class="title">
      <h1><bdi>${view.project || (roots.length > 1 ? root.name : "Projects")}</bdi></h1>
      ${view.project && html`<${Go} change=${at(view.project)} className="button">${`Its runs (${number(sum("runs"))})`}<//>`}
      ${!view.project && all.length > 1 && html`<${Go} change=${at("")} className="button">${`All ${number(sum("runs"))} runs`}<//>`}
    </div>
    ${typeof description === "string" && html`<p class="prose">${description}</p>`}
    ${root.path && html`<p class="prose muted">Folder <code><bdi>${root.path}</bdi></code> <${CopyButton} text=${root.path} title="Copy the folder" className="quiet" />
      ${root.read_only && html` · read-only: ${root.why}`}</p>`}
    ${error && html`<${ErrorBox} error=${error} onRetry=${again} />`}
    ${!data && busy && html`<p class="starting">Reading …</p>`}
    ${data && !inside.length && html`<${Empty} title="No runs yet"><p>${root.why}</p>
      <p><${Go} change=${at(view.project)}>How to record one<//></p><//>`}
    ${inside.length > 0 &&
    html`<div class="list"><div class="sheet short"><table class="runs">
      <caption class="unseen">Projects${view.project ? ` in ${view.project}` : ""}</caption>
      <thead><tr><th scope="col"><span class="plain">Project</span></th><th scope="col" class="numeric"><span class="plain">Runs</span></th>
        <th scope="col" class="numeric"><span class="plain">Running</span></th><th scope="col" class="numeric"><span class="plain">Failed</span></th><th scope="col" class="numeric"><span class="plain">Crashed</span></th><th scope="col" class="numeric wide-only"><span class="plain">In the trash</span></th>
        <th scope="col"><span class="plain">Last record</span></th></tr></thead>
      <tbody>${inside.map((one) => html`<tr key=${one.project}>
        <th scope="row"><${Go} change=${at(one.project)}><bdi>${one.project}</bdi><//></th>
        <td class="numeric">${number(one.runs)}</td>
        <td class="numeric ${one.running ? "good" : "muted"}">${one.running ? html`<span aria-hidden="true">● </span>` : ""}${number(one.running)}</td>
        <td class="numeric ${one.failed ? "bad" : "muted"}">${one.failed ? html`<${Go} change=${{ ...at(one.project), q: "sys/state = failed" }}>${number(one.failed)}<//>` : "0"}</td>
        <td class="numeric ${one.crashed ? "bad" : "muted"}">${one.crashed ? html`<${Go} change=${{ ...at(one.project), q: "sys/state = crashed" }}>${number(one.crashed)}<//>` : "0"}</td>
        <td class="numeric muted wide-only">${one.trashed ? html`<${Go} change=${{ ...at(one.project), trashed: true }}>${number(one.trashed)}<//>` : "0"}</td>
        <td><${Time} ns=${one.last_record_ns} now=${api.now()} /></td></tr>`)}</tbody></table></div></div>`}
    ${roots.length > 1 &&
    html`<div class="list"><h2>Folders</h2><ul class="roots">${roots.map((one) => html`<li key=${one.name}>
      <${Go} change=${{ ...START, root: one.name, screen: /** @type {const} */ ("projects") }}><bdi>${one.name}</bdi><//>${" "}
      <small><bdi>${one.path}</bdi>${one.read_only ? ` · read-only: ${one.why}` : ""}</small></li>`)}</ul></div>`}`;
}

/** Why there are no runs, and what to do. @param {{view: View, root: Root, left: number}} props */
export function Nothing({ view, root, left }) {
  if (view.q) {
    return html`<${Empty} title="No run matches">
      <p>Nothing here matches <code>${view.q}</code>.</p>
      <button type="button" onClick=${() => write({ q: "", page: 0 })}>Show all runs</button><//>`;
  }
  if (view.trashed) return html`<${Empty} title="The trash is empty" />`;
  const projects = () => write({ ...START, root: view.root, screen: "projects" }, { push: true });
  if (left > 0) return html`<p class="starting">Reading ${count(left, "run")} …</p>`;
  const where = view.project ? `in ${view.project}` : root.path ? `in ${root.path}` : "here";
  return html`<${Empty} title="No runs ${where} yet">
    <p>${root.why && !root.read_only ? root.why : "Record one, and it appears here:"}</p>
    ${view.project && html`<p><button type="button" onClick=${projects}>Which projects are there?</button></p>`}
    <${Code} text=${FIVE_LINES} /><//>`;
}
