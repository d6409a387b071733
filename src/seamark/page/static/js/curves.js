// @ts-check
/** The curves of a chart: how they are requested, and the lines that are made of them. */

import { useEffect, useRef, useState } from "../vendor/preact.js";
import { inOrder, joined, partsOf } from "./lines.js";

/** @typedef {import("./lines.js").Group} Group */
/** @typedef {import("./lines.js").Kept} Kept */
/** @typedef {import("./lines.js").Line} Line */
/** @typedef {import("./lines.js").Range} Range */
/** @typedef {import("./lines.js").RunRef} RunRef */
/** @typedef {Record<string, any>} View */
/** The place on the x axis where an attempt begins. @typedef {{run: string, number: number, x: number}} Begin */
/** Begins by run and paths; `stamp` changes when the run has recorded more. @typedef {Map<string, {stamp: string, begins: Begin[]}>} Resumes */
/** Series to ask for. @typedef {{refs: readonly RunRef[], paths: readonly string[]}} Part */

/** The runs of the first request; each further one has twice as many. */
const LOADED_FIRST = 10;
/** The most series in one request. */
const MOST_TOGETHER = 64;
/** The time that charts which come into view wait for each other. */
const GATHER_MS = 12;
export const DASHES = [[], [7, 4], [2, 3], [10, 3, 2, 3]];

/**
 * The part of a request that says how series are drawn.
 * @param {View} view
 * @param {Range | null} zoom
 * @param {number} px
 */
function lookOf(view, zoom, px) {
  /** @type {Record<string, any>} */
  const body = { px, x: view.x || "step", log_x: Boolean(view.logx), log_y: Boolean(view.logy) };
  if (view.smooth > 0) body.window = Number(view.smooth);
  else if (view.ema > 0) body.half_life = Number(view.ema);
  if (zoom && body.log_x) {
    const more = (zoom.high / zoom.low) ** 0.03;
    Object.assign(body, { low: zoom.low / more, high: zoom.high * more });
  } else if (zoom) {
    const more = (zoom.high - zoom.low) * 0.03;
    Object.assign(body, { low: zoom.low - more, high: zoom.high + more });
  }
  return body;
}

/**
 * @param {readonly RunRef[]} runs
 * @param {readonly string[]} paths
 * @param {Map<string, Set<string>>} has the paths of each run, as far as known
 * @returns {Part[]}
 */
function partsToAsk(runs, paths, has) {
  const owned = (/** @type {readonly RunRef[]} */ some) => paths.filter((path) => some.some((run) => has.get(run.id)?.has(path)));
  const some = runs.filter((run) => ownedBy(run, paths, has).length);
  const parts = [];
  for (let at = 0, n = LOADED_FIRST; at < some.length; at += n, n *= 2) {
    const refs = some.slice(at, at + n);
    parts.push({ refs, paths: owned(refs) });
  }
  return parts;
}

/**
 * @typedef {object} Request Charts that ask for the same runs in the same way.
 * @property {Set<string>} paths
 * @property {any[]} since
 * @property {number} wanted the number of charts
 * @property {AbortController} abort
 * @property {Promise<any[]>} answer
 */

/** @type {Map<string, Request>} */
const gathering = new Map();
let underWay = 0;

/** Whether charts wait for answers: requests for newer points are to follow them, not to replace them. */
export function isLoading() {
  return underWay > 0;
}

/**
 * Count an answer among those that charts wait for.
 * @template T
 * @param {Promise<T>} answer
 * @returns {Promise<T>}
 */
export function waited(answer) {
  underWay++;
  return answer.finally(() => underWay--);
}

/** @param {readonly string[]} paths @param {RunRef} run @param {Map<string, Set<string>>} has */
function ownedBy(run, paths, has) {
  return paths.filter((path) => has.get(run.id)?.has(path));
}

/**
 * Ask for curves, in one request with other charts that come into view at the same moment.
 * @param {any} api
 * @param {Part} part
 * @param {any[]} since
 * @param {Record<string, any>} look
 * @param {AbortSignal} signal
 * @returns {Promise<any[]>}
 */
function curvesOf(api, part, since, look, signal) {
  const refs = part.refs.map((run) => [run.project, run.id]);
  const key = JSON.stringify([api.base, refs, look]);
  const before = gathering.get(key);
  /** @type {Request} */
  const mine = before && (before.paths.size + part.paths.length) * refs.length <= MOST_TOGETHER
    ? before
    : { paths: new Set(), since: [], wanted: 0, abort: new AbortController(), answer: Promise.resolve([]) };
  if (mine !== before) {
    mine.answer = new Promise((go) => setTimeout(go, GATHER_MS)).then(async () => {
      if (gathering.get(key) === mine) gathering.delete(key);
      const body = { refs, paths: [...mine.paths], since: mine.since, ...look };
      return (await api.read("curves", body, { signal: mine.abort.signal })).curves;
    });
    gathering.set(key, mine);
  }
  for (const path of part.paths) mine.paths.add(path);
  mine.since.push(...since);
  mine.wanted++;
  const leave = () => {
    mine.wanted--;
    if (mine.wanted) return;
    mine.abort.abort();
    // No other chart may join a request that is aborted.
    if (gathering.get(key) === mine) gathering.delete(key);
  };
  signal.addEventListener("abort", leave, { once: true });
  return waited(mine.answer).then((curves) => curves.filter((one) => part.paths.includes(one.path)));
}

