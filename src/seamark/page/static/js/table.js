// @ts-check
/** The runs of a project: a table of pages of 200, and below it the charts of some of them. */

import { Component, html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { START, href, keyOf, read, refOf, write } from "./address.js";
import { isBusy } from "./api.js";
import { colourOf, useValued } from "./colours.js";
import { ALWAYS, ColumnChooser, Later, columnsOf, endOf, splitColumn, telling, titleOf } from "./columns.js";
import { Badge, Banner, Empty, ErrorBox, Menu, Pager, State, Time, isTyping, tell, useAnswer, useModule } from "./components.js";
import { count, duration, exact, number, time, value } from "./format.js";
import { QueryField } from "./query.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./main.js").Live} Live */
/** @typedef {import("./main.js").Root} Root */
/** @typedef {[string, string]} Ref */
/**
 * @typedef {{key: string, ref: Ref, name: string, state: string, created: Date | null,
 *   tags: string[], values: Map<string, any>}} Row
 * @typedef {{rows: Row[], total: number, offset: number, told: string[], question: string}} Table
 */

export const SIZE = 200;
/** So many rows are drawn first: what the window shows of them, and a few. */
const AT_ONCE = Math.max(16, Math.ceil((innerHeight * 0.62) / 30) + 3);
/** As many more follow at a time, when the browser has nothing else to do. */
const BLOCK = 40;
const COUNTED_MS = 1000;
const CHANGED_MS = 1200;
const QUIET_MS = 40;
const PATIENT_MS = 1000;
const NEWEST = 5;
const NONE = "-";
/** The row that was opened last, to which Back leads. */
let opened = "";
/** @type {Map<string, any>} */
const EMPTY = new Map();
const NOT_KNOWN = { losses: EMPTY, attempts: EMPTY, openings: EMPTY, reasons: EMPTY };
const CURVE_PX = 48;
const CURVES_AT_ONCE = 50;
export const CSV_MOST = 10000;

const FIVE_LINES = `import seamark
run = seamark.init_run(project="first")
run["params"] = {"lr": 0.1}
for step in range(100): run["loss"].append(1 / (1 + step), step=step)
run.stop()`;

/**
 * @param {any} said an answer of `table`
 * @param {string} project
 * @param {string[]} [told] what is said of paths that no run has
 * @returns {Table}
 */
export function tableOf(said, project, told = []) {
  const { columns, cells, refs, total, offset } = said.table;
  const rows = refs.map((/** @type {Ref} */ ref, /** @type {number} */ at) => {
    const values = new Map();
    for (let n = 0; n < columns.length; n += 1) {
      const one = cells[n][at];
      if (one !== null) values.set(columns[n], one);
    }
    return {
      key: keyOf(ref[0], ref[1], project),
      ref,
      name: String(values.get("sys/name") ?? said.names?.[at] ?? ref[1]),
      state: String(values.get("sys/state") ?? ""),
      created: values.get("sys/creation_time") ?? null,
      tags: values.get("sys/tags") ?? [],
      values,
    };
  });
  return { rows, total, offset, told, question: "" };
}

/**
 * A table in which a row that says the same as before is the same object, and is not drawn anew.
 * @param {Table} fresh @param {Table | null} before @param {string} question
 * @returns {Table}
 */
function keeping(fresh, before, question) {
  const known = new Map((before?.rows ?? []).map((one) => [one.key, one]));
  const rows = fresh.rows.map((row) => {
    const was = known.get(row.key);
    return was && was.values.size === row.values.size && [...row.values].every(([path, one]) => isSame(one, was.values.get(path))) ? was : row;
  });
  return { ...fresh, rows, question };
}

/** @param {any} a @param {any} b */
function isSame(a, b) {
  if (Object.is(a, b)) return true;
  return typeof a === "object" && typeof b === "object" && a !== null && b !== null && exact(a) === exact(b);
}

/** Which runs of a view are meant. @param {View} view */
export function which(view) {
  return {
    project: view.project || null,
    query: view.q || null,
    trashed: view.trashed,
    sort_by: view.sort,
    ascending: view.ascending,
    unknown: "refuse",
  };
}

/** Whether a query cannot be answered as it is written. @param {any} error @param {View} view */
export function isOfQuery(error, view) {
  return Boolean(error && view.q && /^query/.test(String(error.hint)));
}

/** @param {any} one @returns {boolean} */
function isNumber(one) {
  return typeof one === "number" || typeof one === "bigint";
}

/**
 * The keys of the runs that are drawn.
 * @param {View} view
 * @param {Row[]} rows
 * @param {string[]} newest
 */
function drawnKeys(view, rows, newest) {
  if (view.drawn.length) return view.drawn.filter((one) => one !== NONE);
  if (view.selected[0] === "*") return rows.map((one) => one.key).slice(0, 40);
  return view.selected.length ? view.selected : newest;
}

/**
 * The first page of what is asked, then the same rows as often as something changed.
 * @param {{api: Api, view: View, columns: string[] | null, live: Live}} given
 */
