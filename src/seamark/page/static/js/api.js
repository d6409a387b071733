// @ts-check
/** Requests to the server: at most four at a time, each with the token. */

const AT_ONCE = 4;
const KEPT = 80;
/** The most characters of an answer that is kept. */
const KEPT_LENGTH = 4 << 20;
const ACTIVE_MS = 2000;
const IDLE_MS = 10000;
const LONGEST_MS = 60000;
const EDITED_MS = 6000;
const MOST_POSITIONS = 16;
const AWAY_MS = 30 * 60 * 1000;

/**
 * Events of the connection: the server is `lost` or `back`, it wants a `token`, or it was `upgraded`
 * to another version than that of the page.
 * @typedef {"lost" | "back" | "token" | "upgraded"} Happening
 */

/**
 * An answer, as `seamark.reading.reader.Answer` describes it.
 * @typedef {{answer: any, seen?: string, next?: string, told?: string[], total?: number}} Said
 */

/**
 * @typedef {{name: string, path: string, api: string, read_only: boolean, why: string,
 *   cursor?: string}} Root a folder of runs
 * @typedef {{product?: string, version?: string, instance: string, login: string, roots?: Root[],
 *   seamark?: string, features?: string[]}} Greeting
 * @typedef {{project: string, run: string, state: string | null, gone: boolean,
 *   paths: string[]}} Changed
 */
/**
 * The changes of runs: `tick` grows when runs have changed; `subscribe` calls with these runs, null for any.
 * @typedef {{tick: number, active: boolean, changed: Changed[], reset: boolean,
 *   subscribe: (f: (runs: Changed[] | null) => void) => () => void}} Live
 */

/** A request that failed. */
export class ApiError extends Error {
  /**
   * @param {number} status of HTTP; 0 if there was no answer
   * @param {string} error a short word for programs
   * @param {string} hint a sentence for people
   * @param {Record<string, any>} [more] further members of the answer
   */
  constructor(status, error, hint, more = {}) {
    super(hint || error);
    this.name = "ApiError";
    this.status = status;
    this.error = error;
    this.hint = hint;
    this.more = more;
  }
}

/** @param {any} error @returns {boolean} whether somebody no longer wanted the answer */
export function isAbort(error) {
  return error?.name === "AbortError";
}

/** Requests that wait for one of the few at a time; shared by all roots of the page. @type {(() => void)[]} */
let waiting = [];
let free = AT_ONCE;

/** Wait for a place among the requests. @param {AbortSignal} [signal] */
async function enter(signal) {
  signal?.throwIfAborted();
  if (free > 0) {
    free -= 1;
    return;
  }
  await new Promise((go, fail) => {
    const next = () => {
      signal?.removeEventListener("abort", leave);
      go(undefined);
    };
    const leave = () => {
      waiting = waiting.filter((one) => one !== next);
      fail(signal?.reason);
    };
    signal?.addEventListener("abort", leave, { once: true });
    waiting.push(next);
  });
}

/** Give the place to the next request. */
function leave() {
  const next = waiting.shift();
  if (next) next();
  else free += 1;
}

/** Whether a request is under way. */
export function isBusy() {
  return free < AT_ONCE;
}

/** The requests to one root, below its own address. */
export class Api {
  /**
   * @param {string} base relative to the page, with a slash at its end: "r0/api/v1/"
   * @param {string} [token]
   * @param {string[]} [features] what this server has that others may not
   */
  constructor(base, token = "", features = []) {
    this.base = base;
    this.token = token;
    this.features = features;
    /** The last time the server looked at the folders, milliseconds by its clock; 0 if never. */
    this.looked = 0;
    /** The number of runs that are still to be read for the first time. */
    this.left = 0;
    /** The place in the changes up to which they are known. */
    this.cursor = "";
    /** The number of folders that cannot be read. */
    this.unread = 0;
    /** Up to where edits of this page were recorded, by run. @type {Map<string, string>} */
    this.positions = new Map();
    /** Time of the server minus that of this machine, milliseconds. */
    this.ahead = 0;
    /** The version that answered first. */
    this.version = "";
    this.lost = false;
    /** Answers by their questions. @type {Map<string, Said>} */
    this.known = new Map();
    /** @type {Set<(what: Happening, detail?: any) => void>} */
    this.listeners = new Set();
  }

  /** Milliseconds since the Unix epoch by the server's clock. */
  now() {
    return Date.now() + this.ahead;
  }

  /**
   * @param {(what: Happening, detail?: any) => void} listener
   * @returns {() => void} ends it
   */
  listen(listener) {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  }

  /** @param {Happening} what @param {any} [detail] */
  tell(what, detail) {
    for (const one of [...this.listeners]) one(what, detail);
  }

  /**
   * Read; an unchanged answer is the same object as before.
   * @param {string} verb of `seamark.server.reads`
   * @param {Record<string, any>} question its arguments
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<any>} what is answered
   */
  async read(verb, question, options) {
    return (await this.whole(verb, question, options)).answer;
  }

