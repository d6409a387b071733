// @ts-check
/** The projects of a root, the description of one of them, and its views. */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { START, linkTo, write } from "./address.js";
import { Api } from "./api.js";
import { Banner, Empty, ErrorBox, TabList, Time, kept, pace, tell, useAnswer, widthsAt } from "./components.js";
import { Code, CopyButton } from "./copies.js";
import { count, number } from "./format.js";
import { which } from "./rows.js";

/** @typedef {import("./address.js").View} View */
/** @typedef {{name: string, address: string, default: boolean, by: string, t_ns: number}} Saved */
/** @typedef {{api: Api, project: string, views: Saved[], may_save: boolean, apart: string}} Told `api`: which was asked */
/** @typedef {import("./api.js").Root} Root */
/**
 * @typedef {{project: string, runs: number, running: number, failed?: number, crashed: number, trashed: number,
 *   last_record_ns: bigint | number | null}} Project
 */

/** What records a first run, by what it is written for. @type {Record<string, (project: string, where: string) => string[]>} */
const FIRST = {
  Lightning: (project, where) => [
    "from lightning import Trainer",
    "from seamark.lightning import SeamarkLogger",
    "",
    `trainer = Trainer(logger=SeamarkLogger(project=${project}${where}))`,
    "trainer.fit(model)",
  ],
  Ignite: (project, where) => [
    "from seamark.ignite import setup_seamark_logging",
    "",
    `logger = setup_seamark_logging(trainer, optimizer, project=${project}${where})`,
    "with logger:",
    "    trainer.run(batches, max_epochs=2)",
  ],
  Python: (project, where) => [
    "import seamark",
    `run = seamark.init_run(${project}${where})`,
    "for step in range(100):",
    '    run["train/loss"].append(1 / (1 + step), step=step)',
    "run.stop()",
  ],
};

/**
 * A link within the page.
 * @param {{change: Partial<View>, children?: any, className?: string}} props
 */
function Go({ change, children, className }) {
  return html`<a class=${className} ...${linkTo(change)}>${children}</a>`;
}

/**
 * The folders that cannot be read: which, why, and what to do.
 * @param {{count: number, root: Root, token: string}} props
 */
export function Unread({ count, root, token }) {
  const { data } = useAnswer((signal) => new Api("api/v1/", token).get("", { signal }), [token, count]);
  /** @type {[string, string][]} */
  const first = data?.roots?.find((/** @type {Root} */ one) => one.api === root.api)?.unread_first ?? [];
  return html`<${Banner} kind="warn">${count === 1 ? "1 folder" : `${number(count)} folders`} cannot be read: new runs in there are missing, others are as they were.
    ${first.map(([path, why]) => html`<span key=${path}> <code><bdi>${path}</bdi></code> (${why}) </span>`)}${count > first.length && first.length > 0 && ` and ${number(count - first.length)} more. `}
    Give yourself the right to read: <code>chmod -R u+rX</code>, or ask whose they are; <code>seamark fsck</code> tells of each.<//>`;
}

/**
 * @param {{api: import("./api.js").Api, view: View, live: import("./api.js").Live, root: Root,
 *   roots: Root[]}} props
 */