function useTable({ api, view, columns, live }) {
  const [table, setTable] = useState(/** @type {Table | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(true);
  const [turn, setTurn] = useState(0);
  const [news, setNews] = useState({ more: 0, moved: false });
  const question = questionOf(view);
  const asked = JSON.stringify([view.project, view.q, view.trashed, view.sort, view.ascending, view.page, turn]);
  const body = {
    ...which(view),
    limit: SIZE,
    offset: view.page * SIZE,
    columns: columns && [...new Set([...ALWAYS, ...columns])],
  };
  const project = view.project;

  // Before what is shown is painted pale: with many rows that takes longer than to ask.
  useLayoutEffect(() => {
    if (!columns) return undefined;
    const ended = new AbortController();
    setBusy(true);
    api.whole("table", body, { signal: ended.signal }).then(
      ({ answer, told }) => {
        if (ended.signal.aborted) return;
        const made = tableOf(answer, project, told);
        setTable((was) => keeping(made, was, question));
        setError(null);
        setBusy(false);
        setNews({ more: 0, moved: false });
      },
      (failed) => {
        if (ended.signal.aborted) return;
        setError(failed);
        setBusy(false);
      },
    );
    return () => ended.abort();
  }, [api, asked, JSON.stringify(columns)]);

  // What changed is put where it stands; that others came or rows moved is only said. A slow server
  // is asked again when it has answered, never twice at a time.
  /** @type {{current: any}} */
  const looking = useRef(null);
  const [turned, setTurned] = useState(0);
  useEffect(() => {
    if (!live.tick || !table || !columns || busy || error) return undefined;
    if (looking.current && looking.current.table === table) {
      looking.current.again = true;
      return undefined;
    }
    const mine = { table, again: false, ended: new AbortController() };
    looking.current?.ended.abort();
    looking.current = mine;
    const there = new Set(table.rows.map((one) => `${one.ref[0]}/${one.ref[1]}`));
    const touched = live.reset || turned > 0 || live.changed.some((one) => there.has(`${one.project}/${one.run}`));
    const signal = mine.ended.signal;
    const look = async () => {
      /** @type {Row[] | null} */
      let rows = null;
      if (touched && table.rows.length) {
        // Those that are shown, in the order in which they are shown, whatever holds of them now.
        const shown = { project: body.project, trashed: null, id: table.rows.map((one) => one.ref[1]), columns: body.columns };
        const found = new Map(tableOf(await api.read("table", shown, { signal }), project).rows.map((one) => [one.key, one]));
        rows = table.rows.flatMap((one) => found.get(one.key) ?? []);
      }
      const { columns: _, ...rest } = body;
      const { answer: refs, total } = await api.whole("select", rest, { signal });
      if (looking.current !== mine) return;
      looking.current = null;
      const order = refs.map((/** @type {Ref} */ one) => one.join("/")).join();
      const before = table.rows.map((one) => one.ref.join("/")).join();
      setNews({ more: Number(total) - table.total, moved: order !== before });
      if (rows) {
        const made = keeping({ ...table, rows }, table, table.question);
        setTable((was) => (was === table ? made : was));
      }
      if (mine.again) setTurned(turned + 1);
    };
    look().catch(() => {
      if (looking.current === mine) looking.current = null;
    });
    return undefined;
  }, [live.tick, turned]);
  useEffect(() => () => looking.current?.ended.abort(), []);

  return { table, error, busy, news, again: () => setTurn((/** @type {number} */ n) => n + 1) };
}

/**
 * Small curves of one metric, fetched a few runs at a time; those of runs that changed anew, and
 * forgotten where they are out of view.
 * @param {{api: Api, rows: Row[], path: string, live: Live}} given
 */
function useCurves({ api, rows, path, live }) {
  const [curves, setCurves] = useState(/** @type {Map<string, any>} */ (new Map()));
  const wanted = rows.map((one) => one.ref.join("/")).join();
  useEffect(() => setCurves(new Map()), [api, path]);
  useEffect(() => {
    if (!path || !rows.length) return undefined;
    const ended = new AbortController();
    const changed = new Set(live.changed.map((one) => `${one.project}/${one.run}`));
    const near = new Set(rows.map((one) => one.ref.join("/")));
    const old = [...curves.keys()].filter((one) => changed.has(one) && !near.has(one));
    if (old.length) setCurves((was) => new Map([...was].filter(([one]) => !old.includes(one))));
    const missing = rows.filter((one) => !curves.has(one.ref.join("/")) || changed.has(one.ref.join("/")));
    const fetchAll = async () => {
      for (let at = 0; at < missing.length; at += CURVES_AT_ONCE) {
        const refs = missing.slice(at, at + CURVES_AT_ONCE).map((one) => one.ref);
        const said = await api.read("curves", { refs, paths: [path], px: CURVE_PX }, { signal: ended.signal });
        if (ended.signal.aborted) return;
        setCurves((was) => {
          const next = new Map(was);
          for (const ref of refs) next.set(ref.join("/"), null);
          for (const one of said.curves) next.set(`${one.project}/${one.run}`, one.drawing.curve.mean);
          return next;
        });
      }
    };
    const cancel = whenQuiet(() => fetchAll().catch(() => undefined));
    return () => {
      cancel();
      ended.abort();
    };
  }, [api, path, wanted, live.tick]);
  return curves;
}

/**
 * What is missing of runs and how often they were resumed, by run.
 * @param {Api} api @param {Row[]} rows @param {Live} live
 */
function useHonesty(api, rows, live) {
  const refs = rows.map((one) => one.ref);
  const key = refs.map((one) => one.join("/")).join();
  const { data } = useAnswer(
    async (signal) => {
      if (!refs.length) return null;
      await new Promise((go) => whenQuiet(() => go(null))); // what is shown comes first
      const crashed = rows.filter((one) => one.state === "crashed").map((one) => one.ref);
      const none = () => [];
      const [lost, again, why] = await Promise.all([
        api.read("losses", { refs }, { signal }).catch(none),
        api.features.includes("attempts") ? api.read("attempts", { refs }, { signal }).catch(none) : none(),
        crashed.length ? api.read("crash_reasons", { refs: crashed }, { signal }).catch(none) : none(),
      ]);
      const by = (/** @type {any[] | undefined} */ list) =>
        new Map((list ?? []).map(([project, run, one]) => [`${project}/${run}`, one]));
      return {
        losses: by(lost),
        attempts: by(/** @type {any} */ (again).attempts),
        openings: by(/** @type {any} */ (again).openings),
        reasons: by(why),
      };
    },
    [api, key, rows.map((one) => one.state).join(), Math.floor(live.tick / 5)],
  );
  return data ?? NOT_KNOWN;
}

/**
 * How far the running ones are, by run.
 * @param {Api} api @param {Row[]} rows @param {Live} live
 * @returns {Map<string, any>}
 */
function useProgress(api, rows, live) {
  const running = rows.filter((one) => one.state === "running").map((one) => one.ref[1]);
  const { data } = useAnswer(
    async (signal) => {
      if (!running.length) return EMPTY;
      const said = await api.read("table", { id: running, columns: ["sys/progress"], unknown: "tell" }, { signal });
      return new Map(tableOf(said, "").rows.map((one) => [one.ref.join("/"), one.values.get("sys/progress")]));
    },
    [api, running.join(), live.tick],
  );
  return data ?? EMPTY;
}

/**
 * The newest of the runs that match, whatever the table's order and page; null while unknown.
 * @param {Api} api @param {View} view @param {Table | null} table
 * @param {any} failed why there is no table of this question: those of the one before stay
 * @returns {Row[] | null}
 */
function useNewest(api, view, table, failed) {
  const question = JSON.stringify([view.project, view.q, view.trashed]);
  const isFirst = view.sort === START.sort && !view.ascending && view.page === 0;
  /** @type {{current: {question: string, rows: Row[] | null}}} */
  const known = useRef({ question: "", rows: null });
  const isAsked = !isFirst && known.current.question !== question;
  const asked = useAnswer(
    async (signal) => {
      if (!isAsked) return null;
      const said = await api.read("table", { ...which(view), sort_by: START.sort, ascending: false, limit: NEWEST, columns: ALWAYS, counted: false }, { signal });
      return { question, rows: tableOf(said, view.project).rows };
    },
    [api, question, isAsked],
  );
  if (isFirst && table?.question === questionOf(view)) known.current = { question, rows: table.rows.slice(0, NEWEST) };
  else if (asked.data?.question === question) known.current = asked.data;
  return known.current.question === question || asked.error || failed ? known.current.rows : null;
}

/** What a table answers. @param {View} view */
function questionOf(view) {
  return JSON.stringify([view.project, view.q, view.trashed, view.sort, view.ascending, view.page]);
}

/**
 * The runs that an address selects, of which some may be on no page that was seen.
 * @param {Api} api @param {View} view
 * @returns {{gone: string[], rows: Row[]}} the keys of those that are not there, and the others
 */
function useSelected(api, view) {
  const given = useMemo(() => (view.selected[0] === "*" ? [] : view.selected), [api, view.project]);
  const { data } = useAnswer(
    async (signal) => {
      if (!given.length) return { gone: [], rows: [] };
      const id = given.map((one) => refOf(one, view.project)[1]);
      const asked = { id, trashed: null, unknown: "tell", limit: CSV_MOST, columns: ALWAYS };
      const { rows } = tableOf(await api.read("table", asked, { signal }), view.project);
      const there = new Set(rows.map((one) => one.key));
      return { gone: given.filter((one) => !there.has(one)), rows };
    },
    [api, given],
  );
  return data ?? { gone: [], rows: [] };
}

/** The theme that is seen, for colours of curves. @returns {"light" | "dark"} */
export function useTheme() {
  /** @returns {"light" | "dark"} */
  const now = () => {
    const set = document.documentElement.dataset.theme;
    const dark = set ? set === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    return dark ? "dark" : "light";
  };
  const [theme, setTheme] = useState(/** @type {"light" | "dark"} */ (now()));
  useEffect(() => {
    const asked = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setTheme(now());
    asked.addEventListener("change", changed);
    addEventListener("seamark:theme", changed);
    return () => {
      asked.removeEventListener("change", changed);
      removeEventListener("seamark:theme", changed);
    };
  }, []);
  return theme;
}

/** @param {{api: Api, view: View, live: Live, keys: boolean, root: Root}} props */
export function RunsScreen({ api, view, live, keys, root }) {
  const project = view.project;
  // As long as there is nothing to choose columns of, it is asked again for what came.
  const barren = useRef(0);
  const shared = useAnswer(
    (signal) =>
      api.read("shared", { project: project || null, trashed: view.trashed, unknown: "tell", limit: 200, sample: 50 }, { signal }),
    [api, project, view.trashed, barren.current],
  );
  const known = shared.data;
  if (!known?.length) barren.current = live.tick;
  const ready = view.cols.length > 0 || shared.data || shared.error;
  const columns = useMemo(() => (ready ? columnsOf(view, known ?? []) : null), [known, ready, view.cols.join()]);
  const { table, error, busy, news, again } = useTable({ api, view, columns, live });
  const rows = table?.rows ?? [];
  const theme = useTheme();
  const [note, setNote] = useState(/** @type {any} */ (null));
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const edits = useModule(note || open ? "./dialogs.js" : "").module;
  const queryError = isOfQuery(error, view) ? error : null;

  const metric = useMemo(() => {
    const first = (columns ?? []).map((one) => splitColumn(one)[0]);
    const series = new Set((known ?? []).filter((/** @type {any} */ one) => one.series).map((/** @type {any} */ one) => one.path));
    return first.find((one) => series.has(one)) ?? telling(known ?? []).metrics[0] ?? "";
  }, [columns, known]);
  // Curves are drawn of rows that came into view.
  const [far, setFar] = useState(AT_ONCE);
  const curves = useCurves({ api, rows: useMemo(() => (view.group.length ? [] : rows.slice(0, far)), [rows, far, view.group.length]), path: metric, live });
  const honesty = useHonesty(api, rows, live);
  const progress = useProgress(api, rows, live);
  const { gone, rows: chosenAtFirst } = useSelected(api, view);
  const newest = useNewest(api, view, table, error);
  const missing = gone.filter((one) => view.selected.includes(one));
  useEffect(() => {
    // Where nothing is shown, nothing moves.
    if (table && table.total === 0 && news.more > 0) again();
  }, [news.more]);
  const newestKeys = (newest ?? []).map((one) => one.key);
  const drawn = drawnKeys(view, rows, newestKeys).filter((one) => !gone.includes(one));
  // What is drawn may stand on another page than the one that is shown.
  /** @type {{current: Map<string, Row>}} */
  const seen = useRef(new Map());
  useMemo(() => (seen.current = new Map()), [api, project]);
  for (const one of [...chosenAtFirst, ...(newest ?? []), ...rows]) seen.current.set(one.key, one);

  // Of more runs than a page has, the server counts those that the tab's title tells of.
  const more = Boolean(table && table.total > rows.length);
  const counts = useAnswer(
    async (signal) => {
      if (!more) return null;
      await new Promise((go) => setTimeout(go, COUNTED_MS)); // what is shown comes first
      const some = ["running", "crashed"].map((state) => ({ ...which(view), query: `${view.q && `(${view.q}) AND `}sys/state = ${state}`, limit: 1 }));
      return (await Promise.all(some.map((body) => api.whole("select", body, { signal })))).map((one) => Number(one.total));
    },
    [api, more, JSON.stringify([project, view.q, view.trashed]), Math.floor(live.tick / 5)],
  );
  useEffect(() => {
    const of = (/** @type {string} */ state) => rows.filter((one) => one.state === state).length;
    const [running, crashed] = counts.data ?? [of("running"), of("crashed")];
    tell({ running, crashed, title: project || "all runs" });
  }, [table, counts.data, project]);

  const all = view.selected[0] === "*";
  const selected = useMemo(() => new Set(view.selected), [view.selected]);
  const isSelected = (/** @type {Row} */ row) => all || selected.has(row.key);
  // Keys may be pressed faster than the page is drawn: what is chosen now stands in the address.
  const select = (/** @type {Row[]} */ some, /** @type {boolean | null} */ wanted) => {
    const now = read();
    const before = now.selected[0] === "*" ? rows.map((one) => one.key) : now.selected;
    const on = wanted ?? !before.includes(some[0]?.key);
    const keys = new Set(some.map((one) => one.key));
    const next = on ? [...before.filter((one) => !keys.has(one)), ...keys] : before.filter((one) => !keys.has(one));
    /** @type {Partial<View>} */
    const change = { selected: next };
    if (now.drawn.length && on) change.drawn = [...new Set([...now.drawn.filter((one) => one !== NONE), ...keys])];
    if (now.drawn.length && !on) {
      const left = now.drawn.filter((one) => !keys.has(one));
      change.drawn = next.length ? left : [];
    }
    write(change);
  };
  const draw = (/** @type {Row} */ row) => {
    const before = drawnKeys(read(), rows, newestKeys);
    const next = before.includes(row.key) ? before.filter((one) => one !== row.key) : [...before, row.key];
    write({ drawn: next.length ? next : [NONE] });
  };
  const chosenRefs = async () => {
    if (!all) return view.selected.map((one) => refOf(one, project));
    return /** @type {Promise<Ref[]>} */ (api.read("select", { ...which(view), limit: CSV_MOST }));
  };
  const chosenCount = all ? (table?.total ?? 0) : view.selected.length;
  const openRun = (/** @type {Row} */ row) => {
    opened = row.key;
    write({ project: row.ref[0], run: row.ref[1], tab: "" }, { push: true });
  };
  const compare = () => write({ screen: "compare" }, { push: true });
  const editable = !root.read_only;

  const csv = async () => {
    const { saveTable } = await import("./compare.js");
    const { saved, total } = await saveTable(api, view, columns ?? [], chosenCount ? await chosenRefs() : null);
    if (total > saved) setNote({ text: `The first ${number(saved)} of ${number(total)} runs were saved.` });
  };

  const run = (/** @type {() => Promise<any>} */ what) => () =>
    what().catch((/** @type {any} */ failed) => setNote({ text: String(failed.hint ?? failed), bad: true }));
  const editMenu = (/** @type {() => Promise<Ref[]>} */ refs, /** @type {Row[]} */ some) => [
    { label: "Tags …", disabled: !editable, onPick: run(async () => setOpen({ kind: "tags", refs: await refs(), known: [...new Set(some.flatMap((one) => one.tags))].sort() })) },
    ...(some.length === 1
      ? [{ label: "Name and description …", disabled: !editable, onPick: () => setOpen({ kind: "words", run: { project: some[0].ref[0], id: some[0].ref[1] } }) }]
      : []),
    view.trashed
      ? { label: "Out of the trash", disabled: !editable, onPick: run(async () => (await import("./dialogs.js")).trash(api, await refs(), false, setNote, again)) }
      : { label: "Into the trash", disabled: !editable, onPick: run(async () => (await import("./dialogs.js")).trash(api, await refs(), true, setNote, () => { write({ selected: [], drawn: [] }); again(); })) },
  ];

  const chosenRows = all ? rows : rows.filter(isSelected);
  const tags = useMemo(() => [...new Set(rows.flatMap((one) => one.tags))].sort(), [table]);
  const charts = useModule("./charts.js");
  const sides = useModule(view.group.length ? "./compare.js" : "");
  const chartRuns = useMemo(() => {
    const some = view.group.length && !view.drawn.length && !view.selected.length ? rows.map((one) => one.key) : drawn;
    return some.map((key) => {
      const row = seen.current.get(key);
      const [at, id] = refOf(key, project);
      return { project: at, id, name: row?.name ?? id, state: row?.state ?? "" };
    });
  }, [drawn.join(), view.group.length > 0, table, chosenAtFirst, newest, project]);
  const nothing = table && table.total === 0 && !busy && !queryError;

  return html`<h1 class="unseen">${project || "All runs"}</h1><div class="tools">
      <${QueryField} api=${api} project=${project} value=${view.q} error=${queryError} tags=${tags}
        onChange=${(/** @type {string} */ q, /** @type {boolean} */ push) => q !== view.q && write({ q, page: 0 }, { push })} />
      <${ColumnChooser} api=${api} view=${view} shown=${columns ?? []}
        onChange=${(/** @type {string[]} */ cols) => write({ cols })} />
      <${GroupMenu} view=${view} known=${known ?? []} />
      <${ViewMenu} view=${view} />
      <button type="button" onClick=${run(csv)} title="Save the table as CSV: what is selected, else all that match">CSV</button>
    </div>
    <div class="chosen">
      <span role="status">${table ? html`<strong>${number(table.total)}</strong> ${table.total === 1 ? "run" : "runs"}${view.trashed ? " in the trash" : ""}${queryError ? " of the query before" : ""}` : error ? "" : "Reading …"}</span>
      ${(news.more > 0 || news.moved) &&
      html`<button type="button" class="news" onClick=${again}>${[news.more > 0 && `${number(news.more)} new`, news.moved && "order changed"].filter(Boolean).join(", ")} · show</button>`}
      ${chosenCount > 0 &&
      html`<span class="sep">·</span><span>${number(chosenCount)} selected</span>
        <button type="button" class="main" data-key="c" onClick=${compare} disabled=${chosenCount < 2}>Compare</button>
        <${Menu} label="Edit" title=${editable ? "Edit what is selected" : root.why} items=${editMenu(chosenRefs, chosenRows)} />
        ${!all && table && table.total > rows.length && chosenRows.length === rows.length &&
        html`<button type="button" class="link" onClick=${() => write({ selected: ["*"], drawn: [] })}>Select all ${number(table.total)} that match</button>`}
        <button type="button" class="link" onClick=${() => write({ selected: [], drawn: [] })}>Select none</button>
        ${view.selected.length > 40 && html`<small>The address holds the first 40.</small>`}`}
      ${view.trashed && html`<button type="button" class="link" onClick=${() => write({ trashed: false, page: 0 })}>Leave the trash</button>`}
      ${!editable && html`<small>Nothing can be edited: ${root.why || "this folder is read-only"}.</small>`}
    </div>
    ${error && !queryError && html`<${ErrorBox} error=${error} onRetry=${again} />`}
    ${error && !queryError && (view.cols.length > 0 || view.sort !== START.sort) &&
    html`<p class="chosen"><button type="button" onClick=${() => write({ cols: [], sort: START.sort, ascending: false })}>Columns and order as at first</button></p>`}
    ${missing.length > 0 &&
    html`<p class="chosen warn">${number(missing.length)} of ${count(view.selected.length, "selected run")} ${missing.length === 1 ? "is" : "are"} not in this folder: ${missing.slice(0, 3).join(", ")}${missing.length > 3 ? " …" : ""}
      <button type="button" class="link" onClick=${() => write({ selected: view.selected.filter((one) => !missing.includes(one)) })}>Forget ${missing.length === 1 ? "it" : "them"}</button></p>`}
    ${(table?.told ?? []).map((text) => html`<${Banner} kind="warn">${text}<//>`)}
    ${
      nothing
        ? html`<${Nothing} view=${view} root=${root} left=${api.left} />`
        : view.group.length
          ? sides.module && html`<${sides.module.Groups} api=${api} view=${view} columns=${columns ?? []} live=${live} />`
          : html`<${Rows} api=${api} view=${view} table=${table} columns=${columns ?? []} busy=${busy} keys=${keys}
              selected=${all ? null : selected} onSelect=${select} drawn=${drawn} onDraw=${draw} onOpen=${openRun}
              curves=${curves} metric=${metric} honesty=${honesty} progress=${progress} theme=${theme} editMenu=${editMenu}
              onReach=${setFar} live=${live} />`
    }
    ${table && !view.group.length && html`<${Pager} page=${view.page} size=${SIZE} total=${table.total} onPage=${(/** @type {number} */ page) => write({ page }, { push: true })} />`}
    ${!nothing && table && (newest?.length || drawn.length > 0) && charts.module && html`<${charts.module.Charts} api=${api} runs=${chartRuns} view=${view} live=${live} />`}
    ${(charts.error || sides.error) && html`<${ErrorBox} error=${charts.error || sides.error} />`}
    ${edits && open?.kind === "tags" && html`<${edits.TagsDialog} api=${api} ...${open} onClose=${() => setOpen(null)} onDone=${again} onNote=${setNote} />`}
    ${edits && open?.kind === "words" && html`<${edits.WordsDialog} api=${api} ...${open} onClose=${() => setOpen(null)} onDone=${again} onNote=${setNote} />`}
    ${edits && html`<${edits.Toast} note=${note} onNote=${setNote} />`}`;
}

/** @param {{view: View, root: Root, left: number}} props */
function Nothing({ view, root, left }) {
  if (view.q) {
    return html`<${Empty} title="No run matches">
      <p>Nothing here matches <code>${view.q}</code>.</p>
      <button type="button" onClick=${() => write({ q: "", page: 0 })}>Show all runs</button><//>`;
  }
  if (view.trashed) return html`<${Empty} title="The trash is empty" />`;
  const projects = () => write({ ...START, root: view.root, screen: "projects" }, { push: true });
  if (left > 0) return html`<p class="starting">Reading ${count(left, "run")} …</p>`;
  const where = view.project ? `in ${view.project}` : root.path ? `in ${root.path}` : "here";
  return html`<${Empty} title="No runs ${where} yet" code=${FIVE_LINES}>
    <p>${root.why && !root.read_only ? root.why : "Record one, and it appears here:"}</p>
    ${view.project && html`<p><button type="button" onClick=${projects}>Which projects are there?</button></p>`}<//>`;
}

