// @ts-check
/** The words that may come next while somebody types a query. */

import { AGGREGATES } from "./columns.js";
import { STATES } from "./components.js";
import { MOST, SYSTEM, pathsOf } from "./finding.js";

const OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "=~", "!~", "CONTAINS", "NOT CONTAINS", "IN", "NOT IN", "MATCHES", "IS MISSING", "IS NOT MISSING"];
const JOINS = ["AND", "OR", "AND NOT"];
const TOKEN = /\s+|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|>=|<=|!=|<>|==|=~|!~|[=<>(),]|[^\s"'`=<>!~(),]+|./gsu;

/**
 * The kind of word that is expected at the caret.
 * @typedef {{want: "path" | "operator" | "value" | "join", from: number, typed: string,
 *   path: string}} Place
 */

/**
 * @param {string} text up to the caret
 * @returns {Place}
 */
export function placeOf(text) {
  /** @type {Place["want"]} */
  let want = "path";
  let path = "";
  let list = false;
  /** @type {Place} */
  let last = { want, from: text.length, typed: "", path };
  for (const match of text.matchAll(TOKEN)) {
    const token = match[0];
    if (/^\s/.test(token)) {
      last = { want, from: match.index + token.length, typed: "", path };
      continue;
    }
    last = { want, from: match.index, typed: token, path };
    const word = token.toUpperCase();
    if (list) {
      if (token === ")") {
        list = false;
        want = "join";
      }
    } else if (want === "path") {
      if (token !== "(" && word !== "NOT") {
        path = token.replace(/`/g, "");
        want = "operator";
      }
    } else if (want === "operator") {
      if (word === "IS" || word === "NOT") continue;
      if (word === "IN") want = "value";
      else if (["MISSING", "NULL", "NONE"].includes(word)) want = "join";
      else if (/^([=<>!~]+|CONTAINS|MATCHES)$/.test(word)) want = "value";
      else if (!OPERATORS.some((one) => one.startsWith(word))) {
        // The one before was a word that finds.
        path = token.replace(/`/g, "");
        last = { want: "path", from: match.index, typed: token, path };
      }
    } else if (want === "value") {
      if (token === "(") list = true;
      else want = "join";
    } else if (word === "AND" || word === "OR") {
      want = "path";
    }
    if (token === "(" || token === ")" || token === ",") {
      last = { want: list ? "value" : want, from: match.index + token.length, typed: "", path };
    }
  }
  return last;
}

/**
 * The words that may come at the caret, the likeliest first.
 * @param {Place} place
 * @param {Set<string>} paths
 * @param {string[]} tags
 * @returns {string[]}
 */
export function proposals(place, paths, tags) {
  const typed = place.typed.replace(/[`"']/g, "").toLowerCase();
  const among = (/** @type {string[]} */ all) => {
    const rank = (/** @type {string} */ one) => {
      const at = one.toLowerCase().indexOf(typed);
      return at <= 0 ? at : one.toLowerCase().includes(`/${typed}`) ? 1 : 2;
    };
    return all.map((one) => /** @type {[number, string]} */ ([rank(one), one])).filter(([n]) => n >= 0).sort((a, b) => a[0] - b[0]).map(([, one]) => one);
  };
  const [path = ""] = place.path ? pathsOf(place.path.replace(/:\w*$/, ""), paths) : [];
  const isKnown = paths.has(path) || SYSTEM.includes(path);
  if (place.want === "path") {
    const colon = place.typed.lastIndexOf(":");
    const before = place.typed.slice(0, colon).replace(/`/g, "");
    if (colon > 0 && pathsOf(before, paths).some((one) => paths.has(one))) return among(AGGREGATES.map((one) => `${before}:${one}`));
    const found = among([...new Set([...SYSTEM, ...paths])]);
    // Facts about the machine come last.
    found.sort((a, b) => Number(/^(sys|monitoring|source_code)\//.test(a)) - Number(/^(sys|monitoring|source_code)\//.test(b)));
    return found.filter((one) => one.toLowerCase() !== typed || one !== place.typed).slice(0, MOST);
  }
  if (place.want === "operator") return !isKnown ? [] : typed && place.typed !== place.path ? among(OPERATORS) : OPERATORS;
  if (place.want === "join") return place.typed ? [] : JOINS;
  if (path === "sys/state") return among(Object.keys(STATES));
  if (path === "sys/tags" || path === "sys/group_tags") return among(tags).slice(0, MOST);
  return [];
}