  /**
   * Read an answer with its warnings and total; the parts of a list are joined.
   * @param {string} verb of `seamark.server.reads`
   * @param {Record<string, any>} question its arguments
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Said>}
   */
  async whole(verb, question, { signal } = {}) {
    const path = `read/${verb}`;
    const key = path + JSON.stringify(question, sendable);
    const before = this.known.get(key);
    const text = await (await this.ask("POST", path, { ...question, seen: before?.seen }, signal)).text();
    const sent = decode(JSON.parse(text));
    const said = sent.unchanged && before ? before : sent;
    while (said.next && Array.isArray(said.answer)) {
      const more = await this.post(path, { ...question, next: said.next }, { signal });
      said.answer = said.answer.concat(more.answer);
      said.next = more.next;
    }
    this.known.delete(key);
    if (said.seen && text.length < KEPT_LENGTH) this.known.set(key, said);
    const oldest = this.known.keys().next().value;
    if (this.known.size > KEPT && oldest !== undefined) this.known.delete(oldest);
    return said;
  }

  /**
   * @param {string} path relative to the base; "" for the greeting
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  get(path, options) {
    return this.send("GET", path, undefined, options);
  }

  /**
   * Send a request other than `read`.
   * @param {string} path
   * @param {any} body
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  post(path, body, options) {
    return this.send("POST", path, body, options);
  }

  /**
   * Change runs.
   * @param {string} path
   * @param {any} body
   * @returns {Promise<any>}
   */
  async patch(path, body) {
    const said = await this.send("PATCH", path, body);
    for (const one of said.runs ?? []) {
      if (!one.ok) continue;
      const run = [...one.project.split("/"), one.run].map(encodeURIComponent).join("/");
      const position = String(one.position);
      this.positions.set(run, position);
      setTimeout(() => this.positions.get(run) === position && this.positions.delete(run), EDITED_MS);
    }
    this.known.clear();
    return said;
  }

  /**
   * An address of one file that needs no token, good for 60 seconds to begin with.
   * @param {string} project
   * @param {string} run
   * @param {string} sha256
   * @param {{name?: string, signal?: AbortSignal}} [options]
   * @returns {Promise<string>} relative to the page
   */
  async link(project, run, sha256, { name, signal } = {}) {
    const body = name === undefined ? { project, run, sha256 } : { project, run, sha256, name };
    const { url } = await this.post("link", body, { signal });
    return url;
  }