/**
 * Keep what a server answered.
 * @param {Kept} kept
 * @param {any[]} curves
 * @param {string} attempt "replaced" or ""
 * @param {Part} asked series without points are not in the answer
 */
function keep(kept, curves, attempt, asked) {
  const keyOf = (/** @type {string} */ run, /** @type {string} */ path) => `${run}\n${path}\n${attempt}`;
  const there = new Set(curves.map((curve) => keyOf(curve.run, curve.path)));
  for (const { id } of asked.refs) for (const path of asked.paths) if (!there.has(keyOf(id, path))) kept.delete(keyOf(id, path));
  for (const curve of curves) {
    const key = keyOf(curve.run, curve.path);
    const before = kept.get(key);
    const count = Number(curve.drawing.kept) || 0;
    if (count && (!before || before.parts.x.length < count)) continue;
    const parts = partsOf(curve.drawing);
    kept.set(key, { parts: count && before ? joined(before.parts, parts, count) : parts, cursor: curve.cursor || curve.drawing.cursor || "" });
  }
}

/**
 * Ask where attempts begin on the x axis, for runs that have recorded since they were asked for.
 * @param {any} api
 * @param {Part} part
 * @param {string} x
 * @param {Resumes} resumes
 * @param {(run: RunRef) => string} stamp of what a run has recorded
 * @param {AbortSignal} signal
 */
async function findResumes(api, { refs, paths }, x, resumes, stamp, signal) {
  const key = (/** @type {string} */ id) => [id, ...paths].join("\n");
  const stale = refs.filter((run) => resumes.get(key(run.id))?.stamp !== stamp(run));
  if (!stale.length) return;
  const { begins } = await api.read("attempts", { refs: stale.map((run) => [run.project, run.id]), paths, x }, { signal });
  for (const run of stale) {
    // Of several series the first point counts.
    const first = new Map();
    for (const [, id, , some] of begins) {
      for (const [attempt, , , at] of id === run.id ? some : []) {
        if (attempt > 0 && Number.isFinite(at)) first.set(Number(attempt) + 1, Math.min(at, first.get(Number(attempt) + 1) ?? at));
      }
    }
    resumes.set(key(run.id), { stamp: stamp(run), begins: [...first].map(([number, at]) => ({ run: run.id, number, x: at })) });
  }
}

/**
 * @typedef {object} Asked
 * @property {any} api
 * @property {string[]} paths
 * @property {RunRef[]} runs
 * @property {View} view
 * @property {Range | null} zoom
 * @property {Map<string, Set<string>>} has the paths of each run
 * @property {Map<string, number>} attempts the number of attempts by run id
 * @property {Group[] | null} groups
 * @property {Record<string, number>} versions by run id; grows whenever the run recorded something
 * @property {(run: string) => number[]} [dashOf] the dash of a run or group
 */

/** The pixels of a screen that a chart is wide, in steps, so that little is asked again when a window is sized. @param {Element | null} canvas */
function pixelsOf(canvas) {
  const wide = (canvas?.clientWidth || 500) * Math.min(2, devicePixelRatio);
  return Math.max(200, Math.min(4000, Math.ceil(wide / 100) * 100));
}

/**
 * A hook that loads the curves of a chart while it is in view.
 * @param {Asked} asked
 * @param {boolean} seen
 * @param {{current: Element | null}} canvas
 */
