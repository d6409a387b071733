// @ts-check
/** Groups of runs and values of runs: the table and the curves of groups, the colours of values, and their keys. */

import { html, useMemo, useRef, useState } from "../vendor/preact.js";
import { write } from "./address.js";
import { COLOURED, GREY, PALETTE } from "./colours.js";
import { ALWAYS, aParameter, ascendsFirst, endOf, goodEnd, splitColumn, titleOf } from "./columns.js";
import { Check, ErrorBox, Filter, Pager, useAnswer, useFocused } from "./components.js";
import { bracketed, matcher, quotedPath, quotedValue } from "./finding.js";
import { count, duration, exact, number, precise, value } from "./format.js";
import { floats } from "./lines.js";
import { SIZE, isOfQuery, which } from "./rows.js";
import { SortHead } from "./table.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./colours.js").Theme} Theme */
/** @typedef {import("./colours.js").Valued} Valued */
/** @typedef {import("./lines.js").Group} Group */
/** @typedef {import("./lines.js").Kept} Kept */
/** @typedef {import("./lines.js").Parts} Parts */
/** @typedef {import("./lines.js").RunRef} RunRef */

/** The colours of numbers from the lowest to the highest: ever farther from the colour of the page. */
const RAMPS = /** @type {Record<Theme, string[]>} */ ({
  light: ["#e8590c", "#c2255c", "#7b1fa2", "#1a1060"],
  dark: ["#7660dc", "#d6539f", "#ff8a4c", "#ffe94a"],
});
const MOST_BY = 4;
/** The values that are explained until more are asked for. */
const MOST_IN_ROW = 4;

const LINES = { mean: "mean", median: "median", range: "min–max" };
const BANDS = { sd: "standard deviation", se: "standard error", none: "none" };

/** What is shown of groups. @param {string} text of the address */
export function statOf(text) {
  const words = text.split("-");
  const of = words.find((one) => Object.hasOwn(LINES, one)) ?? "mean";
  const band = of === "range" ? "none" : (words.find((one) => Object.hasOwn(BANDS, one)) ?? "sd");
  const name = of === "range" ? "mean" : of;
  const named = of === "range" ? "min–max" : band === "none" ? of : `${of} ± ${/** @type {any} */ (BANDS)[band]}`;
  /** The distance to each side. @type {(std: number | null, n: number) => number} */
  const spread = (std, n) => (std === null || band === "none" || !Number.isFinite(std) ? 0 : band === "se" ? std / Math.sqrt(n) : std);
  return { of, band, name, named, spread };
}

/** The column of the number of runs, as the server names it. */
const COUNT = ":n";

/**
 * Groups of runs, one below the other.
 *
 * @typedef {{by: Record<string, any>, refs: [string, string][],
 *   values: Record<string, {n: number, odd: number, mean: number | null, std: number | null,
 *     min: number | null, max: number | null, median: number | null, distinct: number, same: string | null}>}} Counted
 * @param {{api: Api, view: View, columns: string[], known: any[], live: import("./api.js").Live}} props
 *   `known`: what the runs show, from whose paths short titles must differ
 */