export function ProjectsScreen({ api, view, live, root, roots }) {
  const { data, error, busy, again } = useAnswer(
    (signal) => api.read("projects", {}, { signal }),
    [api, live.tick],
  );
  /** @type {Project[]} */
  const all = data ?? [];
  const inside = view.project
    ? all.filter((one) => one.project === view.project || one.project.startsWith(`${view.project}/`))
    : all;
  const sum = (/** @type {"runs" | "running" | "crashed" | "trashed"} */ what) => inside.reduce((n, one) => n + one[what], 0);
  useEffect(() => tell({ running: sum("running"), crashed: sum("crashed"), title: view.project || "projects" }), [data, view.project]);
  const described = useAnswer(
    (signal) =>
      view.project
        ? api.read("table", { kind: "project", project: view.project, columns: ["sys/description"], unknown: "tell" }, { signal })
        : Promise.resolve(null),
    [api, view.project],
  );
  const about = described.data?.table;
  const own = about?.refs.findIndex((/** @type {string[]} */ one) => one[0] === view.project) ?? -1;
  const description = own < 0 ? null : about.cells[about.columns.indexOf("sys/description")]?.[own];
  const at = (/** @type {string} */ project) => ({ ...START, root: view.root, project });
  return html`<div class="title">
      <h1><bdi>${view.project || (roots.length > 1 ? root.name : "Projects")}</bdi></h1>
      ${view.project && html`<${Go} change=${at(view.project)} className="button">${`Its runs (${number(sum("runs"))})`}<//>`}
      ${!view.project && all.length > 1 && html`<${Go} change=${at("")} className="button">${`All ${number(sum("runs"))} runs`}<//>`}
    </div>
    ${typeof description === "string" && html`<p class="prose">${description}</p>`}
    ${root.path && html`<p class="prose muted">Folder <code><bdi>${root.path}</bdi></code> <${CopyButton} text=${root.path} title="Copy the folder" className="quiet" />
      ${root.read_only && html` · read-only: ${root.why}`}</p>`}
    ${error && html`<${ErrorBox} error=${error} onRetry=${again} />`}
    ${!data && busy && html`<p class="starting">Reading …</p>`}
    ${data && !inside.length && html`<${Empty} title="No runs yet"><p>${root.why}</p>
      <p><${Go} change=${at(view.project)}>How to record one<//></p><//>`}
    ${inside.length > 0 &&
    html`<div class="list"><div class="sheet short"><table class="runs">
      <caption class="unseen">Projects${view.project ? ` in ${view.project}` : ""}</caption>
      <thead><tr><th scope="col"><span class="plain">Project</span></th><th scope="col" class="numeric"><span class="plain">Runs</span></th>
        <th scope="col" class="numeric"><span class="plain">Running</span></th><th scope="col" class="numeric"><span class="plain">Failed</span></th><th scope="col" class="numeric"><span class="plain">Crashed</span></th><th scope="col" class="numeric wide-only"><span class="plain">In the trash</span></th>
        <th scope="col"><span class="plain">Last record</span></th></tr></thead>
      <tbody>${inside.map((one) => html`<tr key=${one.project}>
        <th scope="row"><${Go} change=${at(one.project)}><bdi>${one.project}</bdi><//></th>
        <td class="numeric">${number(one.runs)}</td>
        <td class="numeric ${one.running ? "good" : "muted"}">${one.running ? html`<span aria-hidden="true">● </span>` : ""}${number(one.running)}</td>
        <td class="numeric ${one.failed ? "bad" : "muted"}">${one.failed ? html`<${Go} change=${{ ...at(one.project), q: "sys/state = failed" }}>${number(one.failed)}<//>` : "0"}</td>
        <td class="numeric ${one.crashed ? "bad" : "muted"}">${one.crashed ? html`<${Go} change=${{ ...at(one.project), q: "sys/state = crashed" }}>${number(one.crashed)}<//>` : "0"}</td>
        <td class="numeric muted wide-only">${one.trashed ? html`<${Go} change=${{ ...at(one.project), trashed: true }}>${number(one.trashed)}<//>` : "0"}</td>
        <td><${Time} ns=${one.last_record_ns} now=${api.now()} /></td></tr>`)}</tbody></table></div></div>`}
    ${roots.length > 1 &&
    html`<div class="list"><h2>Folders</h2><ul class="roots">${roots.map((one) => html`<li key=${one.name}>
      <${Go} change=${{ ...START, root: one.name, screen: /** @type {const} */ ("projects") }}><bdi>${one.name}</bdi><//>${" "}
      <small><bdi>${one.path}</bdi>${one.read_only ? ` · read-only: ${one.why}` : ""}</small></li>`)}</ul></div>`}`;
}

/**
 * Why there are no runs, and what to do.
 * @param {{api: Api, view: View, live: import("./api.js").Live, root: Root, left: number}} props
 */
export function Nothing({ api, view, live, root, left }) {
  if (view.q) return html`<${NoMatch} api=${api} view=${view} />`;
  if (view.trashed) return html`<${Empty} title="The trash is empty" />`;
  if (left > 0) return html`<p class="starting">Reading ${count(left, "run")} …</p>`;
  return html`<${NoRuns} api=${api} view=${view} live=${live} root=${root} />`;
}

/** The parts of a query that hold together: between its outermost ANDs; of words, each. @param {string} q */
function partsOf(q) {
  if (!/[<>=~()`"]|\s(in|is|contains|matches)\s/i.test(q)) return q.split(/\s+/);
  const parts = [""];
  let depth = 0;
  for (const [token] of q.matchAll(/"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|[()]|[^\s"'`()]+|\s+/g)) {
    if (token === "(") depth += 1;
    else if (token === ")") depth -= 1;
    if (depth === 0 && /^and$/i.test(token)) parts.push("");
    else parts[parts.length - 1] += token;
  }
  return parts.map((one) => one.trim()).filter(Boolean);
}

/** @param {{api: Api, view: View}} props */
function NoMatch({ api, view }) {
  const parts = partsOf(view.q).slice(0, 20);
  const { data } = useAnswer(
    (signal) =>
      Promise.all(parts.map((q) => api.whole("select", { ...which({ ...view, q }), limit: 1 }, { signal }).then((said) => number(Number(said.total)), () => "–"))),
    [api, view.project, view.q],
  );
  const only = (/** @type {string} */ q) => write({ q, page: 0 }, { push: true });
  return html`<${Empty} title="No run matches">
    <table class="values"><thead><tr><th scope="col">alone</th><th scope="col" class="number">runs</th></tr></thead>
      <tbody>${parts.map((q, at) => html`<tr key=${at}><th scope="row"><button type="button" class="link" title="Show what this alone leaves" onClick=${() => only(q)}><code><bdi>${q}</bdi></code></button></th>
        <td class="number">${data?.[at] ?? "…"}</td></tr>`)}</tbody></table>
    <p><button type="button" onClick=${() => only("")}>Clear</button></p><//>`;
}

/**
 * What records a first run. It is looked for every two seconds, and opened when it comes.
 * @param {{api: Api, view: View, live: import("./api.js").Live, root: Root}} props
 */
function NoRuns({ api, view, live, root }) {
  const [tab, setTab] = useState("Lightning");
  // Runs that were there before are read when the page opens; they are not opened.
  const wasEmpty = useRef(false);
  useEffect(() => {
    const first = live.changed[0];
    if (wasEmpty.current && live.changed.length === 1) write({ project: first.project, run: first.run }, { push: true });
  }, [live.tick]);
  useEffect(() => {
    if (api.looked > 0) wasEmpty.current = true;
  });
  useEffect(() => {
    pace.waiting = true;
    dispatchEvent(new Event("seamark:pace"));
    return () => {
      pace.waiting = false;
    };
  }, []);
  const where = root.path ? `, root=${JSON.stringify(root.path)}` : "";
  return html`<${Empty} title=${view.project ? `No runs in ${view.project} yet` : root.path ? `No runs in ${root.path} yet` : "No runs yet"}>
    ${root.why && html`<p>${root.why}</p>`}
    <p>The first one opens here by itself. With one of these it is recorded${root.path ? " in this folder" : ""}:</p>
    <${TabList} class="run-tabs" label="What the training is written with" id="first" panel="first" tabs=${Object.keys(FIRST).map((one) => [one, one])} now=${tab} onTab=${setTab} />
    <div role="tabpanel" id="first" aria-labelledby="first-${tab}"><${Code} text=${FIRST[tab](JSON.stringify(view.project || "first"), where).join("\n")} focused /></div>
    <p class="muted">Already have logs? <code>seamark import --help</code> · Another folder: <code>seamark ui PATH</code>${view.project && html` · <${Go} change=${{ ...START, root: view.root, screen: /** @type {const} */ ("projects") }}>Which projects are there?<//>`}</p><//>`;
}

/** In place of a name, which it cannot be: no view, not even the default one. */
const NONE = " ";

/** @param {{on?: boolean, label: any, onPick: () => void, disabled?: boolean, role?: string}} props */
function Item({ on, label, onPick, disabled, role = on === undefined ? undefined : "checkbox" }) {
  return html`<button type="button" class="item" role=${role} aria-checked=${on === undefined ? undefined : String(on)} disabled=${disabled} onClick=${onPick}>${label}</button>`;
}

/**
 * What is in the menu of views.
 * @param {{api: Api, view: View, saved: Saved | undefined, differs: boolean, views: Saved[], told: Told | null, error: any, again: () => void,
 *   onTold: (told: Told) => void, close: () => void, seen: () => string, onOpen: (view: Saved) => void}} props `saved`: the view that is open;
 *   `again` asks for all views; `seen` returns what is seen, as an address
 */
export function Views({ api, view, saved, differs, views, told, error, again, onTold, close, seen, onOpen }) {
  const box = useRef(/** @type {HTMLElement | null} */ (null));
  const [asked, setAsked] = useState(/** @type {"" | "new" | "name" | "delete"} */ (""));
  const [failed, setFailed] = useState(/** @type {any} */ (null));
  useEffect(() => {
    again();
    box.current?.querySelector("button")?.focus({ preventScroll: true });
  }, []);
  const may = told?.may_save;
  const send = async (/** @type {string} */ name, /** @type {string | null} */ was, /** @type {Record<string, any>} */ change, /** @type {string} */ opened) => {
    try {
      onTold({ api, ...(await api.patch("views", { project: view.project, name, was, ...change })) });
      write({ view: opened });
      close();
    } catch (refused) {
      setFailed(refused);
      again();
    }
  };
  const change = (/** @type {Record<string, any>} */ to, name = saved?.name ?? "") => saved && send(saved.name, saved.address, to, name);
  const named = (/** @type {string} */ name) => {
    if (asked === "delete") change({ address: null }, "");
    else if (asked === "name") change({ to: name }, name);
    else send(name, null, { address: seen() }, name);
  };
  const go = (/** @type {Partial<View>} */ to) => () => {
    close();
    write(to, { push: true });
  };
  const trouble = failed ?? error;
  return html`<div ref=${box}>
    ${views.length > 0 && html`<div role="radiogroup" aria-label="Views">${views.map((one) => html`<${Item} key=${one.name} role="radio" on=${one === saved}
      label=${html`<bdi>${one.name}</bdi>${one.default && html`<small class="muted">default</small>`}`}
      onPick=${() => { close(); onOpen(one); }} />`)}</div>`}
    ${asked ? html`<${Question} asked=${asked} name=${(asked !== "new" && saved?.name) || ""} onName=${named} onCancel=${() => setAsked("")} />` : html`
      ${saved && may && html`
        <${Item} label="Save" disabled=${!differs} onPick=${() => change({ address: seen() })} />
        <${Item} label="Rename …" onPick=${() => setAsked("name")} />
        <${Item} label="Delete …" onPick=${() => setAsked("delete")} />
        <${Item} label="Open the project with it" on=${saved.default} onPick=${() => change({ default: !saved.default })} />`}
      ${may && html`<${Item} label="Save as …" onPick=${() => setAsked("new")} />`}`}
    ${may && told?.apart && html`<p class="muted pad">${told.apart}</p>`}
    ${trouble && html`<p class="bad pad" role="alert">${String(trouble.hint ?? trouble)}</p>`}
    <hr style=${{ border: 0, borderTop: "1px solid var(--line)", margin: "4px 0" }} />
    <${Item} label="The trash" on=${view.trashed} onPick=${go({ trashed: !view.trashed, page: 0, selected: [], drawn: [] })} />
    <${Item} label="Project: description, folders" onPick=${go({ screen: "projects" })} />
    <${Item} label="Newest first" on=${view.sort === START.sort && !view.ascending} onPick=${go({ sort: START.sort, ascending: false, page: 0 })} />
    <${Item} label="Everything as at first" onPick=${() => {
      for (const place of [widthsAt(view.project), `seamark:split:${view.project}`, `seamark:split:rows:${view.project}`, "seamark:sizes"]) kept.set(place, "");
      go({ ...START, root: view.root, project: view.project, view: views.some((one) => one.default) ? NONE : "" })();
    }} /></div>`;
}

/**
 * What is asked before a view is saved, renamed or deleted.
 * @param {{asked: string, name: string, onName: (name: string) => void, onCancel: () => void}} props
 */
function Question({ asked, name, onName, onCancel }) {
  const [text, setText] = useState(name);
  const first = useRef(/** @type {HTMLElement | null} */ (null));
  useEffect(() => first.current?.focus(), []);
  const given = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (text.trim()) onName(text.trim());
  };
  const word = { new: "Save", name: "Rename", delete: "Delete" }[asked];
  return html`<form class="pad" onSubmit=${given}>
    ${asked === "delete" ? html`<span>Delete the view <bdi>${name}</bdi> for everybody?</span>` : html`<label>Name <input ref=${first} value=${text} maxlength="100" onInput=${(/** @type {any} */ event) => setText(event.target.value)} /></label>`}
    <span class="row"><button type="submit" class="main" ref=${asked === "delete" ? first : undefined}>${word}</button><button type="button" onClick=${onCancel}>Cancel</button></span>
  </form>`;
}
