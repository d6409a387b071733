// @ts-check
/** Texts as Markdown: paragraphs, headings, lists, code, emphasis and links. Everything else stays as it is written. */

import { html } from "../vendor/preact.js";

const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\*([^*\s][^*\n]*)\*|\[([^\]\n]+)\]\((https?:[^\s)]+)\)|(https?:[/]{2}[^\s<>)\]]+)/g;
const ITEM = /^\s*(?:[-*+]|\d+[.)])\s+/;
/** Longer texts are shown as they are. */
const MOST = 50_000;

/** @param {string} text @returns {any[]} */
function inline(text) {
  const found = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, code, strong, weak, label, address, bare] = match;
    found.push(text.slice(from, match.index));
    from = match.index + whole.length;
    const to = address ?? bare;
    if (code) found.push(html`<code>${code}</code>`);
    else if (strong) found.push(html`<strong>${strong}</strong>`);
    else if (weak) found.push(html`<em>${weak}</em>`);
    else found.push(html`<a href=${to} target="_blank" rel="noopener noreferrer">${label ?? to}</a>`);
  }
  return [...found, text.slice(from)];
}

/** @param {string} text @returns {any[]} */
function blocks(text) {
  const found = [];
  const lines = text.split("\n");
  for (let at = 0; at < lines.length; at += 1) {
    const from = at;
    const upTo = (/** @type {(line: string) => boolean} */ ends) => {
      while (at + 1 < lines.length && !ends(lines[at + 1])) at += 1;
      return lines.slice(from, at + 1);
    };
    const line = lines[at];
    const isOther = (/** @type {string} */ one) => !one.trim() || /^(```|#{1,6}\s)/.test(one);
    if (/^```/.test(line)) {
      const inside = upTo((one) => /^```/.test(one)).slice(1);
      at += 1;
      found.push(html`<pre>${inside.join("\n")}</pre>`);
    } else if (/^#{1,6}\s/.test(line)) found.push(html`<p><strong>${inline(line.replace(/^#+\s+/, ""))}</strong></p>`);
    else if (ITEM.test(line)) {
      const items = upTo((one) => !ITEM.test(one)).map((one) => html`<li>${inline(one.replace(ITEM, ""))}</li>`);
      found.push(/^\s*\d/.test(line) ? html`<ol>${items}</ol>` : html`<ul>${items}</ul>`);
    } else if (line.trim()) found.push(html`<p>${inline(upTo((one) => isOther(one) || ITEM.test(one)).join("\n"))}</p>`);
  }
  return found;
}

/** @param {{text: string, className?: string}} props */
export function Markdown({ text, className = "" }) {
  return html`<div class="markdown ${className}">${text.length > MOST ? html`<p>${text}</p>` : blocks(text)}</div>`;
}
