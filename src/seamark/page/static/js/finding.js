// @ts-check
/**
 * The text of the box above the table: words that find runs by name, tag and id, and comparisons of
 * the query language; and the words that find metrics.
 */

/**
 * A comparison: `from` to `to` of the text, its field, the path without back-ticks, the type or
 * aggregate behind it, the operator in capitals and the value as written.
 * @typedef {{kind: "compared", from: number, to: number, field: [number, number], path: string, suffix: string,
 *   plain: boolean, sign: string, value: string | undefined, whole: boolean}} Compared
 * @typedef {{kind: "word" | "regex" | "join" | "bracket", from: number, to: number, text: string}} Other
 */

const STRING = String.raw`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`;
const NAME = String.raw`\x60[^\x60]+\x60|[^\s"'\x60=<>!~(),:/][^\s"'\x60=<>!~(),:]*`;
const SUFFIX = String.raw`(?:\s*:\s*[A-Za-z_]+)*`;
const COMPARED = new RegExp(
  String.raw`(?:(last|min|max|mean|average|avg|count)\s*\(\s*(${NAME})(${SUFFIX})\s*\)|(${NAME})(${SUFFIX}))` +
    String.raw`(?:\s*(>=|<=|!=|<>|==|=~|!~|[=<>])\s*(${STRING}|[^\s()"'\x60=<>!~]+)?` +
    String.raw`|\s+((?:not\s+)?(?:contains|matches))\s+(${STRING}|[^\s()"'\x60=<>!~]+)` +
    String.raw`|\s+((?:not\s+)?in)\s*(\((?:${STRING}|[^"')])*\)?)` +
    String.raw`|\s+(is\s+(?:not\s+)?(?:missing|null|none))(?![\w./:-]))`,
  "isuy",
);
const JOIN = /(?:and|or|not)(?=[\s()]|$)/iuy;
const REGEX = /\/((?:[^/\\]|\\.)+)\/(?=[\s)]|$)/suy;
const QUOTED = new RegExp(STRING, "suy");
const WORD = /[^\s()]+/uy;
/** What is said for short, whatever the runs have. @type {Record<string, string>} */
const ALIASES = { tag: "sys/tags", tags: "sys/tags", state: "sys/state", name: "sys/name", id: "sys/id" };
const FOUND_IN = ["sys/name", "sys/tags", "sys/id", "sys/custom_run_id"];
const SETS = ["sys/tags", "sys/group_tags"];
/** Attributes that every query may name. */
export const SYSTEM = ["state", "name", "tags", "creation_time", "running_time", "owner", "description", "id", "hostname", "crash_reason", "failed", "group_tags", "modification_time"].map((one) => `sys/${one}`);

/** The most paths that are proposed. */
export const MOST = 12;

/** @param {RegExp} pattern a sticky one @param {string} text @param {number} at */
function here(pattern, text, at) {
  pattern.lastIndex = at;
  return pattern.exec(text);
}

/**
 * The parts of a text.
 * @param {string} text
 * @returns {(Compared | Other)[]}
 */
function partsOf(text) {
  /** @type {(Compared | Other)[]} */
  const parts = [];
  let at = 0;
  while (at < text.length) {
    if (/[\s()]/.test(text[at])) {
      if (/[()]/.test(text[at])) parts.push({ kind: "bracket", from: at, to: at + 1, text: text[at] });
      at += 1;
      continue;
    }
    const compared = comparedAt(text, at);
    if (compared) parts.push(compared);
    else parts.push(otherAt(text, at));
    at = parts[parts.length - 1].to;
  }
  return parts;
}