/** @param {{view: View, known: any[]}} props */
function GroupMenu({ view, known }) {
  return html`<${Menu} press="g" label=${view.group.length ? `Group: ${view.group.join(", ")}` : "Group"} title="Group runs that show the same" wide>
    <${Later} part="GroupChooser" view=${view} known=${known} />
  <//>`;
}

/** @param {{view: View}} props */
function ViewMenu({ view }) {
  const fresh = { ...START, root: view.root, project: view.project };
  return html`<${Menu} label="View" title="This view" items=${[
    { label: "The trash", checked: view.trashed, onPick: () => write({ trashed: !view.trashed, page: 0, selected: [], drawn: [] }, { push: true }) },
    { label: "Project: description, folders", onPick: () => write({ screen: "projects" }, { push: true }) },
    { label: "Newest first", checked: view.sort === START.sort && !view.ascending, onPick: () => write({ sort: START.sort, ascending: false, page: 0 }) },
    { label: "Everything as at first", onPick: () => write(fresh, { push: true }) },
  ]} />`;
}

/**
 * @param {{api: Api, view: View, table: Table | null, columns: string[], busy: boolean, keys: boolean,
 *   selected: Set<string> | null, onSelect: (rows: Row[], on: boolean | null) => void, drawn: string[],
 *   onDraw: (row: Row) => void, onOpen: (row: Row) => void, curves: Map<string, any>, metric: string,
 *   honesty: any, progress: Map<string, any>, theme: "light" | "dark", editMenu: any,
 *   onReach: (n: number) => void, live: Live}} props
 *   `selected`: keys of runs; null for all
 */
