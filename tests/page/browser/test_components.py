"""The small parts that all screens are made of, each in every state, with what strangers write."""

from __future__ import annotations

import pytest
from page_looking import findings, opening
from page_roots import ARABIC, HOSTILE, LENGTHY

TEXTS = {"empty": "", "hostile": HOSTILE, "right to left": ARABIC, "lengthy": LENGTHY}
STATES = "created running completed failed crashed interrupted suspended"
DRAW = """
async ([text, states]) => {
  const place = document.querySelector("link[href$='/js/components.js']").href;
  const { html, render } = await import(new URL("../vendor/preact.js", place).href);
  const { Badge, Banner, Bytes, CopyButton, Dialog, Empty, ErrorBox, Menu, Pager, State, Time } =
    await import(place);
  const none = () => undefined;
  const parts = {
    badge: ["plain", "accent", "good", "warn", "bad"].map((kind) => html`<${Badge} kind=${kind} title=${text}>${text}<//>`),
    banner: ["note", "warn", "bad"].map((kind) => html`<${Banner} kind=${kind} action="Do" onAction=${none} onClose=${none}>${text}<//>`),
    bytes: [null, 0, 999, 1e15, 10n ** 20n].map((n) => html`<${Bytes} n=${n} />`),
    copy: html`<${CopyButton} text=${text} label=${text || "Copy"} />`,
    empty: html`<${Empty} title=${text || "Nothing"} code=${text}><p>${text}</p><//>`,
    error: [null, new Error(text), { hint: text }, new DOMException("", "AbortError")].map((error) => html`<${ErrorBox} error=${error} onRetry=${none} />`),
    menu: [false, true].map((disabled) => html`<${Menu} label=${text || "Menu"} disabled=${disabled} items=${[]} />`),
    pager: [0, 3, 6].map((page) => html`<${Pager} page=${page} size=${200} total=${1300} word=${text || "runs"} onPage=${none} />`),
    page: html`<${Pager} page=${0} size=${200} total=${200} onPage=${none} />`,
    state: [...states.split(" "), "", null, undefined, text].map((state) => html`<${State} state=${state} title=${text} />`),
    time: [null, NaN, 0, 1e300, new Date(), 10n ** 18n].map((ns) => html`<${Time} ns=${ns} /><${Time} ns=${ns} full />`),
    chosen: html`<${Menu} label="Choose" items=${[
      { label: text || "one", onPick: none, checked: true, hint: text },
      { label: "two", onPick: none, checked: false }, { label: "three", onPick: none, disabled: true }]} />`,
    window: html`<${Dialog} title=${text || "Window"} onClose=${none}><p>${text}</p><//>`,
  };
  const main = document.querySelector("main");
  const told = {};
  for (const [name, part] of Object.entries(parts)) {
    main.replaceChildren();
    const own = main.appendChild(document.createElement("section"));
    render(html`<div>${part}</div>`, own);
    if (name === "chosen") own.querySelector("button").click();
    const ready = { chosen: ".popup[style*=left]", window: "dialog[open]" }[name] ?? "div";
    while (!own.querySelector(ready)) await new Promise((done) => setTimeout(done, 10));
    told[name] = {
      wide: Math.max(document.documentElement.scrollWidth, ...[...own.querySelectorAll(".popup, dialog")].map((one) => one.getBoundingClientRect().right)) > innerWidth,
      made: own.querySelectorAll("img, script, b").length,
      text: own.textContent,
    };
    render(null, own);
  }
  // All but the window at once, for the rules.
  main.replaceChildren();
  const { window, ...rest } = parts;
  render(html`<h1>All</h1>${Object.entries(rest).map(([name, part]) => html`<section>${part}</section>`)}`, main.appendChild(document.createElement("section")));
  return told;
}
"""


@pytest.mark.parametrize("text", TEXTS)
def test_each_part_in_all_its_states(text, main_page, tab):
    """Texts stay texts and inside the window, and nothing breaks the rules of WCAG."""
    # Without a look at runs: nothing of the page draws into what is drawn here.
    tab.goto(opening(main_page, "?screen=projects"))
    tab.get_by_role("main").get_by_role("table").first.wait_for()
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": 800})
        told = tab.evaluate(DRAW, [TEXTS[text], STATES])
        assert [name for name, one in told.items() if one["wide"]] == []
    assert [name for name, one in told.items() if one["made"]] == []
    for name in ("badge", "banner", "copy", "empty", "error", "state", "chosen", "window"):
        shown = TEXTS[text].lower() if name == "state" else TEXTS[text]
        assert shown in told[name]["text"], name
    assert told["page"]["text"] == ""
    assert told["bytes"]["text"] == "0 B999 B1.0 PB100000 PB"
    assert "unknown" in told["state"]["text"]
    assert findings(tab) == []