/** @param {string} text @param {number} at @returns {Compared | null} */
function comparedAt(text, at) {
  const found = here(COMPARED, text, at);
  if (!found) return null;
  const [all, of, inside, more, bare, behind, sign, value, says, said, among, list, missing] = found;
  const name = of ? inside : bare;
  if (/^(and|or|not)$/i.test(name)) return null;
  // Such as the name lr=0.1,seed=3.
  if (value && !/^["']/.test(value) && /[=<>!~]/.test(text[at + all.length] ?? "")) return null;
  const begin = at + (of ? all.indexOf(name, of.length) : 0);
  return {
    kind: "compared", from: at, to: at + all.trimEnd().length, field: [begin, begin + name.length],
    path: name.replace(/`/g, ""), suffix: (more ?? behind ?? "").replace(/\s/g, ""), plain: !of,
    sign: (sign ?? says ?? among ?? missing).toUpperCase().replace(/\s+/g, " "), value: value ?? said ?? list,
    whole: Boolean(value ?? said ?? missing) || Boolean(list?.endsWith(")")),
  };
}

/** @param {string} text @param {number} at @returns {Other} */
function otherAt(text, at) {
  const join = here(JOIN, text, at);
  if (join) return { kind: "join", from: at, to: at + join[0].length, text: join[0].toUpperCase() };
  const regex = here(REGEX, text, at);
  if (regex) return { kind: "regex", from: at, to: at + regex[0].length, text: regex[1] };
  const quoted = here(QUOTED, text, at);
  if (quoted) return { kind: "word", from: at, to: at + quoted[0].length, text: quoted[0].slice(1, -1).replace(/\\(["'\\])/g, "$1") };
  const [word] = /** @type {RegExpExecArray} */ (here(WORD, text, at));
  return { kind: "word", from: at, to: at + word.length, text: word };
}

/** Whether a text only has words, which find, and no comparison. @param {string} text */
export function isWords(text) {
  return !partsOf(text).some((one) => one.kind === "compared");
}

/** Whether nothing is missing in a text: a value, a bracket, or what follows AND. @param {string} text */
export function isWhole(text) {
  const parts = partsOf(text);
  if (!parts.some((one) => one.kind === "compared")) return true;
  const open = parts.reduce((n, one) => n + (one.kind !== "bracket" ? 0 : one.text === "(" ? 1 : -1), 0);
  return open === 0 && parts[parts.length - 1].kind !== "join" && parts.every((one) => one.kind !== "compared" || one.whole);
}

/** @param {string} word */
function literal(word) {
  return word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** The regular expression of a word: `*` stands for anything. @param {{kind: string, text: string}} one */
function patternOf({ kind, text }) {
  if (kind === "regex") return text;
  return text.includes("*") ? `^${text.split("*").map(literal).join(".*")}$` : literal(text);
}

/** The words of a text without comparisons, in which brackets and AND are words too. @param {string} text */
function termsOf(text) {
  const terms = [];
  for (let at = 0; at < text.length; ) {
    const blank = here(/\s+/uy, text, at);
    const quoted = here(QUOTED, text, at);
    const regex = here(REGEX, text, at);
    const word = here(/\S+/uy, text, at);
    if (!blank) terms.push(regex ? { kind: "regex", text: regex[1] } : { kind: "word", text: quoted ? quoted[0].slice(1, -1) : /** @type {any} */ (word)[0] });
    at += (blank ?? regex ?? quoted ?? /** @type {any} */ (word))[0].length;
  }
  return terms;
}

/**
 * The test of names by a text: each of its words is in one of them, in any order; a word with `*` or
 * `/…/` fits one. A regular expression with a mistake fits nothing.
 * @param {string} text
 * @returns {(...names: string[]) => boolean}
 */
export function matcher(text) {
  try {
    const tests = termsOf(text).map((one) => new RegExp(patternOf(one), one.kind === "word" ? "isu" : "is"));
    return (...names) => tests.every((test) => names.some((one) => test.test(one)));
  } catch {
    return () => false;
  }
}

/** @param {any} value @returns {string} as a query names it */
export function quotedValue(value) {
  if (typeof value === "number" || typeof value === "boolean" || typeof value === "bigint") return String(value);
  return `"${String(value).replace(/[\\"]/g, "\\$&")}"`;
}

/** @param {string} path @returns {string} as a query names it */
export function quotedPath(path) {
  return /^[^\W\d][\w./-]*(:\w+)?$/u.test(path) && !/^(and|or|not|in|is)$/i.test(path) ? path : `\`${path}\``;
}

/** The query of a word. @param {{kind: string, text: string}} one */
function wordQuery(one) {
  const pattern = quotedValue(`(?is)${patternOf(one)}`);
  return `(${FOUND_IN.map((path) => `${path} =~ ${pattern}`).join(" OR ")})`;
}

let last = { text: "", query: "" };

/**
 * The query that a text of the box asks for, in the query language. It depends on nothing but the
 * text: short names have been replaced before.
 * @param {string} text
 */
export function queryOf(text) {
  if (last.text !== text) last = { text, query: compiled(text) };
  return last.query;
}

/** @param {string} text */
function compiled(text) {
  const parts = partsOf(text);
  if (!parts.some((one) => one.kind === "compared")) return termsOf(text).map(wordQuery).join(" AND ");
  // What is not whole yet is told with its place.
  if (parts.some((one) => one.kind === "compared" && !one.whole)) return text;
  if (!parts.some((one) => one.kind === "word" || one.kind === "regex")) return text;
  let query = "";
  let ended = false;
  for (const one of parts) {
    const opens = one.kind === "bracket" ? one.text === "(" : one.kind !== "join" || one.text === "NOT";
    if (ended && opens) query += " AND";
    query += ` ${one.kind === "word" || one.kind === "regex" ? wordQuery(one) : text.slice(one.from, one.to)}`;
    ended = one.kind === "bracket" ? one.text === ")" : one.kind !== "join";
  }
  return query.trim();
}

/** A text of the box that can stand in brackets beside other conditions. @param {string} text */
export function bracketed(text) {
  return text && `(${isWords(text) && /[()"'/]|\b(and|or|not)\b/i.test(text) ? queryOf(text) : text})`;
}

/**
 * The paths that a name may stand for: itself, else what is said for short, else `parameters/NAME`,
 * else those that end so.
 * @param {string} name
 * @param {Set<string>} paths
 * @returns {string[]}
 */
export function pathsOf(name, paths) {
  if (!name || paths.has(name)) return [name];
  if (Object.hasOwn(ALIASES, name.toLowerCase())) return [ALIASES[name.toLowerCase()]];
  if (SYSTEM.includes(name)) return [name];
  if (paths.has(`parameters/${name}`)) return [`parameters/${name}`];
  return [...new Set([...paths, ...SYSTEM])].filter((one) => one.endsWith(`/${name}`));
}

/**
 * A text with the full paths in place of short names.
 * @param {string} text
 * @param {Set<string>} paths
 * @param {Record<string, string>} [chosen] paths that were chosen, by name
 * @returns {{text: string, open: {name: string, paths: string[]}[], other: string[]}} `open`: names that
 *   stand for several paths; `other`: parameters of the same name as a path
 */
export function resolved(text, paths, chosen = {}) {
  let made = "";
  let at = 0;
  const open = [];
  const other = [];
  for (const one of partsOf(text)) {
    if (one.kind !== "compared") continue;
    const found = Object.hasOwn(chosen, one.path) ? [chosen[one.path]] : pathsOf(one.path, paths);
    if (found.length > 1) open.push({ name: one.path, paths: found });
    if (found[0] === one.path && !one.path.includes("/") && paths.has(`parameters/${one.path}`)) other.push(one.path);
    if (found.length !== 1) continue;
    const [path] = found;
    made += text.slice(at, one.from);
    if (SETS.includes(path) && one.plain && one.whole && /^([=!]=?|<>)$/.test(one.sign)) {
      made += `${/^(!=|<>)$/.test(one.sign) ? "NOT " : ""}${path} CONTAINS ${one.value}`;
    } else {
      const [from, to] = one.field;
      made += text.slice(one.from, from) + (path === one.path ? text.slice(from, to) : quotedPath(path)) + text.slice(to, one.to);
    }
    at = one.to;
  }
  return { text: made + text.slice(at), open, other };
}

/** Whether a text has a name that may be a short one. @param {string} text */
export function hasShort(text) {
  return partsOf(text).some((one) => one.kind === "compared" && (!one.path.includes("/") || (SETS.includes(one.path) && /^([=!]=?|<>)$/.test(one.sign))));
}
