// @ts-check
/** The table of runs: its rows, what the keys do in them, and how their values are shown. */

import { html, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { START, href, plainClick, refOf, write } from "./address.js";
import { colourOf, useTheme, valued } from "./colours.js";
import { ascendsFirst, endOf, titleOf } from "./columns.js";
import { Badge, Menu, Middle, State, Still, Time, isTyping, kept, useModule, widthsAt } from "./components.js";
import { copyExact, count, difference, digitsBeside, duration, exact, number, time, value } from "./format.js";
import { isNumber, questionOf, whenIdle, whenQuiet } from "./rows.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./rows.js").Row} Row */
/** @typedef {import("./rows.js").Table} Table */

/** The number of rows that are drawn first: those in the window, and a few more. */
const AT_ONCE = Math.max(16, Math.ceil((innerHeight - 148) / 28) + 1);
/** The number of rows that follow at a time, when the browser is idle. */
const BLOCK = 40;
const CHANGED_MS = 1200;
const LONG_MS = 250;
/** The row that was opened last, where Back leads to. */
let opened = "";

/** Show the page of a run. @param {Row} row */
function open(row) {
  opened = row.key;
  write({ project: row.ref[0], run: row.ref[1], tab: "" }, { push: true });
}

/**
 * @param {{api: Api, view: View, table: Table | null, columns: string[], known: string[], busy: boolean, keys: boolean,
 *   selected: Set<string> | null, onSelect: (rows: Row[], on: boolean | null) => void, drawn: string[],
 *   onDraw: (row: Row) => void, metric: string, honesty: any, progress: Map<string, any>, editMenu: any}} props
 *   `selected`: keys of runs; null for all; `known`: paths of the runs, from which short titles
 *   differ; `metric`: the column that a narrow window shows, unless
 *   the table is sorted by another one
 */
