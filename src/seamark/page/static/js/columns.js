// @ts-check
/** Which columns a table has: those that tell runs apart unasked, others when they are chosen. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { Menu, useAnswer } from "./components.js";
import { count } from "./format.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/**
 * @typedef {{path: string, series: boolean, runs: number, differs: boolean,
 *   longest: number}} Shared
 * @typedef {{path: string, family: string, count: number, differing: boolean}} Field
 */

export const MOST_COLUMNS = 30;
/** Asked for every row, whether or not they are shown as columns of their own. */
export const ALWAYS = ["sys/name", "sys/state", "sys/creation_time", "sys/tags"];
const AGGREGATES = ["min", "max", "mean", "last"];
const TITLES = /** @type {Record<string, string>} */ ({
  "sys/name": "Name",
  "sys/state": "State",
  "sys/creation_time": "Created",
  "sys/running_time": "Ran for",
  "sys/tags": "Tags",
  "sys/description": "Description",
  "sys/owner": "Owner",
  "sys/id": "Id",
  "sys/modification_time": "Last change",
  "sys/progress": "Progress",
});
const PARAMETERS = ["parameters", "params", "hyperparameters", "hyperparams", "hparams", "config"];
const ASIDE = ["monitoring", "source_code", "profiling", "ranks", "distributed"];
const SPLITS = /** @type {Record<string, number>} */ ({
  val: 0, valid: 0, validation: 0, eval: 0, dev: 0, test: 1, train: 3, training: 3,
});
const TELLING = /** @type {Record<string, number>} */ ({ loss: 0, acc: 1, accuracy: 1 });

/** What stands above a column. @param {string} path */
export function titleOf(path) {
  return TITLES[path] ?? path;
}

/** @param {string} path @returns {[string, string]} path and aggregate, "" for none */
export function splitColumn(path) {
  const colon = path.lastIndexOf(":");
  const word = path.slice(colon + 1);
  return colon > 0 && [...AGGREGATES, "count"].includes(word) ? [path.slice(0, colon), word] : [path, ""];
}

/** @param {string} path @returns {boolean} whether it says how a run ran, not what came of it */
export function isAside(path) {
  return path.split("/").slice(0, -1).slice(0, 2).some((part) => ASIDE.includes(part));
}

/**
 * Sorts metrics: losses and accuracies first, of validation before training.
 * @param {string} path
 * @returns {number[]}
 */
function order(path) {
  /** @type {string[]} */
  const words = path.toLowerCase().match(/[^/_.:\- ]+/g) ?? [];
  const least = (/** @type {Record<string, number>} */ of, /** @type {number} */ none) =>
    Math.min(none, ...words.filter((one) => Object.hasOwn(of, one)).map((one) => of[one]));
  const known = words.filter((one) => Object.hasOwn(SPLITS, one)).map((one) => SPLITS[one]);
  const split = known.length ? Math.min(...known) : 2;
  const telling = least(TELLING, 2);
  return [Number(words.includes("step")), Number(telling === 2), split, telling];
}

/** @param {string} a @param {string} b */
function byOrder(a, b) {
  const [one, other] = [order(a), order(b)];
  for (let at = 0; at < one.length; at += 1) if (one[at] !== other[at]) return one[at] - other[at];
  return a < b ? -1 : 1;
}

/**
 * Columns that tell runs apart: metrics, and parameters in which they differ.
 * @param {Shared[]} shared what the runs have
 * @returns {{metrics: string[], parameters: string[]}}
 */
export function telling(shared) {
  const most = Math.max(0, ...shared.map((one) => one.runs));
  const known = shared.filter(
    (one) => 2 * one.runs >= most && !isAside(one.path) && !one.path.startsWith("sys/"),
  );
  const counters = /(^|\/)(epoch|step|global_step|iteration)$/;
  const metrics = known
    .filter((one) => one.series && !counters.test(one.path))
    .map((one) => one.path)
    .sort(byOrder);
  const rate = (/** @type {string} */ path) => Number(!/(^|\/)(lr|learning_rate)$/.test(path));
  const parameters = known
    .filter((one) => !one.series && one.differs && one.longest <= 24)
    .map((one) => one.path)
    .sort((a, b) => aParameter(a) - aParameter(b) || rate(a) - rate(b) || (a < b ? -1 : 1));
  return { metrics: metrics.slice(0, 4), parameters: parameters.slice(0, 4) };
}

