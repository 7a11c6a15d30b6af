"""The timeline of `gitcp mcp`: only for clients that can show it, and safe whatever it shows.

The page runs in a real Chromium, in a frame, with a host that speaks the protocol of MCP Apps and
answers with what the real server answered.
"""

from __future__ import annotations

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import CHROMIUM, Browser
from mcp_client import Called, Tools, with_tools
from payloads import PAYLOADS
from talk import Talk

from driver import Project

URI = "ui://gitcp/timeline.html"
MIME_TYPE = "text/html;profile=mcp-app"

in_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")

HOST = """\
<!DOCTYPE html><meta charset="utf-8">
<iframe id="view" sandbox="allow-scripts allow-same-origin" srcdoc="{page}"></iframe>
<script id="answers" type="application/json">{answers}</script>
<script>
const view = document.getElementById("view"), calls = [], seen = [];
const answers = JSON.parse(document.getElementById("answers").textContent);
const post = (message) => view.contentWindow.postMessage({{ jsonrpc: "2.0", ...message }}, "*");
const key = (name, given) => name + JSON.stringify(Object.entries(given).sort());
function result(found) {{
  if (found === undefined) return {{ isError: true, content: [{{ type: "text", text: "none" }}] }};
  return {{ content: [{{ type: "text", text: JSON.stringify(found) }}], structuredContent: found }};
}}
const methods = {{
  "ui/initialize": (params) => ({{
    protocolVersion: params.protocolVersion, hostInfo: {{ name: "test", version: "1" }},
    hostCapabilities: {{ serverTools: {{}} }}, hostContext: {{ theme: "dark" }},
  }}),
  "tools/call": ({{ name, arguments: given }}) => {{
    calls.push(key(name, given));
    return result(answers[key(name, given)]);
  }},
}};
addEventListener("message", ({{ source, data }}) => {{
  if (source !== view.contentWindow) return;
  seen.push(data.method ?? "answer");
  if (data.id !== undefined && data.method)
    post({{ id: data.id, result: methods[data.method](data.params) }});
  if (data.method === "ui/notifications/initialized") {{
    post({{ method: "ui/notifications/tool-input", params: {{ arguments: {{}} }} }});
    post({{ method: "ui/notifications/tool-result", params: result(answers["timeline[]"]) }});
  }}
}});
</script>
"""
VIEW = "document.getElementById('view').contentDocument"


def test_only_where_it_can_be_shown(project: Project) -> None:
    """A client that declares MCP Apps has the tool and its page; another one has neither."""
    project.gitcp("save", "--session", "s", check=0)

    async def declared(tools: Tools) -> None:
        found = {tool.name: tool for tool in (await tools.client.list_tools()).tools}
        assert found["timeline"].meta == {"ui": {"resourceUri": URI}}
        assert [tool.name for tool in found.values() if tool.meta] == ["timeline"]
        first = (await tools.client.list_resources()).resources[0]
        assert (first.uri, first.mime_type) == (URI, MIME_TYPE)
        (content,) = (await tools.client.read_resource(URI)).contents
        assert content.mime_type == MIME_TYPE
        assert content.meta is not None
        assert content.meta["ui"]["csp"] == {}
        assert content.text.startswith("<!DOCTYPE html>")  # type: ignore[union-attr]
        assert (await tools("timeline"))["checkpoints"][0]["id"] == "s@1"

    async def undeclared(tools: Tools) -> None:
        assert "timeline" not in tools.schemas
        with pytest.raises(Called, match="no tool 'timeline'"):
            await tools("timeline")
        assert all(r.uri != URI for r in (await tools.client.list_resources()).resources)

    for mode in ("auto", "legacy"):
        with_tools(project, declared, pages=True, mode=mode)
    with_tools(project, undeclared)


def test_it_is_self_contained(project: Project) -> None:
    """The page names no address, and nothing in it reads text as HTML."""

    async def work(tools: Tools) -> None:
        page = await page_of(tools)
        assert "://" not in page
        assert not any(word in page for word in ("innerHTML", "outerHTML", "insertAdjacent"))
        assert not any(word in page for word in ("eval(", "Function(", "document.write"))

    with_tools(project, work, pages=True)


async def page_of(tools: Tools) -> str:
    """The page as the server gives it."""
    (content,) = (await tools.client.read_resource(URI)).contents
    text: str = content.text  # type: ignore[union-attr]
    return text


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser with a home of its own."""
    found = Browser(tmp_path_factory.mktemp("browser"))
    yield found
    found.close()


class Answers:
    """What the real server answers to the calls that the page makes."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}
        self.page = ""

    async def ask(self, tools: Tools, tool: str, **given: Any) -> Any:
        """Call a tool, and keep what it gives."""
        pairs = json.dumps(sorted(map(list, given.items())), separators=(",", ":"))
        found = self.found[f"{tool}{pairs}"] = await tools(tool, **given)
        return found

    def host(self, directory: Path) -> Path:
        """A page with a host, and the timeline in its frame."""
        made = directory / "host.html"
        answers = json.dumps(self.found).replace("<", "\\u003c")
        made.write_text(HOST.format(page=html.escape(self.page), answers=answers), "utf-8")
        return made


