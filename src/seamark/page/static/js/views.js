// @ts-check
/** Views of the project, which are addresses under a name; and the address of exactly what is seen. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { START, parse, read, refOf, search, write } from "./address.js";
import { pageAddress } from "./api.js";
import { stylesOf } from "./colours.js";
import { Later, Menu, useAnswer } from "./components.js";
import { CopyButton } from "./copies.js";
import { sizesSeen } from "./chart.js";

/** @typedef {import("./api.js").Api} Api */
/** @typedef {import("./address.js").View} View */
/** @typedef {import("./projects.js").Saved} Saved */
/** @typedef {import("./projects.js").Told} Told */

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
    return pageAddress() + search({ ...seen, sizes: sizesSeen(), drawn: fixed, colours: grouped ? seen.colours : { ...seen.colours, ...huesOf(view, drawn) } });
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
    ${(/** @type {() => void} */ close) => html`<${Later} of="./projects.js" part="Views" ...${{ api, view, saved, differs, views, told, error, again, onTold: setTold, close }}
      seen=${() => search({ ...view, ...OF_VISIT, sizes: sizesSeen(), colours: { ...view.colours, ...(view.group.length ? {} : huesOf(view, drawn)) } })}
      onOpen=${(/** @type {Saved} */ one) => open({ ...viewOf(one), view: one.name }, true)} />`}
  <//>`;
}