/** @param {string} path */
function aParameter(path) {
  return Number(!path.split("/").slice(0, -1).some((part) => PARAMETERS.includes(part)));
}

/**
 * The columns to show: those of the address, else the telling ones.
 * @param {View} view
 * @param {Shared[] | undefined} shared
 * @returns {string[]}
 */
export function columnsOf(view, shared) {
  if (view.cols.length) return view.cols.slice(0, MOST_COLUMNS);
  if (!shared) return ["sys/creation_time"];
  const { metrics, parameters } = telling(shared);
  return ["sys/creation_time", "sys/running_time", ...metrics, ...parameters, "sys/tags"];
}

/**
 * A menu in which columns are chosen.
 * @param {{api: Api, view: View, shown: string[], onChange: (cols: string[]) => void}} props
 */
export function ColumnChooser({ api, view, shown, onChange }) {
  return html`<${Menu} label="Columns" title="Choose columns" wide>
    <${Chooser} api=${api} view=${view} shown=${shown} onChange=${onChange} />
  <//>`;
}

/** @param {{api: Api, view: View, shown: string[], onChange: (cols: string[]) => void}} props */
function Chooser({ api, view, shown, onChange }) {
  const [text, setText] = useState("");
  const [asked, setAsked] = useState("");
  const [differing, setDiffering] = useState(true);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), 150);
    return () => clearTimeout(timer);
  }, [text]);
  const { data, error, busy } = useAnswer(
    (signal) =>
      api.post(
        "runs/paths",
        { project: view.project || null, query: view.q || null, contains: asked, unknown: "tell", limit: 1000 },
        { signal },
      ),
    [api, view.project, view.q, asked],
  );
  /** @type {Field[]} */
  const fields = data?.fields ?? [];
  const found = fields.filter((one) => !differing || one.differing || shown.includes(one.path));
  found.sort((a, b) => Number(shown.includes(b.path)) - Number(shown.includes(a.path)));
  const full = shown.length >= MOST_COLUMNS;
  const toggle = (/** @type {string} */ path) =>
    onChange(shown.includes(path) ? shown.filter((one) => one !== path) : [...shown, path]);
  const numeric = ["float_series", "statistic"];
  return html`<div class="pad">
    <input type="search" placeholder="Type to filter" aria-label="Filter columns" value=${text}
      onInput=${(/** @type {any} */ e) => setText(e.target.value)} />
    <label><input type="checkbox" checked=${differing}
      onChange=${(/** @type {any} */ e) => setDiffering(e.target.checked)} /> Only those that differ</label>
    <div class="pick" role="group" aria-label="Columns">
      ${shown
        .filter((path) => !fields.some((one) => one.path === path) && path.toLowerCase().includes(text.toLowerCase()))
        .map((path) => html`<label key=${path}><input type="checkbox" checked onChange=${() => toggle(path)} />
          <bdi>${titleOf(path)}</bdi></label>`)}
      ${found.slice(0, 200).map((one) => {
        const on = shown.includes(one.path);
        return html`<label key=${one.path}>
          <input type="checkbox" checked=${on} disabled=${full && !on} onChange=${() => toggle(one.path)} />
          <bdi>${titleOf(one.path) === one.path ? one.path : `${titleOf(one.path)} (${one.path})`}</bdi>
          <small>${count(one.count, "run")}</small>
          ${numeric.includes(one.family) &&
          html`<span class="aggregates">${["min", "max"].map((word) => {
            const path = `${one.path}:${word}`;
            return html`<button type="button" aria-pressed=${String(shown.includes(path))}
              disabled=${full && !shown.includes(path)} title=${path}
              onClick=${() => toggle(path)}>${word}</button>`;
          })}</span>`}
        </label>`;
      })}
      ${found.length > 200 && html`<p class="muted">${found.length - 200} more: type to filter.</p>`}
      ${!found.length && html`<p class="muted">${busy ? "Looking …" : error ? String(error.hint) : "None."}</p>`}
    </div>
    <div class="row"><small class="grow">${shown.length} of at most ${MOST_COLUMNS}</small>
      <button type="button" onClick=${() => onChange([])}>As at first</button></div>
  </div>`;
}
