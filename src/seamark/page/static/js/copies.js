// @ts-check
/** Copies that leave the page: texts on the clipboard, and files. */

import { html, useEffect, useState } from "../vendor/preact.js";
import { Later } from "./components.js";
import { exact } from "./format.js";

/**
 * A button that copies a text. Without a clipboard (plain HTTP on another machine) it shows the text.
 * @param {{text: string | (() => string), label?: any, title?: string, className?: string}} props
 */
export function CopyButton({ text, label = "Copy", title, className = "" }) {
  const [said, setSaid] = useState("");
  const [shown, setShown] = useState("");
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => setSaid(""), 1600);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = async () => {
    const wanted = typeof text === "function" ? text() : text;
    try {
      await navigator.clipboard.writeText(wanted);
      setSaid("Copied");
    } catch {
      setShown(wanted);
    }
  };
  return html`<button type="button" class="copy ${className}" title=${title} onClick=${copy}
    >${said || label}</button><span class="unseen" role="status">${said}</span>${shown && html`<${Later} of="./dialogs.js" part="TextDialog" text=${shown} onClose=${() => setShown("")} />`}`;
}

/** A text in lines, and a button that copies it. @param {{text: string, focused?: boolean}} props `focused`: it can be scrolled with keys */
export function Code({ text, focused }) {
  return html`<div class="code"><pre tabindex=${focused ? 0 : undefined}><code>${text}</code></pre><${CopyButton} text=${text} /></div>`;
}

/** @param {string} name @param {string} href */
export function saveLink(name, href) {
  const link = document.createElement("a");
  link.href = href;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
}

/**
 * Save a text or a blob as a file.
 * @param {string} name
 * @param {BlobPart} content
 * @param {string} [type]
 */
export function download(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  saveLink(name.replaceAll(/[/\\]/g, "_"), url);
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/**
 * Rows as CSV. No spreadsheet takes a text for a formula.
 * @param {any[][]} rows
 * @param {string} end of each line but the last
 */
export function csvOf(rows, end) {
  const cell = (/** @type {any} */ one) => {
    const text = exact(one);
    const safe = typeof one !== "number" && typeof one !== "bigint" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
    return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return rows.map((row) => row.map(cell).join(",")).join(end);
}
