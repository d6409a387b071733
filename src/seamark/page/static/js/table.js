// @ts-check
/** The runs of a project: a table of pages of 200, and below it the charts of some of them. */

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { START, href, keyOf, read, refOf, write } from "./address.js";
import { colourOf } from "./colours.js";
import { ALWAYS, ColumnChooser, columnsOf, splitColumn, telling, titleOf } from "./columns.js";
import { Badge, Banner, Empty, ErrorBox, Menu, Pager, State, Time, isTyping, save, tell, useAnswer, useModule } from "./components.js";
import { count, duration, exact, number, time, value } from "./format.js";
import { QueryField, quotedPath, quotedValue } from "./query.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./main.js").Live} Live */
/** @typedef {import("./main.js").Root} Root */
/** @typedef {[string, string]} Ref */
/**
 * @typedef {{key: string, ref: Ref, name: string, state: string, created: Date | null,
 *   tags: string[], values: Map<string, any>}} Row
 * @typedef {{rows: Row[], total: number, offset: number, cursor: string, told: string[]}} Table
 * @typedef {{by: Record<string, any>, refs: Ref[],
 *   values: Record<string, {n: number, odd: number, mean: number | null, std: number | null,
 *     min: number | null, max: number | null}>}} Group
 */

const SIZE = 200;
const NEWEST = 5;
const NONE = "-";
/** The row that was opened last, to which Back leads. */
let opened = "";
const CURVE_PX = 48;
const CURVES_AT_ONCE = 50;
const CSV_MOST = 10000;

const FIVE_LINES = `import seamark
run = seamark.init_run(project="first")
run["params"] = {"lr": 0.1}
for step in range(100): run["loss"].append(1 / (1 + step), step=step)
run.stop()`;

/**
 * @param {any} said an answer of `runs`
 * @param {string} project
 * @returns {Table}
 */
