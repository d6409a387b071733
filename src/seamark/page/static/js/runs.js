// @ts-check
/** The screen of runs: what is asked for and selected, the table, and beside it the charts of some runs. */

import { html, useEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { START, read, refOf, write } from "./address.js";
import { columnsOf, splitColumn } from "./columns.js";
import { Banner, ErrorBox, Later, Menu, Pager, TabList, kept, tell, useAnswer, useModule } from "./components.js";
import { queryOf } from "./finding.js";
import { count, number } from "./format.js";
import { QueryField } from "./query.js";
import { CSV_MOST, SIZE, isOfQuery, useHonesty, useProgress, useSelected, useTable, which } from "./rows.js";
import { RunTable } from "./table.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./api.js").Live} Live */
/** @typedef {import("./api.js").Root} Root */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./rows.js").Ref} Ref */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./rows.js").Table} Table */

const COUNTED_MS = 1000;
/** Runs that are drawn while none is selected: the first ones of the table. */
const FIRST_DRAWN = 10;
/** Runs that are drawn of all that match. */
const MOST_DRAWN = 40;
/** In place of the drawn runs: none. */
const NONE = "-";

/**
 * The keys of the runs that are drawn.
 * @param {View} view
 * @param {Row[]} rows
 */
function drawnKeys(view, rows) {
  if (view.drawn.length) return view.drawn.filter((one) => one !== NONE);
  if (view.selected[0] === "*") return rows.map((one) => one.key).slice(0, MOST_DRAWN);
  return view.selected.length ? view.selected : rows.map((one) => one.key).slice(0, FIRST_DRAWN);
}

/** Select no run; the button for it goes away, and the keys of the table act on. */
function selectNone() {
  /** @type {HTMLElement | null} */ (document.querySelector('tbody tr[tabindex="0"]'))?.focus({ preventScroll: true });
  write({ selected: [], drawn: [] });
}

/**
 * Select some rows, or no longer. Keys may be pressed faster than the page is drawn, so the address
 * says what is selected.
 * @param {Row[]} all
 * @param {Row[]} some
 * @param {boolean | null} wanted null for the opposite
 */
function select(all, some, wanted) {
  const now = read();
  const before = now.selected[0] === "*" ? all.map((one) => one.key) : now.selected;
  const on = wanted ?? !before.includes(some[0]?.key);
  const keys = new Set(some.map((one) => one.key));
  const others = (/** @type {string[]} */ list) => list.filter((one) => !keys.has(one));
  const next = on ? [...others(before), ...keys] : others(before);
  /** @type {Partial<View>} */
  const change = { selected: next };
  if (now.drawn.length && on) change.drawn = [...new Set([...now.drawn.filter((one) => one !== NONE), ...keys])];
  if (now.drawn.length && !on) change.drawn = next.length ? others(now.drawn) : [];
  write(change);
}

/**
 * A hook that tells how many runs are running and crashed. If there are more runs than a page has,
 * the server counts them.
 * @param {Api} api @param {View} view @param {Table | null} table @param {Live} live
 */
function useCounts(api, view, table, live) {
  const rows = table?.rows ?? [];
  const more = Boolean(table && table.total > rows.length);
  const { data } = useAnswer(
    async (signal) => {
      if (!more) return null;
      await new Promise((go) => setTimeout(go, COUNTED_MS)); // the rows come first
      const some = ["running", "crashed"].map((state) => ({ ...which(view), query: `${view.q && `(${queryOf(view.q)}) AND `}sys/state = ${state}`, limit: 1 }));
      return (await Promise.all(some.map((body) => api.whole("select", body, { signal })))).map((one) => Number(one.total));
    },
    [api, more, JSON.stringify([view.project, view.q, view.trashed]), Math.floor(live.tick / 5)],
  );
  useEffect(() => {
    const of = (/** @type {string} */ state) => rows.filter((one) => one.state === state).length;
    const [running, crashed] = data ?? [of("running"), of("crashed")];
    tell({ running, crashed, title: view.project || "all runs" });
  }, [table, data, view.project]);
}

