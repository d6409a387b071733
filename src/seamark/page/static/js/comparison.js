// @ts-check
/** Runs side by side: their values, charts, code and images. */

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { linkTo, refOf, write } from "./address.js";
import { colourOf, useTheme } from "./colours.js";
import { COUNTERS, aParameter, ascendsFirst, endOf, goodEnd, isAside } from "./columns.js";
import { Check, Empty, ErrorBox, Filter, Later, Menu, Middle, Pager, State, tell, useAnswer, useModule } from "./components.js";
import { matcher } from "./finding.js";
import { copyExact, digitsBeside, exact, number, whole } from "./format.js";
import { isNumber, tableOf, which } from "./rows.js";
import { SortHead, cellOf } from "./table.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./rows.js").Ref} Ref */
/** @typedef {import("./rows.js").Row} Row */

const MOST = 60;
/** The most runs that are columns; more are rows. */
const BESIDE = 8;
/** The values that are shown at a time: as rows, and as columns. */
const [MOST_ROWS, MOST_COLUMNS] = [100, 20];
/** Values that every run has of its own, so that they always differ. */
const OWN = /^(monitoring\/.*|sys\/(.*_time|.*_hash|id|custom_run_id|revision|progress))$/;
/** @type {{rows: Row[], metrics: Set<string>}} */
const NOTHING = { rows: [], metrics: new Set() };
const HIDDEN = ["sys/id", "sys/name", "sys/state", "sys/trashed"];

/** @param {string} path */
function sectionOf(path) {
  const slash = path.indexOf("/");
  return slash < 0 ? "" : path.slice(0, slash);
}

/**
 * The rank of a value: parameters, metrics, other values, and facts about the machine.
 * @param {string} path
 * @param {Set<string>} metrics
 */
function rank(path, metrics) {
  if (path.startsWith("source_code/")) return 5;
  if (path.startsWith("sys/")) return 6;
  if (isAside(path)) return 7;
  if (metrics.has(path)) return COUNTERS.test(path) ? 3 : 2;
  return aParameter(path) ? 4 : 1;
}

/**
 * What is shown of a path: its value; of a metric its last one, and its best, least and greatest.
 * @typedef {{key: string, path: string, word: string, isBest: boolean}} Part
 * @param {string} path @param {Set<string>} metrics
 * @returns {Part[]}
 */
function partsOf(path, metrics) {
  const last = { key: path, path, word: "", isBest: false };
  if (!metrics.has(path) || COUNTERS.test(path) || isAside(path)) return [last];
  const end = goodEnd(path);
  const words = end === "max" ? ["max", "min"] : ["min", "max"];
  return [last, ...words.map((word) => ({ key: `${path}:${word}`, path, word: word === end ? "best" : word, isBest: word === end }))];
}

/**
 * A hook for the runs to compare, in their order: as they were selected, or as they are sorted.
 * @param {Api} api @param {View} view @param {number} version
 */
function useRefs(api, view, version) {
  const all = view.selected[0] === "*";
  const sorted = all || view.selected.length > BESIDE;
  const { sort, ascending } = view;
  return useAnswer(
    async (signal) => {
      const given = view.selected.slice(0, MOST).map((one) => refOf(one, view.project));
      const some = all ? which(view) : { id: given.map((one) => one[1]), trashed: null, unknown: "tell", ...(sorted ? { sort_by: sort, ascending } : {}) };
      const { answer, total } = given.length ? await api.whole("select", { ...some, limit: MOST }, { signal }) : { answer: [], total: 0 };
      const there = new Map(answer.map((/** @type {Ref} */ one) => [one.join("\n"), one]));
      /** @type {Ref[]} */
      const refs = sorted ? answer : given.filter((one) => there.has(one.join("\n")));
      return { refs, sort, ascending, total: all ? Number(total) : view.selected.length, gone: all ? 0 : given.length - refs.length };
    },
    [api, view.project, view.selected.join(), all && JSON.stringify(which(view)), sorted && `${sort} ${ascending}`, version],
  );
}

/**
 * Read all that runs have: their rows, and which of the paths are metrics.
 * @param {Api} api @param {Ref[]} refs @param {string} project @param {AbortSignal} signal
 */
async function readAll(api, refs, project, signal) {
  if (!refs.length) return NOTHING;
  const asked = { id: refs.map((one) => one[1]), project: null, trashed: null, unknown: "tell", limit: MOST, columns: null };
  const { rows } = tableOf(await api.read("table", asked, { signal }), project);
  /** @type {[string, string, string[]][]} */
  const series = await api.read("series_paths", { refs }, { signal });
  return { rows, metrics: new Set(series.flatMap((one) => one[2])) };
}

