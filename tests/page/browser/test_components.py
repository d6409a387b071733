"""The small parts that all screens are made of, each in every state, with what strangers write."""

from __future__ import annotations

from page_looking import findings, opening
from page_roots import ARABIC, HOSTILE, LENGTHY

TEXTS = {"empty": "", "hostile": HOSTILE, "right to left": ARABIC, "lengthy": LENGTHY}
STATES = "created running completed failed crashed interrupted suspended"
DRAW = """
async ([text, states]) => {
  const place = document.querySelector("link[href$='/js/components.js']").href;
  const { html, render } = await import(new URL("../vendor/preact.js", place).href);
  const { Badge, Banner, Bytes, Empty, ErrorBox, Menu, Pager, State, Time } = await import(place);
  const { Code, CopyButton } = await import(new URL("copies.js", place).href);
  const { Dialog } = await import(new URL("dialogs.js", place).href);
  const no = () => undefined;
  const each = (some, draw) => some.map(draw);
  const items = [
    { label: text || "one", onPick: no, checked: true },
    { label: "two", onPick: no, checked: false },
    { label: "three", onPick: no, disabled: true },
  ];
  const errors = [null, new Error(text), { hint: text }, new DOMException("", "AbortError")];
  const parts = {
    badge: each(["plain", "accent", "good", "warn", "bad"], (kind) =>
      html`<${Badge} kind=${kind} title=${text}>${text}<//>`),
    banner: each(["note", "warn", "bad"], (kind) =>
      html`<${Banner} kind=${kind} action="Do" onAction=${no}>${text}<//>`),
    bytes: each([null, 0, 999, 1e15, 10n ** 20n], (n) => html`<${Bytes} n=${n} />`),
    copy: html`<${CopyButton} text=${text} label=${text || "Copy"} />`,
    empty: html`<${Empty} title=${text || "Nothing"}><p>${text}</p><${Code} text=${text} /><//>`,
    error: each(errors, (error) => html`<${ErrorBox} error=${error} onRetry=${no} />`),
    menu: html`<${Menu} label=${text || "Menu"} items=${[]} />`,
    pager: each([0, 3, 6], (page) =>
      html`<${Pager} page=${page} size=${200} total=${1300} word=${text || "runs"}
        onPage=${no} />`),
    page: html`<${Pager} page=${0} size=${200} total=${200} onPage=${no} />`,
    state: each([...states.split(" "), "", null, undefined, text], (state) =>
      html`<${State} state=${state} title=${text} />`),
    time: each([null, NaN, 0, 1e300, new Date(), 10n ** 18n], (ns) =>
      html`<${Time} ns=${ns} /><${Time} ns=${ns} full />`),
    chosen: html`<${Menu} label="Choose" items=${items} />`,
    window: html`<${Dialog} title=${text || "Window"} onClose=${no}><p>${text}</p><//>`,
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
    const above = [...own.querySelectorAll(".popup, dialog")];
    const rights = above.map((one) => one.getBoundingClientRect().right);
    told[name] = {
      wide: Math.max(document.documentElement.scrollWidth, ...rights) > innerWidth,
      made: own.querySelectorAll("img, script, b").length,
      text: own.textContent,
    };
    render(null, own);
  }
  // All but the window at once, for the rules.
  main.replaceChildren();
  const { window, ...rest } = parts;
  const sections = Object.values(rest).map((part) => html`<section>${part}</section>`);
  render(html`<h1>All</h1>${sections}`, main.appendChild(document.createElement("section")));
  return told;
}
"""


def test_small_parts_follow_wcag_and_show_texts_as_text(main_page, tab):
    # Without a look at runs: nothing of the page draws into what is drawn here.
    tab.goto(opening(main_page, "?screen=projects"))
    tab.get_by_role("main").get_by_role("table").first.wait_for()
    for text in TEXTS.values():
        for width in (390, 1280):
            tab.set_viewport_size({"width": width, "height": 800})
            told = tab.evaluate(DRAW, [text, STATES])
            assert [name for name, one in told.items() if one["wide"]] == []
        assert [name for name, one in told.items() if one["made"]] == []
        for name in ("badge", "banner", "copy", "empty", "error", "state", "chosen", "window"):
            shown = text.lower() if name == "state" else text
            assert shown in told[name]["text"], name
        assert told["page"]["text"] == ""
        assert told["bytes"]["text"] == "0 B999 B1.0 PB100000 PB"
        assert "unknown" in told["state"]["text"]
    assert findings(tab) == []
