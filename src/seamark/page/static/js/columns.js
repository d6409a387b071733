// @ts-check
/** The columns of the table of runs: those that are chosen, else those that tell runs apart. */

/** @typedef {import("./address.js").View} View */
/**
 * @typedef {{path: string, series: boolean, runs: number, differs: boolean,
 *   longest: number}} Shared
 */

export const MOST_COLUMNS = 30;
/** Read for every row, whether or not they are shown as columns. */
export const ALWAYS = ["sys/name", "sys/state", "sys/creation_time", "sys/tags"];
/** Counters of the progress of a training: not shown as columns by default, and the last charts. */
export const COUNTERS = /(^|\/)(epoch|step|global_step|iteration)$/;
/** The words that may follow a path and a colon. */
export const AGGREGATES = ["min", "max", "mean", "last", "count"];
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
/** Last words of names of metrics of which the greatest value is the best one, and the least. */
const HIGH = "acc accuracy f1 auc auroc ap map iou dice bleu rouge r2 precision recall reward score psnr ssim".split(" ");
const LOW = "loss error mse mae rmse nll wer cer ppl perplexity fid".split(" ");
const TELLING = /** @type {Record<string, number>} */ ({ loss: 0, acc: 1, accuracy: 1 });

/** The title of a column. @param {string} path */
export function titleOf(path) {
  return TITLES[path] ?? path;
}

/**
 * The title of a column among others: the end of its path that no other has, such as `lr` of
 * `model/optimizer/lr`, but all of `val/loss`, whose first part names the data.
 * @param {string} path
 * @param {string[]} others
 */
export function endOf(path, others) {
  const parts = path.split("/");
  let n = 1;
  const end = () => parts.slice(-n).join("/");
  const isShared = () => others.some((one) => one !== path && `/${titleOf(one)}`.endsWith(`/${end()}`));
  while (n < parts.length && (!end() || isShared() || parts.slice(0, -n).some((one) => Object.hasOwn(SPLITS, one)))) n += 1;
  return TITLES[path] ?? end();
}

/** @param {string} path @returns {[string, string]} path and aggregate, "" for none */
export function splitColumn(path) {
  const colon = path.lastIndexOf(":");
  const word = path.slice(colon + 1);
  return colon > 0 && AGGREGATES.includes(word) ? [path.slice(0, colon), word] : [path, ""];
}

/**
 * The good end of the values of a path, as far as its last word says it.
 * @param {string} path
 * @returns {"max" | "min" | ""}
 */
export function good(path) {
  const word = splitColumn(path)[0].toLowerCase().split(/[^a-z0-9]+/).pop() ?? "";
  return HIGH.includes(word) ? "max" : LOW.includes(word) ? "min" : "";
}

/** @param {string} path @returns {boolean} whether it is about how a run ran, not about its result */
export function isAside(path) {
  return path.split("/").slice(0, -1).slice(0, 2).some((part) => ASIDE.includes(part));
}

/**
 * The rank of a metric: losses and accuracies first, of validation before training.
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

/** Losses and accuracies first, of validation before training. @param {string} a @param {string} b */
export function byOrder(a, b) {
  const [one, other] = [order(a), order(b)];
  for (let at = 0; at < one.length; at += 1) if (one[at] !== other[at]) return one[at] - other[at];
  return a < b ? -1 : 1;
}

/**
 * Columns that tell runs apart: metrics, and parameters in which they differ.
 * @param {Shared[]} shared the attributes of the runs
 * @returns {{metrics: string[], parameters: string[]}}
 */
export function telling(shared) {
  const most = Math.max(0, ...shared.map((one) => one.runs));
  const known = shared.filter(
    (one) => 2 * one.runs >= most && !isAside(one.path) && !one.path.startsWith("sys/"),
  );
  const metrics = known
    .filter((one) => one.series && !COUNTERS.test(one.path))
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
 * The columns to show: those of the address, else the one that the table is sorted by and the
 * telling ones, the first metric before parameters.
 * @param {View} view
 * @param {Shared[] | undefined} shared
 * @returns {string[]}
 */
export function columnsOf(view, shared) {
  if (view.cols.length) return view.cols.slice(0, MOST_COLUMNS);
  const sorted = ["sys/name", "sys/state"].includes(view.sort) ? [] : [view.sort];
  if (!shared) return sorted.length ? sorted : ["sys/creation_time"];
  const { metrics, parameters } = telling(shared);
  return [...new Set([...sorted, ...metrics.slice(0, 1), ...parameters, ...metrics, "sys/creation_time", "sys/running_time", "sys/tags"])];
}