function Rows({ api, view, table, columns, busy, keys, selected, onSelect, drawn, onDraw, onOpen, curves, metric, honesty, progress, theme, editMenu, onReach, live }) {
  const rows = table?.rows ?? [];
  const [at, setAt] = useState(0);
  /** @type {{current: number}} */
  const here = useRef(0);
  /** @type {{current: any}} */
  const sheet = useRef(null);
  /** @type {{current: number}} */
  const last = useRef(0);
  /** @type {{current: Row[]}} */
  const visible = useRef([]);
  const isSelected = (/** @type {Row} */ row) => !selected || selected.has(row.key);
  const move = (/** @type {number} */ to) => {
    const next = Math.max(0, Math.min(visible.current.length - 1, to));
    setAt(next);
    here.current = next;
    const row = sheet.current?.querySelector("table").rows[next + 1];
    row?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  };
  useEffect(() => {
    const n = rows.findIndex((one) => one.key === opened);
    const lost = document.activeElement === document.body || document.activeElement?.id === "main";
    if (n >= 0 && lost) move(n);
    if (rows.length) opened = "";
  }, [rows.length > 0]);
  const inTable = () => document.activeElement?.closest("tbody") && sheet.current?.contains(document.activeElement);
  // Before the next key can come: it is to be of what is shown by then.
  useLayoutEffect(() => {
    if (!keys) return undefined;
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      if (isTyping(event)) return;
      const row = visible.current[Math.min(here.current, visible.current.length - 1)];
      const does = /** @type {Record<string, () => void>} */ ({
        j: () => move(inTable() ? here.current + 1 : here.current),
        k: () => move(inTable() ? here.current - 1 : here.current),
        x: () => row && onSelect([row], null),
        e: () => row && onDraw(row),
      })[event.key];
      if (!does) return;
      event.preventDefault();
      does();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  });
  const rowKeys = (/** @type {KeyboardEvent} */ event, /** @type {Row} */ row, /** @type {number} */ n) => {
    if (event.target !== event.currentTarget) return;
    if (event.key === "Enter") onOpen(row);
    else if (event.key === " ") onSelect([row], null);
    else if (event.key === "ArrowDown") move(n + 1);
    else if (event.key === "ArrowUp") move(n - 1);
    else return;
    event.preventDefault();
  };
  const valued = useValued();
  const chart = useModule("./chart.js");
  const Sparkline = chart.module?.Sparkline;
  const sort = (/** @type {string} */ path, /** @type {boolean} */ numeric) => {
    write(view.sort === path ? { ascending: !view.ascending, page: 0 } : { sort: path, ascending: !numeric, page: 0 }, { push: true });
  };
  const numeric = useMemo(() => {
    const found = new Set();
    for (const path of columns) {
      const values = rows.map((one) => one.values.get(path)).filter((one) => one !== undefined);
      if (values.length && values.every(isNumber)) found.add(path);
    }
    return found;
  }, [table, columns]);
  const baseline = rows.find((one) => one.key === view.baseline);
  const head = (/** @type {string} */ path, /** @type {string} */ className = "") => {
    const sorted = view.sort === path;
    return html`<th key=${path} scope="col" class="${className} ${numeric.has(path) ? "numeric" : ""}"
      aria-sort=${sorted ? (view.ascending ? "ascending" : "descending") : "none"}>
      <button type="button" title="Sort by ${path}" aria-label=${titleOf(path)} onClick=${() => sort(path, numeric.has(path) || path === START.sort)}><bdi>${endOf(path, columns)}</bdi><span class="sign" aria-hidden="true">${sorted ? (view.ascending ? "▲" : "▼") : ""}</span></button></th>`;
  };
  const chosen = rows.filter(isSelected);
  const ids = drawn.map((key) => refOf(key, view.project)[1]);
  const shownColumns = useMemo(() => columns.filter((one) => one !== "sys/name" && one !== "sys/state"), [columns]);
  const metricAt = columns.find((one) => splitColumn(one)[0] === metric) ?? "";
  const pick = (/** @type {any} */ event, /** @type {Row} */ row, /** @type {number} */ n) => {
    const on = !isSelected(row);
    const [from, to] = [Math.min(last.current, n), Math.max(last.current, n)];
    onSelect(event.shiftKey ? rows.slice(from, to + 1) : [row], on);
    last.current = n;
  };
  const focus = (/** @type {number} */ n) => {
    here.current = n;
    setAt(n);
  };
  // A line is not drawn anew because what it can do was made anew.
  /** @type {{current: Deeds}} */
  const deeds = useRef(/** @type {any} */ (null));
  deeds.current = { focus, keys: rowKeys, pick, draw: onDraw, open: onOpen, edits: (row) => editMenu(async () => [row.ref], [row]) };
  const question = table?.question ?? "";
  const { blocks, shown, upTo, fill } = useBlocks(rows, question, questionOf(view));
  const lines = shown.slice(0, upTo).flat();
  const starts = shown.map((_, n) => shown.slice(0, n).flat().length);
  const reached = Math.min(at, lines.length - 1);
  useLayoutEffect(() => {
    visible.current = lines;
  });
  useLayoutEffect(() => {
    if (sheet.current && !opened) sheet.current.scrollTop = 0;
    onReach(AT_ONCE);
  }, [question]);
  const scrolled = () => {
    const { scrollTop, clientHeight, scrollHeight } = sheet.current;
    const seen = Math.ceil(((scrollTop + clientHeight) / scrollHeight) * lines.length);
    onReach(AT_ONCE + BLOCK * Math.ceil(Math.max(0, seen - AT_ONCE) / BLOCK));
    fill();
  };
  const pale = useLong(busy && table !== null);
  const minute = Math.floor(api.now() / 60e3);
  const colours = valued?.colours[theme] ?? view.colours;
  const ink = useMemo(() => new Map(drawn.map((key, n) => [key, colourOf(ids[n], ids, theme, colours)])), [drawn.join(), theme, JSON.stringify(colours)]);
  return html`<div class="sheet ${rows.length < 12 ? "short" : ""}" tabindex="-1" aria-busy=${String(busy || upTo < blocks)} ref=${sheet} onScroll=${scrolled}>
    <table class="runs narrowed ${pale ? "loading" : ""}">
      <caption class="unseen">Runs${view.project ? ` of ${view.project}` : ""}, sorted by ${titleOf(view.sort)}</caption>
      <thead><tr>
        <th scope="col" class="tick"><input type="checkbox" aria-label="Select all rows of this page"
          checked=${rows.length > 0 && chosen.length === rows.length}
          onChange=${() => onSelect(rows, chosen.length < rows.length)} /></th>
        <th scope="col" class="eye wide-only"><span class="unseen">Drawn</span></th>
        ${head("sys/name", "first")}
        ${head("sys/state")}
        ${metric && html`<th scope="col" class="plain wide-only" title="Course of ${metric}"><span class="plain">Curve</span></th>`}
        ${shownColumns.map((path) => head(path, path === metricAt ? "" : "wide-only"))}
        <th scope="col" class="wide-only"><span class="unseen">More</span></th>
      </tr></thead>
      ${shown.map((some, n) => html`<${Block} key=${n} rows=${some} from=${starts[n]} hidden=${n >= upTo}
        reached=${reached >= starts[n] && reached < starts[n] + some.length ? reached : -1} now=${minute} root=${view.root} project=${view.project} columns=${shownColumns}
        metric=${metric} metricAt=${metricAt} curves=${curves} Sparkline=${Sparkline} selected=${selected} baseline=${baseline}
        ink=${ink} honesty=${honesty} progress=${progress} deeds=${deeds} />`)}
    </table>
  </div>`;
}

