"""The page of `gitcp view` in a real Chromium: nothing in it acts, everything of it works.

One browser for all. Where there is no Chromium the tests are skipped, and say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser
from payloads import PAYLOADS

from gitcp.model import Agent, Base, CheckpointId, Handoff, Note, Run, Trigger
from gitcp.review.pages.view import render
from gitcp.review.view import story
from gitcp.store import Store
from gitcp.value import replace

from driver import Project
from samples import open_store, save

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

TOGETHER = 6
WIDTHS = (1500, 900, 390)
ELEMENTS = set(
    "HTML HEAD META TITLE STYLE BODY HEADER H1 H2 H3 H4 DIV INPUT OUTPUT BUTTON P NAV DETAILS "
    "SUMMARY OL UL LI A B I"
    " SPAN SMALL MAIN SECTION TIME DL DT DD ARTICLE CODE STRONG PRE DIALOG KBD SCRIPT".split()
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser with a home of its own."""
    found = Browser(tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


def line(kind: str, content: Any, number: int = 0, **fields: Any) -> bytes:
    """One line of a Claude Code transcript."""
    whole = {"type": kind, "uuid": f"m{number}", "timestamp": "2026-11-02T09:05:00Z", **fields}
    return json.dumps(whole | {"message": {"role": kind, "content": content}}).encode() + b"\n"


def talk(prompt: str, answer: str, **said: str) -> bytes:
    """A turn with everything in it: prompt, thinking, a call of a tool and what that gave back,
    answer.
    """
    tool, key = said.get("tool", "Bash"), said.get("key", "command")
    call = {"type": "tool_use", "id": "t1", "name": tool, "input": {key: said.get("input", "make")}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": said.get("output", "made")}
    thinking = {"type": "thinking", "thinking": said.get("thinking", "hm")}
    return b"".join(
        (
            line("user", prompt),
            line("assistant", [thinking, call]),
            line("user", [result]),
            line("assistant", [{"type": "text", "text": answer}]),
        )
    )


def page(store: Store, session: str, tmp_path: Path) -> Path:
    """The page of a session, as a file."""
    tip = store.tip(session)
    assert tip is not None
    made = tmp_path / "page.html"
    made.write_bytes(render(story(store, None, tip)))
    return made


@pytest.fixture
def worked(project: Project, tmp_path: Path) -> Path:
    """The page of twelve checkpoints, each with a turn and two changed files."""
    store = open_store(project)
    said = b""
    for number in range(1, 13):
        said += talk(
            f"Prompt {number}",
            f"Answer {number}\n\n```\ncode {number}\n```",
            output=f"needle{number}\n" * 40,
        )
        files = {b"a.txt": b"line %d\n" % number * 50, b"b/c.py": b"x = %d\n" % number}
        save(store, "work", files, {"main": said}, label=f"step {number}")
    return page(store, "work", tmp_path)


# ---------------------------------------------------------------- nothing acts


def hostile(store: Store, payloads: tuple[str, ...], number: int) -> None:
    """A checkpoint with the payloads wherever somebody can write: each by itself where there is
    room for several.
    """
    all_of_them = " ".join(payloads)
    named = {
        re.sub(r"[/\x00]", "|", payload).encode()[:200]: payload.encode() for payload in payloads
    }
    note = Note(
        label=f"{number} {all_of_them}",
        phase=all_of_them,
        objective=all_of_them,
        facts={payload: f"`{payload}`" for payload in payloads},
        handoff=Handoff(all_of_them, payloads, payloads, payloads, payloads),
        position={payload: payload for payload in payloads},
        compensations=payloads,
    )
    turns = b"".join(
        talk(
            p,
            f"{p}\n# {p}\n- {p}\n**x** `{p}`\n```\n{p}\n```\n|{p}|\n|{p}|",
            tool=p,
            key=p,
            input=p,
            output=p,
            thinking=p,
        )
        for p in payloads
    )
    titled = json.dumps({"type": "custom-title", "customTitle": all_of_them}).encode() + b"\n"
    odd = b"".join(line("user", [{"type": payload}], timestamp=payload) for payload in payloads)
    files = {b"d/" + name: b"\n" + data for name, data in named.items()}
    save(
        store,
        "evil",
        {b"same": b"\n".join(named.values()), **named, **files},
        {"main": titled + turns + odd, f"agents/{number}": turns},
        note=note,
        agent=Agent(all_of_them, all_of_them, all_of_them, all_of_them),
        trigger=Trigger.TURN,
        run=Run(payloads, 1, 10, all_of_them),
    )


def test_nothing_runs(project: Project, browser: Browser, tmp_path: Path) -> None:
    """Sixty payloads in every field: none is an element, none runs, none makes a request, whatever
    is clicked.
    """
    assert len(set(PAYLOADS)) >= 60
    store = open_store(project)
    for number in range(0, len(PAYLOADS), TOGETHER):
        hostile(store, PAYLOADS[number : number + TOGETHER], number)
    tip = store.tip("evil")
    assert tip is not None
    told = story(store, None, tip)
    last = replace(told.steps[-1], tags=PAYLOADS, others=PAYLOADS, skipped=PAYLOADS)
    base = Base(None, PAYLOADS[0])
    last = replace(
        last,
        checkpoint=replace(last.checkpoint, snapshot=replace(last.checkpoint.snapshot, base=base)),
    )
    made = tmp_path / "page.html"
    told = replace(told, title=PAYLOADS[3], steps=(*told.steps[:-1], last))
    made.write_bytes(render(told, warning=PAYLOADS[0]))
    browser.resize(1200, 900)

    browser.open(made)
    browser.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    browser.run(
        "document.querySelectorAll('summary, button, .timeline a').forEach((each) => { "
        "each.focus(); each.click(); })"
    )
    browser.press("j", "k", "J", "o", "t", "d", "n", "g", "G")
    browser.run("new Promise((done) => setTimeout(done, 300))")

    assert browser.run("typeof RAN") == "undefined"
    assert (
        set(browser.run("[...new Set([...document.querySelectorAll('*')].map((e) => e.tagName))]"))
        <= ELEMENTS
    )
    assert browser.run("document.querySelectorAll('script').length") == 1
    attributes = "[...document.querySelectorAll('*')].flatMap((e) => [...e.attributes])"
    assert not browser.run(
        f"{attributes}.filter((a) => /^(on|style$|src|href$)/.test(a.name) && a.value[0] !== "
        "'#').length"
    )
    asked = [event["request"]["url"] for event in browser.named("Network.requestWillBeSent")]
    assert asked == [made.as_uri()]
    assert not browser.named(
        "Runtime.exceptionThrown", "Log.entryAdded", "Page.javascriptDialogOpening"
    )
    shown = browser.run("document.querySelector('main').textContent")
    for payload in PAYLOADS:
        assert shown.count(payload.split("\n")[0].split("\u2028")[0]) >= 10, payload


def test_payloads_are_live(worked: Path, browser: Browser, tmp_path: Path) -> None:
    """The same payloads do run and ask in a page that takes them for HTML; in one with our policy
    none does.
    """
    ran = asked = 0
    rule = re.search(r"<meta http-equiv[^>]*>", worked.read_text("utf-8"))
    assert rule is not None
    for payload in (
        PAYLOADS[0],
        PAYLOADS[16],
        PAYLOADS[26],
        PAYLOADS[17],
        PAYLOADS[42],
        PAYLOADS[49],
    ):
        for policy in ("", rule[0]):
            made = tmp_path / "control.html"
            made.write_text(
                f"<!DOCTYPE html><meta charset=utf-8>{policy}<body>{payload}<p>", "utf-8"
            )
            browser.open(made)
            browser.run("new Promise((done) => setTimeout(done, 100))")
            runs = browser.run("typeof RAN") == "number"
            urls = [
                e["request"]["url"]
                for e in browser.named("Network.requestWillBeSent")
                if not blocked(browser, e)
            ]
            asks = any("evil" in url for url in urls)
            assert not (policy and (runs or asks)), payload
            ran += runs
            asked += asks

    assert (ran, asked) == (3, 3)


def blocked(browser: Browser, event: dict[str, Any]) -> bool:
    """Whether a request was stopped by the page's policy before it was made."""
    failed = browser.named("Network.loadingFailed")
    return any(
        f["requestId"] == event["requestId"] and f.get("blockedReason") == "csp" for f in failed
    )


# ---------------------------------------------------------------- everything works


def test_keys(worked: Path, browser: Browser) -> None:
    """j and k walk through checkpoints, J and K through prompts, g and G to the ends; the timeline
    follows.
    """
    browser.resize(1500, 900)
    browser.open(worked)
    current = "document.querySelector('.timeline [aria-current]').getAttribute('href')"

    browser.until(f"{current} === '#c1'")
    browser.press("j")
    browser.until(f"{current} === '#c2'")
    browser.press("j")
    browser.until(f"{current} === '#c3'")
    browser.press("k")
    browser.until(f"{current} === '#c2'")
    browser.press("G")
    browser.until(f"{current} === '#c12'")
    browser.press("g")
    browser.until(f"{current} === '#c1' && scrollY < 200")
    browser.press("J")
    top = (
        "[...document.querySelectorAll('.user')].findIndex((e) => "
        "Math.abs(e.getBoundingClientRect().top - 60) < 40)"
    )
    browser.until(f"{top} >= 0")
    at = browser.run(top)
    browser.press("J")
    browser.until(f"{top} === {at + 1}")
    browser.press("K")
    browser.until(f"{top} === {at}")
    browser.run("document.querySelector('a[href=\"#c8\"]').click()")
    browser.until(
        f"{current} === '#c8' && "
        "Math.abs(document.querySelector('#c8').getBoundingClientRect().top) < 120"
    )
    browser.press("?")
    browser.until("document.querySelector('#help').open")
    browser.press("Escape")
    browser.until("!document.querySelector('#help').open")
    assert not browser.named("Runtime.exceptionThrown")


def test_search(worked: Path, browser: Browser) -> None:
    """Search finds what is folded, unfolds it, counts, and walks both ways."""
    browser.resize(1500, 900)
    browser.open(worked)
    count = "document.querySelector('#count').textContent"

    browser.press("/", *"needle7")
    browser.until(f"{count}.startsWith('0 / ')")
    found = int(browser.run(count).removeprefix("0 / "))
    assert found == 40
    assert browser.run("CSS.highlights.get('found').size") == found
    browser.press("Enter", "Enter")
    browser.until(f"{count} === '2 / {found}'")
    browser.press("Enter")
    browser.run("document.querySelector('#search').blur()")
    browser.press(*"n" * 20, "N")
    browser.until(f"{count} === '22 / {found}'")
    folds = (
        "[...document.querySelectorAll('#c7 .fold.tool')].filter((e) => e.open && "
        "e.textContent.includes('needle7'))"
    )
    browser.until(f"{folds}.length === 1")
    place = "document.querySelector('#c7 .fold.tool[open]').getBoundingClientRect()"
    browser.until(f"{place}.top < innerHeight && {place}.bottom > 0")
    browser.press("Escape", "N")
    browser.until(f"{count} === ''")
    browser.press("/", *"no such words")
    browser.until(f"{count} === 'nothing'")
    assert not browser.named("Runtime.exceptionThrown")


def test_folding(worked: Path, browser: Browser) -> None:
    """Thinking and tools are folded, and unfold by their buttons and keys; a file is folded by a
    click.
    """
    browser.open(worked)
    opened = "[...document.querySelectorAll('.fold.{}')].filter((e) => e.open).length"

    assert browser.run(opened.format("tool")) == browser.run(opened.format("thinking")) == 0
    browser.press("o")
    assert browser.run(opened.format("tool")) == 12
    assert browser.run("document.querySelector('#tools').getAttribute('aria-pressed')") == "true"
    browser.run("document.querySelector('#thinking').click()")
    assert browser.run(opened.format("thinking")) == 12
    browser.press("o", "t")
    assert browser.run(opened.format("tool")) == browser.run(opened.format("thinking")) == 0
    browser.run("document.querySelector('.file summary').click()")
    browser.until("!document.querySelector('.file').open")


def test_light_and_dark(worked: Path, browser: Browser) -> None:
    """The page is as the system is, until d turns it over; it is light on paper."""
    back = (
        "getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).slice(0, 3).map(Number)"
    )
    for scheme, key in (("light", "dark"), ("dark", "light")):
        browser.prefer(scheme)
        browser.open(worked)
        assert (sum(browser.run(back)) > 384) == (scheme == "light")
        assert contrast(browser, "body") >= 7
        assert contrast(browser, ".fold > summary") >= 4.5
        assert contrast(browser, ".hunk .added") >= 4.5
        assert contrast(browser, ".hunk .removed") >= 4.5
        browser.press("d")
        assert (sum(browser.run(back)) > 384) == (key == "light")
    browser.prefer("dark", "print")
    assert sum(browser.run(back)) > 600
    assert browser.run("getComputedStyle(document.querySelector('.timeline')).display") == "none"
    browser.prefer("light")


def contrast(browser: Browser, selector: str) -> float:
    """How far the text of an element stands out from what is behind it (WCAG)."""
    script = """((element) => {
        const light = (colour) => colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
            .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
            .reduce((sum, v, n) => sum + v * [0.2126, 0.7152, 0.0722][n], 0);
        let behind = element;
        while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
        const both = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor].map(light);
        return (Math.max(...both) + 0.05) / (Math.min(...both) + 0.05);
    })(document.querySelector(%s))"""  # noqa: E501
    found: float = browser.run(script % json.dumps(selector))
    return found


@pytest.mark.parametrize("width", WIDTHS)
def test_widths(project: Project, browser: Browser, tmp_path: Path, width: int) -> None:
    """At no width does the page scroll sideways or lose its text, however long lines, words and
    paths are.
    """
    store = open_store(project)
    long = "word" * 400
    files = {b"d/" * 60 + b"x" * 200 + b".py": b"y" * 5000 + b"\n", b"short": b"z\n" * 3000}
    save(
        store,
        "wide",
        files,
        {"main": talk(long, f"{long}\n```\n{long}\n```", output=long, input=long)},
        label=long[:150],
    )
    made = page(store, "wide", tmp_path)
    browser.resize(width, 800)

    browser.open(made)
    browser.press("o", "t")

    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    beside = browser.run(
        "document.querySelector('.changes').getBoundingClientRect().left"
        " > document.querySelector('.talk').getBoundingClientRect().right"
    )
    assert beside == (width == 1500)
    assert browser.run("document.querySelector('.timeline details').open") == (width > 832)
    assert browser.run("document.querySelector('.talk').getBoundingClientRect().width") > 300


@pytest.mark.parametrize("scripts", [True, False], ids=["with scripts", "without"])
def test_prints(worked: Path, browser: Browser, scripts: bool) -> None:
    """On paper there is everything, folded or not, without scripts too; a long page is cut in no
    place, and light.
    """
    browser.resize(900, 1200)
    browser.send("Emulation.setScriptExecutionDisabled", value=not scripts)
    try:
        browser.open(worked)
        pdf = browser.send("Page.printToPDF", printBackground=True)["data"]
        browser.prefer("light", "print")
        text = browser.run("document.querySelector('main').innerText")
        folded = browser.run("document.querySelectorAll('.fold:not([open])').length")
        drawn = browser.run(
            "[...document.querySelectorAll('.fold pre')].every(each => each.checkVisibility("
            "{contentVisibilityAuto: true}) && each.getBoundingClientRect().height > 10)"
        )
        back = browser.run("getComputedStyle(document.body).colorScheme")
    finally:
        browser.send("Emulation.setScriptExecutionDisabled", value=False)
        browser.prefer("light")

    assert len(pdf) > 10_000
    assert folded > 10
    assert drawn
    assert back == "light"
    assert all(
        f"Prompt {number}\n" in text and f"Answer {number}\n" in text for number in range(1, 13)
    )


# ---------------------------------------------------------------- large


def test_large(project: Project, browser: Browser, tmp_path: Path) -> None:
    """Two thousand messages of 3 MB: quickly there, quickly scrolled through, quickly searched.

    Judged is processor time, ten times what it takes: the machine may be busy.
    """
    store = open_store(project)
    words = " ".join(f"word{number % 977}" for number in range(480))
    said = b"".join(talk(f"Prompt {n}", words, output=words) for n in range(400))
    assert len(said) > 2_900_000
    save(store, "large", None, {"main": said[: len(said) // 2]})
    save(store, "large", None, {"main": said})
    made = page(store, "large", tmp_path)
    browser.resize(1500, 900)
    before = browser.spent()

    browser.open(made)
    opened = browser.spent()
    assert browser.run("document.querySelectorAll('.message, .fold').length") == 1600
    for place in range(40):
        browser.run(f"scrollTo(0, {place} * 1000); document.elementFromPoint(400, 400).tagName")
    scrolled = browser.spent()
    browser.press("/", *"word479")
    browser.until("document.querySelector('#count').textContent.includes('/')")
    searched = browser.spent()

    assert opened - before < 5
    assert scrolled - opened < 5
    assert searched - scrolled < 5


def test_many_checkpoints(project: Project, browser: Browser, tmp_path: Path) -> None:
    """Three thousand checkpoints: quickly there, scrolled through and found in, however far away.

    Judged is processor time, several times what it takes: the machine may be busy. The browser's
    own search is the browser's business: 8 of 11 seconds were.
    """
    store = open_store(project)
    save(store, "many", {b"a.py": b"one\n"}, {"main": talk("Prompt", "Answer")})
    one = story(store, None, store.sessions()["many"])
    steps = tuple(
        replace(
            one.steps[0],
            checkpoint=replace(one.steps[0].checkpoint, id=CheckpointId("many", number)),
            title=f"subject {number}",
        )
        for number in range(1, 3001)
    )
    made = tmp_path / "many.html"
    made.write_bytes(render(replace(one, steps=steps)))
    browser.resize(1500, 900)
    before = browser.spent()

    browser.open(made)
    for place in range(60):
        browser.run(f"scrollTo(0, {place} * 400); document.elementFromPoint(400, 400).tagName")
    browser.press("G")
    browser.until("document.querySelector('[aria-current]')?.textContent.startsWith('3000')")
    browser.until(
        "scrollY > 1000 && document.querySelector('#c3000').getBoundingClientRect().top < 300"
    )
    browser.press("Escape")  # which ends the jump
    browser.run("getSelection().collapse(document.querySelector('main'), 0)")  # after the index
    assert browser.spent() - before < 10
    assert browser.run("find('subject 1717')")
    browser.until(
        "Math.abs(document.querySelector('#c1717').getBoundingClientRect().top) < innerHeight"
    )
