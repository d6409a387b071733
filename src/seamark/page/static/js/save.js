// @ts-check
/** What is seen, as a file: one of HTML that needs no server, or all charts as one picture. */

import { html, render } from "../vendor/preact.js";
import { read } from "./address.js";
import { GREY, colourOf, currentTheme, dashOf, setHighlight, valued } from "./colours.js";
import { download } from "./copies.js";
import { axisName, axisUnit, count, place, short } from "./format.js";
import { statOf } from "./groups.js";
import { cardOf, escaped, hexOf, inksOf, pictureOf, pngOf, swatch } from "./svg.js";

/** @typedef {import("./svg.js").Card} Card */
/** @typedef {import("./svg.js").Key} Key */
/** @typedef {import("./svg.js").Ink} Ink */
/** @typedef {"html" | "png" | "svg"} Kind */
/**
 * @typedef {object} Seen
 * @property {string} title
 * @property {string[]} facts
 * @property {Key[]} keys the runs or groups that are drawn, and what colours stand for
 * @property {{text: string, y: number, cards: Card[]}[]} sections
 * @property {Card[]} cards
 * @property {{text: string, y: number}[]} heads
 */

/** Charts that are drawn at once to be saved, and the most that one file has. */
const [AT_ONCE, MOST] = [6, 120];
const LOOK_MS = 40;
/** A chart that has not come by then is saved as it is. */
const PATIENT_MS = 30_000;
const CLASSES = ["numeric", "number", "best", "picked", "base", "delta", "badge", "bad", "warn", "accent", "state", "running", "failed", "crashed", "interrupted", "differs"];

const pause = () => new Promise((go) => setTimeout(go, LOOK_MS));
const wordsOf = (/** @type {Element | null | undefined} */ one) => one?.textContent?.trim().replace(/\s+/g, " ") ?? "";

/** A heading without its arrow and its count. @param {Element | null | undefined} one */
const headOf = (one) => wordsOf(one).replace(/^[▸▾]\s*|\s*[\d,]+$/g, "");

/** What stands beside each other, with moments in full. @param {string} selector */
function factsOf(selector) {
  const some = [...(document.querySelector(selector)?.children ?? [])];
  return some.map((one) => {
    const time = one.querySelector("time");
    return time ? wordsOf(one).replace(wordsOf(time), time.title) : wordsOf(one);
  });
}

/**
 * Save what is seen.
 * @param {Kind} kind
 */
export async function save(kind) {
  const stop = new AbortController();
  const box = document.createElement("div");
  document.body.append(box);
  const tell = (/** @type {string} */ text) =>
    render(html`<div class="popup" style=${{ bottom: "12px", right: "12px" }}><p role="status">${text}</p><button type="button" onClick=${() => { stop.abort(); box.remove(); }}>${stop.signal.aborted ? "Close" : "Cancel"}</button></div>`, box);
  try {
    tell("Saving …");
    const inks = inksOf();
    const ink = (/** @type {string} */ hex) => (kind === "html" ? inks.has(hex) ? `var(${inks.get(hex)?.name})` : hex : (inks.get(hex)?.light ?? hex));
    const seen = await look(ink, stop.signal, (done, of) => tell(`Saving: ${done} of ${count(of, "chart")}`));
    if (stop.signal.aborted) return;
    const name = [seen.title, kind === "html" ? "" : "charts"].filter(Boolean).join(" ").slice(0, 100);
    if (kind === "html") download(`${name}.html`, pageOf(seen, ink, [...inks.values()]), "text/html;charset=utf-8");
    else if (!seen.cards.length) throw new Error("There is no chart to save.");
    else {
      const picture = pictureOf({ ...seen, keys: seen.keys.filter((one) => !one.gone) }, ink);
      download(`${name}.${kind}`, kind === "svg" ? picture.svg : await pngOf(picture), "image/svg+xml");
    }
    box.remove();
  } catch (failed) {
    stop.abort();
    tell(`It could not be saved: ${failed?.message ?? failed}`);
  }
}

/**
 * Draw all charts of open sections, also those that are not in view, and find what is said of them.
 * @param {Ink} ink
 * @param {AbortSignal} signal
 * @param {(done: number, of: number) => void} tell
 * @returns {Promise<Seen>}
 */