/**
 * Rows in blocks of which the first is what the window shows. Of another question it is drawn at
 * once, and the others when there is time: until then they are hidden, for what is not seen costs
 * as much to lay out and to paint as what is.
 * @param {Row[]} rows
 * @param {string} question which `rows` answer
 * @param {string} wanted the question that is asked now
 * @returns {{shown: Row[][], upTo: number, blocks: number, fill: () => void}} `shown`: of blocks that are hidden, what
 *   they were; `upTo`: so many are not; `fill` does not wait for the next one
 */
function useBlocks(rows, question, wanted) {
  /** @type {{current: Row[][]}} */
  const standing = useRef([]);
  const size = useMemo(() => Math.max(AT_ONCE, rows.findIndex((one) => one.key === opened) + 1), [question]);
  const blocks = useMemo(() => {
    if (rows.length < 1.5 * size) return [rows];
    const found = [rows.slice(0, size)];
    for (let at = size; at < rows.length; at += BLOCK) found.push(rows.slice(at, at + BLOCK));
    return found;
  }, [rows, size]);
  const [filled, setFilled] = useState({ question: "", n: 1 });
  const filledUpTo = filled.question === question ? filled.n : 1;
  const shown = blocks.map((one, n) => (n < filledUpTo ? one : (standing.current[n] ?? [])));
  useLayoutEffect(() => {
    standing.current = shown;
  });
  const isFull = filledUpTo >= blocks.length || wanted !== question;
  const fill = () => isFull || setFilled({ question, n: filledUpTo + 1 });
  useEffect(() => {
    if (isFull) return undefined;
    return filledUpTo === 1 ? whenQuiet(fill) : whenIdle(fill);
  }, [question, isFull, filledUpTo]);
  return { shown, upTo: wanted === question ? filledUpTo : 1, blocks: blocks.length, fill };
}

