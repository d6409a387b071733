// @ts-check
/** The page: its root and screen, whether the server answers, and what changed. */

import { html, render, useEffect, useLayoutEffect, useMemo, useRef, useState } from "../vendor/preact.js";
import { START, linkTo, read, subscribe } from "./address.js";
import { Api, ApiError, poll } from "./api.js";
import { Banner, Empty, ErrorBox, Later, isTyping, kept, pace } from "./components.js";
import { count, duration } from "./format.js";

/** @typedef {import("./address.js").View} View */
/** @typedef {import("./api.js").Changed} Changed */
/** @typedef {import("./api.js").Greeting} Greeting */
/** @typedef {import("./api.js").Live} Live */
/** @typedef {import("./api.js").Root} Root */

/** The first question for changes waits for what is shown first. */
const FIRST_MS = 300;
const LOOKS = ["system", "light", "dark"];

/** @type {Set<(runs: Changed[] | null) => void>} */
const watchers = new Set();
/** @param {(runs: Changed[] | null) => void} watcher */
const subscribeToRuns = (watcher) => {
  watchers.add(watcher);
  return () => void watchers.delete(watcher);
};

/** @param {string} name @returns {Promise<any>} */
const atOnce = (name) => import(name);

/** Take the token out of the address. */
function tokenOfAddress() {
  const token = new URLSearchParams(location.hash.slice(1)).get("token") ?? "";
  const rest = location.hash.slice(1).replace(/(^|&)token=[^&]*/, "").replace(/^&/, "");
  if (token) history.replaceState(null, "", `${location.pathname}${location.search}${rest && `#${rest}`}`);
  return token;
}

function Theme() {
  const [look, setLook] = useState(kept.get("seamark:look") || "system");
  useEffect(() => {
    if (look === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = look;
    kept.set("seamark:look", look === "system" ? "" : look);
  }, [look]);
  const next = LOOKS[(LOOKS.indexOf(look) + 1) % LOOKS.length];
  const sign = { system: "◐", light: "☀", dark: "☾" }[look];
  return html`<button type="button" class="quiet" onClick=${() => setLook(next)}
    title="Colours: ${look}" aria-label="Colours: ${look}; change to ${next}">${sign}</button>`;
}

/**
 * The age of what is shown, and a way to look now.
 * @param {{api: Api, live: Live, looked: number, onLook: () => void}} props
 */
function Age({ api, live, looked, onLook }) {
  const [, setTurn] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => !document.hidden && setTurn((/** @type {number} */ n) => n + 1), 1000);
    return () => clearInterval(timer);
  }, []);
  const age = looked ? Math.max(0, (api.now() - looked) / 1000) : null;
  const left = api.left > 0 ? ` · ${count(api.left, "more run")} being read` : "";
  const word = api.lost ? "no answer" : live.active ? "live" : "idle";
  return html`<span class="age ${api.lost ? "lost" : live.active ? "live" : ""}">
    <i aria-hidden="true">●</i> ${word}${age !== null && html` <span class="seconds">${age < 60 ? `${Math.floor(age)} s` : duration(age)}</span>`}${left}
    <button type="button" class="link" onClick=${onLook} title="Look at the files now">look now</button>
  </span>`;
}

/** @param {{root: Root, roots: Root[], view: View}} props */
function Crumbs({ root, roots, view }) {
  const parts = view.project ? view.project.split("/") : [];
  const home = { ...START, root: view.root, screen: /** @type {const} */ ("projects") };
  const steps = parts.map((part, at) => {
    /** @type {Partial<View>} */
    const change = { ...START, root: view.root, project: parts.slice(0, at + 1).join("/") };
    return { part, change };
  });
  return html`<nav class="crumbs" aria-label="Project">
    <a class="brand" ...${linkTo(home)}>seamark</a>
    ${roots.length > 1 && html`<span class="sep">›</span><bdi title=${root.path}>${root.name}</bdi>`}
    ${steps.map(
      ({ part, change }, at) => html`<span class="sep" aria-hidden="true">›</span><a ...${linkTo(change)}
        aria-current=${at === steps.length - 1 && !view.run ? "page" : undefined}><bdi>${part}</bdi></a>`,
    )}
  </nav>`;
}

/** A screen, or another part, of a module that is fetched when it is needed. @param {Record<string, any>} props */
function Fetched(props) {
  return html`<${Later} wait=${html`<p class="starting">Opening …</p>`} onRetry=${() => location.reload()} ...${props} />`;
}