async function look(ink, signal, tell) {
  setHighlight("");
  const view = read();
  const every = /** @type {any[]} */ ([...document.querySelectorAll("main .charts-slot")]);
  const slots = every.slice(0, MOST);
  const topOf = (/** @type {Element} */ one) => one.getBoundingClientRect().top;
  const headed = (/** @type {Element} */ slot) => slot.closest(".charts-section")?.querySelector("h3");
  const top = Math.min(...slots.map((one) => topOf(headed(one) ?? one)));
  const left = Math.min(...slots.map((one) => one.getBoundingClientRect().left));
  // Found at once, since the page may be scrolled meanwhile.
  const places = slots.map((one) => {
    const head = headed(one);
    const isShown = Boolean(head?.offsetHeight);
    return { x: one.getBoundingClientRect().left - left, y: topOf(one) - top, text: isShown ? headOf(head) : "", at: isShown && head ? topOf(head) - top + 18 : 0 };
  });
  /** @type {Seen["sections"]} */
  const sections = [];
  let asked = null;
  for (let from = 0; from < slots.length && !signal.aborted; from += AT_ONCE) {
    tell(from, slots.length);
    const some = slots.slice(from, from + AT_ONCE);
    const nodes = some.map((slot) => slot.chart());
    asked ??= nodes[0].props;
    const stage = document.createElement("div");
    stage.inert = true;
    Object.assign(stage.style, { position: "fixed", left: "0", top: "0", opacity: "0", pointerEvents: "none", zIndex: "-1" });
    document.body.append(stage);
    // They are drawn besides those in view, however many these are.
    for (const one of nodes) one.props.always = true;
    render(html`<div>${nodes.map((one, at) => html`<div style=${{ width: `${some[at].clientWidth || 440}px` }}>${one}</div>`)}</div>`, stage);
    try {
      await drawn(stage, signal);
      [...stage.querySelectorAll(".chart")].forEach((element, n) => {
        const { x, y, text, at } = places[from + n];
        if (sections[sections.length - 1]?.y !== at) sections.push({ text, y: at, cards: [] });
        sections[sections.length - 1].cards.push({ ...cardOf(/** @type {HTMLElement} */ (element), ink), x, y });
      });
    } finally {
      render(null, stage);
      stage.remove();
    }
  }
  const sheet = () => document.querySelector("main .sheet[aria-busy=true]");
  for (let tries = 0; sheet() && tries < 100; tries += 1) await pause();
  const run = document.querySelector(".run-line");
  const more = every.length > slots.length ? `The first ${slots.length} of ${count(every.length, "chart")}.` : "";
  return {
    title: wordsOf((run ?? document).querySelector("h1")),
    facts: [
      !run && view.screen === "compare" ? view.project : "",
      run ? [view.project, wordsOf(run.querySelector(".state")).replace(/^\W/, "$& "), wordsOf(run.querySelector(".run-reason"))].filter(Boolean).join(" · ") : "",
      factsOf(".run-facts").join(" · "),
      wordsOf(document.querySelector(".run-description")),
      !run && view.q ? `Query: ${view.q}` : "",
      [!run && wordsOf(document.querySelector(".found")), view.group.length && `grouped by ${view.group.join(", ")}`, asked && howDrawn(asked)].filter(Boolean).join(" · "),
      more,
      `Saved ${new Date().toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short", hour12: false })} by Seamark`,
    ].filter(Boolean),
    keys: asked ? keysOf(asked) : [],
    sections,
    cards: sections.flatMap((one) => one.cards),
    heads: sections.filter((one) => one.text),
  };
}

/** Wait until charts have what they ask for, and it is drawn. @param {Element} stage @param {AbortSignal} signal */
async function drawn(stage, signal) {
  const latest = Date.now() + PATIENT_MS;
  // A chart that has its points draws them a moment later.
  for (let still = 0; still < 3 && !signal.aborted && Date.now() < latest; await pause()) still = stage.querySelector(".chart[aria-busy=true]") ? 0 : still + 1;
}

/** How charts are drawn, in words. @param {any} props of a chart */
function howDrawn({ view, zoom, runs, groups }) {
  const axis = view.x || "step";
  const width = view.ema || view.smooth;
  return [
    runs.length > 1 && `${groups ? count(groups.length, "group") : runs.length} drawn`,
    `x: ${axisName(axis)}`,
    view.logx && "log x",
    view.logy && "log y",
    view.robust && "robust y",
    width && `${view.ema ? "half-life" : "mean of"} ${short(width)} ${axisUnit(axis, "")}`,
    zoom && `${place(zoom.low, axis)} … ${place(zoom.high, axis)}`,
    groups && statOf(view.stat).named,
  ].filter(Boolean).join(" · ");
}

