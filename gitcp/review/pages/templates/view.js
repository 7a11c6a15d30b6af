"use strict";
// What a page can do beyond being read: keys, search, folding, light and dark. It asks for nothing and stores nothing.
(() => {
  const root = document.documentElement;
  const one = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const steps = all(".step");
  const groups = all(".steps");
  const links = all(".timeline .step-link");
  const prompts = all(".message.user");
  const field = one("#search");
  const count = one("#count");
  const help = one("#help");
  const menu = one(".timeline details");
  const narrow = matchMedia("(max-width: 52rem)");
  root.classList.add("js");

  // ---- the timeline follows

  let current = -1;
  const mark = (place) => {
    if (place === current || !links[place]) return;
    if (links[current]) links[current].removeAttribute("aria-current");
    current = place;
    links[place].setAttribute("aria-current", "true");
    const list = one(".timeline");
    const box = links[place].getBoundingClientRect();
    const frame = list.getBoundingClientRect();
    if (!narrow.matches && (box.top < frame.top || box.bottom > frame.bottom)) {
      list.scrollTop += box.top - frame.top - frame.height / 3;
    }
  };
  const line = () => (narrow.matches ? 70 : 90);
  const reached = (elements) => {
    let low = 0;
    let high = elements.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (elements[middle].getBoundingClientRect().top <= line()) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  };
  // Only the group that is reached is laid out: asking a step of another one where it is would lay that out, too.
  const reachedStep = () => {
    const group = groups[Math.max(0, reached(groups))];
    const first = steps.indexOf(group.firstElementChild);
    return Math.max(0, first + reached([...group.children]));
  };
  let asked = false;
  const follow = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      mark(reachedStep());
    });
  };
  addEventListener("scroll", follow, { passive: true });
  addEventListener("resize", follow);

  let aim = null;
  const show = (element, block = "start") => {
    aim = element;
    for (let at = element.parentElement; at; at = at.parentElement) if (at.tagName === "DETAILS") at.open = true;
    // What was never drawn has a guessed height. While it is drawn, go where the element really is.
    const settle = (frames) => {
      if (aim !== element) return;
      element.scrollIntoView({ block });
      if (frames) requestAnimationFrame(() => settle(frames - 1));
    };
    settle(10);
  };
  for (const name of ["wheel", "touchstart", "pointerdown", "keydown"]) addEventListener(name, () => { aim = null; }, { passive: true, capture: true });
  const go = (place) => {
    const wanted = Math.max(0, Math.min(steps.length - 1, place));
    if (steps[wanted]) {
      show(steps[wanted]);
      mark(wanted);
    }
  };
  links.forEach((link, place) => link.addEventListener("click", (event) => {
    event.preventDefault();
    if (narrow.matches) menu.open = false;
    go(place);
  }));
  for (const link of all(".timeline .prompt-link")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      if (narrow.matches) menu.open = false;
      show(document.getElementById(link.getAttribute("href").slice(1)));
    });
  }
  const unfoldMenu = () => { menu.open = !narrow.matches; };
  narrow.addEventListener("change", unfoldMenu);
  unfoldMenu();

  const turn = (direction) => {
    const at = reached(prompts);
    const here = at >= 0 && Math.abs(prompts[at].getBoundingClientRect().top - line()) < 60;
    const wanted = direction > 0 ? at + 1 : here ? at - 1 : at;
    if (prompts[wanted]) show(prompts[wanted]);
  };

  // ---- folding

  const fold = (name, button, open = button.getAttribute("aria-pressed") !== "true") => {
    button.setAttribute("aria-pressed", String(open));
    for (const each of all(`.fold.${name}`)) each.open = open;
  };
  const thinking = one("#thinking");
  const tools = one("#tools");
  thinking.addEventListener("click", () => fold("thinking", thinking));
  tools.addEventListener("click", () => fold("tool", tools));

  // ---- light and dark

  const dark = () => (root.dataset.theme || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const theme = () => { root.dataset.theme = dark() ? "light" : "dark"; };
  one("#theme").addEventListener("click", theme);

  // ---- search

  let places = [];
  let at = -1;
  let searched = "";
  const highlights = globalThis.Highlight && CSS.highlights;
  let texts = null;
  const gather = () => {
    const found = [];
    const walker = document.createTreeWalker(one("main"), NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (node.data.trim() && !node.parentElement.closest(".numbers")) found.push([node, node.data.toLowerCase()]);
    }
    return found;
  };
  const most = 5000;
  const matches = (wanted) => {
    texts ??= gather();
    const found = [];
    for (const [node, text] of texts) {
      for (let from = text.indexOf(wanted); from >= 0 && found.length < most; from = text.indexOf(wanted, from + wanted.length)) {
        found.push([node, from]);
      }
    }
    return found;
  };
  const range = ([node, from]) => {
    const made = document.createRange();
    made.setStart(node, Math.min(from, node.length));
    made.setEnd(node, Math.min(from + searched.length, node.length));
    return made;
  };
  const tell = () => {
    const plus = places.length === most ? "+" : "";
    count.textContent = searched ? (places.length ? `${at + 1} / ${places.length}${plus}` : "nothing") : "";
  };
  const search = () => {
    const wanted = field.value.trim().toLowerCase();
    if (wanted === searched) return;
    searched = wanted;
    at = -1;
    places = wanted.length > 1 ? matches(wanted) : [];
    if (wanted.length < 2) searched = "";
    if (highlights) {
      highlights.delete("current");
      highlights.set("found", new Highlight(...places.map(range)));
    }
    tell();
  };
  const step = (direction) => {
    search();
    if (!places.length) return;
    at = (at + direction + places.length) % places.length;
    const element = places[at][0].parentElement;
    if (highlights) {
      const now = new Highlight(range(places[at]));
      now.priority = 1;
      highlights.set("current", now);
    }
    const folded = element.closest("details");
    if (folded) folded.open = true;
    show(element.closest("span, p, dd, h2, h3, h4, li") || element, "center");
    tell();
  };
  let waiting = 0;
  field.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(search, 120);
  });
  const leave = () => {
    field.value = "";
    search();
    field.blur();
  };
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") step(event.shiftKey ? -1 : 1);
    else if (event.key === "Escape") leave();
    else return;
    event.preventDefault();
  });

  // ---- keys

  one("#keys").addEventListener("click", () => help.showModal());
  one("#close").addEventListener("click", () => help.close());
  const keys = {
    j: () => go(current + 1),
    k: () => go(current - 1),
    J: () => turn(1),
    K: () => turn(-1),
    g: () => go(0),
    G: () => go(steps.length - 1),
    "/": () => { field.focus(); field.select(); },
    n: () => step(1),
    N: () => step(-1),
    t: () => fold("thinking", thinking),
    o: () => fold("tool", tools),
    d: theme,
    Escape: leave,
    "?": () => (help.open ? help.close() : help.showModal()),
  };
  addEventListener("keydown", (event) => {
    const typing = event.target.closest && event.target.closest("input, textarea");
    if (event.ctrlKey || event.metaKey || event.altKey || typing || (help.open && event.key !== "?")) return;
    const action = Object.hasOwn(keys, event.key) && keys[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  follow();
})();
