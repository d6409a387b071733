// @ts-check
/**
 * The charts of some runs: how they are drawn, which there are, and those in view. There is a
 * section for each first part of a path; pinned charts come first.
 */

import { html, useCallback, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { read, write } from "./address.js";
import { isAbort } from "./api.js";
import { Chart, Legend, resize, sizeOf, sizes } from "./chart.js";
import { COLOURED, setValued, stylesOf, useTheme, valued } from "./colours.js";
import { COUNTERS } from "./columns.js";
import { Check, Empty, ErrorBox, Filter, isTyping, Later, Menu, Still, useSeen } from "./components.js";
import { isLoading, waited } from "./curves.js";
import { matcher } from "./finding.js";
import { axisUnit, count, place, short } from "./format.js";

/** @typedef {import("./lines.js").RunRef} RunRef */
/** @typedef {import("./lines.js").Range} Range */
/** @typedef {import("./lines.js").Group} Group */
/** @typedef {import("./address.js").View} View */

/** The least width of a column of charts, and what is between two. */
const [COLUMN_PX, GAP_PX] = [400, 8];
const IN_VIEW = 3;
/** Sections about the machine rather than the training: the last ones, closed at first. */
const BEHIND = ["ranks", "profiling", "monitoring", "sys"];

/**
 * @typedef {object} Card One chart: the paths that it draws, and its title.
 * @property {string} key
 * @property {string} title
 * @property {string[]} paths
 */

/** @type {string[]} */
const NONE = [];
const every = () => true;

/** The name of a chart; paths of machines differ in their writers only. @param {string} path */
function commonName(path) {
  const parts = path.split("/");
  return parts[0] === "monitoring" && parts.length > 2 ? `monitoring/${parts.slice(2).join("/")}` : path;
}

/** Whether paths are of other charts; with a thousand charts, a million pairs are compared. @param {Card} card @returns {(path: string) => boolean} */
function notOf(card) {
  const own = new Set(card.paths.map(commonName));
  return (path) => !own.has(path);
}

/** Parts of paths that come first, and last parts. */
const STAGES = [/^(val|valid|validation|eval)$/i, /^train(ing)?$/i, /^test$/i];
const KINDS = [/loss|error|nll|perplexity/i, /acc|f1|auc/i];
/** Parameters and counters that are logged as series. */
const ASIDE = /(^|\/)(lr|lr-[^/]*|learning_rate|weight_decay|momentum|batch_size)$/;

/** @param {string} path */
function isAside(path) {
  return COUNTERS.test(path) || ASIDE.test(path);
}

/** @param {string} path */
function stageOf(path) {
  const parts = path.split("/").reverse();
  for (const part of parts) {
    const at = STAGES.findIndex((one) => one.test(part));
    if (at >= 0) return at;
  }
  return STAGES.length;
}

/** @param {string} path */
function kindOf(path) {
  const at = KINDS.findIndex((one) => one.test(path.slice(path.lastIndexOf("/") + 1)));
  return at < 0 ? KINDS.length : at;
}

/** @param {string} a @param {string} b */
function inSection(a, b) {
  return Number(isAside(a)) - Number(isAside(b)) || stageOf(a) - stageOf(b) || kindOf(a) - kindOf(b) || collator.compare(a, b);
}

const collator = new Intl.Collator("en", { numeric: true });

/**
 * @param {Map<string, Set<string>>} has
 * @param {View} view
 * @param {string} filter
 * @param {(path: string) => boolean} wanted
 * @returns {{name: string, cards: Card[]}[]}
 */
function sectionsOf(has, view, filter, wanted) {
  /** @type {Map<string, string[]>} */
  const cards = new Map();
  for (const path of new Set([...has.values()].flatMap((paths) => [...paths]))) {
    if (!wanted(path)) continue;
    const key = commonName(path);
    cards.set(key, [...(cards.get(key) || []), path]);
  }
  const fits = matcher(filter);
  /** @type {Map<string, Card[]>} */
  const found = new Map();
  const put = (/** @type {string} */ name, /** @type {Card} */ card) => {
    if (fits(card.title)) found.set(name, [...(found.get(name) || []), card]);
  };
  const own = (/** @type {string} */ entry) => entry.split("\n").flatMap((path) => cards.get(path) || []);
  const titled = (/** @type {string} */ entry) => entry.split("\n").join(" + ");
  for (const entry of view.pinned) {
    const paths = own(entry);
    if (paths.length) put("Pinned", { key: entry, title: titled(entry), paths });
  }
  for (const entry of view.charts) {
    const paths = own(entry);
    if (paths.length && !view.pinned.includes(entry)) put("Combined", { key: entry, title: titled(entry), paths });
  }
  /** @type {Map<string, Card[]>} */
  const sections = new Map();
  for (const key of [...cards.keys()].sort(inSection)) {
    if (view.pinned.includes(key) || !fits(key)) continue;
    const slash = key.indexOf("/");
    const name = slash < 0 ? "" : key.slice(0, slash);
    const list = sections.get(name) || [];
    list.push({ key, title: key, paths: /** @type {string[]} */ (cards.get(key)) });
    sections.set(name, list);
  }
  const rank = (/** @type {string} */ name) => {
    if (BEHIND.includes(name)) return 10 + BEHIND.indexOf(name);
    return sections.get(name)?.every((one) => isAside(one.key)) ? 20 : stageOf(name);
  };
  const names = [...sections.keys()].sort((a, b) => rank(a) - rank(b) || collator.compare(a, b));
  for (const name of names) found.set(name || "at the root", /** @type {Card[]} */ (sections.get(name)));
  return [...found].map(([name, cards]) => ({ name, cards }));
}

/**
 * Ask for something that a component shows.
 * @param {(signal: AbortSignal) => Promise<any>} make
 * @param {(answer: any) => void} take
 * @param {(error: any) => void} fail
 * @returns {() => void} aborts the request
 */
function ask(make, take, fail) {
  const abort = new AbortController();
  waited(make(abort.signal)).then(
    (/** @type {any} */ answer) => abort.signal.aborted || take(answer),
    (/** @type {any} */ error) => abort.signal.aborted || isAbort(error) || fail(error),
  );
  return () => abort.abort();
}

/**
 * A hook that counts by run how often it recorded something.
 * @param {any} live @param {RunRef[]} runs @param {string} key
 */
function useVersions(live, runs, key) {
  const [versions, setVersions] = useState(/** @type {Record<string, number>} */ ({}));
  useEffect(() => {
    if (!live?.subscribe) return undefined;
    const ids = new Set(runs.map((run) => run.id));
    const touched = new Set();
    let timer = 0;
    const settle = () => {
      timer = isLoading() ? setTimeout(settle, 300) : 0;
      if (timer) return;
      const some = [...touched];
      touched.clear();
      setVersions((old) => ({ ...old, ...Object.fromEntries(some.map((id) => [id, (old[id] || 0) + 1])) }));
    };
    const stop = live.subscribe((/** @type {{run: string}[] | null} */ changed) => {
      for (const id of changed ? changed.map((one) => one.run) : ids) if (ids.has(id)) touched.add(id);
      if (touched.size && !timer) settle();
    });
    return () => {
      stop();
      clearTimeout(timer);
    };
  }, [live?.subscribe, key]);
  return versions;
}

/**
 * Hooks for what runs have: `has` are the paths of each, null until they are known.
 * @param {any} api @param {RunRef[]} runs @param {string} key @param {View} view @param {Record<string, number>} versions
 * @param {number} retry @param {(error: any) => void} setError
 */
function useContents(api, runs, key, view, versions, retry, setError) {
  const [has, setHas] = useState(/** @type {Map<string, Set<string>> | null} */ (null));
  const [attempts, setAttempts] = useState(/** @type {Map<string, number>} */ (new Map()));
  const [groups, setGroups] = useState(/** @type {Group[] | null} */ (null));
  const refs = runs.map((run) => [run.project, run.id]);
  // Asked before the page is painted.
  useLayoutEffect(() => {
    if (!runs.length) return undefined;
    const take = (/** @type {any[]} */ answer) => {
      setError(null);
      const fresh = new Map(runs.map((run) => [run.id, new Set()]));
      for (const [, id, paths] of answer) fresh.set(id, new Set(paths));
      setHas((old) => (old && sameSets(old, fresh) ? old : fresh));
    };
    return ask((signal) => api.read("series_paths", { refs }, { signal }), take, setError);
  }, [api, key, versions, retry]);

  useEffect(() => {
    if (!runs.length) return undefined;
    const take = (/** @type {any} */ answer) => {
      const found = answer.attempts.map((/** @type {[string, string, number]} */ [, id, n]) => [id, Number(n)]);
      setAttempts((old) => (JSON.stringify([...old]) === JSON.stringify(found) ? old : new Map(found)));
    };
    return ask((signal) => api.read("attempts", { refs }, { signal }), take, () => undefined);
  }, [api, key, versions]);

  useEffect(() => {
    if (!view.group.length || !runs.length) {
      setGroups(null);
      return undefined;
    }
    return ask((signal) => import("./groups.js").then((module) => module.groupsOf(api, runs, view, signal)), setGroups, setError);
  }, [api, key, view.group.join("\n")]);

  // The colours of values.
  useEffect(() => {
    if (!view.by.length || runs.length < 2) {
      setValued(null);
      return undefined;
    }
    return ask((signal) => import("./groups.js").then((module) => module.colouring(api, runs, groups, view, signal)), setValued, setError);
  }, [api, key, groups, view.by.join("\n"), versions]);
  useEffect(() => () => setValued(null), []);
  return { has, attempts, groups };
}

/**
 * Charts of runs.
 * @param {{api: any, runs: RunRef[], of?: number, view: View, live?: any, wanted?: (path: string) => boolean, open?: string[], only?: boolean}} props
 *   `of`: the number of runs of which these are some;
 *   `wanted` chooses paths; `open` names sections that are open though they are about machines;
 *   `only`: the screen has no other runs
 */
export function Charts({ api, runs, of = runs.length, view, live, wanted = every, open = NONE, only = false }) {
  const [error, setError] = useState(/** @type {any} */ (null));
  const [retry, setRetry] = useState(0);
  const key = runs.map((run) => `${run.project}\n${run.id}`).join("\n\n");
  const versions = useVersions(live, runs, key);
  const { has, attempts, groups } = useContents(api, runs, key, view, versions, retry, setError);

  // A link to chosen runs has their hues, in the order in which they were first drawn.
  useEffect(() => {
    if (only || !runs.length || !(view.selected.length || view.drawn.length)) return;
    const styles = [...stylesOf(runs.map((run) => run.id), view.colours)].filter(([, one]) => !one.grey).slice(0, COLOURED);
    const now = styles.map(([id, { hue }]) => [id, hue]);
    if (JSON.stringify(now) !== JSON.stringify(Object.entries(view.colours))) write({ colours: Object.fromEntries(now) });
  }, [key, view.colours]);

  // The charts of the runs before stay until it is known which these runs have.
  const isKnown = !has || runs.every((run) => has.has(run.id));
  const before = useRef(runs);
  if (isKnown && JSON.stringify(before.current) !== JSON.stringify(runs)) before.current = runs;
  // The table may be sorted, and have other columns, without them.
  const { q, cols, pins, widths, sort, ascending, page, baseline, ...rest } = view;
  const look = useMemo(() => view, [JSON.stringify(rest)]);

  const again = useCallback(() => setRetry((old) => old + 1), []);
  if (error && !has) return html`<${ErrorBox} error=${error} onRetry=${again} />`;
  if (!runs.length) return html`<${Empty} title="No runs to draw" />`;
  return html`<${Still} part=${Cards} ...${{ api, runs: before.current, of, view: look, wanted, open, only, versions, has, attempts, groups, error, again }} />`;
}

/**
 * The charts of runs of which it is known what they have.
 * @param {{api: any, runs: RunRef[], of: number, view: View, wanted: (path: string) => boolean, open: string[], only: boolean, versions: Record<string, number>,
 *   has: Map<string, Set<string>> | null, attempts: Map<string, number>, groups: Group[] | null, error: any, again: () => void}} props
 */
function Cards({ api, runs, of, view, wanted, open, only, versions, has, attempts, groups, error, again }) {
  const [closed, setClosed] = useState(/** @type {Record<string, boolean>} */ ({}));
  const theme = useTheme();
  const key = runs.map((run) => `${run.project}\n${run.id}`).join("\n\n");
  const axis = /** @type {string} */ (view.x) === "wall" ? "time" : view.x || "step";
  const zoom = view.zoom?.x === axis ? view.zoom : null;
  // Charts may call an earlier version of this: only the address has the zoom of now.
  const setZoom = (/** @type {Range | null} */ range) => {
    const zoom = read().zoom?.x === axis;
    if (range || zoom) write({ zoom: range && { low: range.low, high: range.high, x: axis } }, { push: !zoom });
  };
  const byValue = valued.use();
  const colours = /** @type {any} */ (byValue ? byValue.colours[theme] : view.colours);
  const look = useMemo(() => ({ ...view, x: axis, colours }), [view, axis, colours]);

  const root = useRef(/** @type {HTMLElement | null} */ (null));
  // A chart that was pinned is made anew in another place, and has the focus again.
  const moved = useRef("");
  useEffect(() => {
    const slot = moved.current && [...(root.current?.querySelectorAll(".charts-slot") ?? [])].find((one) => /** @type {HTMLElement} */ (one).dataset.key === moved.current);
    moved.current = "";
    if (slot) /** @type {HTMLElement | null} */ (slot.querySelector(".chart-tool"))?.focus();
  }, [view.pinned.join("\n\n")]);
  // Set before the next key is pressed, which is to act on what is shown by then.
  useLayoutEffect(() => {
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      if (isTyping(event) || document.documentElement.dataset.keys === "off") return;
      if (event.key === "r") setZoom(null);
      else if (event.key === "l") write({ logy: !view.logy });
      else return;
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [view.logy, zoom]);

  const own = useMemo(() => has && new Map(runs.flatMap(({ id }) => (has.has(id) ? [[id, /** @type {Set<string>} */ (has.get(id))]] : []))), [has, key]);
  const sections = useMemo(() => (own ? sectionsOf(own, view, view.filter, wanted) : []), [own, view.pinned.join("\n\n"), view.charts.join("\n\n"), view.filter, wanted]);
  const known = useMemo(() => [...new Set([...(own?.values() || [])].flatMap((paths) => [...paths].map(commonName)))].sort(collator.compare), [own]);
  const legend = useMemo(
    () =>
      groups
        ? groups.map(({ label, refs }) => ({ id: label, name: `${label} (n = ${refs.length})` }))
        : runs.map((run) => ({ id: run.id, name: run.name || run.id, title: `${run.project}/${run.id}`, onOpen: () => write({ run: run.id, project: run.project, tab: "" }, { push: true }) })),
    [groups, key, runs.map((run) => run.name).join()],
  );
  const room = useColumns(root);
  const most = sizes.use()[""]?.wide ?? 0;
  const columns = most || room;
  const setMost = (/** @type {number} */ wide) => resize("", { wide });
  const total = sections.reduce((sum, one) => sum + one.cards.length, 0);

  const pin = (/** @type {string} */ entry) => {
    moved.current = entry;
    write({ pinned: view.pinned.includes(entry) ? view.pinned.filter((one) => one !== entry) : [...view.pinned, entry] });
  };
  const combine = (/** @type {string} */ before, /** @type {string[]} */ paths) => {
    const entry = [...new Set(paths.map(commonName))].join("\n");
    write({ charts: [...view.charts.filter((one) => one !== before && one !== entry), entry] });
  };
  const isClosed = (/** @type {string} */ name) => closed[name] ?? (BEHIND.includes(name) && !open.includes(name) && !view.filter);
  return html`<section class="charts" aria-label="Charts" ref=${root}>
    <${Controls} api=${api} runs=${runs} view=${view} axis=${axis} known=${known} zoom=${zoom} onZoom=${setZoom} total=${total} several=${attempts.size > 0} most=${most} onMost=${setMost} only=${only}
      anyOpen=${sections.some((one) => !isClosed(one.name))}
      onToggle=${(/** @type {boolean} */ shut) => setClosed(Object.fromEntries(sections.map((one) => [one.name, shut])))} />
    <div class="charts-keys">${(groups || runs.length > 1) && html`<${Legend} key=${groups ? "groups" : "runs"} items=${legend} label=${`${groups ? "Groups" : "Runs"} that are drawn`} theme=${theme} colours=${colours} gone=${view.hidden}
      note=${groups && html`<${Later} of="./groups.js" part="Explained" stat=${view.stat} />`} />`}
    ${byValue && html`<${Later} of="./groups.js" part="ValueKey" valued=${byValue} by=${view.by} theme=${theme} />`}</div>
    ${error && html`<${ErrorBox} error=${error} onRetry=${again} />`}
    ${has && total === 0 && html`<p class="charts-note">${view.filter ? `No chart is called “${view.filter}”.` : known.length ? "No numbers of this kind were recorded." : `${runs.length === 1 ? "This run has" : "These runs have"} logged no numbers: run["train/loss"].append(0.5) logs one.`}</p>`}
    ${sections.map(({ name, cards }, at) => html`<section class="charts-section" key=${name}>
      <h3><button type="button" aria-expanded=${isClosed(name) ? "false" : "true"} onClick=${() => setClosed({ ...closed, [name]: !isClosed(name) })}>
        <span class="charts-arrow" aria-hidden="true">${isClosed(name) ? "▸" : "▾"}</span>${name} <span class="charts-count">${cards.length}</span></button></h3>
      ${!isClosed(name) && html`<div class="charts-grid" style=${{ "--columns": columns }}>${cards.map((card, n) => html`<${Slot} key=${card.key} id=${card.key} label=${card.title} size=${sizeOf(card.key)} columns=${columns} first=${at === 0 && n < IN_VIEW}>
        ${() => html`<${Chart} api=${api} paths=${card.paths} title=${card.title} runs=${runs} view=${look} id=${card.key} height=${sizeOf(card.key).height} of=${of} zoom=${zoom} onZoom=${setZoom}
          has=${has} attempts=${attempts} groups=${groups} versions=${versions} pinned=${view.pinned.includes(card.key)} onPin=${() => pin(card.key)}
          known=${() => known.filter(notOf(card))} onCombine=${(/** @type {string[]} */ paths) => combine(card.key, paths)}
          onRemove=${view.charts.includes(card.key) ? () => write({ charts: view.charts.filter((one) => one !== card.key), pinned: view.pinned.filter((one) => one !== card.key) }) : undefined} />`}
      <//>`)}</div>`}
    </section>`)}
  </section>`;
}

/** A hook that returns how many charts are beside each other. @param {{current: HTMLElement | null}} root */
function useColumns(root) {
  const [columns, setColumns] = useState(1);
  const element = root.current;
  useEffect(() => {
    if (!root.current) return undefined;
    const observer = new ResizeObserver(([{ contentRect }]) => setColumns(Math.max(1, Math.floor((contentRect.width + GAP_PX) / (COLUMN_PX + GAP_PX)))));
    observer.observe(root.current);
    return () => observer.disconnect();
  }, [element]);
  return columns;
}

/** @param {Map<string, Set<string>>} a @param {Map<string, Set<string>>} b */
function sameSets(a, b) {
  if (a.size !== b.size) return false;
  for (const [key, set] of a) {
    const other = b.get(key);
    if (!other || other.size !== set.size) return false;
    for (const one of set) if (!other.has(one)) return false;
  }
  return true;
}

/**
 * A place for a chart, which is made when it comes into view.
 * @param {{id: string, label: string, size: import("./chart.js").Size, columns: number, first: boolean, children?: any}} props `first`: it is most likely in view
 *   at once, so that it is made before the browser says so
 */
function Slot({ id, label, size, columns, first, children }) {
  const wide = Math.min(size.wide, columns);
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const seen = useSeen(ref);
  const [made, setMade] = useState(first);
  const make = Array.isArray(children) ? children.find((one) => typeof one === "function") : children;
  // Asked for when charts are saved.
  useEffect(() => void (/** @type {any} */ (ref.current).chart = make));
  useEffect(() => {
    if (seen && !made) setMade(true);
  }, [seen]);
  return html`<div class="charts-slot" ref=${ref} data-key=${id} data-label=${label} data-columns=${wide} style=${{ gridColumn: `span ${wide}`, minHeight: `${size.height}px` }}>${made ? make() : html`<p class="charts-unmade">${label}</p>`}</div>`;
}

/** A menu that saves what is seen. */
export function SaveMenu() {
  const items = Object.entries({ html: "Page (HTML)", png: "Charts (PNG)", svg: "Charts (SVG)" })
    .map(([kind, label]) => ({ label, onPick: () => import("./save.js").then(({ save }) => save(/** @type {any} */ (kind))) }));
  return html`<${Menu} label=${html`<span aria-hidden="true">⤓</span><span class="unseen">Save</span>`} title="Save what is seen" items=${items} />`;
}

/**
 * @param {{api: any, runs: RunRef[], view: View, axis: string, known: string[], zoom: Range | null, onZoom: (zoom: Range | null) => void, total: number, several: boolean, anyOpen: boolean, onToggle: (shut: boolean) => void, most: number, onMost: (most: number) => void, only: boolean}} props
 */
function Controls({ api, runs, view, axis, known, zoom, onZoom, total, several, anyOpen, onToggle, most, onMost, only }) {
  const [filter, setFilter] = useState(view.filter);
  useEffect(() => setFilter(view.filter), [view.filter]);
  useEffect(() => {
    if (filter === view.filter) return undefined;
    const timer = setTimeout(() => write({ filter }), 200);
    return () => clearTimeout(timer);
  }, [filter]);
  const named = ["step", "relative", "time", "order"];
  const width = view.ema || view.smooth;
  const unit = axisUnit(axis, "");
  const flag = (/** @type {"logx" | "logy" | "robust" | "attempts"} */ name, /** @type {string} */ label, /** @type {string} */ title) => html`<${Check} class="check" title=${title} on=${view[name]} onCheck=${(/** @type {boolean} */ on) => write({ [name]: on })}>${label}<//>`;
  return html`<div class="charts-controls" role="group" aria-label="How charts are drawn">
    <${Filter} class="charts-filter" hint=${`Filter ${count(total, "chart")}`} label="Filter charts" value=${filter} onText=${setFilter} />
    <label>x <select value=${axis} onChange=${(/** @type {any} */ event) => write({ x: event.target.value })}>
      <option value="step">step</option><option value="relative">since start</option><option value="time">wall time</option><option value="order">order of recording</option>
      ${!named.includes(axis) && !known.includes(axis) && html`<option value=${axis}>${axis}</option>`}
      ${known.length > 0 && html`<optgroup label="a series">${known.filter((path) => !path.startsWith("monitoring/")).map((path) => html`<option key=${path} value=${path}>${path}</option>`)}</optgroup>`}
    </select></label>
    ${flag("logy", "log y", "Logarithmic y axis (l)")}
    <${Menu} label=${width ? `Smooth: ${short(width)} ${unit}` : "Smooth"} title="Smooth curves (s)" press="s" wide><${Later} of="./smooth.js" part="Smoothing" view=${view} unit=${unit} axis=${axis} /><//>
    ${runs.length > 1 && html`<${Menu} label=${`Colour by${view.by.length ? " " : ""}${view.by.join(", ")}`} title="Curves that share a colour" wide>
      <${Later} of="./groups.js" part="ColourChooser" api=${api} runs=${runs} view=${view} /><//>`}
    ${zoom && html`<button type="button" class="charts-zoom" title="Zoom out (r)" onClick=${() => onZoom(null)}>x ${place(roundedIn(zoom.low, zoom), axis)} … ${place(roundedIn(zoom.high, zoom), axis)} ✕</button>`}
    ${!only && html`<${SaveMenu} />`}
    <${Menu} label="More" title="More about how charts are drawn" className="charts-more" wide><div class="pad">
      ${flag("logx", "log x", "Logarithmic x axis")}
      ${flag("robust", "robust: y from the 1 % to the 99 % quantile", "What lies beyond is counted")}
      ${(several || view.attempts) && flag("attempts", "replaced points", "What an earlier attempt recorded after the checkpoint that a later one went on from, dashed")}
      <label>Charts beside each other <select value=${most || ""} onChange=${(/** @type {any} */ event) => onMost(Number(event.target.value))}>
        <option value="">as many as fit</option>${[1, 2, 3, 4].map((one) => html`<option key=${one} value=${one}>${one}</option>`)}</select></label>
      <button type="button" onClick=${() => onToggle(anyOpen)}>${anyOpen ? "Fold" : "Unfold"} all sections</button></div><//>
  </div>`;
}

/** @param {number} x @param {Range} zoom */
function roundedIn(x, zoom) {
  const unit = 10 ** Math.floor(Math.log10((zoom.high - zoom.low) / 100));
  return Number((Math.round(x / unit) * unit).toPrecision(12));
}