export function tableOf(said, project) {
  const { columns, cells, refs, total, offset, cursor } = said.table;
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
  return { rows, total, offset, cursor, told: said.told ?? [] };
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

/** @param {any} one @returns {boolean} */
function isNumber(one) {
  return typeof one === "number" || typeof one === "bigint";
}

/**
 * The keys of the runs that are drawn.
 * @param {View} view
 * @param {Row[]} rows
 */
function drawnKeys(view, rows) {
  if (view.drawn.length) return view.drawn.filter((one) => one !== NONE);
  if (view.selected[0] === "*") return rows.map((one) => one.key).slice(0, 40);
  if (view.selected.length) return view.selected;
  const newest = [...rows].sort((a, b) => (b.created?.getTime() ?? 0) - (a.created?.getTime() ?? 0));
  return newest.slice(0, NEWEST).map((one) => one.key);
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
  /** @type {{current: any}} */
  const shown = useRef(null);
  const asked = JSON.stringify([view.project, view.q, view.trashed, view.sort, view.ascending, view.page, turn]);
  const body = {
    ...which(view),
    limit: SIZE,
    offset: view.page * SIZE,
    columns: columns && [...new Set([...ALWAYS, ...columns])],
  };
  const project = view.project;

  useEffect(() => {
    if (!columns) return undefined;
    const ended = new AbortController();
    setBusy(true);
    // Another page of the same question is turned in the snapshot that is shown.
    const same = shown.current && shown.current.what === asked.replace(/,\d+,(\d+)\]$/, ",$1]");
    const snapshot = same ? shown.current.cursor : "";
    api.post("runs", { ...body, snapshot }, { signal: ended.signal }).then(
      (said) => {
        if (ended.signal.aborted) return;
        const made = tableOf(said, project);
        shown.current = { what: asked.replace(/,\d+,(\d+)\]$/, ",$1]"), cursor: made.cursor };
        setTable(made);
        setError(null);
        setBusy(false);
        if (!same) setNews({ more: 0, moved: false });
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
      /** @type {Table | null} */
      let fresh = null;
      if (touched && table.cursor) {
        const said = await api.post("runs", { ...body, snapshot: table.cursor }, { signal });
        const made = tableOf(said, project);
        if (made.cursor === table.cursor) fresh = made;
      }
      const { columns: _, ...rest } = body;
      const now = await api.post("runs/select", rest, { signal });
      if (looking.current !== mine) return;
      looking.current = null;
      const order = now.refs.map((/** @type {Ref} */ one) => one.join("/")).join();
      const before = table.rows.map((one) => one.ref.join("/")).join();
      setNews({ more: now.total - table.total, moved: order !== before });
      if (fresh) setTable((was) => (was === table ? fresh : was));
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
 * Small curves of one metric, fetched a few runs at a time; those of runs that changed anew.
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
    const missing = rows.filter((one) => !curves.has(one.ref.join("/")) || changed.has(one.ref.join("/")));
    const fetchAll = async () => {
      for (let at = 0; at < missing.length; at += CURVES_AT_ONCE) {
        const refs = missing.slice(at, at + CURVES_AT_ONCE).map((one) => one.ref);
        const said = await api.post("curves", { refs, paths: [path], px: CURVE_PX }, { signal: ended.signal });
        if (ended.signal.aborted) return;
        setCurves((was) => {
          const next = new Map(was);
          for (const ref of refs) next.set(ref.join("/"), null);
          for (const one of said.curves) next.set(`${one.project}/${one.run}`, one.drawing.curve.mean);
          return next;
        });
      }
    };
    fetchAll().catch(() => undefined);
    return () => ended.abort();
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
      const crashed = rows.filter((one) => one.state === "crashed").map((one) => one.ref);
      const none = () => ({});
      const [lost, again, why] = await Promise.all([
        api.post("runs/losses", { refs }, { signal }).catch(none),
        api.features.includes("attempts") ? api.post("runs/attempts", { refs }, { signal }).catch(none) : none(),
        crashed.length ? api.post("runs/crash-reasons", { refs: crashed }, { signal }).catch(none) : none(),
      ]);
      const by = (/** @type {any[] | undefined} */ list) =>
        new Map((list ?? []).map(([project, run, one]) => [`${project}/${run}`, one]));
      return {
        losses: by(/** @type {any} */ (lost).losses),
        attempts: by(/** @type {any} */ (again).attempts),
        openings: by(/** @type {any} */ (again).openings),
        reasons: by(/** @type {any} */ (why).reasons),
      };
    },
    [api, key, rows.map((one) => one.state).join(), Math.floor(live.tick / 5)],
  );
  return data ?? { losses: new Map(), attempts: new Map(), openings: new Map(), reasons: new Map() };
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
      if (!running.length) return new Map();
      const said = await api.post("runs", { id: running, columns: ["sys/progress"], unknown: "tell" }, { signal });
      return new Map(tableOf(said, "").rows.map((one) => [one.ref.join("/"), one.values.get("sys/progress")]));
    },
    [api, running.join(), live.tick],
  );
  return data ?? new Map();
}

/**
 * Which of the runs that an address selects are not there.
 * @param {Api} api @param {View} view
 * @returns {string[]} their keys
 */
