"""Entries go into settings as people write them and come out again, and every other byte stays."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as how_much
from hypothesis import strategies as st

import gitcp
from gitcp.automation.install import files, shipped, trust
from gitcp.automation.install.files import appended, cut
from gitcp.automation.install.plan import SECTION
from gitcp.errors import BadValue
from gitcp.jsonc import parse

from driver import SOURCE

WANTED = files.groups(shipped.read("codex/hooks.json"))
EVENTS = ("SessionStart", "Stop", "PreToolUse", "Mine")
PATH = '/home/a "b"/p/.codex/hooks.json'

GAPS = (
    "",
    "",
    "",
    " ",
    "\n",
    "\n  ",
    "\r\n\t",
    " /* c, ] } */ ",
    " // c ,]} \n",
    "\n    // x\n    /**/",
)
THEIRS: tuple[Any, ...] = (
    {"hooks": [{"type": "command", "command": "notify-send done"}]},
    {"matcher": "Bash", "hooks": []},
    {"hooks": "odd"},
    7,
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=5)
    | st.sampled_from(["//", "/*", '"', "é\\"])
)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
)
hooks = st.dictionaries(
    st.sampled_from(EVENTS), st.lists(st.sampled_from(THEIRS), max_size=3), max_size=4
)
lines = st.sampled_from(
    ["\n", "a = 1\n", "[x]\n", "# c\n", 'b = "[hooks]"\n', "[hooks]\n", "c = 2"]
)


@st.composite
def settings(draw: st.DrawFn) -> str:
    """A settings file: JSON with comments, trailing commas and white space anywhere."""
    document = draw(
        st.dictionaries(st.text(max_size=4).filter(lambda key: key != "hooks"), values, max_size=3)
    )
    if draw(st.booleans()):
        document["hooks"] = draw(hooks)
    items = draw(st.permutations(list(document.items())))
    gap = st.sampled_from(GAPS)
    return (
        draw(st.sampled_from(["", "\ufeff"]))
        + draw(gap)
        + _written(draw, gap, dict(items))
        + draw(gap)
    )


def _written(draw: st.DrawFn, gap: st.SearchStrategy[str], value: Any) -> str:
    if not isinstance(value, dict | list):
        return json.dumps(value, ensure_ascii=draw(st.booleans()))
    parts = []
    for item in value.items() if isinstance(value, dict) else value:
        head = f"{json.dumps(item[0])}{draw(gap)}:{draw(gap)}" if isinstance(value, dict) else ""
        inner = item[1] if isinstance(value, dict) else item
        parts.append(draw(gap) + head + _written(draw, gap, inner) + draw(gap))
    trailing = draw(st.booleans())
    comma = "," + draw(gap) if parts and trailing else ""
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    return opening + ",".join(parts) + comma + (draw(gap) if not parts else "") + closing


def hooks_in(text: str) -> dict[str, Any]:
    """What a reader finds under "hooks"."""
    found: dict[str, Any] = parse(text).value.get("hooks", {})
    return found


@pytest.mark.faults
@given(settings())
def test_in_and_out_again(text: str) -> None:
    """What was put in is there, at the end of what is the user's; taken out again, every byte is as
    it was.
    """
    before = hooks_in(text)

    made = files.merged(text, WANTED, "codex")

    after = hooks_in(made)
    assert {event: groups for event, groups in after.items() if event not in WANTED} == {
        event: groups for event, groups in before.items() if event not in WANTED
    }
    assert all(
        after[event] == [*before.get(event, []), *groups] for event, groups in WANTED.items()
    )
    assert files.removed(made, "codex") == text


@pytest.mark.faults
@how_much(max_examples=40)
@given(settings())
def test_twice_is_once(text: str) -> None:
    """A second time changes nothing, and an older version is replaced by this one."""
    made = files.merged(text, WANTED, "codex")
    old = {
        "Stop": [{"hooks": [{"type": "command", "command": "gitcp hook codex Stop --as-it-was"}]}]
    }

    assert files.merged(made, WANTED, "codex") == made
    assert files.merged(files.merged(text, old, "codex"), WANTED, "codex") == made


@how_much(max_examples=40)
@given(settings(), st.sampled_from(["claude", "gemini"]))
def test_two_agents(text: str, other: str) -> None:
    """Hooks that call gitcp for another agent are not this one's."""
    made = files.merged(text, WANTED, "codex")

    assert files.removed(made, other) == made


def test_a_hook_in_the_users_own_group() -> None:
    """Only the hook goes that is gitcp's; what the user added to its group stays."""
    text = files.merged("", {"Stop": WANTED["Stop"]}, "codex")
    mine = '{ "type": "command", "command": "mine" }'
    shared = text.replace('"hooks": [\n          {', f'"hooks": [\n          {mine},\n          {{')
    assert shared != text

    left = files.removed(shared, "codex")

    assert hooks_in(left) == {"Stop": [{"hooks": [json.loads(mine)]}]}