/** @param {{api: Api, view: View, live: Live, keys: boolean, root: Root}} props */
export function RunsScreen({ api, view, live, keys, root }) {
  const project = view.project;
  // As long as no run has anything to show in a column, this is asked again for each new record.
  const barren = useRef(0);
  const shared = useAnswer(
    (signal) =>
      api.read("shared", { project: project || null, trashed: view.trashed, unknown: "tell", limit: 10000, sample: 50 }, { signal }),
    [api, project, view.trashed, barren.current],
  );
  /** @type {any[] | undefined} */
  const known = shared.data;
  if (!known?.length) barren.current = live.tick;
  const ready = view.cols.length > 0 || shared.data || shared.error;
  const columns = useMemo(() => (ready ? columnsOf(view, known ?? []) : null), [known, ready, view.cols.join()]);
  const knownPaths = useMemo(() => (known ?? []).map((one) => one.path), [known]);
  const { table, error, busy, news, again } = useTable({ api, view, columns, live });
  const rows = table?.rows ?? [];
  const [note, setNote] = useState(/** @type {any} */ (null));
  const [open, setOpen] = useState(/** @type {any} */ (null));
  const edits = useModule(note || open ? "./dialogs.js" : "").module;
  const queryError = isOfQuery(error, view) ? error : null;

  const metric = useMemo(() => {
    const series = new Set((known ?? []).filter((one) => one.series).map((one) => one.path));
    return (columns ?? []).find((one) => series.has(splitColumn(one)[0])) ?? "";
  }, [columns, known]);
  const honesty = useHonesty(api, rows, live);
  const progress = useProgress(api, rows, live);
  const { gone, rows: chosenAtFirst } = useSelected(api, view);
  useCounts(api, view, table, live);
  useEffect(() => {
    // In an empty table, new runs move nothing.
    if (table && table.total === 0 && news.more > 0) again();
  }, [news.more]);
  const drawn = drawnKeys(view, rows).filter((one) => !gone.includes(one));
  /** Rows by key, since a drawn run may be on another page. @type {{current: Map<string, Row>}} */
  const seen = useRef(new Map());
  useMemo(() => (seen.current = new Map()), [api, project]);
  for (const one of [...chosenAtFirst, ...rows]) seen.current.set(one.key, one);

  const all = view.selected[0] === "*";
  const selected = useMemo(() => new Set(view.selected), [view.selected]);
  const draw = (/** @type {Row} */ row) => {
    const before = drawnKeys(read(), rows);
    const next = before.includes(row.key) ? before.filter((one) => one !== row.key) : [...before, row.key];
    write({ drawn: next.length ? next : [NONE] });
  };
  const chosenRefs = async () => {
    if (!all) return view.selected.map((one) => refOf(one, project));
    return /** @type {Promise<Ref[]>} */ (api.read("select", { ...which(view), limit: CSV_MOST }));
  };
  const run = (/** @type {() => Promise<any>} */ what) => () =>
    what().catch((/** @type {any} */ failed) => setNote({ text: String(failed.hint ?? failed), bad: true }));
  const csv = async () => {
    const { saveTable } = await import("./heads.js");
    const { saved, total } = await saveTable(api, view, columns ?? [], (all ? table?.total : view.selected.length) ? await chosenRefs() : null);
    if (total > saved) setNote({ text: `The first ${number(saved)} of ${number(total)} runs were saved.` });
  };
  const editMenu = (/** @type {() => Promise<Ref[]>} */ refs, /** @type {Row[]} */ some) => {
    const disabled = root.read_only;
    const trash = run(async () => (await import("./dialogs.js")).trash(api, await refs(), !view.trashed, setNote, () => {
      if (!view.trashed) selectNone();
      again();
    }));
    const names = { label: "Name and description …", disabled, onPick: () => setOpen({ kind: "words", run: { project: some[0].ref[0], id: some[0].ref[1] } }) };
    return [
      { label: "Tags …", disabled, onPick: run(async () => setOpen({ kind: "tags", refs: await refs(), known: [...new Set(some.flatMap((one) => one.tags))].sort() })) },
      ...(some.length === 1 ? [names] : []),
      { label: view.trashed ? "Out of the trash" : "Into the trash", disabled, onPick: trash },
    ];
  };

  const charts = useModule("./charts.js", (name) => import(name));
  const chartRuns = useMemo(() => {
    const some = view.group.length && !view.drawn.length && !view.selected.length ? rows.map((one) => one.key) : drawn;
    return some.map((key) => {
      const row = seen.current.get(key);
      const [at, id] = refOf(key, project);
      return { project: at, id, name: row?.name ?? id, state: row?.state ?? "" };
    });
  }, [drawn.join(), view.group.length > 0, table, chosenAtFirst, project]);
  const nothing = table && table.total === 0 && !busy && !queryError;

  const isEmpty = nothing && !view.q && !view.trashed;
  const left = view.group.length
    ? html`<${Later} of="./groups.js" part="Groups" api=${api} view=${view} columns=${columns ?? []} known=${known ?? []} live=${live} />`
    : html`<${RunTable} api=${api} view=${view} table=${table} columns=${columns ?? []} known=${knownPaths} busy=${busy} keys=${keys}
        selected=${all ? null : selected} onSelect=${(/** @type {Row[]} */ some, /** @type {boolean | null} */ on) => select(rows, some, on)} drawn=${drawn} onDraw=${draw}
        metric=${metric} honesty=${honesty} progress=${progress} editMenu=${editMenu} />`;
  const right = table && (rows.length > 0 || drawn.length > 0) && charts.module && html`<${charts.module.Charts} api=${api} runs=${chartRuns} of=${table.total} view=${view} live=${live} />`;
  return html`<h1 class="unseen">${project || "All runs"}</h1>
    ${!isEmpty &&
    html`<${Find} api=${api} view=${view} root=${root} known=${known ?? []} columns=${columns ?? []} rows=${rows} table=${table} error=${error} queryError=${queryError} drawn=${drawn}
      edit=${() => editMenu(chosenRefs, all ? rows : rows.filter((row) => selected.has(row.key)))} />`}
    ${error && !queryError && error.error !== "lost" && html`<${ErrorBox} error=${error} onRetry=${again} />`}
    ${error && !queryError && error.error !== "lost" && (view.cols.length > 0 || view.sort !== START.sort) &&
    html`<p class="chosen"><button type="button" onClick=${() => write({ cols: [], sort: START.sort, ascending: false })}>Columns and order as at first</button></p>`}
    ${view.trashed && html`<${Banner} action="Leave the trash" onAction=${() => write({ trashed: false, page: 0 })}>This is the trash.<//>`}
    <${Missing} view=${view} gone=${gone} />
    ${(table?.told ?? []).map((text) => html`<${Banner} kind="warn">${text}<//>`)}
    ${charts.error && html`<${ErrorBox} error=${charts.error} />`}
    ${
      nothing
        ? html`<${Later} of="./projects.js" part="Nothing" api=${api} view=${view} live=${live} root=${root} left=${api.left} />`
        : html`<${Split} name=${project} left=${html`${left}<${Foot} view=${view} table=${table} news=${news} again=${again} selected=${selected} onCsv=${run(csv)} />`} right=${right} />`
    }
    ${edits && html`<${edits.Edits} api=${api} open=${open} note=${note} onOpen=${setOpen} onDone=${again} onNote=${setNote} />`}`;
}

/**
 * The bar above the table: the query, and menus; while runs are selected, what can be done with these
 * in the place of the menus.
 * @param {{api: Api, view: View, root: Root, known: any[], columns: string[], rows: Row[], table: Table | null, error: any, queryError: any, drawn: string[], edit: () => any[]}} props
 */
function Find({ api, view, root, known, columns, rows, table, error, queryError, drawn, edit }) {
  const own = { api, view, drawn };
  const views = useModule("./views.js", (name) => import(name)).module;
  const tags = useMemo(() => [...new Set(rows.flatMap((one) => one.tags))].sort(), [table]);
  const total = table?.total ?? 0;
  const chosen = view.selected[0] === "*" ? total : view.selected.length;
  return html`<div class="find">
    <div class="box">
      <${QueryField} api=${api} project=${view.project} value=${view.q} error=${queryError} tags=${tags}
        onChange=${(/** @type {string} */ q, /** @type {boolean} */ push) => q !== view.q && write({ q, page: 0 }, { push })} />
      <${Found} api=${api} view=${view} table=${table} error=${error} queryError=${queryError} />
    </div>
    <span class="unseen" role="status">${chosen > 0 && `${count(chosen, "run")} chosen`}</span>
    <div class="acts">
      <div class=${chosen ? "away" : ""}>
        <${Menu} label="Columns" title="Choose columns" wide>
          <${Later} of="./heads.js" part="Chooser" api=${api} view=${view} shown=${columns} onChange=${(/** @type {string[]} */ cols) => write({ cols, pins: view.pins.filter((one) => cols.includes(one)) })} />
        <//>
        <${Menu} press="g" label=${view.group.length ? `Group: ${view.group.join(", ")}` : "Group"} title="Group runs that show the same" wide>
          <${Later} of="./groups.js" part="GroupChooser" view=${view} known=${known} />
        <//>
        ${views ? html`<${views.ViewMenu} ...${own} />` : html`<button>View</button>`}
      </div>
      ${chosen > 0 &&
      html`<div role="group" aria-label="Selected runs">
        <b>${number(chosen)} selected</b>
        <button type="button" class="main" data-key="c" onClick=${() => write({ screen: "compare" }, { push: true })} disabled=${chosen < 2}>Compare</button>
        <${Menu} label="Edit" title=${root.read_only ? root.why : "Edit what is selected"} items=${edit} />
        <button type="button" class="quiet" onClick=${selectNone} title="Select none">Clear</button>
      </div>`}
    </div>
    ${views ? html`<${views.Share} ...${own} />` : html`<button>Share</button>`}
  </div>`;
}

/**
 * The number of runs that match, of all that are there.
 * @param {{api: Api, view: View, table: Table | null, error: any, queryError: any}} props
 */
function Found({ api, view, table, error, queryError }) {
  const { data: all } = useAnswer(
    async (signal) => (view.q ? (await api.whole("select", { project: view.project || null, trashed: view.trashed, limit: 1 }, { signal })).total : null),
    [api, view.project, view.trashed, view.q !== "", table?.total],
  );
  const total = table?.total ?? 0;
  const of = view.q && all !== null && all !== undefined && Number(all) !== total ? ` of ${number(Number(all))}` : "";
  return html`<span class="found" role="status">${table ? html`${number(total)}${of}${!of && (total === 1 ? " run" : " runs")}${queryError ? ", of the query before" : ""}` : error ? "" : "Reading …"}</span>`;
}

/**
 * What is below the table: the part of the runs that it shows, and what came since.
 * @param {{view: View, table: Table | null, news: {more: number, moved: boolean}, again: () => void, selected: Set<string>, onCsv: () => void}} props
 */
function Foot({ view, table, news, again, selected, onCsv }) {
  const rows = table?.rows ?? [];
  const total = table?.total ?? 0;
  const onPage = (/** @type {number} */ page) => write({ page }, { push: true });
  return html`<div class="foot">
    ${!view.group.length && (total > SIZE ? html`<${Pager} page=${view.page} size=${SIZE} total=${total} word="" onPage=${onPage} />` : html`<span>${total ? `1–${number(total)} of ${number(total)}` : ""}</span>`)}
    ${(news.more > 0 || news.moved) &&
    html`<button type="button" class="link" onClick=${again}>${[news.more > 0 && `${number(news.more)} new`, news.moved && "order changed"].filter(Boolean).join(", ")} · show</button>`}
    ${total > rows.length && rows.every((row) => selected.has(row.key)) &&
    html`<button type="button" class="link" onClick=${() => write({ selected: ["*"], drawn: [] })}>Select all ${number(total)} that match</button>`}
    <span class="grow"></span>
    <button type="button" class="quiet" onClick=${onCsv} title="Save the table as CSV: what is selected, else all that match">CSV</button>
  </div>`;
}

/** The selected runs that are not there. @param {{view: View, gone: string[]}} props */
function Missing({ view, gone }) {
  const missing = gone.filter((one) => view.selected.includes(one));
  if (!missing.length) return null;
  const one = missing.length === 1;
  return html`<p class="chosen warn">${number(missing.length)} of ${count(view.selected.length, "selected run")} ${one ? "is" : "are"} not in this folder: ${missing.slice(0, 3).join(", ")}${missing.length > 3 ? " …" : ""}
    <button type="button" class="link" onClick=${() => write({ selected: view.selected.filter((one) => !missing.includes(one)) })}>Forget ${one ? "it" : "them"}</button></p>`;
}

/** Below this width, the panes are above each other. */
const BESIDE = 1100;
/** The height of what is above the panes. */
const ABOVE = 88;
const STEP = 16;

/** A hook that returns the size of the window. */
function useWindow() {
  const [size, setSize] = useState({ width: innerWidth, height: innerHeight });
  useEffect(() => {
    const changed = () => setSize({ width: innerWidth, height: innerHeight });
    addEventListener("resize", changed);
    return () => removeEventListener("resize", changed);
  }, []);
  return size;
}

/** What scrolls by itself: the table and the charts. */
const SCROLLED = ".left > .sheet, .right";
/** How long it is waited for what was scrolled to. */
const PATIENT_MS = 30_000;
/** How often it is looked for, and how often it must be there. */
const [LOOK_MS, STILL] = [60, 5];
let restoring = 0;

/** Scroll the panes to where they were at this place of the history, once they are as long as then. */
function restore() {
  /** @type {number[] | undefined} */
  const tops = history.state?.tops;
  const latest = Date.now() + PATIENT_MS;
  let still = 0;
  stay();
  const step = () => {
    const some = document.querySelectorAll(SCROLLED);
    some.forEach((one, n) => one.scrollTo({ top: tops?.[n] }));
    // A table of another order begins at its top when it comes.
    still = tops?.every((top, n) => Math.abs(some[n]?.scrollTop - top) < 2) ? still + 1 : 0;
    restoring = still > STILL || Date.now() > latest ? 0 : setTimeout(step, LOOK_MS);
  };
  if (tops) step();
}

/** Stay where it is scrolled to. */
function stay() {
  clearTimeout(restoring);
  restoring = 0;
}

addEventListener("popstate", restore);
for (const kind of ["wheel", "keydown", "pointerdown"]) addEventListener(kind, stay, true);
addEventListener("scrollend", (/** @type {any} */ { target }) => {
  if (restoring || !target.matches?.(SCROLLED)) return;
  history.replaceState({ ...history.state, tops: Array.from(document.querySelectorAll(SCROLLED), (one) => one.scrollTop) }, "");
}, true);

/**
 * The panes of runs and charts.
 * @param {{name: string, left: any, right: any}} props `name`: whose size of the panes is remembered
 */
export function Split({ name, left, right }) {
  const { width, height } = useWindow();
  const [tab, setTab] = useState("Runs");
  const beside = width >= BESIDE;
  if (width <= 700 || (!beside && height <= 500)) return html`<${Tabs} tab=${tab} onTab=${setTab} left=${left} right=${right} />`;
  const whole = beside ? width : height - ABOVE;
  const usual = beside ? Math.min(640, Math.round(0.3667 * whole)) : Math.round(0.45 * whole);
  return html`<${Panes} key=${`${beside}:${name}`} place=${`seamark:split:${beside ? "" : "rows:"}${name}`} beside=${beside} left=${left} right=${right}
    least=${beside ? 320 : 120} whole=${whole} usual=${usual} />`;
}

/**
 * @param {{place: string, beside: boolean, left: any, right: any, least: number, whole: number, usual: number}} props
 */
function Panes({ place, beside, left, right, least, whole, usual }) {
  const most = Math.round(0.7 * whole);
  const [dragged, setDragged] = useState(0);
  const given = dragged || (beside && (read().split * whole) / 100) || Number(kept.get(place));
  const bounded = (/** @type {number} */ size) => Math.round(Math.max(least, Math.min(most, size)));
  const size = bounded(given || usual);
  const keep = (/** @type {number} */ to) => {
    const next = to && bounded(to);
    setDragged(0);
    kept.set(place, next ? String(next) : "");
    write(beside ? { split: Math.round((1e4 * next) / whole) / 100 } : {});
  };
  const at = (/** @type {PointerEvent} */ event) => (beside ? event.clientX : event.clientY);
  const pressed = (/** @type {any} */ event) => {
    if (event.button) return;
    const handle = event.currentTarget;
    const from = size - at(event);
    handle.setPointerCapture(event.pointerId);
    const moved = (/** @type {PointerEvent} */ now) => setDragged(bounded(from + at(now)));
    const ended = (/** @type {PointerEvent} */ now) => {
      handle.removeEventListener("pointermove", moved);
      for (const kind of ["pointerup", "pointercancel"]) handle.removeEventListener(kind, ended);
      if (at(now) !== at(event)) keep(from + at(now));
    };
    handle.addEventListener("pointermove", moved);
    for (const kind of ["pointerup", "pointercancel"]) handle.addEventListener(kind, ended);
  };
  const keys = (/** @type {KeyboardEvent} */ event) => {
    const by = /** @type {Record<string, number>} */ (beside ? { ArrowLeft: -STEP, ArrowRight: STEP } : { ArrowUp: -STEP, ArrowDown: STEP })[event.key];
    const to = by ? size + by : { Home: least, End: most }[event.key];
    if (!to) return;
    event.preventDefault();
    keep(to);
  };
  useEffect(restore, []);
  return html`<div class="split ${beside ? "beside" : "above"}" style=${{ [beside ? "--left" : "--upper"]: `${size}px` }}>
    <section class="left" id="runs" aria-label="Runs">${left}</section>
    <div class="handle" role="separator" tabindex="0" aria-orientation=${beside ? "vertical" : "horizontal"} aria-controls="runs" aria-label="Size of the table"
      aria-valuemin=${least} aria-valuemax=${most} aria-valuenow=${size} aria-valuetext="${size} pixels" title="Drag, or press arrow keys; a double click makes it as at first"
      onPointerDown=${pressed} onKeyDown=${keys} onDblClick=${() => keep(0)}></div>
    <div class="right">${right}</div>
  </div>`;
}

/** @param {{tab: string, onTab: (tab: string) => void, left: any, right: any}} props */
function Tabs({ tab, onTab, left, right }) {
  return html`<div class="split phone">
    <section class="left" id="panel-Runs" role="tabpanel" aria-labelledby="pane-Runs" hidden=${tab !== "Runs"}>${left}</section>
    ${tab === "Charts" && html`<div class="right" id="panel-Charts" role="tabpanel" aria-labelledby="pane-Charts">${right}</div>`}
    <${TabList} class="panes" label="Runs or charts" id="pane" panel="panel-${tab}" tabs=${[["Runs", "Runs"], ["Charts", "Charts"]]} now=${tab} onTab=${onTab} />
  </div>`;
}