function useMissing(api, view) {
  const given = useMemo(() => (view.selected[0] === "*" ? [] : view.selected), [api, view.project]);
  const { data } = useAnswer(
    async (signal) => {
      if (!given.length) return [];
      const refs = given.map((one) => refOf(one, view.project));
      const asked = { id: refs.map((one) => one[1]), trashed: null, unknown: "tell", limit: CSV_MOST };
      const said = await api.post("runs/select", asked, { signal });
      const there = new Set(said.refs.map((/** @type {Ref} */ one) => one.join("/")));
      return given.filter((_, at) => !there.has(refs[at].join("/")));
    },
    [api, given],
  );
  return data ?? [];
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
  const shared = useAnswer(
    (signal) =>
      api.post("runs/fields", { project: project || null, trashed: view.trashed, unknown: "tell", limit: 200, sample: 50 }, { signal }),
    [api, project, view.trashed],
  );
  const known = shared.data?.fields;
  const ready = view.cols.length > 0 || shared.data || shared.error;
  const columns = useMemo(() => (ready ? columnsOf(view, known ?? []) : null), [known, ready, view.cols.join()]);
  const { table, error, busy, news, again } = useTable({ api, view, columns, live });
  const rows = table?.rows ?? [];
  const theme = useTheme();
  const [note, setNote] = useState(/** @type {any} */ (null));
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const edits = useModule(note || open ? "./edits.js" : "").module;
  const queryError = error && view.q && /^query/.test(String(error.hint)) ? error : null;

  const metric = useMemo(() => {
    const first = (columns ?? []).map((one) => splitColumn(one)[0]);
    const series = new Set((known ?? []).filter((/** @type {any} */ one) => one.series).map((/** @type {any} */ one) => one.path));
    return first.find((one) => series.has(one)) ?? telling(known ?? []).metrics[0] ?? "";
  }, [columns, known]);
  const curves = useCurves({ api, rows: view.group.length ? [] : rows, path: metric, live });
  const honesty = useHonesty(api, rows, live);
  const progress = useProgress(api, rows, live);
  const gone = useMissing(api, view);
  const missing = gone.filter((one) => view.selected.includes(one));
  useEffect(() => {
    // Where nothing is shown, nothing moves.
    if (table && table.total === 0 && news.more > 0) again();
  }, [news.more]);
  const drawn = drawnKeys(view, rows).filter((one) => !gone.includes(one));

  // Of more runs than a page has, the server counts those that the tab's title tells of.
  const more = Boolean(table && table.total > rows.length);
  const counts = useAnswer(
    async (signal) => {
      if (!more) return null;
      const some = ["running", "crashed"].map((state) => ({ ...which(view), query: `${view.q && `(${view.q}) AND `}sys/state = ${state}`, limit: 1 }));
      return (await Promise.all(some.map((body) => api.post("runs/select", body, { signal })))).map((one) => Number(one.total));
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
    const seen = drawnKeys(read(), rows);
    const next = seen.includes(row.key) ? seen.filter((one) => one !== row.key) : [...seen, row.key];
    write({ drawn: next.length ? next : [NONE] });
  };
  const chosenRefs = async () => {
    if (!all) return view.selected.map((one) => refOf(one, project));
    const said = await api.post("runs/select", { ...which(view), limit: CSV_MOST });
    return /** @type {Ref[]} */ (said.refs);
  };
  const chosenCount = all ? (table?.total ?? 0) : view.selected.length;
  const openRun = (/** @type {Row} */ row) => {
    opened = row.key;
    write({ project: row.ref[0], run: row.ref[1], tab: "" }, { push: true });
  };
  const compare = () => write({ screen: "compare" }, { push: true });
  const editable = !root.read_only;

  const csv = async () => {
    const asked = [...new Set([...ALWAYS, ...(columns ?? [])])];
    const refs = chosenCount ? await chosenRefs() : null;
    const of = refs ? { project: project || null, id: refs.map((one) => one[1]), trashed: null, sort_by: view.sort, ascending: view.ascending, unknown: "tell" } : which(view);
    const said = await api.post("runs", { ...of, columns: asked, limit: CSV_MOST });
    const made = tableOf(said, "");
    const head = ["project", "run", ...asked];
    const lines = made.rows.map((row) => [row.ref[0], row.ref[1], ...asked.map((one) => row.values.get(one))]);
    save(`${(project || "runs").replaceAll("/", "-")}.csv`, [head, ...lines].map((line) => line.map(cell).join(",")).join("\r\n"));
    if (made.total > made.rows.length) setNote({ text: `The first ${number(made.rows.length)} of ${number(made.total)} runs were saved.` });
  };

  const run = (/** @type {() => Promise<any>} */ what) => () =>
    what().catch((/** @type {any} */ failed) => setNote({ text: String(failed.hint ?? failed), bad: true }));
  const editMenu = (/** @type {() => Promise<Ref[]>} */ refs, /** @type {Row[]} */ some) => [
    { label: "Tags …", disabled: !editable, onPick: run(async () => setOpen({ kind: "tags", refs: await refs(), known: [...new Set(some.flatMap((one) => one.tags))].sort() })) },
    ...(some.length === 1
      ? [{ label: "Name and description …", disabled: !editable, onPick: () => setOpen({ kind: "words", run: { project: some[0].ref[0], id: some[0].ref[1] } }) }]
      : []),
    view.trashed
      ? { label: "Out of the trash", disabled: !editable, onPick: run(async () => (await import("./edits.js")).trash(api, await refs(), false, setNote, again)) }
      : { label: "Into the trash", disabled: !editable, onPick: run(async () => (await import("./edits.js")).trash(api, await refs(), true, setNote, () => { write({ selected: [], drawn: [] }); again(); })) },
  ];

  const chosenRows = all ? rows : rows.filter(isSelected);
  const tags = useMemo(() => [...new Set(rows.flatMap((one) => one.tags))].sort(), [table]);
  const charts = useModule("./charts.js");
  const chartRuns = useMemo(() => {
    const by = new Map(rows.map((one) => [one.key, one]));
    const some = view.group.length && !view.drawn.length && !view.selected.length ? rows.map((one) => one.key) : drawn;
    return some.map((key) => {
      const row = by.get(key);
      const [at, id] = refOf(key, project);
      return { project: at, id, name: row?.name ?? id, state: row?.state ?? "" };
    });
  }, [drawn.join(), view.group.length > 0, table, project]);
  const nothing = table && table.total === 0 && !busy;

  return html`<div class="tools">
      <${QueryField} api=${api} project=${project} value=${view.q} error=${queryError} tags=${tags}
        onChange=${(/** @type {string} */ q, /** @type {boolean} */ push) => q !== view.q && write({ q, page: 0 }, { push })} />
      <${ColumnChooser} api=${api} view=${view} shown=${columns ?? []}
        onChange=${(/** @type {string[]} */ cols) => write({ cols })} />
      <${GroupMenu} view=${view} known=${known ?? []} />
      <${ViewMenu} view=${view} />
      <button type="button" onClick=${run(csv)} title="Save the table as CSV: what is selected, else all that match">CSV</button>
    </div>
    <div class="chosen">
      <span>${table ? html`<strong>${number(table.total)}</strong> ${table.total === 1 ? "run" : "runs"}${view.trashed ? " in the trash" : ""}` : error ? "" : "Reading …"}</span>
      ${(news.more > 0 || news.moved) &&
      html`<button type="button" class="news" onClick=${again}>${[news.more > 0 && `${number(news.more)} new`, news.moved && "order changed"].filter(Boolean).join(", ")} · show</button>`}
      ${chosenCount > 0 &&
      html`<span class="sep">·</span><span>${number(chosenCount)} selected</span>
        <button type="button" class="main" onClick=${compare} disabled=${chosenCount < 2}>Compare</button>
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
          ? html`<${Groups} api=${api} view=${view} columns=${columns ?? []} live=${live} />`
          : html`<${Rows} api=${api} view=${view} table=${table} columns=${columns ?? []} busy=${busy} keys=${keys}
              isSelected=${isSelected} onSelect=${select} drawn=${drawn} onDraw=${draw} onOpen=${openRun}
              curves=${curves} metric=${metric} honesty=${honesty} progress=${progress} theme=${theme} editMenu=${editMenu}
              onCompare=${() => (read().selected.length > 1 || read().selected[0] === "*") && compare()} live=${live} />`
    }
    ${table && !view.group.length && html`<${Pager} page=${view.page} size=${SIZE} total=${table.total} onPage=${(/** @type {number} */ page) => write({ page }, { push: true })} />`}
    ${!nothing && table && charts.module && html`<${charts.module.Charts} api=${api} runs=${chartRuns} view=${view} live=${live} />`}
    ${charts.error && html`<${ErrorBox} error=${charts.error} />`}
    ${edits && open?.kind === "tags" && html`<${edits.TagsDialog} api=${api} ...${open} onClose=${() => setOpen(null)} onDone=${again} onNote=${setNote} />`}
    ${edits && open?.kind === "words" && html`<${edits.WordsDialog} api=${api} ...${open} onClose=${() => setOpen(null)} onDone=${again} onNote=${setNote} />`}
    ${edits && html`<${edits.Toast} note=${note} onNote=${setNote} />`}`;
}

/** @param {any} one @returns {string} as a cell of CSV; no spreadsheet takes it for a formula */
function cell(one) {
  const text = exact(one);
  const safe = typeof one !== "number" && typeof one !== "bigint" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
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
  const by = new Set(view.group);
  const paths = known.filter((one) => !one.series && one.differs && !one.path.startsWith("sys/")).map((one) => one.path);
  const shown = [...new Set([...view.group, ...paths, "sys/state", "sys/tags"])].slice(0, 60);
  const toggle = (/** @type {string} */ path) => {
    const next = by.has(path) ? view.group.filter((one) => one !== path) : [...view.group, path].slice(0, 8);
    write({ group: next, page: 0 });
  };
  return html`<${Menu} className="group" label=${view.group.length ? `Group: ${view.group.join(", ")}` : "Group"} title="Group runs that show the same" wide>
    <div class="pad"><div class="pick" role="group" aria-label="Group by">
      ${shown.map((path) => html`<label key=${path}><input type="checkbox" checked=${by.has(path)} onChange=${() => toggle(path)} /><bdi>${path}</bdi></label>`)}
    </div>
    <button type="button" disabled=${!by.size} onClick=${() => write({ group: [], page: 0 })}>No groups</button></div>
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
 *   isSelected: (row: Row) => boolean, onSelect: (rows: Row[], on: boolean | null) => void, drawn: string[],
 *   onDraw: (row: Row) => void, onOpen: (row: Row) => void, curves: Map<string, any>, metric: string,
 *   honesty: any, progress: Map<string, any>, theme: "light" | "dark", editMenu: any, onCompare: () => void, live: Live}} props
 */