/** Whether something has been so for a quarter of a second. @param {boolean} so */
function useLong(so) {
  const [long, setLong] = useState(false);
  useEffect(() => {
    if (!so) return undefined;
    const timer = setTimeout(() => setLong(true), 250);
    return () => {
      clearTimeout(timer);
      setLong(false);
    };
  }, [so]);
  return so && long;
}

/**
 * Calls when the browser has nothing else to do, soon at the latest.
 * @param {() => void} call
 * @returns {() => void} lets it be
 */
function whenIdle(call) {
  if (!("requestIdleCallback" in window)) {
    const timer = setTimeout(call, 30);
    return () => clearTimeout(timer);
  }
  const asked = requestIdleCallback(call, { timeout: 500 });
  return () => cancelIdleCallback(asked);
}

/**
 * Calls when nothing is being asked, either, that is to be seen sooner.
 * @param {() => void} call
 * @returns {() => void} lets it be
 */
function whenQuiet(call) {
  const latest = Date.now() + PATIENT_MS;
  let quiet = 0;
  let cancel = () => {};
  const look = () => {
    quiet = isBusy() ? 0 : quiet + 1;
    if (quiet > 1 || Date.now() > latest) {
      cancel = whenIdle(call);
      return;
    }
    const timer = setTimeout(look, QUIET_MS);
    cancel = () => clearTimeout(timer);
  };
  look();
  return () => cancel();
}