/** @param {{api: Api, view: View, live: import("./api.js").Live}} props */
export function CompareScreen({ api, view, live }) {
  const { project } = view;
  const theme = useTheme();
  const [filter, setFilter] = useState("");
  const [page, setPage] = useState(0);
  const [version, setVersion] = useState(0);
  const refs = useRefs(api, view, version);
  const order = (refs.data?.refs ?? []).map((one) => one.join("/"));
  const same = [...order].sort().join();
  const values = useAnswer((signal) => readAll(api, refs.data?.refs ?? [], project, signal), [api, project, same, version]);
  useEffect(
    () => live.subscribe((changed) => (!changed || view.selected[0] === "*" || changed.some((one) => order.includes(`${one.project}/${one.run}`))) && setVersion((/** @type {number} */ n) => n + 1)),
    [live.subscribe, same, view.selected[0]],
  );
  const { rows: found, metrics } = values.data ?? NOTHING;
  const rows = useMemo(() => {
    const by = new Map(found.map((one) => [one.ref.join("/"), one]));
    return order.flatMap((one) => by.get(one) ?? []);
  }, [found, order.join()]);
  useEffect(() => tell({ running: rows.filter((one) => one.state === "running").length, crashed: rows.filter((one) => one.state === "crashed").length, title: "Compare" }), [rows]);
  const paths = useMemo(() => {
    const shown = [...new Set(found.flatMap((one) => [...one.values.keys()]))].filter((path) => !HIDDEN.includes(path));
    return shown.sort((a, b) => rank(a, metrics) - rank(b, metrics) || (sectionOf(a) < sectionOf(b) ? -1 : sectionOf(a) > sectionOf(b) ? 1 : a < b ? -1 : 1));
  }, [found]);
  const differs = useMemo(() => new Set(paths.filter((path) => !OWN.test(path) && new Set(found.map((one) => exact(one.values.get(path)))).size > 1)), [paths]);
  const fits = matcher(filter);
  const shown = paths.filter((path) => (view.all || differs.has(path)) && fits(path));
  const turned = rows.length > BESIDE;
  const size = turned ? MOST_COLUMNS : MOST_ROWS;
  const at = Math.min(page, Math.max(0, Math.ceil(shown.length / size) - 1));
  const here = shown.slice(at * size, (at + 1) * size);
  const ends = useEnds(api, rows, here.filter((path) => partsOf(path, metrics).length > 1), project);
  const runs = useMemo(() => found.map((one) => ({ project: one.ref[0], id: one.ref[1], name: one.name, state: one.state })), [found]);
  const charts = useModule("./charts.js");
  const base = rows.find((one) => one.key === view.baseline) ?? (rows.length > BESIDE ? undefined : rows[0]);
  // Not drawn again with each page and each letter of the filter: there may be thousands of charts.
  const below = useMemo(
    () => html`${charts.module && html`<${charts.module.Charts} api=${api} runs=${runs} view=${view} live=${live} />`}
      <${Later} of="./differences.js" part="Code" api=${api} runs=${runs} base=${base?.ref[1] ?? ""} />
      <${Later} of="./differences.js" part="Images" api=${api} runs=${runs} version=${version} />`,
    [charts.module, api, runs, view, live, base?.key, version],
  );
  const place = useRef(/** @type {HTMLElement | null} */ (null));
  useWidth(place, rows.length > 0);
  const back = () => write({ screen: "runs" }, { push: true });
  if (!view.selected.length) {
    return html`<${Empty} title="Nothing is selected to compare">
      <p>Tick at least two runs in the table.</p><button type="button" onClick=${back}>To the runs</button><//>`;
  }
  const ids = runs.map((one) => one.id);
  const colours = new Map(rows.map((row) => [row.key, colourOf(row.ref[1], ids, theme, view.colours)]));
  const told = `${whole(shown.length)} of ${whole(paths.length)} values`;
  const { gone = 0, total = 0 } = refs.data ?? {};
  const error = refs.error ?? values.error ?? ends.error;
  return html`<div class="comparison" ref=${place}>
    <div class="title">
      <button type="button" onClick=${back}>‹ Runs</button>
      <h1>Compare ${number(rows.length)} runs</h1>
      <span class="grow"></span>
      ${rows.length > 0 && [[".charts", "Charts"], [".code-of-both", "Code"], [".images-of-all", "Images"]].map(([at, word]) => html`<button type="button" class="link" key=${word} onClick=${() => place.current?.querySelector(at)?.scrollIntoView()}>${word}</button>`)}
      <${Check} on=${!view.all} onCheck=${(/** @type {boolean} */ on) => [write({ all: !on }), setPage(0)]}> Only what differs<//>
      <${Filter} label="Filter values" value=${filter} onText=${(/** @type {string} */ text) => [setFilter(text), setPage(0)]} />
    </div>
    ${error && html`<${ErrorBox} error=${error} onRetry=${() => setVersion(version + 1)} />`}
    ${gone > 0 && html`<p class="chosen warn">${number(gone)} of ${number(total)} runs are not in this folder.</p>`}
    ${total > MOST && html`<p class="chosen">The first ${MOST} of ${number(total)} runs.</p>`}
    ${refs.data && !refs.data.refs.length && html`<${Empty} title="No run to compare" />`}
    ${!values.data?.rows.length && (refs.busy || values.busy) && html`<p class="starting">Reading …</p>`}
    ${rows.length > 0 &&
    html`<${turned ? Turned : Beside} rows=${rows} ends=${ends.data ?? new Map()} base=${base} colours=${colours} metrics=${metrics} paths=${here} view=${view} sorted=${refs.data}
        count=${told} now=${Math.floor(api.now() / 60e3)} />
      <div class="under">${turned && html`<span class="muted">${told}</span>`}<${Pager} page=${at} size=${size} total=${shown.length} word="values" onPage=${setPage} />
        ${!shown.length && html`<p class="starting">${filter ? "No value has this in its name." : "These runs show the same everywhere."}</p>`}</div>
      ${below}`}
  </div>`;
}