function Rows({ api, view, table, columns, busy, keys, isSelected, onSelect, drawn, onDraw, onOpen, curves, metric, honesty, progress, theme, editMenu, onCompare, live }) {
  const rows = table?.rows ?? [];
  const [at, setAt] = useState(0);
  /** @type {{current: number}} */
  const here = useRef(0);
  /** @type {{current: any}} */
  const body = useRef(null);
  /** @type {{current: number}} */
  const last = useRef(0);
  const move = (/** @type {number} */ to) => {
    const next = Math.max(0, Math.min(rows.length - 1, to));
    setAt(next);
    here.current = next;
    const row = body.current?.rows[next];
    row?.focus({ preventScroll: true });
    row?.scrollIntoView({ block: "nearest" });
  };
  useEffect(() => {
    const n = rows.findIndex((one) => one.key === opened);
    const lost = document.activeElement === document.body || document.activeElement?.id === "main";
    if (n >= 0 && lost) move(n);
    if (rows.length) opened = "";
  }, [rows.length > 0]);
  const inTable = () => body.current?.contains(document.activeElement);
  // Before the next key can come: it is to be of what is shown by then.
  useLayoutEffect(() => {
    if (!keys) return undefined;
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      if (isTyping(event)) return;
      const row = rows[Math.min(here.current, rows.length - 1)];
      const does = /** @type {Record<string, () => void>} */ ({
        "/": () => /** @type {any} */ (document.querySelector("[data-key='/']"))?.focus(),
        j: () => move(inTable() ? here.current + 1 : here.current),
        k: () => move(inTable() ? here.current - 1 : here.current),
        x: () => row && onSelect([row], null),
        e: () => row && onDraw(row),
        c: onCompare,
        g: () => /** @type {any} */ (document.querySelector(".menu.group button"))?.click(),
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
    const title = titleOf(path);
    return html`<th key=${path} scope="col" class="${className} ${numeric.has(path) ? "numeric" : ""}"
      aria-sort=${sorted ? (view.ascending ? "ascending" : "descending") : "none"}>
      <button type="button" title="Sort by ${path}" onClick=${() => sort(path, numeric.has(path) || path === START.sort)}><bdi>${title}</bdi>${
        sorted && html`<span class="sign" aria-hidden="true">${view.ascending ? " ▲" : " ▼"}</span>`
      }</button></th>`;
  };
  const sub = rows.some((one) => one.ref[0] !== view.project);
  const chosen = rows.filter(isSelected);
  const ids = drawn.map((key) => refOf(key, view.project)[1]);
  const shownColumns = columns.filter((one) => one !== "sys/name" && one !== "sys/state");
  const metricAt = columns.find((one) => splitColumn(one)[0] === metric) ?? "";
  const pick = (/** @type {any} */ event, /** @type {Row} */ row, /** @type {number} */ n) => {
    const on = !isSelected(row);
    const [from, to] = [Math.min(last.current, n), Math.max(last.current, n)];
    onSelect(event.shiftKey ? rows.slice(from, to + 1) : [row], on);
    last.current = n;
  };
  return html`<div class="sheet ${rows.length < 12 ? "short" : ""}" tabindex="-1" aria-busy=${String(busy)}>
    <table class="runs narrowed ${busy && table ? "loading" : ""}">
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
      <tbody ref=${body}>
        ${rows.map((row, n) => {
          const [inProject, id] = row.ref;
          const on = drawn.includes(row.key);
          const colour = on ? colourOf(id, ids, theme, view.colours) : "";
          const full = row.ref.join("/");
          const lost = honesty.losses.get(full);
          const attempts = honesty.attempts.get(full) ?? 1;
          const openings = honesty.openings.get(full) ?? 1;
          return html`<tr key=${full} tabindex=${n === Math.min(at, rows.length - 1) ? 0 : -1} aria-selected=${String(isSelected(row))}
            class="${isSelected(row) ? "picked" : ""} ${row.key === view.baseline ? "base" : ""}"
            onFocus=${() => {
              here.current = n;
              setAt(n);
            }} onKeyDown=${(/** @type {KeyboardEvent} */ e) => rowKeys(e, row, n)}>
            <td class="tick"><input type="checkbox" tabindex="-1" aria-label="Select ${row.name}" checked=${isSelected(row)}
              onClick=${(/** @type {any} */ e) => pick(e, row, n)} /></td>
            <td class="eye wide-only"><button type="button" class="quiet" tabindex="-1" aria-pressed=${String(on)}
              aria-label="Draw ${row.name}" title=${on ? "Drawn: no longer draw it" : "Draw it"} onClick=${() => onDraw(row)}>
              <span class="swatch ${on ? "on" : ""}" style=${colour ? { background: colour } : {}}></span></button></td>
            <th scope="row" class="first"><a href=${href({ project: inProject, run: id, tab: "" })} title=${row.name} tabindex="-1"
              onClick=${(/** @type {MouseEvent} */ e) => {
                if (e.ctrlKey || e.metaKey || e.shiftKey || e.button) return;
                e.preventDefault();
                onOpen(row);
              }}><bdi>${row.name}</bdi></a>${sub && inProject !== view.project && html`<small><bdi>${view.project ? inProject.slice(view.project.length + 1) : inProject}</bdi></small>`}</th>
            <td><${State} state=${row.state} title=${honesty.reasons.get(full)} />${" "}
              ${progress.get(full) && html`<small class="muted wide-only">${progressOf(progress.get(full))}</small> `}
              ${attempts > 1 && html`<${Badge} kind="accent" title="Resumed: ${attempts} attempts in one run">↻ ${attempts}<span class="wide-only"> attempts</span><//>`}
              ${openings > attempts && html`<${Badge} kind="accent" title="Opened ${openings} times, by its id or resumed">↻ <span class="wide-only">opened </span>${openings}×<//>`}
              ${lost && html`<${Badge} kind="warn" title=${losses(lost)}>⚠ <span class="wide-only">${count(gaps(lost), "gap")}</span><//>`}</td>
            ${metric && html`<td class="wide-only spark">${Sparkline && curves.get(full) ? html`<${Sparkline} values=${curves.get(full)} />` : ""}</td>`}
            ${shownColumns.map((path) => html`<${Cell} key=${path} api=${api} path=${path} row=${row}
              base=${baseline && baseline !== row ? baseline.values.get(path) : undefined}
              className=${path === metricAt ? "" : "wide-only"} />`)}
            <td class="rowmenu wide-only"><${Menu} className="right" label="⋯" title="More about ${row.name}" items=${[
              { label: "Open", onPick: () => onOpen(row) },
              { label: row.key === view.baseline ? "No longer the baseline" : "Baseline: others show their difference", onPick: () => write({ baseline: row.key === view.baseline ? "" : row.key }) },
              ...editMenu(async () => [row.ref], [row]),
            ]}>
            <//></td>
          </tr>`;
        })}
      </tbody>
    </table>
  </div>`;
}

/** @param {Record<string, number>} lost */
function gaps(lost) {
  return Object.values(lost).reduce((sum, one) => sum + Number(one), 0);
}

/** @param {Record<string, number>} lost */
function losses(lost) {
  return Object.entries(lost).map(([reason, n]) => `${reason}: ${n}`).join(", ");
}

/** @param {{api: Api, path: string, row: Row, base: any, className: string}} props */
function Cell({ api, path, row, base, className }) {
  const given = row.values.get(path);
  /** @type {{current: any}} */
  const ref = useRef(null);
  /** @type {{current: any}} */
  const before = useRef(given);
  useEffect(() => {
    const was = before.current;
    before.current = given;
    if (was === given || !isNumber(given) || !isNumber(was)) return;
    ref.current?.classList.remove("changed");
    void ref.current?.offsetWidth;
    ref.current?.classList.add("changed");
  }, [given]);
  const numeric = isNumber(given);
  let shown = /** @type {any} */ (value(given));
  let title = exact(given);
  if (path === "sys/tags" && Array.isArray(given)) {
    shown = html`<span class="tags">${given.map((tag) => html`<${Badge}><bdi>${tag}</bdi><//>`)}</span>`;
  } else if (path === "sys/running_time") {
    shown = duration(given);
    title = `${title} s`;
  } else if (path === "sys/progress") {
    shown = progressOf(given);
  } else if (given instanceof Date) {
    shown = html`<${Time} ns=${given} now=${api.now()} />`;
    title = time(given);
  } else if (path === "sys/state") {
    shown = html`<${State} state=${given} />`;
  } else if (typeof given === "string") {
    shown = html`<bdi>${given.slice(0, 300)}</bdi>`;
  }
  const delta = numeric && typeof base === "number" && typeof given === "number" ? given - base : null;
  return html`<td ref=${ref} class="${className} ${numeric ? "numeric" : ""}" title=${title.slice(0, 2000)}>${shown}${
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

/** @param {{api: Api, view: View, columns: string[], live: Live}} props */
function Groups({ api, view, columns, live }) {
  const numbers = columns.filter((one) => !ALWAYS.includes(one) && !view.group.includes(one)).slice(0, 20);
  const { data, error, busy, again } = useAnswer(
    (signal) =>
      api.post("runs/groups", { ...which(view), by: view.group, columns: numbers, limit: SIZE, offset: view.page * SIZE }, { signal }),
    [api, JSON.stringify([which(view), view.group, numbers, view.page]), Math.floor(live.tick / 3)],
  );
  /** @type {Group[]} */
  const groups = data?.groups ?? [];
  if (error) return html`<${ErrorBox} error=${error} onRetry=${again} />`;
  const shown = numbers.filter((path) => groups.some((one) => (one.values[path]?.n ?? 0) > 0));
  const inside = (/** @type {Group} */ group) => {
    const some = view.group.map((path) => {
      const is = group.by[path];
      if (is === null || is === undefined) return `${quotedPath(path)} IS MISSING`;
      if (Array.isArray(is)) return is.map((one) => `${quotedPath(path)} CONTAINS ${quotedValue(one)}`).join(" AND ");
      return `${quotedPath(path)} = ${quotedValue(is)}`;
    });
    const q = [view.q && `(${view.q})`, ...some].filter(Boolean).join(" AND ");
    write({ q, group: [], page: 0, selected: [], drawn: [] }, { push: true });
  };
  return html`<div class="sheet short"><table class="runs ${busy && data ? "loading" : ""}">
    <caption class="unseen">Groups of runs by ${view.group.join(", ")}: mean ± standard deviation</caption>
    <thead><tr>
      ${view.group.map((path) => html`<th key=${path} scope="col"><span class="plain"><bdi>${path}</bdi></span></th>`)}
      <th scope="col" class="numeric"><span class="plain">Runs</span></th>
      ${shown.map((path) => html`<th key=${path} scope="col" class="numeric"><span class="plain" title="mean ± standard deviation (n − 1) of ${path}"><bdi>${titleOf(path)}</bdi></span></th>`)}
      <th scope="col"><span class="unseen">Open</span></th>
    </tr></thead>
    <tbody>${groups.map((group) => html`<tr key=${JSON.stringify(group.refs[0])}>
      ${view.group.map((path, n) =>
        n === 0
          ? html`<th scope="row" key=${path}><bdi>${value(group.by[path]) || "—"}</bdi></th>`
          : html`<td key=${path}><bdi>${value(group.by[path]) || "—"}</bdi></td>`)}
      <td class="numeric">${number(group.refs.length)}</td>
      ${shown.map((path) => {
        const one = group.values[path];
        if (!one || one.mean === null) return html`<td key=${path} class="numeric"></td>`;
        const say = (/** @type {number} */ one, /** @type {number} */ digits) => (path === "sys/running_time" ? duration(one) : number(one, digits));
        const fewer = one.n < group.refs.length;
        return html`<td key=${path} class="numeric" title="n = ${one.n}, min ${exact(one.min)}, max ${exact(one.max)}${one.odd ? `, ${one.odd} not finite` : ""}">
          ${say(one.mean, 4)}${one.std !== null && html`<span class="delta">± ${say(one.std, 2)}</span>`}${fewer && html`<small> n=${one.n}</small>`}</td>`;
      })}
      <td><button type="button" class="link" onClick=${() => inside(group)}>show runs</button></td>
    </tr>`)}</tbody></table></div>
    ${data && html`<${Pager} page=${view.page} size=${SIZE} total=${data.total} word="groups" onPage=${(/** @type {number} */ page) => write({ page }, { push: true })} />`}`;
}