export function Groups({ api, view, columns, known, live }) {
  const stat = statOf(view.stat);
  const series = useMemo(() => new Set(known.filter((one) => one.series).map((one) => one.path)), [known]);
  /** Parameters are what they are, and not averaged. @type {(path: string) => boolean} */
  const isParameter = (path) => !aParameter(path) || !(splitColumn(path)[1] || series.has(path) || path.startsWith("sys/") || goodEnd(path));
  const numbers = columns.filter((one) => !ALWAYS.includes(one) && !view.group.includes(one)).slice(0, 20);
  const { data, error, busy, again } = useAnswer(
    (signal) => {
      const least_first = !view.order.startsWith("-");
      const order = view.order.slice(Number(!least_first));
      const body = { ...which(view), by: view.group, columns: numbers, limit: SIZE, offset: view.page * SIZE, order: order || null, least_first,
        statistic: stat.of === "range" || isParameter(order) ? (least_first ? "min" : "max") : stat.of };
      return api.whole("groups", body, { signal }).then((said) => ({ ...said, order, least_first }));
    },
    [api, JSON.stringify([which(view), view.group, numbers, view.page, view.order, stat.of]), Math.floor(live.tick / 3)],
  );
  /** @type {Counted[]} */
  const groups = data?.answer ?? [];
  // The order that is shown, until the other one that is asked for has come.
  const { order: path = "", least_first: ascending = true } = data ?? {};
  // The answer to the query before stays: an error of the query is shown beside the query.
  if (error && !(data && (isOfQuery(error, view) || error.error === "lost"))) return html`<${ErrorBox} error=${error} onRetry=${again} />`;
  const shown = numbers.filter((path) => groups.some((one) => one.values[path]?.distinct));
  const inside = (/** @type {Counted} */ group) => {
    const some = view.group.map((path) => {
      const is = group.by[path];
      if (is === null || is === undefined) return `${quotedPath(path)} IS MISSING`;
      if (Array.isArray(is)) return is.map((one) => `${quotedPath(path)} CONTAINS ${quotedValue(one)}`).join(" AND ");
      return `${quotedPath(path)} = ${quotedValue(is)}`;
    });
    const q = [bracketed(view.q), ...some].filter(Boolean).join(" AND ");
    write({ q, group: [], page: 0, selected: [], drawn: [] }, { push: true });
  };
  const heads = [...view.group, ...shown, ...known.map((one) => one.path)];
  const head = (/** @type {string} */ one, title = titleOf(one), what = title) => {
    const numeric = !view.group.includes(one);
    const sorted = path === one;
    // The good end comes first, as in the table of runs; of the sizes of groups the greatest.
    const least = sorted ? !ascending : one !== COUNT && ascendsFirst(one);
    return html`<${SortHead} key=${one} class=${numeric ? "numeric" : one === view.group[0] ? "first" : ""} sorted=${sorted && (ascending ? "ascending" : "descending")}
      by=${what} title=${title} text=${one === COUNT ? title : endOf(one, heads)} onSort=${() => write({ order: `${least ? "" : "-"}${one}`, page: 0 }, { push: true })} />`;
  };
  return html`<div class="sheet short"><table class="runs ${busy && data ? "loading" : ""}">
    <caption class="unseen">Groups of runs by ${view.group.join(", ")}: ${stat.named}${path && `, sorted by ${path === COUNT ? "runs" : path}`}</caption>
    <thead><tr>
      ${view.group.map((one) => head(one))}
      ${head(COUNT, "Runs")}
      ${shown.map((one) => head(one, titleOf(one), isParameter(one) ? one : `${one}: ${stat.named}`))}
      <th scope="col"><span class="unseen">Open</span></th>
    </tr></thead>
    <tbody>${groups.map((group) => html`<tr key=${JSON.stringify(group.refs[0])}>
      ${view.group.map((path, n) =>
        n === 0
          ? html`<th scope="row" class="first" key=${path}><bdi>${value(group.by[path]) || "—"}</bdi></th>`
          : html`<td key=${path}><bdi>${value(group.by[path]) || "—"}</bdi></td>`)}
      <td class="numeric">${number(group.refs.length)}</td>
      ${shown.map((path) => {
        const one = group.values[path];
        const say = (/** @type {number | null} */ one, digits = 5) => (one === null ? "" : path === "sys/running_time" ? duration(one) : number(one, digits));
        const range = one && (one.min === one.max ? say(one.min) : `${say(one.min)}–${say(one.max)}`);
        if (one?.distinct && (one.n ? isParameter(path) : one.same !== null || one.distinct > 1)) {
          const text = one.distinct > 1 && one.odd ? count(one.distinct, "value") : one.same ?? range;
          return html`<td key=${path} class="numeric" title=${`n = ${one.n + one.odd}, ${one.same ?? count(one.distinct, "value")}`.slice(0, 2000)}><bdi>${text.slice(0, 200)}</bdi></td>`;
        }
        if (!one || one.mean === null) return html`<td key=${path} class="numeric">${one?.odd > 0 && html`<small>no finite number</small>`}</td>`;
        const fewer = one.n < group.refs.length;
        const spread = stat.spread(one.std, one.n);
        return html`<td key=${path} class="numeric" title="n = ${one.n}, min ${exact(one.min)}, max ${exact(one.max)}${one.odd ? `, ${one.odd} not finite` : ""}">
          ${stat.of === "range" ? range : say(stat.of === "median" ? one.median : one.mean)}${one.std !== null && stat.band !== "none" && html`<span class="delta">± ${say(spread, 2)}</span>`}${fewer && html`<small> n=${one.n}</small>`}</td>`;
      })}
      <td><button type="button" class="link" onClick=${() => inside(group)}>show runs</button></td>
    </tr>`)}</tbody></table></div>
    ${data && html`<${Pager} page=${view.page} size=${SIZE} total=${data.total} word="groups" onPage=${(/** @type {number} */ page) => write({ page }, { push: true })} />`}`;
}

