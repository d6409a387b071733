// @ts-check
/** The runs of a project, as the server answers them: page by page, and what changed since. */

import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { keyOf, refOf } from "./address.js";
import { isBusy } from "./api.js";
import { ALWAYS } from "./columns.js";
import { useAnswer } from "./components.js";
import { queryOf } from "./finding.js";
import { exact } from "./format.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./api.js").Live} Live */
/** @typedef {import("./address.js").View} View */
/** @typedef {[string, string]} Ref project and run id */
/**
 * @typedef {{key: string, ref: Ref, name: string, state: string, tags: string[],
 *   values: Map<string, any>}} Row
 * @typedef {{rows: Row[], total: number, told: string[], question: string}} Table
 */

/** The rows of a page. */
export const SIZE = 200;
export const CSV_MOST = 10000;
const QUIET_MS = 40;
const PATIENT_MS = 1000;
/** @type {Map<string, any>} */
const EMPTY = new Map();
const NOT_KNOWN = { losses: EMPTY, attempts: EMPTY, openings: EMPTY, reasons: EMPTY };

/**
 * @param {any} said an answer of `table`
 * @param {string} project
 * @param {string[]} [told] warnings, as of paths that no run has
 * @returns {Table}
 */
export function tableOf(said, project, told = []) {
  const { columns, cells, refs, total } = said.table;
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
      tags: values.get("sys/tags") ?? [],
      values,
    };
  });
  return { rows, total, told, question: "" };
}

/**
 * A table in which an unchanged row is the same object as before, so that it is not drawn again.
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

/** The selection of runs that a view asks for. @param {View} view */
export function which(view) {
  return {
    project: view.project || null,
    query: queryOf(view.q) || null,
    trashed: view.trashed,
    sort_by: view.sort,
    ascending: view.ascending,
    unknown: "refuse",
  };
}

/** Whether an error is one of the query. @param {any} error @param {View} view */
export function isOfQuery(error, view) {
  return Boolean(error && view.q && /^query/.test(String(error.hint)));
}

/** @param {any} one @returns {boolean} */
export function isNumber(one) {
  return typeof one === "number" || typeof one === "bigint";
}

/** The question that a table answers. @param {View} view */
export function questionOf(view) {
  return JSON.stringify([view.project, view.q, view.trashed, view.sort, view.ascending, view.page]);
}

/**
 * A hook that reads a page of the table, and its rows again whenever something changed.
 * @param {{api: Api, view: View, columns: string[] | null, live: Live}} given
 */
export function useTable({ api, view, columns, live }) {
  const [table, setTable] = useState(/** @type {Table | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [busy, setBusy] = useState(true);
  const [turn, setTurn] = useState(0);
  const [news, setNews] = useState({ more: 0, moved: false });
  const question = questionOf(view);
  const body = {
    ...which(view),
    limit: SIZE,
    offset: view.page * SIZE,
    columns: columns && [...new Set([...ALWAYS, ...columns])],
  };
  const project = view.project;

  // Asked before the rows are painted pale, which takes longer if there are many.
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
  }, [api, question, turn, JSON.stringify(columns)]);

  // Changed rows are replaced in their places; new runs and another order are only told. A slow
  // server gets the next request when it has answered this one.
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
        // The shown rows in the shown order, whatever holds of them now.
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

  // What could not be asked while the server was away is asked when it is back.
  const isLost = error?.error === "lost";
  useEffect(() => (isLost ? api.listen((what) => what === "back" && setTurn((/** @type {number} */ n) => n + 1)) : undefined), [api, isLost]);

  return { table, error, busy, news, again: () => setTurn((/** @type {number} */ n) => n + 1) };
}

/**
 * A hook for what is missing of runs, and how often they were resumed, by run.
 * @param {Api} api @param {Row[]} rows @param {Live} live
 */
export function useHonesty(api, rows, live) {
  const refs = rows.map((one) => one.ref);
  const key = refs.map((one) => one.join("/")).join();
  const { data } = useAnswer(
    async (signal) => {
      if (!refs.length) return null;
      await new Promise((go) => whenQuiet(() => go(null))); // the rows come first
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
 * A hook for the progress of running runs.
 * @param {Api} api @param {Row[]} rows @param {Live} live
 * @returns {Map<string, any>}
 */
export function useProgress(api, rows, live) {
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
 * A hook for the runs that an address selects, which may be on other pages of the table.
 * @param {Api} api @param {View} view
 * @returns {{gone: string[], rows: Row[]}} the keys of missing runs, and the others
 */
export function useSelected(api, view) {
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

/**
 * Call when the browser is idle, after half a second at the latest.
 * @param {() => void} call
 * @returns {() => void} cancels it
 */
export function whenIdle(call) {
  if (!("requestIdleCallback" in window)) {
    const timer = setTimeout(call, 30);
    return () => clearTimeout(timer);
  }
  const asked = requestIdleCallback(call, { timeout: 500 });
  return () => cancelIdleCallback(asked);
}

/**
 * Call when the browser is idle and no request is under way.
 * @param {() => void} call
 * @returns {() => void} cancels it
 */
export function whenQuiet(call) {
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
