// @ts-check
/** Groups of runs one below the other, the lists to choose from, and tables as CSV. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { write } from "./address.js";
import { ALWAYS, MOST_COLUMNS, aParameter, ascendsFirst, endOf, goodEnd, splitColumn, titleOf } from "./columns.js";
import { Check, ErrorBox, Filter, Pager, useAnswer } from "./components.js";
import { csvOf, download } from "./copies.js";
import { bracketed, matcher, quotedPath, quotedValue, queryOf } from "./finding.js";
import { count, duration, exact, number, value } from "./format.js";
import { StatChooser, statOf } from "./groups.js";
import { CSV_MOST, SIZE, isOfQuery, tableOf, which } from "./rows.js";
import { SortHead } from "./table.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./rows.js").Ref} Ref */

/** The column of the number of runs, as the server names it. */
const COUNT = ":n";

/**
 * Groups of runs, one below the other.
 *
 * @typedef {{by: Record<string, any>, refs: [string, string][],
 *   values: Record<string, {n: number, odd: number, mean: number | null, std: number | null,
 *     min: number | null, max: number | null, median: number | null, distinct: number, same: string | null}>}} Group
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
  /** @type {Group[]} */
  const groups = data?.answer ?? [];
  // The order that is shown, until the other one that is asked for has come.
  const { order: path = "", least_first: ascending = true } = data ?? {};
  // The answer to the query before stays: an error of the query is shown beside the query.
  if (error && !(data && (isOfQuery(error, view) || error.error === "lost"))) return html`<${ErrorBox} error=${error} onRetry=${again} />`;
  const shown = numbers.filter((path) => groups.some((one) => one.values[path]?.distinct));
  const inside = (/** @type {Group} */ group) => {
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

/** A hook for an element that has the focus as soon as it is there. */
function useFocused() {
  /** @type {{current: any}} */
  const ref = useRef(null);
  useEffect(() => ref.current?.focus({ preventScroll: true }), []);
  return ref;
}

/**
 * The list of columns to choose from, in a menu.
 *
 * @typedef {{path: string, family: string, count: number, differing: boolean}} Field
 * @param {{api: Api, view: View, shown: string[], onChange: (cols: string[]) => void}} props
 */
export function Chooser({ api, view, shown, onChange }) {
  const focused = useFocused();
  const [text, setText] = useState("");
  const [differing, setDiffering] = useState(true);
  const { data, error, busy } = useAnswer(
    (signal) => api.read("fields", { project: view.project || null, query: queryOf(view.q) || null, unknown: "tell" }, { signal }),
    [api, view.project, view.q],
  );
  const fits = matcher(text);
  /** @type {Field[]} */
  const fields = (data ?? []).filter((/** @type {Field} */ one) => fits(one.path));
  const others = shown.filter((path) => !fields.some((one) => one.path === path) && fits(path));
  const found = [...others.map((path) => ({ path, family: "", count: 0 })), ...fields.filter((one) => !differing || one.differing || shown.includes(one.path))];
  // Those that are shown come first, in their order.
  const places = new Map(shown.map((path, n) => [path, n]));
  found.sort((a, b) => (places.get(a.path) ?? shown.length) - (places.get(b.path) ?? shown.length));
  const full = shown.length >= MOST_COLUMNS;
  const toggle = (/** @type {string} */ path) =>
    onChange(shown.includes(path) ? shown.filter((one) => one !== path) : [...shown, path]);
  const numeric = ["float_series", "statistic"];
  return html`<div class="pad">
    <${Filter} own=${focused} hint="Words, * or /…/" label="Filter columns" value=${text} onText=${setText} />
    <${Check} on=${differing} onCheck=${setDiffering}> Only those that differ<//>
    <div class="pick" role="group" aria-label="Columns">
      ${found.slice(0, 200).map((one) => {
        const on = shown.includes(one.path);
        return html`<${Check} key=${one.path} on=${on} disabled=${full && !on} onCheck=${() => toggle(one.path)}>
          <bdi>${titleOf(one.path) === one.path ? one.path : `${titleOf(one.path)} (${one.path})`}</bdi>${view.pins.includes(one.path) && " (pinned)"}
          ${one.count > 0 && html`<small>${count(one.count, "run")}</small>`}
          ${numeric.includes(one.family) &&
          html`<span class="aggregates">${["min", "max"].map((word) => {
            const path = `${one.path}:${word}`;
            return html`<button type="button" aria-pressed=${String(shown.includes(path))}
              disabled=${full && !shown.includes(path)} title=${path}
              onClick=${() => toggle(path)}>${word}</button>`;
          })}</span>`}
        <//>`;
      })}
      ${found.length > 200 && html`<p class="muted">${number(found.length - 200)} more: type to filter.</p>`}
      ${!found.length && html`<p class="muted">${busy ? "Looking …" : error ? String(error.hint) : fields.length ? `None that differs: take the tick away to see ${fields.length} more.` : "None."}</p>`}
    </div>
    <div class="row"><small class="grow">${shown.length} of at most ${MOST_COLUMNS}</small>
      <button type="button" onClick=${() => onChange([])}>As at first</button></div>
  </div>`;
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

/**
 * Save a table as CSV.
 * @param {Api} api
 * @param {View} view
 * @param {string[]} columns
 * @param {Ref[] | null} refs of which runs; null: all that match
 * @returns {Promise<{saved: number, total: number}>}
 */
export async function saveTable(api, view, columns, refs) {
  const project = view.project;
  const asked = [...new Set([...ALWAYS, ...columns])];
  const of = refs ? { project: project || null, id: refs.map((one) => one[1]), trashed: null, sort_by: view.sort, ascending: view.ascending, unknown: "tell" } : which(view);
  const made = tableOf(await api.read("table", { ...of, columns: asked, limit: CSV_MOST }), "");
  const lines = made.rows.map((row) => [row.ref[0], row.ref[1], ...asked.map((one) => row.values.get(one))]);
  download(`${(project || "runs").replaceAll("/", "-")}.csv`, csvOf([["project", "run", ...asked], ...lines], "\r\n"), "text/csv;charset=utf-8");
  return { saved: made.rows.length, total: made.total };
}