/**
 * The list of paths to group runs by, in a menu.
 * @param {{view: View, known: any[]}} props
 */
export function GroupChooser({ view, known }) {
  const focused = useFocused();
  const by = new Set(view.group);
  const paths = known.filter((one) => !one.series && one.differs && !one.path.startsWith("sys/")).map((one) => one.path);
  const [text, setText] = useState("");
  const fits = matcher(text);
  const found = [...new Set([...view.group, ...paths, "sys/state", "sys/tags"])].filter((path) => by.has(path) || fits(path));
  const shown = found.slice(0, 200);
  const toggle = (/** @type {string} */ path) => {
    const next = by.has(path) ? view.group.filter((one) => one !== path) : [...view.group, path].slice(0, 8);
    write({ group: next, page: 0 });
  };
  return html`<div class="pad">
    ${(text || found.length > 12) && html`<${Filter} hint="Words, * or /…/" label="Filter what to group by" value=${text} onText=${setText} />`}
    <div class="pick" role="group" aria-label="Group by">
      ${shown.map((path, n) => html`<${Check} key=${path} own=${n ? undefined : focused} on=${by.has(path)} onCheck=${() => toggle(path)}><bdi>${path}</bdi><//>`)}
      ${found.length > shown.length && html`<p class="muted">${number(found.length - shown.length)} more: type to filter.</p>`}
    </div>
    ${by.size > 0 && html`<${StatChooser} stat=${view.stat} />`}
    <button type="button" disabled=${!by.size} onClick=${() => write({ group: [], page: 0 })}>No groups</button></div>`;
}

/** Choose what is shown of groups. @param {{stat: string}} props */
export function StatChooser({ stat }) {
  const now = statOf(stat);
  const choose = (/** @type {string} */ label, /** @type {Record<string, string>} */ names, /** @type {string} */ value, /** @type {(to: string) => string[]} */ words) =>
    html`<label>${label} <select value=${value} disabled=${names === BANDS && now.of === "range"}
      onChange=${(/** @type {any} */ event) => write({ stat: words(event.target.value).filter((one) => one !== "mean" && one !== "sd").join("-") })}>
      ${Object.entries(names).map(([key, name]) => html`<option key=${key} value=${key}>${name}</option>`)}</select></label>`;
  return html`<div class="row">${choose("Show", LINES, now.of, (to) => [to, to === "range" || now.of === "range" ? "sd" : now.band])}${choose("±", BANDS, now.band, (to) => [now.of, to])}</div>`;
}

/** Explain the lines of groups. @param {{stat: string}} props */
export function Explained({ stat }) {
  const { of, name, named } = statOf(stat);
  const text = `${of === "range" ? `${name}, and from the least to the greatest` : named}; dashed where runs are missing`;
  return html`<span title=${text}>${text}</span>`;
}

/**
 * The parts of a group. The band of a metric which is never negative does not reach below its
 * smallest value.
 * @param {any} group
 * @param {string} stat
 * @returns {Parts}
 */
function partsOfGroup(group, stat) {
  const { of, spread: spreadOf } = statOf(stat);
  const [mean, std, n] = [floats(group.mean), floats(group.std), floats(group.n)];
  const line = of === "median" ? floats(group.median) : mean;
  const spread = std.map((one, at) => spreadOf(one, n[at]));
  const none = new Float64Array(mean.length);
  const least = floats(group.min).reduce((a, b) => (b < a ? b : a), Infinity);
  const bound = least >= 0 && least < Infinity ? least : -Infinity;
  return {
    of, width: Number(group.width), x: floats(group.x), line, mean,
    min: of === "range" ? floats(group.min) : line.map((one, at) => Math.max(bound, one - spread[at])),
    max: of === "range" ? floats(group.max) : line.map((one, at) => one + spread[at]),
    count: n, nan: none, inf: none, plus: new Float64Array(0),
    minus: new Float64Array(0), smooth: false, leftOut: 0, notPositive: 0, falls: false,
  };
}

/**
 * Split a line where runs are missing, into two that meet.
 * @param {Parts} parts
 * @param {number} of the number of runs
 */
function piecesOf(parts, of) {
  const isLess = Array.from(parts.count, (one) => one < of);
  if (!isLess.includes(true)) return [parts];
  const full = parts.line.map((one, at) => (isLess[at] ? NaN : one));
  const less = parts.line.map((one, at) => (isLess[at] || isLess[at + 1] || isLess[at - 1] ? one : NaN));
  return [{ ...parts, line: full }, { ...parts, line: less }];
}

/** @param {Record<string, any>} by */
function labelOf(by) {
  const parts = Object.entries(by).map(([path, value]) => {
    const name = path.split("/").pop();
    return `${name} ${value === null || value === undefined ? "–" : typeof value === "number" ? number(value) : Array.isArray(value) ? value.join(" ") : String(value)}`;
  });
  return parts.join(", ");
}

/**
 * The groups of runs.
 * @param {any} api @param {readonly RunRef[]} runs @param {View} view @param {AbortSignal} signal
 * @returns {Promise<Group[]>}
 */
export async function groupsOf(api, runs, { group: by, project }, signal) {
  const body = { id: runs.map((run) => run.id), by, columns: [], unknown: "tell", project: project || null };
  const found = await api.read("groups", body, { signal });
  const labels = new Set();
  return found.map((/** @type {any} */ one) => {
    let label = labelOf(one.by);
    // Values that look the same are groups of their own.
    while (labels.has(label)) label += " ";
    labels.add(label);
    return { by: one.by, refs: one.refs, label };
  });
}

/**
 * @param {any} api
 * @param {Group[]} groups
 * @param {readonly string[]} paths
 * @param {Record<string, any>} look
 * @param {string} stat
 * @param {AbortSignal} signal
 * @returns {Promise<Kept>}
 */
export async function groupCurves(api, groups, paths, look, stat, signal) {
  const body = { groups: groups.map(({ label, refs }) => ({ by: { label }, refs })), paths, ...look };
  const found = new Map();
  for (const one of await api.read("group_curves", body, { signal })) {
    const own = groups.find(({ label }) => label === one.by.label);
    const parts = partsOfGroup(one, stat);
    if (own) found.set(`${own.label}\n${one.path}\n`, { parts, cursor: "", pieces: piecesOf(parts, own.refs.length) });
  }
  return found;
}

/** @param {Theme} theme @param {number} part of the ramp, 0 to 1 */
function rampAt(theme, part) {
  const stops = RAMPS[theme];
  const at = Math.min(Math.floor(part * (stops.length - 1)), stops.length - 2);
  const rest = part * (stops.length - 1) - at;
  const mixed = [1, 3, 5].map((place) => {
    const [a, b] = [stops[at], stops[at + 1]].map((one) => parseInt(one.slice(place, place + 2), 16));
    return Math.round(a + rest * (b - a)).toString(16).padStart(2, "0");
  });
  return `#${mixed.join("")}`;
}