export function RunTable({ api, view, table, columns, known, busy, keys, selected, onSelect, drawn, onDraw, metric, honesty, progress, editMenu }) {
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
  // Set before the next key is pressed, which is to act on what is shown by then.
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
    if (event.key === "Enter") open(row);
    else if (event.key === " ") onSelect([row], null);
    else if (event.key === "ArrowDown") move(n + 1);
    else if (event.key === "ArrowUp") move(n - 1);
    else return;
    event.preventDefault();
  };
  const theme = useTheme();
  const byValue = valued.use();
  const sort = (/** @type {string} */ path) => {
    write(view.sort === path ? { ascending: !view.ascending, page: 0 } : { sort: path, ascending: ascendsFirst(path), page: 0 }, { push: true });
  };
  const numeric = useMemo(() => {
    const found = new Set();
    for (const path of columns) {
      const values = rows.map((one) => one.values.get(path)).filter((one) => one !== undefined);
      if (values.length && values.every(isNumber)) found.add(path);
    }
    return found;
  }, [table, columns]);
  const titles = useMemo(() => new Map(columns.map((path) => [path, endOf(path, [...columns, ...known])])), [columns, known]);
  const digits = useMemo(() => moreDigits(rows, numeric), [rows, numeric]);
  const [near, setNear] = useState(false);
  // Not between a click that sorts and its rows.
  const comeNear = () => near || whenQuiet(() => setNear(true));
  const heads = useModule(near || view.pins[0] || view.widths[0] || kept.get(widthsAt(view.project)) ? "./heads.js" : "").module;
  const baseline = rows.find((one) => one.key === view.baseline);
  // The order that is shown, until the other one that is asked for has come.
  const [, , , by, ascending] = JSON.parse(table?.question || questionOf(view));
  const head = (/** @type {string} */ path, /** @type {string} */ className = "") =>
    html`<${SortHead} key=${path} class="${className} ${numeric.has(path) ? "numeric" : ""}" sorted=${by === path && (ascending ? "ascending" : "descending")}
      by=${path} title=${titleOf(path)} text=${path === "sys/state" ? "●" : titles.get(path) ?? titleOf(path)} onSort=${() => sort(path)}>${
      heads && shownColumns.includes(path) && html`<${heads.Tools} path=${path} columns=${shownColumns} view=${view} />`}<//>`;
  const chosen = rows.filter(isSelected);
  const ids = drawn.map((key) => refOf(key, view.project)[1]);
  const shownColumns = useMemo(() => columns.filter((one) => one !== "sys/name" && one !== "sys/state"), [columns]);
  const only = shownColumns.includes(view.sort) ? view.sort : metric;
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
  // A line is not drawn again because its handlers are new.
  /** @type {{current: Deeds}} */
  const deeds = useRef(/** @type {any} */ (null));
  deeds.current = { focus, keys: rowKeys, pick, draw: onDraw, edits: (row) => editMenu(async () => [row.ref], [row]) };
  const question = table?.question ?? "";
  const { blocks, shown, upTo, fill } = useBlocks(rows, question, questionOf(view));
  const lines = shown.slice(0, upTo).flat();
  const starts = shown.map((_, n) => shown.slice(0, n).flat().length);
  const reached = Math.min(at, lines.length - 1);
  useLayoutEffect(() => {
    visible.current = lines;
  });
  // Rows are laid out at once where the place of scrolling is asked for or set.
  const scrolled = useRef(false);
  useLayoutEffect(() => {
    if (scrolled.current && !opened) sheet.current.scrollTop = 0;
    scrolled.current = false;
  }, [question]);
  const pale = useLong(busy && table !== null);
  const minute = Math.floor(api.now() / 60e3);
  const colours = byValue?.colours[theme] ?? view.colours;
  const ink = useMemo(() => new Map(drawn.map((key, n) => [key, colourOf(ids[n], ids, theme, colours)])), [drawn.join(), theme, JSON.stringify(colours)]);
  return html`<div class="sheet" tabindex="-1" aria-busy=${String(busy || upTo < blocks)} ref=${sheet} onCopy=${copyExact} onScroll=${() => {
    scrolled.current = true;
    fill();
  }}>
    <table class="runs narrowed ${pale ? "loading" : ""}">
      <caption class="unseen">Runs${view.project ? ` of ${view.project}` : ""}, sorted by ${titleOf(by)}</caption>
      <thead onPointerEnter=${comeNear} onFocusCapture=${comeNear}><tr>
        <th scope="col" class="tick"><input type="checkbox" aria-label="Select all rows of this page"
          checked=${rows.length > 0 && chosen.length === rows.length}
          onChange=${() => onSelect(rows, chosen.length < rows.length)} /></th>
        ${head("sys/name", "first")}
        ${head("sys/state", "sign-only")}
        ${shownColumns.map((path) => head(path, path === only ? "" : "wide-only"))}
        <td class="rest"></td>
      </tr></thead>
      ${shown.map((some, n) => html`<${Block} key=${n} rows=${some} from=${starts[n]} hidden=${n >= upTo}
        reached=${reached >= starts[n] && reached < starts[n] + some.length ? reached : -1} now=${minute} root=${view.root} project=${view.project} columns=${shownColumns}
        only=${only} selected=${selected} baseline=${baseline}
        ink=${ink} digits=${digits} honesty=${honesty} progress=${progress} deeds=${deeds} />`)}
    </table>
  </div>`;
}

/**
 * The head of a column that the table can be sorted by.
 * @param {{class: string, sorted: "ascending" | "descending" | false, by: string, title: string, text: string, onSort: () => void, children?: any}} props
 */
export function SortHead({ class: name, sorted, by, title, text, onSort, children }) {
  return html`<th scope="col" class=${name} aria-sort=${sorted || "none"}><button type="button" title="Sort by ${by}" aria-label=${title} onClick=${onSort}
    ><bdi>${text}</bdi><span class="sign" aria-hidden="true">${sorted ? (sorted === "ascending" ? "▲" : "▼") : ""}</span></button>${children}</th>`;
}

/**
 * A hook for rows in blocks, of which the first fills the window. For a new question it is drawn at
 * once, and the others when there is time. Until then these are hidden, since invisible rows cost as
 * much to lay out and to paint as visible ones.
 * @param {Row[]} rows
 * @param {string} question which `rows` answer
 * @param {string} wanted the question that is asked now
 * @returns {{shown: Row[][], upTo: number, blocks: number, fill: () => void}} `shown`: of blocks that are hidden, what
 *   they were before; `upTo`: the number of visible ones; `fill` shows the next one at once
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

/** A hook that returns whether something has been so for a while. @param {boolean} so */
function useLong(so) {
  const [long, setLong] = useState(false);
  useEffect(() => {
    if (!so) return undefined;
    const timer = setTimeout(() => setLong(true), LONG_MS);
    return () => {
      clearTimeout(timer);
      setLong(false);
    };
  }, [so]);
  return so && long;
}