/** What is drawn anew only where something of it differs. */
class Still extends Component {
  /** @param {any} next */
  shouldComponentUpdate(next) {
    return Object.keys(next).some((name) => next[name] !== this.props[name]);
  }
}

/**
 * Some lines of the table.
 * @typedef {{rows: Row[], from: number, hidden: boolean, reached: number, now: number, root: string, project: string,
 *   columns: string[], metric: string, metricAt: string, curves: Map<string, any>, Sparkline: any, selected: Set<string> | null,
 *   baseline: Row | undefined, ink: Map<string, string>, honesty: any, progress: Map<string, any>, deeds: {current: Deeds}}} BlockProps
 */
class Block extends Still {
  /** @param {BlockProps} props */
  render({ rows, from, hidden, reached, curves, selected, baseline, ink, honesty, progress, ...same }) {
    return html`<tbody hidden=${hidden}>
      ${rows.map((row, at) => {
        const full = row.ref.join("/");
        const isBase = row.key === baseline?.key;
        return html`<${Line} key=${at} row=${row} n=${from + at} ...${same} curve=${curves.get(full)}
          reached=${reached === from + at} picked=${!selected || selected.has(row.key)} base=${isBase ? undefined : baseline} isBase=${isBase}
          on=${ink.has(row.key)} colour=${ink.get(row.key) ?? ""} lost=${honesty.losses.get(full)}
          attempts=${honesty.attempts.get(full) ?? 1} openings=${honesty.openings.get(full) ?? 1} reason=${honesty.reasons.get(full)}
          progress=${progress.get(full)} />`;
      })}
    </tbody>`;
  }
}

/**
 * One run of the table.
 *
 * @typedef {{focus: (n: number) => void, keys: (event: KeyboardEvent, row: Row, n: number) => void,
 *   pick: (event: any, row: Row, n: number) => void, draw: (row: Row) => void, open: (row: Row) => void,
 *   edits: (row: Row) => any[]}} Deeds
 * @typedef {{row: Row, n: number, now: number, root: string, project: string, columns: string[], metric: string, metricAt: string,
 *   curve: any, Sparkline: any, reached: boolean, picked: boolean, base: Row | undefined, isBase: boolean, on: boolean, colour: string,
 *   lost: Record<string, number> | undefined, attempts: number, openings: number, reason: string | undefined, progress: any,
 *   deeds: {current: Deeds}}} LineProps
 */