/**
 * Find the colours of runs by what they recorded.
 * @param {any} api
 * @param {readonly RunRef[]} runs
 * @param {Group[] | null} groups
 * @param {View} view
 * @param {AbortSignal} signal
 * @returns {Promise<Valued | null>} null for groups whose runs may differ in it
 */
export async function colouring(api, runs, groups, { by, project }, signal) {
  const body = { id: runs.map((run) => run.id), by, columns: [], unknown: "tell", trashed: null, project: project || null };
  if (groups?.some((one) => by.some((path) => !(path in one.by)))) return null;
  const answer = groups ?? (await api.read("groups", body, { signal }));
  /** @type {Map<string, {value: any, size: number, keys: string[]}>} */
  const found = new Map();
  for (const one of answer) {
    const some = by.map((path) => one.by[path] ?? null);
    const name = JSON.stringify(some.map((value) => (typeof value === "number" ? precise(value) : value)));
    const same = found.get(name) ?? { value: some.length === 1 ? some[0] : some, size: 0, keys: [] };
    same.size += one.refs.length;
    same.keys.push(...(groups ? [one.label] : one.refs.map((/** @type {[string, string]} */ ref) => ref[1])));
    found.set(name, same);
  }
  const none = (/** @type {any} */ value) => value === null || (Array.isArray(value) && value.length === by.length && by.length > 1 && value.every((one) => one === null));
  const text = (/** @type {any} */ value) => (value === null ? "–" : typeof value === "number" ? number(value) : String(value));
  const label = (/** @type {any} */ value) => (none(value) ? "not set" : Array.isArray(value) ? value.map(text).join(", ") : text(value));
  const set = [...found.values()].filter((one) => !none(one.value));
  const numbers = set.every((one) => Number.isFinite(one.value));
  set.sort((a, b) => (numbers ? a.value - b.value : label(a.value).localeCompare(label(b.value), "en", { numeric: true })));
  const [low, high] = [set[0]?.value, set[set.length - 1]?.value];
  const ramp = numbers && set.length > COLOURED ? { low, high, log: low > 0 && high / low >= 100 } : null;
  const part = (/** @type {number} */ value) => (ramp?.log ? Math.log(value / low) / Math.log(high / low) : value / 2 - low / 2) / (ramp?.log ? 1 : high / 2 - low / 2);
  // If there are more values than colours, the values of most runs have colours.
  const most = new Set([...set].sort((a, b) => b.size - a.size).slice(0, COLOURED));
  const slots = new Map(set.filter((one) => most.has(one)).map((one, at) => [label(one.value), at]));
  const colours = /** @type {Valued["colours"]} */ ({ light: {}, dark: {} });
  const values = [...set, ...[...found.values()].filter((one) => none(one.value))].map(({ value, size, keys }) => {
    const slot = slots.get(label(value)) ?? -1;
    const of = (/** @type {Theme} */ theme) => (none(value) ? GREY[theme] : ramp ? rampAt(theme, part(value)) : (PALETTE[theme][slot] ?? GREY[theme]));
    const colour = { light: of("light"), dark: of("dark") };
    for (const key of keys) [colours.light[key], colours.dark[key]] = [colour.light, colour.dark];
    return { label: label(value), runs: size, colour };
  });
  return { key: JSON.stringify([by, values, colours]), colours, values, ramp };
}