/** @param {any} props of a chart @returns {Key[]} */
function keysOf({ view, runs, groups }) {
  const theme = currentTheme();
  const all = groups ? groups.map((/** @type {any} */ one) => [one.label, `${one.label} (n = ${one.refs.length})`]) : runs.map((/** @type {any} */ one) => [one.id, one.name || one.id]);
  const ids = all.map((/** @type {string[]} */ [id]) => id);
  const colours = view.colours || {};
  const own = all.map((/** @type {string[]} */ [id, name]) => ({ name, colour: colourOf(id, ids, theme, colours), dash: dashOf(id, ids, colours), gone: view.hidden.includes(id) }));
  const values = (valued.now?.values ?? []).map(({ label, colour }) => ({ name: `${view.by.join(", ")}: ${label}`, colour: colour[theme], dash: [] }));
  // Runs of one value share its colour, which stands there once.
  if (values.length) return values.filter((one) => !Object.values(GREY).includes(one.colour)).slice(0, 30);
  return own.length > 1 || groups ? own : [];
}

/** The policy of a saved page: no script, and nothing from elsewhere. */
const POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";
const STYLE = `
body { margin: 0; padding: 16px; background: var(--bg); color: var(--fg); font: 14px/20px system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { margin: 0; font-size: 18px; line-height: 24px; unicode-bidi: plaintext; }
h2 { margin: 16px 0 4px; font-size: 14px; line-height: 20px; }
p, ul { margin: 0; padding: 0; color: var(--muted); font-size: 12px; list-style: none; unicode-bidi: plaintext; }
.table { max-width: 100%; width: fit-content; max-height: 70vh; margin: 12px 0; overflow: auto; border: 1px solid var(--line); border-radius: 4px; }
table { border-collapse: separate; border-spacing: 0; font-size: 13px; }
th, td { padding: 4px 8px; border-bottom: 1px solid var(--line); text-align: left; font-weight: 400; max-width: 30rem; }
th[scope=col] { position: sticky; top: 0; background: var(--bg); color: var(--muted); font-weight: 600; }
td, th, figcaption, .keys bdi { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.numeric, .number { text-align: right; font-variant-numeric: tabular-nums; }
.best { font-weight: 600; }
.compared .best::before { content: "▲ " / "best "; font-size: 10px; }
.bad, .failed, .crashed { color: light-dark(#b3261e, #ff8d82); }
.running { color: light-dark(#17693a, #74d39a); }
.warn, .interrupted { color: light-dark(#855300, #efb84f); }
.delta, small { margin-left: 6px; color: var(--muted); }
.badge { margin-right: 4px; padding: 0 4px; border: 1px solid var(--line); border-radius: 4px; font-size: 12px; }
[data-shown]::before { content: attr(data-shown) / ""; }
[data-shown] b { font-size: 0; line-height: 0; }
i { display: inline-block; width: 10px; height: 10px; border-radius: 3px; }
.keys, .cards { display: flex; flex-wrap: wrap; gap: 4px 16px; }
.keys li { display: flex; align-items: center; max-width: min(100%, 24rem); }
.keys svg { flex: none; width: 22px; height: 4px; margin-right: 6px; overflow: visible;}
.gone { text-decoration: line-through; }
.cards { gap: 8px; }
figure { box-sizing: border-box; max-width: 100%; margin: 0; padding: 0 4px 2px; border: 1px solid var(--line); border-radius: 6px; }
figcaption { padding: 2px 4px; font-size: 13px; unicode-bidi: plaintext; }
figcaption span { color: var(--muted); font-size: 12px; }
figure svg { display: block; width: 100%; height: auto; }
@media print { .table { max-height: none; } figure { break-inside: avoid; } }
`;

/**
 * A page that shows what is seen without a server, a script or a network.
 * @param {Seen} seen
 * @param {Ink} ink
 * @param {{name: string, light: string, dark: string}[]} inks
 */