  /**
   * Fetch bytes, for pictures with a `blob:` address.
   * @param {string} path
   * @param {string} name of the file
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<Blob>}
   */
  async blob(path, name, { signal } = {}) {
    const answer = await this.ask("GET", `${path}?name=${encodeURIComponent(name)}`, undefined, signal);
    return answer.blob();
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {any} [body]
   * @param {{signal?: AbortSignal}} [options]
   * @returns {Promise<any>}
   */
  async send(method, path, body, { signal } = {}) {
    return decode(await (await this.ask(method, path, body, signal)).json());
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {any} body
   * @param {AbortSignal} [signal]
   * @returns {Promise<Response>}
   */
  async ask(method, path, body, signal) {
    await enter(signal);
    try {
      return await this.fetched(method, path, body, signal);
    } finally {
      leave();
    }
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {any} body
   * @param {AbortSignal} [signal]
   * @returns {Promise<Response>}
   */
  async fetched(method, path, body, signal) {
    /** @type {Record<string, string>} */
    const headers = {};
    if (this.token) headers["X-Seamark-Token"] = this.token;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    // Edits of this page are to be seen in its answers.
    const edited = method === "PATCH" ? "" : [...this.positions].slice(-MOST_POSITIONS).map((one) => one.join("=")).join(",");
    if (edited) headers["Seamark-Position"] = edited;
    const target = new URL(this.base + path, pageAddress());
    // A view may name a project "../..": other addresses of this host must not see the token.
    if (!target.href.startsWith(new URL(this.base, pageAddress()).href)) {
      throw new ApiError(404, "not-found", "Nothing can be called like this.");
    }
    let answer;
    try {
      answer = await fetch(target, {
        method,
        headers,
        body: body === undefined ? undefined : JSON.stringify(body, sendable),
        cache: "no-store",
        credentials: "same-origin",
        redirect: "error",
        signal,
      });
    } catch (error) {
      if (isAbort(error)) throw error;
      if (!this.lost) {
        this.lost = true;
        this.tell("lost");
      }
      throw new ApiError(0, "lost", "The server does not answer.");
    }
    if (this.lost) {
      this.lost = false;
      this.tell("back");
    }
    this.hear(answer);
    if (answer.ok) return answer;
    const said = await answer.json().catch(() => ({}));
    const { error = `http-${answer.status}`, hint = answer.statusText, ...more } = said ?? {};
    if (answer.status === 401) this.tell("token", hint);
    throw new ApiError(answer.status, String(error), String(hint), more);
  }

  /** @param {Response} answer */
  hear(answer) {
    const now = answer.headers.get("seamark-now");
    if (now) this.ahead = Number(now) / 1e6 - Date.now();
    const looked = answer.headers.get("seamark-looked");
    if (looked) this.looked = Number(looked) / 1e6;
    if (now) this.left = Number(answer.headers.get("seamark-left") ?? 0);
    if (now) this.unread = Number(answer.headers.get("seamark-unread") ?? 0);
    const version = answer.headers.get("seamark-version");
    if (!version) return;
    if (this.version && this.version !== version) this.tell("upgraded", version);
    this.version ||= version;
  }
}

/** The address of the page, without its view. */
export function pageAddress() {
  return `${location.origin}${location.pathname}`;
}

/**
 * The path of something of a run, below the base: "runs/vision/digits/quick-otter/contents".
 * @param {string} project
 * @param {string} run
 * @param {string} rest
 */
export function runPath(project, run, rest) {
  return `${["runs", ...project.split("/"), run].map(encodeURIComponent).join("/")}/${rest}`;
}

/** @param {string} _ @param {unknown} one */
function sendable(_, one) {
  return typeof one === "bigint" ? Number(one) : one;
}

/**
 * Decode an answer: arrays are `Float64Array`, times `Date`, whole numbers beyond 2**53
 * `bigint`, classes objects that keep their name as `$`.
 * @param {any} data
 * @returns {any}
 */
export function decode(data) {
  if (data === null || typeof data !== "object") return data;
  if (Array.isArray(data)) {
    for (let at = 0; at < data.length; at += 1) {
      const one = data[at];
      if (one !== null && typeof one === "object") data[at] = decode(one);
    }
    return data;
  }
  const known = data.$;
  const v = data.v;
  switch (known) {
    case "float":
      return v === "inf" ? Infinity : v === "-inf" ? -Infinity : NaN;
    case "int":
      return v.startsWith("-") ? -BigInt(v.slice(1)) : BigInt(v);
    case "datetime":
      return new Date(v);
    case "dict":
      return members(v);
    case "f8":
    case "i8":
      return unpacked(v, known);
    default:
      return members(data);
  }
}

/**
 * The prototype of objects in answers. It is not that of `Object`, since a path of a run may be called
 * `__proto__`. It has a `constructor`, by which Preact tells data from elements: without one, the
 * author of a journal could have anything drawn here.
 */
const DATA = Object.create(null, {
  constructor: { value: null, writable: true },
  [Symbol.toPrimitive]: { value: () => "…" },
});

/** @param {Record<string, any>} data */
function members(data) {
  const made = Object.create(DATA);
  for (const [name, one] of Object.entries(data)) made[name] = decode(one);
  return made;
}

/** @param {string} text @param {"f8" | "i8"} kind @returns {Float64Array} */
function unpacked(text, kind) {
  const raw = atob(text);
  const packed = new Uint8Array(raw.length);
  for (let at = 0; at < raw.length; at += 1) packed[at] = raw.charCodeAt(at);
  if (kind === "f8") return new Float64Array(packed.buffer);
  return Float64Array.from(new BigInt64Array(packed.buffer), Number);
}

/**
 * Ask again and again: after 2 s (or ten times the time of the answer) while something is active,
 * after 10 s otherwise, ever later while there is no answer, and not while the page is hidden.
 * @param {(signal: AbortSignal) => Promise<boolean | void>} callback resolves to whether it is
 *   active
 * @param {{at?: number}} [options] `at`: how soon it is asked first, milliseconds
 * @returns {(() => void) & {now: () => void}} ends it; `.now()` asks at once
 */
export function poll(callback, { at = 0 } = {}) {
  const ended = new AbortController();
  let fails = 0;
  let running = false;
  let heard = Date.now();
  /** @type {any} */
  let timer = null;
  const far = () => location.pathname.includes("/proxy/") && Date.now() - heard > AWAY_MS;
  const plan = (/** @type {number} */ ms) => {
    clearTimeout(timer);
    if (!ended.signal.aborted) timer = setTimeout(turn, ms);
  };
  const turn = async () => {
    if (ended.signal.aborted || running || document.hidden || far()) return;
    running = true;
    clearTimeout(timer);
    const began = performance.now();
    let wait = IDLE_MS;
    try {
      const active = await callback(ended.signal);
      fails = 0;
      wait = active ? ACTIVE_MS : IDLE_MS;
    } catch (error) {
      if (isAbort(error) && ended.signal.aborted) return;
      fails += 1;
      wait = Math.min(LONGEST_MS, ACTIVE_MS * 2 ** Math.min(fails, 6));
    } finally {
      running = false;
    }
    plan(Math.max(wait, Math.min(10 * (performance.now() - began), LONGEST_MS)));
  };
  const seen = () => {
    if (!document.hidden) plan(0);
  };
  const input = () => {
    const was = far();
    heard = Date.now();
    if (was) plan(0);
  };
  document.addEventListener("visibilitychange", seen);
  for (const kind of ["pointerdown", "keydown", "wheel"]) {
    addEventListener(kind, input, { passive: true });
  }
  plan(at);
  const stop = () => {
    ended.abort();
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", seen);
    for (const kind of ["pointerdown", "keydown", "wheel"]) removeEventListener(kind, input);
  };
  return Object.assign(stop, { now: () => plan(0) });
}