/** Explain the colours. @param {{valued: Valued, by: string[], theme: Theme}} props */
export function ValueKey({ valued: { values, ramp }, by, theme }) {
  const [open, setOpen] = useState(false);
  const grey = (/** @type {{label: string, colour: Record<Theme, string>}} */ one) => one.colour[theme] === GREY[theme];
  const shown = values.filter((one) => (ramp ? grey(one) : one.label === "not set" || !grey(one)));
  const stops = [0, 0.25, 0.5, 0.75, 1].map((part) => rampAt(theme, part));
  const few = open ? shown : shown.slice(0, MOST_IN_ROW);
  return html`<ul class=${`charts-key${open ? " open" : ""}`} aria-label="What colours stand for"><li class="charts-note" title=${by.join(", ")}>${by.map((one) => one.slice(one.lastIndexOf("/") + 1)).join(", ")}:</li>
    ${ramp && html`<li class="charts-ramp"><span>${number(ramp.low)}</span><i style=${{ background: `linear-gradient(90deg, ${stops.join(", ")})` }}></i><span>${number(ramp.high)}</span>${ramp.log && " (log)"}</li>`}
    ${few.map((one) => html`<li key=${one.label} class="charts-value"><i style=${{ background: one.colour[theme] }}></i><bdi>${one.label}</bdi> <small>${count(one.runs, "run")}</small></li>`)}
    ${!ramp && values.length > shown.length && html`<li class="charts-note">${count(values.length - shown.length, "further value")} in grey</li>`}
    ${shown.length > MOST_IN_ROW && html`<li><button type="button" class="charts-more" aria-expanded=${open ? "true" : "false"} onClick=${() => setOpen(!open)}>${open ? "less" : `+${shown.length - MOST_IN_ROW}`}</button></li>`}
  </ul>`;
}