function pageOf({ title, facts, keys, sections }, ink, inks) {
  const legend = (/** @type {Key[]} */ some) =>
    some.length ? `<ul class="keys">${some.map((key) => `<li${key.gone ? ' class="gone"' : ""}><svg viewBox="0 -2 22 4" aria-hidden="true">${swatch(key, ink)}</svg><bdi title="${escaped(key.name)}">${escaped(key.name)}</bdi></li>`).join("")}</ul>` : "";
  const figure = (/** @type {Card} */ { title, count, notes, over, keys, body, width, height, left, top }) => `<figure style="width:${width}px"><figcaption><b>${escaped(title)}</b> <span>${escaped(count)}</span></figcaption>${legend(keys)}
${body ? `<svg viewBox="0 0 ${width - 2 * left} ${height - top}" role="img" aria-label="${escaped(title)}" font-family="system-ui, sans-serif">${body}</svg>` : `<p>${escaped(over || "no line")}</p>`}${notes.length ? `<p>${notes.map((one) => escaped(one.text)).join(" · ")}</p>` : ""}</figure>`;
  const shown = [...document.querySelectorAll("main table")].filter((one) => !one.closest(".chart") && (one.closest(".left") || one.checkVisibility()));
  const tables = shown.map((one) => {
    const head = headOf(one.closest("section, details")?.querySelector("h2, summary"));
    return `${head && !one.closest(".left") ? `<h2>${escaped(head)}</h2>` : ""}<div class="table${one.matches(".compare") ? " compared" : ""}"><table>${[.../** @type {HTMLTableElement} */ (one).rows].map((row) => rowOf(row, ink)).join("\n")}</table></div>`;
  });
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="${POLICY}"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>${escaped(title)}</title><style>:root { color-scheme: light dark; ${inks.map(({ name, light, dark }) => `${name}: light-dark(${light}, ${dark});`).join(" ")} }${STYLE}</style></head>
<body><h1>${escaped(title)}</h1>${facts.map((one) => `<p>${escaped(one)}</p>`).join("")}
${tables.join("\n")}
${legend(keys)}
${sections.map(({ text, cards }) => `${text && `<h2>${escaped(text)}</h2>`}<div class="cards">${cards.map(figure).join("\n")}</div>`).join("\n")}
</body></html>
`;
}

/** @param {HTMLTableRowElement} row @param {Ink} ink */
function rowOf(row, ink) {
  const cells = [...row.cells].filter((one) => !one.matches(".rest"));
  return `<tr>${cells.map((cell) => {
    const [tag, spans] = [cell.tagName.toLowerCase(), ["colspan", "rowspan", "scope"].map((name) => (cell.hasAttribute(name) ? ` ${name}="${escaped(cell.getAttribute(name))}"` : "")).join("")];
    const swatch = /** @type {HTMLElement | null} */ (cell.querySelector(".swatch"))?.style.background;
    const inside = cell.matches(".tick") ? (swatch ? `<i style="background:${escaped(ink(hexOf(swatch)[0]))}"></i>` : "") : partsOf(cell, cell.title);
    return `<${tag}${spans}${classesOf(cell)}${cell.title ? ` title="${escaped(cell.title)}"` : ""}>${inside}</${tag}>`;
  }).join("")}</tr>`;
}

/** @param {Element} one */
function classesOf(one) {
  const some = CLASSES.filter((name) => one.classList.contains(name));
  return some.length ? ` class="${some.join(" ")}"` : "";
}

/**
 * What a cell shows. A number is shown as on the page, and copied with all its digits.
 * @param {Node} node
 * @param {string} exact what is pointed at
 * @returns {string}
 */
function partsOf(node, exact) {
  return [...node.childNodes].map((one) => {
    if (one.nodeType === Node.TEXT_NODE) {
      const text = one.textContent ?? "";
      const isExact = exact && exact !== text && /^[−+-]?(\d+\.?\d*(e[−+-]?\d+)?|inf|nan)$/i.test(exact) && /\d/.test(text);
      return isExact ? `<span data-shown="${escaped(text)}"><b>${escaped(exact)}</b></span>` : escaped(text);
    }
    if (!(one instanceof HTMLElement) || one.matches(".menu, .sign, input, button:not([aria-sort] > *)")) return "";
    if (one.matches(".unseen") && !one.parentElement?.matches(".state")) return "";
    if (one.matches("a[title], time[title]")) return `<bdi>${escaped(one.title)}</bdi>`;
    const inner = partsOf(one, one.matches(".delta, small, .badge") ? "" : exact);
    if (one.matches(".delta, .badge, .state")) return ` <span${classesOf(one)}${one.title ? ` title="${escaped(one.title)}"` : ""}>${inner}</span>`;
    if (one.matches("small")) return ` <small>${inner}</small>`;
    if (one.matches("bdi")) return `<bdi>${inner}</bdi>`;
    if (one.matches(".state i")) return `${inner} `;
    return one.matches("div, li, dd") ? ` ${inner}` : inner;
  }).join("");
}