class Line extends Still {
  /** Numbers that changed where they stand are seen to. @param {any} was */
  componentDidUpdate(was) {
    const { props, base } = this;
    if (was.row === props.row || was.row.key !== props.row.key || was.columns !== props.columns) return;
    const from = props.metric ? 5 : 4;
    props.columns.forEach((/** @type {string} */ path, /** @type {number} */ n) => {
      const [before, after] = [was.row.values.get(path), props.row.values.get(path)];
      if (before === after || !isNumber(before) || !isNumber(after)) return;
      const cell = base.cells[from + n];
      cell?.classList.add("changed");
      // Not faded by the browser: it would paint all that is seen sixty times a second for it.
      setTimeout(() => cell?.classList.remove("changed"), CHANGED_MS);
    });
  }

  /** @param {LineProps} props */
  render({ row, n, now, root, project, columns, metric, metricAt, curve, Sparkline, reached, picked, base, isBase, on, colour, lost, attempts, openings, reason, progress, deeds }) {
    const [inProject, id] = row.ref;
    const act = () => deeds.current;
    const below = inProject !== project && (project ? inProject.slice(project.length + 1) : inProject);
    return html`<tr tabindex=${reached ? 0 : -1} aria-selected=${String(picked)} class="${picked ? "picked" : ""} ${isBase ? "base" : ""}"
      onFocus=${() => act().focus(n)} onKeyDown=${(/** @type {KeyboardEvent} */ e) => act().keys(e, row, n)}>
      <td class="tick"><input type="checkbox" tabindex="-1" aria-label="Select ${row.name}" checked=${picked}
        onClick=${(/** @type {any} */ e) => act().pick(e, row, n)} /></td>
      <td class="eye wide-only"><button type="button" class="quiet" tabindex="-1" aria-pressed=${String(on)}
        aria-label="Draw ${row.name}" title=${on ? "Drawn: no longer draw it" : "Draw it"} onClick=${() => act().draw(row)}>
        <span class="swatch ${on ? "on" : ""}" style=${colour ? { background: colour } : {}}></span></button></td>
      <th scope="row" class="first"><a href=${href({ ...START, root, project: inProject, run: id })} title=${row.name} tabindex="-1"
        onClick=${(/** @type {MouseEvent} */ e) => {
          if (e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
          e.preventDefault();
          act().open(row);
        }}><bdi>${row.name}</bdi></a>${below && html`<small><bdi>${below}</bdi></small>`}</th>
      <td><${State} state=${row.state} title=${reason} />${" "}
        ${progress && html`<small class="muted wide-only">${progressOf(progress)}</small> `}
        ${attempts > 1 && html`<${Badge} kind="accent" title="Resumed: ${attempts} attempts in one run">↻ ${attempts}<span class="wide-only"> attempts</span><//>`}
        ${openings > attempts && html`<${Badge} kind="accent" title="Opened ${openings} times, by its id or resumed">↻ <span class="wide-only">opened </span>${openings}×<//>`}
        ${lost && html`<${Badge} kind="warn" title=${losses(lost)}>⚠ <span class="wide-only">${count(gaps(lost), "gap")}</span><//>`}</td>
      ${metric && html`<td class="wide-only spark">${Sparkline && curve ? html`<${Sparkline} values=${curve} />` : ""}</td>`}
      ${columns.map((path) => cellOf(row.values.get(path), path, base?.values.get(path), path === metricAt ? "" : "wide-only", now))}
      <td class="rowmenu wide-only"><${Menu} className="right" label="⋯" title="More about ${row.name}" items=${() => [
        { label: "Open", onPick: () => act().open(row) },
        { label: isBase ? "No longer the baseline" : "Baseline: others show their difference", onPick: () => write({ baseline: isBase ? "" : row.key }) },
        ...act().edits(row),
      ]}>
      <//></td>
    </tr>`;
  }
}

/** @param {Record<string, number>} lost */
function gaps(lost) {
  return Object.values(lost).reduce((sum, one) => sum + Number(one), 0);
}

/** @param {Record<string, number>} lost */
function losses(lost) {
  return Object.entries(lost).map(([reason, n]) => `${reason}: ${n}`).join(", ");
}

/**
 * A value of a run, and how far it is from the baseline's.
 * @param {any} given @param {string} path @param {any} base @param {string} className
 * @param {number} now minutes since the Unix epoch
 */
function cellOf(given, path, base, className, now) {
  if (given === undefined) return html`<td key=${path} class=${className}></td>`;
  const numeric = isNumber(given);
  let shown = /** @type {any} */ ("");
  let title = "";
  if (numeric && path !== "sys/running_time") {
    shown = number(given);
    title = exact(given);
  } else if (path === "sys/tags" && Array.isArray(given)) {
    title = exact(given);
    shown = html`<span class="tags">${given.map((tag) => html`<${Badge}><bdi>${tag}</bdi><//>`)}</span>`;
  } else if (path === "sys/running_time") {
    shown = duration(given);
    title = `${exact(given)} s`;
  } else if (path === "sys/progress") {
    shown = progressOf(given);
    title = exact(given);
  } else if (given instanceof Date) {
    shown = html`<${Time} ns=${given} now=${now * 60e3} coarse />`;
    title = time(given);
  } else if (typeof given === "string") {
    shown = html`<bdi>${given.slice(0, 300)}</bdi>`;
    title = given;
  } else {
    shown = value(given);
    title = exact(given);
  }
  const delta = typeof base === "number" && typeof given === "number" ? given - base : null;
  return html`<td key=${path} class="${className} ${numeric ? "numeric" : typeof given === "string" || Array.isArray(given) ? "text" : ""}" title=${title.slice(0, 2000)}>${shown}${
    delta !== null && html`<span class="delta">${delta > 0 ? "+" : ""}${number(delta)}</span>`
  }</td>`;
}

/** @param {any} loops what `sys/progress` says @returns {string} */
export function progressOf(loops) {
  const outer = Array.isArray(loops) ? loops[0] : null;
  if (!outer || typeof outer !== "object") return "";
  const total = outer.total ? `/${number(outer.total)}` : "";
  const left = typeof outer.remaining_s === "number" ? `, ${duration(outer.remaining_s)} left` : "";
  return `${value(outer.name)} ${number(outer.done)}${total}${left}`;
}