/**
 * Some lines of the table.
 * @typedef {{rows: Row[], from: number, hidden: boolean, reached: number, now: number, root: string, project: string,
 *   columns: string[], only: string, selected: Set<string> | null,
 *   baseline: Row | undefined, ink: Map<string, string>, digits: Map<string, string>, honesty: any, progress: Map<string, any>, deeds: {current: Deeds}}} BlockProps
 */
class Block extends Still {
  /** @param {BlockProps} props */
  render({ rows, from, hidden, reached, selected, baseline, ink, digits, honesty, progress, ...same }) {
    return html`<tbody hidden=${hidden}>
      ${rows.map((row, at) => {
        const full = row.ref.join("/");
        const isBase = row.key === baseline?.key;
        return html`<${Line} key=${at} row=${row} n=${from + at} ...${same}
          reached=${reached === from + at} picked=${!selected || selected.has(row.key)} base=${isBase ? undefined : baseline} isBase=${isBase}
          on=${ink.has(row.key)} digits=${digits.get(row.key) ?? ""} colour=${ink.get(row.key) ?? ""} lost=${honesty.losses.get(full)}
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
 *   pick: (event: any, row: Row, n: number) => void, draw: (row: Row) => void,
 *   edits: (row: Row) => any[]}} Deeds
 * @typedef {{row: Row, n: number, now: number, root: string, project: string, columns: string[], only: string, digits: string,
 *   reached: boolean, picked: boolean, base: Row | undefined, isBase: boolean, on: boolean, colour: string,
 *   lost: Record<string, number> | undefined, attempts: number, openings: number, reason: string | undefined, progress: any,
 *   deeds: {current: Deeds}}} LineProps
 */
class Line extends Still {
  /** Mark numbers that changed in their place. @param {any} was */
  componentDidUpdate(was) {
    const { props, base } = this;
    if (was.row === props.row || was.row.key !== props.row.key || was.columns !== props.columns) return;
    props.columns.forEach((/** @type {string} */ path, /** @type {number} */ n) => {
      const [before, after] = [was.row.values.get(path), props.row.values.get(path)];
      if (before === after || !isNumber(before) || !isNumber(after)) return;
      const cell = base.cells[3 + n];
      cell?.classList.add("changed");
      // Not faded: the browser would paint the whole page sixty times a second for it.
      setTimeout(() => cell?.classList.remove("changed"), CHANGED_MS);
    });
  }