/**
 * A hook that tells the styles how much of what scrolls is in sight: the table may be wider, and what
 * is below it is not to be.
 * @param {{current: HTMLElement | null}} place @param {boolean} isThere
 */
function useWidth(place, isThere) {
  useLayoutEffect(() => {
    const main = place.current?.closest("main");
    if (!main) return undefined;
    const observer = new ResizeObserver(([{ contentRect }]) => place.current?.style.setProperty("--seen", `${contentRect.width}px`));
    observer.observe(main);
    return () => observer.disconnect();
  }, [isThere]);
}

/**
 * A hook for the least and greatest values of metrics, by run and by `PATH:min` and `PATH:max`.
 * @param {Api} api @param {Row[]} rows @param {string[]} paths @param {string} project
 */
function useEnds(api, rows, paths, project) {
  const id = rows.map((one) => one.ref[1]).sort();
  return useAnswer(
    async (signal) => {
      const columns = paths.flatMap((path) => [`${path}:min`, `${path}:max`]);
      if (!columns.length) return new Map();
      const asked = { id, project: null, trashed: null, unknown: "tell", limit: MOST, columns };
      return new Map(tableOf(await api.read("table", asked, { signal }), project).rows.map((one) => [one.key, one.values]));
    },
    [api, project, id.join(), paths.join("\n"), rows],
  );
}

/**
 * @typedef {{rows: Row[], ends: Map<string, Map<string, any>>, base: Row | undefined, colours: Map<string, string>, metrics: Set<string>,
 *   paths: string[], view: View, sorted: any, count: string, now: number}} SheetProps
 */

/**
 * A function that makes the cell of a part and of the run with a number: with its distance from the
 * baseline, and marked if it is the best.
 * @param {SheetProps} props
 */
function cellsOf({ rows, ends, base, now }) {
  const valueOf = (/** @type {Row | undefined} */ row, /** @type {Part} */ part) => row && (part.word ? ends.get(row.key)?.get(part.key) : row.values.get(part.key));
  /** @type {Map<string, number>} */
  const best = new Map();
  const bestOf = (/** @type {Part} */ part) => {
    if (!best.has(part.key)) {
      const numbers = rows.map((row) => valueOf(row, part)).filter((one) => typeof one === "number" && Number.isFinite(one));
      best.set(part.key, numbers.length < 2 ? NaN : part.key.endsWith(":max") ? Math.max(...numbers) : Math.min(...numbers));
    }
    return best.get(part.key);
  };
  return (/** @type {Part} */ part, /** @type {number} */ n) => {
    const [one, first] = [valueOf(rows[n], part), rows[n] === base ? undefined : valueOf(base, part)];
    const same = base && rows[n] !== base && exact(one) === exact(first);
    const isBest = part.isBest && one !== undefined && one === bestOf(part);
    const near = isNumber(one) ? [valueOf(rows[n - 1], part), valueOf(rows[n + 1], part)] : [];
    const apart = typeof one === "number" && typeof first === "number" && one !== first && Number.isFinite(one - first);
    return cellOf(one, part.key, apart ? first : undefined, `${same ? "same" : ""} ${isBest ? "best" : ""}`, now, digitsBeside(one, near));
  };
}