export function useCurves({ api, paths, runs, view, zoom, has, attempts, groups, versions, dashOf }, seen, canvas) {
  const [answered, setTold] = useState({ of: "", loading: true, error: "", drawn: 0 });
  const [again, setAgain] = useState(0);
  const kept = useRef(/** @type {Kept} */ (new Map()));
  /** The questions that were answered, by run: an answer to another one does not stand in for it. */
  const loaded = useRef(/** @type {Map<string, string>} */ (new Map()));
  const resumes = useRef(/** @type {Resumes} */ (new Map()));
  const keptOf = useRef("");
  const askedPx = useRef(Infinity);
  const axis = view.x || "step";
  const replaced = Boolean(view.attempts);
  // In the order of recording, replaced points have their place among all others.
  const whole = axis === "order" && replaced;
  const kind = JSON.stringify([paths, axis, view.logx, view.logy, view.smooth, view.ema, groups, view.stat, whole]);
  const several = (/** @type {RunRef} */ run) => (attempts.get(run.id) || 0) > 1;
  const owned = (/** @type {RunRef} */ run) => ownedBy(run, paths, has);
  const refs = runs.map((run) => `${run.project}\n${run.id}`).join("\n\n");
  const question = JSON.stringify([kind, refs, zoom, runs.map(owned)]);
  const told = answered.of === question ? answered : { ...answered, loading: true, error: "" };

  useEffect(() => {
    if (!seen) return undefined;
    if (keptOf.current !== kind) {
      if (keptOf.current) setTold((old) => ({ of: question, loading: true, error: "", drawn: old.drawn + 1 }));
      keptOf.current = kind;
      for (const one of [kept, resumes, loaded]) one.current = new Map();
    }
    const abort = new AbortController();
    const { signal } = abort;
    const px = pixelsOf(canvas.current);
    askedPx.current = px;
    const look = lookOf(view, zoom, px);
    if (whole) look.attempt = "all";
    const show = (/** @type {boolean} */ loading) => setTold((old) => ({ of: question, loading, error: "", drawn: old.drawn + 1 }));
    const load = async () => {
      if (groups) {
        const { groupCurves } = await import("./groups.js");
        const found = await groupCurves(api, groups, paths, look, view.stat, signal);
        if (signal.aborted) return;
        kept.current = found;
        show(false);
        return;
      }
      const stamp = (/** @type {RunRef} */ run) => `${versions[run.id] || 0} ${several(run)} ${px} ${JSON.stringify([zoom, owned(run)])}`;
      for (const part of partsToAsk(runs.filter((run) => loaded.current.get(run.id) !== stamp(run)), paths, has)) {
        const since = part.refs.flatMap((run) => part.paths.map((path) => [run.project, run.id, path, kept.current.get(`${run.id}\n${path}\n`)?.cursor]));
        const curves = await curvesOf(api, part, since.filter((one) => one[3]), look, signal);
        if (signal.aborted) return;
        keep(kept.current, curves, "", part);
        const hidden = { refs: axis === "order" ? [] : part.refs.filter(several), paths: part.paths };
        if (hidden.refs.length) {
          const curves = await curvesOf(api, hidden, [], { ...look, attempt: "replaced" }, signal);
          if (signal.aborted) return;
          keep(kept.current, curves, "replaced", hidden);
          await findResumes(api, hidden, axis, resumes.current, (run) => `${versions[run.id]} ${attempts.get(run.id)}`, signal);
        }
        for (const run of part.refs) loaded.current.set(run.id, stamp(run));
        show(true);
      }
      setTold((old) => (old.loading || old.error || old.of !== question ? { ...old, of: question, loading: false, error: "" } : old));
    };
    load().catch((error) => {
      if (!signal.aborted) setTold((old) => ({ ...old, of: question, loading: false, error: error?.hint || error?.message || String(error) }));
    });
    return () => abort.abort();
  }, [seen, kind, refs, zoom?.low, zoom?.high, versions, attempts, again, has]);

  // Ask again when a server that was away is back.
  useEffect(() => (told.error ? api.listen((/** @type {string} */ what) => what === "back" && setAgain((old) => old + 1)) : undefined), [api, told.error]);

  /** @returns {Line[]} for a table; a group is one line */
  const lines = () => {
    const found = [];
    const every = groups ? groups.map(({ label, refs }) => ({ id: label, project: "", name: label, of: refs.length })) : runs.map((run) => ({ ...run, of: undefined }));
    for (const { id, project, name, of } of every) {
      for (const [number, path] of paths.entries()) {
        for (const attempt of replaced ? ["", "replaced"] : [""]) {
          const key = `${id}\n${path}\n${attempt}`;
          const one = kept.current.get(key);
          if (!one) continue;
          const label = paths.length === 1 ? name || id : runs.length === 1 && !groups ? path : `${name || id} ${path}`;
          const dash = attempt ? [4, 4] : number && runs.length > 1 ? DASHES[number % DASHES.length] : (dashOf?.(id) ?? []);
          found.push({ key, run: id, project, path, name: attempt ? `${label} (replaced)` : label, parts: one.parts, dash, replaced: Boolean(attempt), of });
        }
      }
    }
    return found;
  };
  /** @returns {Line[]} as they are drawn */
  const drawnLines = () =>
    lines().flatMap((line) => {
      const pieces = kept.current.get(line.key)?.pieces ?? [inOrder(line.parts)];
      return pieces.map((parts, at) => (at ? { ...line, parts, key: `${line.key}less`, dash: [5, 4] } : { ...line, parts }));
    });
  const begins = () => [...resumes.current.values()].flatMap((one) => one.begins);
  const isLoaded = (/** @type {RunRef} */ run) => loaded.current.has(run.id) || !owned(run).length;
  /** Ask for more points where a chart has become wider. */
  const onResize = () => pixelsOf(canvas.current) > askedPx.current && setAgain((old) => old + 1);
  return { told, kept, lines, drawnLines, begins, isLoaded, whole, onResize };
}