  /** @param {LineProps} props */
  render({ row, n, now, root, project, columns, only, digits, reached, picked, base, isBase, on, colour, lost, attempts, openings, reason, progress, deeds }) {
    const most = digits ? JSON.parse(digits) : {};
    const [inProject, id] = row.ref;
    const act = () => deeds.current;
    const below = inProject !== project && (project ? inProject.slice(project.length + 1) : inProject);
    return html`<tr tabindex=${reached ? 0 : -1} aria-selected=${String(picked)} class="${picked ? "picked" : ""} ${isBase ? "base" : ""}"
      onFocus=${() => act().focus(n)} onKeyDown=${(/** @type {KeyboardEvent} */ e) => act().keys(e, row, n)}>
      <td class="tick"><input type="checkbox" tabindex="-1" aria-label="Select ${row.name}" checked=${picked}
        onClick=${(/** @type {any} */ e) => act().pick(e, row, n)} /><button type="button" class="quiet" tabindex="-1" aria-pressed=${String(on)}
        aria-label="Draw ${row.name}" title=${on ? "Drawn: no longer draw it" : "Draw it"} onClick=${() => act().draw(row)}>
        <span class="swatch ${on ? "on" : ""}" style=${colour ? { background: colour } : {}}></span></button></td>
      <th scope="row" class="first"><div><a href=${href({ ...START, root, project: inProject, run: id })} title=${row.name} aria-label=${row.name} tabindex="-1"
        onClick=${plainClick(() => open(row))}><${Middle} text=${row.name} /></a>${below && html`<small><bdi>${below}</bdi></small>`}</div>
        <${Menu} className="more" label="⋯" title="More about ${row.name}" tabindex=${reached ? 0 : -1} items=${() => [
          { label: "Open", onPick: () => open(row) },
          { label: isBase ? "No longer the baseline" : "Baseline: others show their difference", onPick: () => write({ baseline: isBase ? "" : row.key }) },
          ...act().edits(row),
        ]} /></th>
      <td class="sign-only"><${State} state=${row.state} title=${[reason, progress && progressOf(progress)].filter(Boolean).join(", ")} brief />${" "}
        ${progress && html`<span class="unseen">${progressOf(progress)}</span> `}
        ${attempts > 1 && html`<${Badge} kind="accent" title="Resumed: ${attempts} attempts in one run">↻ ${attempts}<span class="unseen"> attempts</span><//>`}
        ${openings > attempts && html`<${Badge} kind="accent" title="Opened ${openings} times, by its id or resumed">↻ <span class="unseen">opened </span>${openings}×<//>`}
        ${lost && html`<${Badge} kind="warn" title=${losses(lost)}>⚠ <span class="unseen">${count(gaps(lost), "gap")}</span><//>`}</td>
      ${columns.map((path) => cellOf(row.values.get(path), path, base?.values.get(path), path === only ? "" : "wide-only", now, most[path]))}
      <td class="rest"></td>
    </tr>`;
  }
}

/**
 * The digits of numbers that would look like another one above or below them, as JSON by row.
 * @param {Row[]} rows @param {Set<string>} numeric
 */
function moreDigits(rows, numeric) {
  const found = new Map();
  rows.forEach((row, n) => {
    const own = /** @type {Record<string, number>} */ ({});
    for (const path of numeric) {
      const digits = digitsBeside(row.values.get(path), [rows[n - 1]?.values.get(path), rows[n + 1]?.values.get(path)]);
      if (digits > 5) own[path] = digits;
    }
    if (Object.keys(own).length) found.set(row.key, JSON.stringify(own));
  });
  return found;
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
 * A value of a run, and its distance from that of the baseline.
 * @param {any} given @param {string} path @param {any} base @param {string} className
 * @param {number} now minutes since the Unix epoch
 * @param {number} [digits] of a number, if more than five
 */
export function cellOf(given, path, base, className, now, digits) {
  if (given === undefined) return html`<td key=${path} class=${className}></td>`;
  const numeric = isNumber(given);
  let shown = /** @type {any} */ (value(given, digits));
  let title = exact(given);
  if (path === "sys/running_time") {
    shown = duration(given);
    title += " s";
  } else if (path === "sys/progress") shown = progressOf(given);
  else if (path === "sys/tags" && Array.isArray(given)) shown = html`<span class="tags">${given.map((tag) => html`<${Badge}><bdi>${tag}</bdi><//>`)}</span>`;
  else if (given instanceof Date) {
    shown = html`<${Time} ns=${given} now=${now * 60e3} coarse />`;
    title = time(given);
  } else if (typeof given === "string") shown = html`<bdi>${given.slice(0, 300)}</bdi>`;
  const delta = typeof base === "number" && typeof given === "number" ? given - base : null;
  return html`<td key=${path} class="${className} ${numeric ? "numeric" : typeof given === "string" || Array.isArray(given) ? "text" : ""}" title=${title.slice(0, 2000)}>${shown}${
    delta !== null && html`<span class="delta">${difference(delta, path)}</span>`
  }</td>`;
}

/** @param {any} loops the value of `sys/progress` @returns {string} */
function progressOf(loops) {
  const outer = Array.isArray(loops) ? loops[0] : null;
  if (!outer || typeof outer !== "object") return "";
  const total = outer.total ? `/${number(outer.total)}` : "";
  const left = typeof outer.remaining_s === "number" ? `, ${duration(outer.remaining_s)} left` : "";
  return `${value(outer.name)} ${number(outer.done)}${total}${left}`;
}