def test_a_new_file() -> None:
    """Of a file that was not there nothing is left."""
    made = files.merged("", WANTED, "codex")

    assert json.loads(made) == {"hooks": WANTED}
    assert files.removed(made, "codex") == ""


@pytest.mark.parametrize(
    "text",
    [
        *(
            "{",
            "[]",
            "7",
            "{'a': 1}",
            '{"a": 01}',
            '{"a": 1} x',
            '{"a" 1}',
            "{,}",
            "[" * 5000,
            "\x00",
        ),
        *('{"hooks": []}', '{"hooks": {"Stop": {}}}', '{"a": "\n"}', '{"a": /* }'),
    ],
)
def test_not_what_it_should_be(text: str) -> None:
    """What is no JSON, or has something else where hooks belong, is refused and not touched."""
    with pytest.raises(BadValue):
        files.merged(text, WANTED, "codex")


@pytest.mark.faults
@given(st.none() | st.lists(lines, max_size=6).map("".join), st.sampled_from(["\n", "\r\n"]))
def test_trust_in_and_out_again(text: str | None, newline: str) -> None:
    """Codex finds the digests, and taken out again every byte is as it was; another project's
    stay.
    """
    if text is not None:
        text = text.replace("\n", newline)
        try:
            before = tomllib.loads(text)
        except tomllib.TOMLDecodeError:
            return
    else:
        before = {}
    needed = trust.needed(files.merged("", WANTED, "codex"), PATH, "codex")
    elsewhere = trust.needed(files.merged("", WANTED, "codex"), "/other/hooks.json", "codex")

    made = trust.trusted(text, needed, PATH)
    assert made is not None
    both = trust.trusted(made, elsewhere, "/other/hooks.json")

    read = tomllib.loads(made)
    assert {
        key: entry["trusted_hash"] for key, entry in read["hooks"].pop("state").items()
    } == needed
    assert {"hooks": {}, **read} == {"hooks": {}, **before}
    assert trust.trusted(made, needed, PATH) == made
    assert trust.distrusted(made, PATH) == text
    assert trust.distrusted(both, "/other/hooks.json") == made
    assert trust.distrusted(trust.distrusted(both, PATH), "/other/hooks.json") == text


def test_trust_that_codex_went_on_with() -> None:
    """What Codex adds to an entry goes with it; what it writes behind it stays."""
    needed = trust.needed(files.merged("", WANTED, "codex"), PATH, "codex")
    made = trust.trusted("model = 1\n", needed, PATH)
    assert made is not None

    written = (
        made.replace('"\n\n[', '"\nenabled = false\n\n[')
        + '\n[projects."/p"]\ntrust_level = "trusted"\n'
    )

    assert (
        trust.distrusted(written, PATH) == 'model = 1\n\n[projects."/p"]\ntrust_level = "trusted"\n'
    )
    assert trust.project_trusted(written, "/p")
    assert not trust.project_trusted(written, "/q")


def test_trust_given_by_hand() -> None:
    """What the user said in Codex is not said twice; where it says otherwise, nothing is
    touched.
    """
    needed = trust.needed(files.merged("", {"Stop": WANTED["Stop"]}, "codex"), "/h.json", "codex")
    ((key, digest),) = needed.items()
    by_hand = f'[hooks.state."{key}"]\ntrusted_hash = "{digest}"\n'

    assert trust.trusted(by_hand, needed, "/h.json") == by_hand
    with pytest.raises(BadValue, match="/hooks"):
        trust.trusted(by_hand.replace(digest, "sha256:0"), needed, "/h.json")
    with pytest.raises(BadValue, match="TOML"):
        trust.trusted("a = ", needed, "/h.json")


@given(
    st.none()
    | st.text(st.sampled_from("a\n \r"), max_size=8).filter(
        lambda t: "\r" not in t.replace("\r\n", "")
    )
)
def test_section_in_and_out_again(text: str | None) -> None:
    """A section goes to the end of a text; taken out again, every byte is as it was."""
    block = shipped.read("snippets/AGENTS.md").decode()

    made = appended(text, block)

    assert cut(made, SECTION, lambda _: True) == text


def test_devcontainer() -> None:
    """The feature's script is one for sh; without an option it says which one, and does nothing."""
    place = SOURCE / "hooks/devcontainer"
    feature = json.loads((place / "devcontainer-feature.json").read_text("utf-8"))
    script = str(place / "install.sh")
    done = subprocess.run(["sh", script], env={"PATH": os.environ["PATH"]}, capture_output=True)

    assert (feature["id"], feature["version"]) == ("gitcp", gitcp.__version__)
    assert list(feature["options"]) == ["source"]
    assert done.returncode == 1
    assert done.stderr.startswith(b'gitcp: the option "source" says what to install')
    assert done.stderr.endswith(b"; nothing was installed\n")
    subprocess.run(["sh", "-n", script], check=True)