/**
 * @param {{greeting: Greeting, roots: Root[], token: string, onRefused: (hint: string) => void}} props
 */
function Page({ greeting, roots, token, onRefused }) {
  const [view, setView] = useState(read());
  useEffect(() => subscribe(setView), []);
  const root = roots.find((one) => one.name === view.root) ?? roots[0];
  const api = useMemo(() => new Api(root.api, token, greeting.features ?? []), [root.api, token]);
  const [trouble, setTrouble] = useState("");
  const [upgraded, setUpgraded] = useState(false);
  const [help, setHelp] = useState(false);
  const [keys, setKeys] = useState(kept.get("seamark:keys") !== "off");
  const [live, setLive] = useState(
    /** @type {Live} */ ({ tick: 0, active: false, changed: [], reset: false, subscribe: subscribeToRuns }),
  );
  const [looked, setLooked] = useState(0);
  /** @type {{current: any}} */
  const asking = useRef(null);

  useEffect(
    () =>
      api.listen((what, detail) => {
        if (what === "lost") setTrouble("lost");
        if (what === "back") setTrouble("");
        if (what === "upgraded") setUpgraded(true);
        if (what === "token") onRefused(String(detail ?? ""));
      }),
    [api],
  );

  useEffect(() => {
    let active = false;
    const stop = poll(
      async (signal) => {
        let more = true;
        /** @type {Changed[]} */
        const changed = [];
        let reset = false;
        let cursor = api.cursor || root.cursor || "";
        while (more) {
          const { answer: said, next } = await api.whole("changes", { cursor, project: view.project }, { signal });
          more = Boolean(next);
          reset ||= Boolean(cursor && said.reset);
          // The same question is asked again until something has changed.
          if (!cursor || said.reset || said.runs.length || more) api.cursor = cursor = said.cursor;
          changed.push(...said.runs);
          setLooked(api.looked || api.now());
        }
        active = changed.some((one) => one.state === "running") || (active && pace.running > 0);
        const now = pace.running > 0 || active;
        const news = changed.length > 0 || reset;
        setLive((/** @type {Live} */ was) =>
          news || was.active !== now
            ? { ...was, tick: was.tick + Number(news), active: now, changed, reset }
            : was,
        );
        if (news) for (const one of [...watchers]) one(reset ? null : changed);
        return now || pace.waiting;
      },
      { at: FIRST_MS },
    );
    asking.current = stop;
    addEventListener("seamark:pace", stop.now);
    return () => {
      removeEventListener("seamark:pace", stop.now);
      stop();
    };
  }, [api, view.project]);

  useEffect(() => {
    document.documentElement.dataset.keys = keys ? "on" : "off";
    kept.set("seamark:keys", keys ? "" : "off");
    if (!keys) return undefined;
    const pressed = (/** @type {KeyboardEvent} */ event) => {
      const at = /** @type {any} */ (document.querySelector(`[data-key="${CSS.escape(event.key)}"]`));
      if (!at || isTyping(event)) return;
      event.preventDefault();
      if (at.matches("input")) at.focus();
      else at.click();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, [keys]);

  // If the element with the focus is gone, the next screen has the focus.
  const shown = `${view.root}\n${view.screen}\n${view.run && `${view.project}\n${view.run}`}`;
  const first = useRef(shown);
  useEffect(() => {
    if (first.current === shown) return;
    first.current = shown;
    document.getElementById("main")?.scrollTo(0, 0);
    if (document.activeElement === document.body) document.getElementById("main")?.focus({ preventScroll: true });
  }, [shown]);

  const props = { api, view, live, keys, root, roots };
  const screen = view.run
    ? html`<${Fetched} key="run" of="./run.js" part="RunScreen" ...${props} />`
    : view.screen === "compare"
      ? html`<${Fetched} key="compare" of="./comparison.js" part="CompareScreen" ...${props} />`
      : view.screen === "projects"
        ? html`<${Fetched} key="projects" of="./projects.js" part="ProjectsScreen" ...${props} />`
        : html`<${Fetched} key="runs" of="./runs.js" part="RunsScreen" fetched=${atOnce} ...${props} />`;
  return html`<a class="skip" href="#main" onClick=${(/** @type {MouseEvent} */ event) => {
      event.preventDefault();
      document.getElementById("main")?.focus();
    }}>Skip to the runs</a>
    <header class="top">
      <${Crumbs} root=${root} roots=${roots} view=${view} />
      <span class="grow"></span>
      ${root.read_only && html`<span class="badge warn" title=${root.why}>read-only</span>`}
      <${Age} api=${api} live=${live} looked=${looked} onLook=${() => asking.current?.now()} />
      <button type="button" class="quiet" data-key="?" onClick=${() => setHelp(true)} title="Keys and queries (?)"
        aria-label="Help">?</button>
      <${Theme} />
    </header>
    ${trouble === "lost" &&
    html`<${Banner} kind="bad" action="Try now" onAction=${() => asking.current?.now()}>
      The server does not answer. What you see is from before; it is asked again by itself.<//>`}
    ${view.root && view.root !== root.name &&
    html`<${Banner} kind="warn">There is no folder called ${view.root} here: this is ${root.name}.<//>`}
    ${upgraded &&
    html`<${Banner} kind="warn" action="Reload" onAction=${() => location.reload()}>
      Seamark was upgraded: reload this page.<//>`}
    ${api.unread > 0 && html`<${Fetched} of="./projects.js" part="Unread" count=${api.unread} root=${root} token=${token} />`}
    <main id="main" tabindex="-1" class=${view.run || view.screen !== "runs" ? "" : "fixed"}>${screen}</main>
    ${help && html`<${Fetched} of="./dialogs.js" part="Help" onClose=${() => setHelp(false)} keys=${keys} onKeys=${setKeys} />`}`;
}

function App() {
  const [greeting, setGreeting] = useState(/** @type {Greeting | null} */ (null));
  const [error, setError] = useState(/** @type {any} */ (null));
  const [token, setToken] = useState("");
  const [refused, setRefused] = useState(/** @type {string | null} */ (null));
  const [turn, setTurn] = useState(0);
  const place = greeting ? `seamark:token:${greeting.instance}:${location.pathname}` : "";
  useLayoutEffect(() => {
    const given = tokenOfAddress();
    let timer = 0;
    const told = given ? new Api("api/v1/", given).get("").catch(() => null) : null;
    const greeted = async () => (await told) ?? new Api("api/v1/").get("");
    greeted().then(
      async (said) => {
        const at = `seamark:token:${said.instance}:${location.pathname}`;
        // With accounts, a link must not log in somebody else.
        const shown = given && !(said.login === "account" && kept.get(at)) ? given : kept.get(at);
        if (shown) kept.set(at, shown);
        setToken(shown);
        setRefused(shown || said.login === "none" ? null : "");
        setError(null);
        // With the token, the greeting names the folders, and why one cannot be edited.
        const again = shown && shown !== given && said.login === "token";
        setGreeting(again ? await new Api("api/v1/", shown).get("").catch(() => said) : said);
      },
      (/** @type {ApiError} */ failed) => {
        if (given) setToken(given);
        setError(failed);
        timer = setTimeout(() => setTurn(turn + 1), Math.min(60000, 2000 * 2 ** turn));
      },
    );
    return () => clearTimeout(timer);
  }, [turn]);
  const take = (/** @type {string} */ text) => {
    kept.set(place, text);
    setToken(text);
    setRefused(null);
  };
  useEffect(() => {
    const pasted = () => {
      const given = tokenOfAddress();
      if (given && place) take(given);
    };
    addEventListener("hashchange", pasted);
    return () => removeEventListener("hashchange", pasted);
  }, [place]);
  if (!greeting) {
    return html`<main class="narrow">${
      error
        ? html`<h1>No answer</h1><${ErrorBox} error=${error} onRetry=${() => setTurn(turn + 1)} />`
        : html`<p class="starting">Seamark is opening …</p>`
    }</main>`;
  }
  if (refused !== null) {
    return html`<${Fetched} of="./dialogs.js" part="TokenEntry" login=${greeting.login} hint=${refused} onToken=${take} />`;
  }
  const whole = { name: "", path: "", api: "api/v1/", read_only: false, why: "" };
  const roots = greeting.roots ?? [whole];
  if (roots.length === 0) return html`<main class="narrow"><${Empty} title="No runs yet" /></main>`;
  return html`<${Page} greeting=${greeting} roots=${roots} token=${token} onRefused=${setRefused} />`;
}

// A button may be gone after a click, and nothing has the focus then.
addEventListener("click", (/** @type {any} */ { target }) =>
  setTimeout(() => !target.isConnected && document.activeElement === document.body && document.getElementById("main")?.focus({ preventScroll: true }), 99),
);

const place = /** @type {HTMLElement} */ (document.getElementById("page"));
place.textContent = "";
render(html`<${App} />`, place);
// Made ready while the server is greeted; a failure is told where the module is needed.
import("./runs.js").catch(() => undefined);