/**
 * The head of a run: its name and state, and a menu.
 * @param {{row: Row, base: Row | undefined, colour: string, scope: "row" | "col"}} props
 */
function RunHead({ row, base, colour, scope }) {
  const there = { project: row.ref[0], run: row.ref[1], tab: "" };
  return html`<th scope=${scope} class="run ${row === base ? "base" : ""}">
    <div><span class="swatch on" style=${{ background: colour }}></span><a ...${linkTo(there)} title=${row.name} aria-label=${row.name}><${Middle} text=${row.name} /></a></div>
    <div class="under"><${State} state=${row.state} brief=${row === base} />${row === base && html` <small>baseline</small>`}</div>
    <${Menu} className="more" label="⋯" title="More about ${row.name}" items=${() => [
      { label: "Open", onPick: () => write(there, { push: true }) },
      ...(row === base && scope === "col" ? [] : [{ label: row === base ? "No longer the baseline" : "Baseline: others show their difference", onPick: () => write({ baseline: row === base ? "" : row.key }) }]),
    ]} /></th>`;
}

/** A column for each run, a row for each value. @param {SheetProps} props */
function Beside(props) {
  const { rows, base, colours, metrics, paths, count } = props;
  const cell = cellsOf(props);
  let section = "";
  const lines = [];
  for (const path of paths) {
    const name = sectionOf(path);
    const here = `${rank(path, metrics)}/${name}`;
    if (here !== section) lines.push(html`<tr class="section" key=${`/${here}`}><th scope="rowgroup" colspan=${rows.length + 1}><bdi>${name || "at the root"}</bdi></th></tr>`);
    section = here;
    const parts = partsOf(path, metrics);
    for (const part of parts) {
      lines.push(html`<tr key=${part.key} class="${part.word && "part"} ${part === parts[parts.length - 1] ? "" : "open"}">
        <th scope="row" title=${part.key}>${part.word && html`<span class="unseen"><bdi>${path}</bdi> </span>`}<bdi>${part.word || path.slice(name ? name.length + 1 : 0)}</bdi></th>
        ${rows.map((row, n) => Object.assign(cell(part, n), { key: row.key }))}</tr>`);
    }
  }
  return html`<table class="runs compare" onCopy=${copyExact}>
    <caption class="unseen">Values of ${rows.length} runs beside each other</caption>
    <thead><tr><th scope="col" class="run"><span class="muted">${count}</span></th>
      ${rows.map((row) => html`<${RunHead} key=${row.key} row=${row} base=${base} colour=${colours.get(row.key) ?? ""} scope="col" />`)}</tr></thead>
    <tbody>${lines}</tbody></table>`;
}

/** A row for each run, a column for each value, by which the runs can be sorted. @param {SheetProps} props */
function Turned(props) {
  const { rows, base, colours, metrics, paths, view, sorted, count } = props;
  const cell = cellsOf(props);
  const parts = paths.flatMap((path) => partsOf(path, metrics));
  const head = (/** @type {string} */ key, /** @type {string} */ title, /** @type {string} */ text, /** @type {string} */ name, /** @type {boolean} */ rises) => {
    const isSorted = sorted?.sort === key;
    return html`<${SortHead} key=${key} class=${name} sorted=${isSorted && (sorted.ascending ? "ascending" : "descending")} by=${title} title=${title} text=${text}
      onSort=${() => write({ sort: key, ascending: view.sort === key ? !view.ascending : rises, page: 0 }, { push: true })} />`;
  };
  return html`<table class="runs compare turned" onCopy=${copyExact}>
    <caption class="unseen">Values of ${rows.length} runs below each other: ${count}</caption>
    <thead><tr>${head("sys/name", "Name", "Name", "run", true)}
      ${parts.map(({ key, path, word }) => head(key, word ? `${path}, ${word}` : path, word || endOf(path, paths), word ? "part numeric" : rows.some((row) => isNumber(row.values.get(path))) ? "numeric" : "", word ? key.endsWith(":min") : ascendsFirst(path)))}</tr></thead>
    <tbody>${rows.map((row, n) => html`<tr key=${row.key}>
      <${RunHead} row=${row} base=${base} colour=${colours.get(row.key) ?? ""} scope="row" />
      ${parts.map((part) => cell(part, n))}</tr>`)}</tbody></table>`;
}
