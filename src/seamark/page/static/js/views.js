// @ts-check
/**
 * Views of the project, which are addresses under a name: the menu that opens and saves them; and the
 * address of exactly what is seen.
 */

import { html, useEffect, useRef, useState } from "../vendor/preact.js";
import { START, parse, read, refOf, search, write } from "./address.js";
import { pageAddress } from "./api.js";
import { stylesOf } from "./colours.js";
import { Menu, useAnswer } from "./components.js";
import { CopyButton } from "./copies.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {{name: string, address: string, default: boolean, by: string, t_ns: number}} Saved */
/** @typedef {{api: Api, project: string, views: Saved[], may_save: boolean, apart: string}} Told `api`: which was asked */

/** In place of a name, which it cannot be: no view, not even the default one. */
const NONE = " ";
/** What belongs to a visit, not to a view. @type {Partial<View>} */
const OF_VISIT = Object.fromEntries(
  /** @type {const} */ (["root", "project", "screen", "page", "selected", "drawn", "run", "tab", "baseline", "zoom", "view"]).map((name) => [name, START[name]]),
);

/** The view of a saved one, without what belongs to a visit. @param {Saved} saved @returns {View} */
function viewOf({ address }) {
  const [query, hash] = address.split("#");
  return { ...parse(query, `#${hash ?? ""}`), ...OF_VISIT };
}

/** What is compared: colours become those of the runs that are drawn. @param {View} view */
function plain(view) {
  return search({ ...view, ...OF_VISIT, colours: {} });
}

/** The hues of the runs that are drawn. @param {View} view @param {string[]} drawn @returns {Record<string, number>} */
function huesOf(view, drawn) {
  const ids = drawn.map((one) => refOf(one, view.project)[1]);
  return Object.fromEntries([...stylesOf(ids, view.colours)].filter(([, one]) => !one.grey).map(([id, one]) => [id, one.hue]));
}

/** A name for a button. @param {string} name */
function brief(name) {
  const letters = [...name];
  return letters.length > 18 ? `${letters.slice(0, 16).join("")} …` : name;
}

/** @param {View} view @param {boolean} push */
function open(view, push) {
  const { root, project } = read();
  write({ ...view, root, project }, { push });
}

/**
 * The address of exactly what is seen: the runs that are drawn and their colours too.
 * @param {{view: View, drawn: string[]}} props
 */
export function Share({ view, drawn }) {
  const link = () => {
    const seen = read();
    const grouped = seen.group.length > 0;
    const fixed = grouped || seen.drawn.length || seen.selected.length ? seen.drawn : drawn;
    return pageAddress() + search({ ...seen, drawn: fixed, colours: grouped ? seen.colours : { ...seen.colours, ...huesOf(view, drawn) } });
  };
  return html`<${CopyButton} className="share" label="Share" title="Copy a link to exactly what is seen" text=${link} />`;
}

/**
 * The menu of views. It opens the default one if the address asks for nothing else.
 * @param {{api: Api, view: View, drawn: string[]}} props
 */
export function ViewMenu({ api, view, drawn }) {
  const project = view.project;
  const { data, error, again } = useAnswer(async (signal) => ({ api, ...(await api.post("views", { project }, { signal })) }), [api, project]);
  const [told, setTold] = useState(/** @type {Told | null} */ (null));
  useEffect(() => setTold(data ?? null), [data]);
  const views = told?.api === api && told.project === project ? told.views : [];
  const first = views.find((one) => one.default);
  // Not when a query is cleared: only when somebody comes to the project, or back to it.
  useEffect(() => {
    if (first && !search({ ...view, root: "", project: "" })) open({ ...viewOf(first), view: first.name }, false);
  }, [api, project, view.view, first?.name]);
  const saved = views.find((one) => one.name === view.view);
  const differs = Boolean(saved && plain(viewOf(saved)) !== plain(view));
  const label = saved
    ? html`View: <bdi title=${saved.name}>${brief(saved.name)}</bdi>${differs && html` <span title="Changed since it was saved" aria-hidden="true">•</span><span class="unseen">, changed</span>`}`
    : "View";
  return html`<${Menu} label=${label} title="Views of this project" wide>
    ${(/** @type {() => void} */ close) => html`<${Views} ...${{ api, view, drawn, saved, differs, views, told, error, again, onTold: setTold, close }} />`}
  <//>`;
}

/** @param {{on?: boolean, label: any, onPick: () => void, disabled?: boolean, role?: string}} props */
function Item({ on, label, onPick, disabled, role = on === undefined ? undefined : "checkbox" }) {
  return html`<button type="button" class="item" role=${role} aria-checked=${on === undefined ? undefined : String(on)} disabled=${disabled} onClick=${onPick}>${label}</button>`;
}

/**
 * What is in the menu.
 * @param {{api: Api, view: View, drawn: string[], saved: Saved | undefined, differs: boolean, views: Saved[], told: Told | null, error: any, again: () => void,
 *   onTold: (told: Told) => void, close: () => void}} props `saved`: the view that is open; `again` asks for all views
 */
function Views({ api, view, drawn, saved, differs, views, told, error, again, onTold, close }) {
  const [asked, setAsked] = useState(/** @type {"" | "new" | "name" | "delete"} */ (""));
  const [failed, setFailed] = useState(/** @type {any} */ (null));
  useEffect(again, []);
  const may = told?.may_save;
  /** What is seen, as an address. */
  const seen = () => search({ ...view, ...OF_VISIT, colours: { ...view.colours, ...(view.group.length ? {} : huesOf(view, drawn)) } });
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
  return html`
    ${views.length > 0 && html`<div role="radiogroup" aria-label="Views">${views.map((one) => html`<${Item} key=${one.name} role="radio" on=${one === saved}
      label=${html`<bdi>${one.name}</bdi>${one.default && html`<small class="muted">default</small>`}`}
      onPick=${() => { close(); open({ ...viewOf(one), view: one.name }, true); }} />`)}</div>`}
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
    <${Item} label="Everything as at first" onPick=${go({ ...START, root: view.root, project: view.project, view: views.some((one) => one.default) ? NONE : "" })} />`;
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