@pytest.fixture
def hosted(project: Project, tmp_path: Path) -> Path:
    """Two checkpoints with hostile texts in every field, shown by a host."""
    project.write("app.py", "one\n")
    project.commit()
    talk, answers = Talk(project), Answers()
    talk.say(PAYLOADS[0], PAYLOADS[16])

    async def work(tools: Tools) -> None:
        answers.page = await page_of(tools)
        await tools("save", label=PAYLOADS[0], tags=["v1"])
        project.write("app.py", "\n".join(PAYLOADS))
        for number, payload in enumerate(PAYLOADS):
            project.write(f"{number} {payload}".replace("/", "|").encode(), payload)
        texts = list(PAYLOADS)
        facts = {payload: payload for payload in PAYLOADS}
        note = {"phase": texts[16], "objective": texts[26], "task": texts[30]}
        lists = {"decided": texts, "failed": texts, "next": texts, "active": texts}
        await tools("save", label=texts[16], facts=facts, **note, **lists)
        await answers.ask(tools, "timeline")
        await answers.ask(tools, "show", revision="e7baae82@2")
        await answers.ask(tools, "diff", old="e7baae82@2~1", new="e7baae82@2")
        await answers.ask(tools, "show", revision="e7baae82@1")
        plan = await answers.ask(tools, "restore", revision="e7baae82@1")
        await answers.ask(tools, "restore", **plan["next"]["arguments"])

    with_tools(project, work, pages=True)
    return answers.host(tmp_path)


def click(browser: Browser, selector: str, text: str = "") -> None:
    """Click on what is found in the frame, once it is there."""
    found = (
        f"[...{VIEW}.querySelectorAll({json.dumps(selector)})]"
        f".find((e) => e.offsetParent && e.textContent.includes({json.dumps(text)}))"
    )
    browser.until(found)
    browser.run(f"{found}.click()")


@in_browser
def test_hostile_texts_are_text(browser: Browser, hosted: Path) -> None:
    """Sixty payloads in every field, in file names and in the patch: shown, and nothing runs."""
    browser.open(hosted)
    click(browser, ".row", "e7baae82@2")
    click(browser, "button", "Its changes")
    browser.until(f"{VIEW}.querySelector('pre')")
    browser.run("new Promise((done) => setTimeout(done, 200))")

    assert browser.run("typeof RAN") == "undefined"
    assert browser.run("typeof view.contentWindow.RAN") == "undefined"
    assert browser.run(f"{VIEW}.querySelectorAll('script').length") == 1
    assert browser.run(f"{VIEW}.querySelectorAll('img, svg, iframe, object, a, form').length") == 0
    attributes = f"[...{VIEW}.body.querySelectorAll('*')].flatMap((e) => [...e.attributes])"
    assert not browser.run(
        f"{attributes}.filter((a) => /^(on|style|src|href)/.test(a.name)).length"
    )
    shown = browser.run(f"{VIEW}.body.textContent")
    for payload in PAYLOADS:
        assert shown.count(payload.split("\n")[0].split("\u2028")[0]) >= 6, payload
    asked = [event["request"]["url"] for event in browser.named("Network.requestWillBeSent")]
    assert [url for url in asked if not url.startswith("about:")] == [hosted.as_uri()]
    assert not browser.named("Runtime.exceptionThrown", "Page.javascriptDialogOpening")


@in_browser
def test_a_restore_from_the_page(browser: Browser, hosted: Path) -> None:
    """The plan is shown first; the button carries out that plan, by the call that it names."""
    browser.open(hosted)
    click(browser, ".row", "e7baae82@1")
    click(browser, "button", "Restore…")
    browser.until(f"{VIEW}.querySelector('pre')")
    assert "write app.py" in browser.run(f"{VIEW}.querySelector('pre').textContent")
    assert len([call for call in browser.run("calls") if call.startswith("restore")]) == 1
    click(browser, "button", "Restore e7baae82@1")
    browser.until(f"{VIEW}.body.textContent.includes('Restored e7baae82@1')")

    calls = browser.run("calls")
    assert len([call for call in calls if call.startswith("restore")]) == 2
    assert '"digest"' in calls[-1]
    assert browser.run(f"{VIEW}.documentElement.style.colorScheme") == "dark"
    seen = browser.run("seen")
    assert seen[0] == "ui/initialize"
    assert "ui/notifications/size-changed" in seen


@in_browser
def test_an_error_on_the_page(browser: Browser, hosted: Path) -> None:
    """What the server refuses is shown, and the page goes on."""
    browser.open(hosted)
    click(browser, ".row", "e7baae82@2")
    click(browser, "button", "Changes since")  # the host has no answer to this
    browser.until(f"{VIEW}.querySelector('.actions + div .deleted')")
    click(browser, "button", "Its changes")
    browser.until(f"{VIEW}.querySelector('pre')")