const MACHINE = /^(monitoring|source_code|sys)\//;

/** Choose what curves are coloured by. @param {{api: any, runs: RunRef[], view: View}} props */
export function ColourChooser({ api, runs, view }) {
  const [text, setText] = useState("");
  const input = useFocused();
  const ids = runs.map((run) => run.id);
  const { data, error } = useAnswer(
    (/** @type {AbortSignal} */ signal) => api.read("fields", { id: ids, project: view.project || null, trashed: null, unknown: "tell", limit: 1000 }, { signal }),
    [api, ids.join()],
  );
  /** @type {string[]} */
  const paths = (data ?? []).filter((/** @type {any} */ one) => one.differing && ["atom", "float_series"].includes(one.family)).map((/** @type {any} */ one) => one.path);
  // Facts about the machine come last.
  paths.sort((a, b) => Number(MACHINE.test(a)) - Number(MACHINE.test(b)));
  // A box that is checked keeps its place, and with it the focus.
  const first = useRef(view.by).current;
  const word = text.toLowerCase();
  const found = [...new Set([...first, ...paths])].filter((path) => path.toLowerCase().includes(word)).slice(0, 100);
  const toggle = (/** @type {string} */ path) => write({ by: view.by.includes(path) ? view.by.filter((one) => one !== path) : [...view.by, path].slice(-MOST_BY) });
  return html`<div class="pad"><${Filter} own=${input} hint="Type to filter" label="Filter parameters" value=${text} onText=${setText} />
    <div class="pick" role="group" aria-label="Colour by">
      ${found.map((path) => html`<${Check} key=${path} on=${view.by.includes(path)} onCheck=${() => toggle(path)}><bdi>${path}</bdi><//>`)}
      ${!found.length && html`<p class="muted">${error ? String(error.hint) : data ? "Nothing differs." : "Looking …"}</p>`}
    </div><button type="button" disabled=${!view.by.length} onClick=${() => { write({ by: [] }); input.current?.focus(); }}>By run</button></div>`;
}
