// @ts-check
/** The first tab of a run: what it is about, its values, and its first curves. */

import { html, useMemo, useState } from "../vendor/preact.js";
import { linkTo } from "./address.js";
import { Charts } from "./charts.js";
import { COUNTERS, byOrder, goodEnd } from "./columns.js";
import { Badge, Filter } from "./components.js";
import { Code } from "./copies.js";
import { Group, PathName, heads, scrolls } from "./files.js";
import { matcher } from "./finding.js";
import { count, duration, number, precise, whole } from "./format.js";
import { Markdown } from "./markdown.js";

/** @typedef {import("./files.js").TabProps} TabProps */

/** Namespaces that the training did not log itself: shown last, and closed. */
const BEHIND = ["source_code", "ranks", "profiling", "distributed", "monitoring", "sys"];
const CURVES = 6;

/** @param {any} one an attribute */
const isMetric = (one) => one.family === "float_series" && !BEHIND.includes(one.path.split("/")[0]);

/** @param {TabProps} props */
export function OverviewTab(props) {
  const { api, project, id, overview, attributes } = props;
  const [filter, setFilter] = useState("");
  const every = /** @type {any[]} */ (attributes);
  const by = useMemo(() => new Map(every.map((one) => [one.path, one])), [every]);
  const isFiltered = filter.trim() !== "";
  const shown = useMemo(() => {
    const fits = matcher(filter);
    return every.filter((one) => one.path !== "sys/progress" && fits(one.path, String(one.value)));
  }, [every, filter]);
  const metrics = shown.filter(isMetric).sort((a, b) => byOrder(a.path, b.path));
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const one of shown) {
    if (one.family === "float_series") continue;
    const slash = one.path.indexOf("/");
    const space = slash < 0 ? "" : one.path.slice(0, slash);
    groups.set(space, [...(groups.get(space) || []), one]);
  }
  const rank = (/** @type {string} */ space) => (space === "parameters" ? -1 : BEHIND.indexOf(space) + 1);
  const spaces = [...groups.keys()].sort((a, b) => rank(a) - rank(b) || a.localeCompare(b));
  const group = (/** @type {string} */ space) => html`<${Group} key=${space} space=${space} values=${groups.get(space)} api=${api} project=${project} id=${id} open=${!BEHIND.includes(space) || isFiltered} />`;
  const isFirst = (/** @type {string} */ space) => space === "parameters";
  const bad = overview && (overview.failed || overview.crash || ["failed", "crashed", "killed", "lost"].includes(overview.state));
  const about = by.get("sys/description")?.value;
  return html`<div class="overview">
    ${typeof about === "string" && about && html`<${Markdown} text=${about} className="run-description" />`}
    ${bad && html`<${Failure} overview=${overview} trace=${by.get(overview.traceback)?.value} />`}
    <${Progress} loops=${by.get("sys/progress")?.value} />
    <div class="overview-values">
      <${Filter} class="run-filter" label="Filter values" value=${filter} onText=${setFilter} />
      ${isFiltered && !shown.length && html`<p class="quiet">No value matches “${filter}”.</p>`}
      ${spaces.filter(isFirst).map(group)}
      ${metrics.length > 0 && html`<${Metrics} metrics=${metrics} />`}
      ${spaces.filter((space) => !isFirst(space)).map(group)}
      <${Source} by=${by} />
    </div>
    <${Curves} ...${props} every=${every} />
  </div>`;
}

/** @param {{metrics: any[]}} props */
function Metrics({ metrics }) {
  return html`<section><h2>Metrics <span class="count">${metrics.length}</span></h2><div class="scroll" ref=${scrolls}><table class="values">
    <thead><tr>${heads("series", "#best", "#last", "#min", "#max", "#points", "#last step")}</tr></thead>
    <tbody>${metrics.map(({ path, value }) => html`<tr key=${path}><th scope="row"><${PathName} path=${path} />
        ${value.nan_count ? html` <${Badge} kind="bad">${count(Number(value.nan_count), "NaN")}<//>` : ""}${value.inf_count ? html` <${Badge} kind="bad">${whole(value.inf_count)} ±Inf<//>` : ""}</th>
      ${[{ max: value.max, min: value.min, "": null }[goodEnd(path)], value.last, value.min, value.max].map((one, at) => html`<td key=${at} class="number ${at ? "" : "best"}" title=${one === null ? "" : precise(Number(one))}>${one === null ? "" : number(Number(one))}</td>`)}
      <td class="number">${whole(value.count)}</td><td class="number">${number(Number(value.last_step), 9)}</td></tr>`)}</tbody></table></div></section>`;
}

/** The first curves of a run, as the tab of charts shows them. @param {TabProps & {every: any[]}} props */
function Curves({ api, view, live, project, id, name, overview, every }) {
  const paths = every.filter(isMetric).map((one) => one.path);
  const first = paths.sort((a, b) => Number(COUNTERS.test(a)) - Number(COUNTERS.test(b)) || byOrder(a, b)).slice(0, CURVES);
  const runs = useMemo(() => [{ project, id, name, state: overview?.state }], [project, id, name, overview?.state]);
  const wanted = useMemo(() => (/** @type {string} */ path) => first.includes(path), [first.join("\n")]);
  const plain = useMemo(() => ({ ...view, pinned: [], charts: [], filter: "" }), [view]);
  if (!first.length) return html`<p class="overview-curves quiet">This run has logged no numbers. <code>run["train/loss"].append(0.5)</code> logs one.</p>`;
  return html`<div class="overview-curves"><${Charts} api=${api} runs=${runs} view=${plain} live=${live} wanted=${wanted} only />
    ${paths.length > first.length && html`<p><a ...${linkTo({ tab: "charts" })}>All ${whole(paths.length)} charts</a></p>`}</div>`;
}

/** Explanations of crashes, by their reason. @type {Record<string, string>} */
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
    ${typeof trace === "string" && html`<details open><summary>Traceback</summary><${Code} text=${trace} focused /></details>`}
  </section>`;
}

/** @param {{loops: unknown}} props */
function Progress({ loops }) {
  const every = Array.isArray(loops) ? loops.filter((one) => one && typeof one.name === "string" && Number.isFinite(Number(one.done))).slice(0, 20) : [];
  if (!every.length) return null;
  return html`<section class="progress" aria-label="Progress">${every.map((one, at) => {
    const total = Number(one.total);
    const left = Number(one.remaining_s);
    return html`<div key=${at}><span>${one.name} ${whole(one.done)}${total > 0 ? ` of ${whole(total)}` : ""}</span>
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
  return html`<details class="source"><summary>Program, version and packages</summary><dl>${some.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd><code>${value}</code></dd></div>`)}
    ${packages && html`<div><dt>packages</dt><dd><details><summary>${count(packages.split("\n").filter(Boolean).length, "package")}</summary><pre class="packages" tabindex="0">${packages}</pre></details></dd></div>`}</dl></details>`;
}
