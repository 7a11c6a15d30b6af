"""Whatever a program passes to the public API: BadValue with what is expected, and nothing done;
never an AttributeError, a TypeError or a ValueError from inside of gitcp.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import gitcp
from gitcp.api.checked import expected
from gitcp.errors import BadValue, GitcpError

from driver import Project

NEEDED: dict[str, Any] = {
    "name": "n",
    "revision": "work@1",
    "path": "a.txt",
    "file": "out.bundle",
    "text": "one",
    "label": "l",
    "do": lambda: 1,
    "agreed": None,
    "command": "true",
    "forward": True,
}
"""Arguments for the parameters that have no default."""


def parameters() -> Iterator[tuple[type, str, str]]:
    """Each parameter of each public method."""
    for cls in (gitcp.Checkpoints, gitcp.Session):
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_") or name in {"request", "repository", "store"}:
                continue
            for parameter in inspect.signature(method).parameters.values():
                if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD:
                    yield cls, name, parameter.name


PARAMETERS = sorted(parameters(), key=lambda each: (each[0].__name__, *each[1:]))

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats()
    | st.text()
    | st.binary()
    | st.sampled_from([Path("a.txt"), gitcp.Handoff(), gitcp.Agent("x"), gitcp.Policy(), int, 1j]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.tuples(inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=2)
        | st.builds(iter, st.lists(inner, max_size=2))
    ),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[type, Any]:
    """The objects of a project with one checkpoint."""
    project = Project(tmp_path_factory.mktemp("wrong types"))
    project.write("a.txt", "one\n")
    project.commit()
    checkpoints = gitcp.open(project.root)
    session = checkpoints.session("work")
    session.save("first")
    return {gitcp.Checkpoints: checkpoints, gitcp.Session: session}


def call(programs: dict[type, Any], cls: type, name: str, given: dict[str, Any]) -> Any:
    method = getattr(programs[cls], name)
    needed = {
        each.name: NEEDED[each.name]
        for each in inspect.signature(method).parameters.values()
        if each.default is each.empty and each.kind is not each.VAR_KEYWORD
    }
    return method(**{**needed, **given})


@pytest.mark.parametrize(("cls", "name", "parameter"), PARAMETERS)
def test_no_type_at_all(programs: dict[type, Any], cls: type, name: str, parameter: str) -> None:
    """A value of a type that no parameter has is refused, and the parameter is named."""
    before = programs[gitcp.Checkpoints].log("work")
    error: type[Exception] = BadValue
    with pytest.raises(error, match=rf"\b{parameter}\b|inputs of step|: nothing was"):
        call(programs, cls, name, {parameter: object()})
    assert programs[gitcp.Checkpoints].log("work") == before


@given(data=st.data())
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_value(programs: dict[type, Any], data: st.DataObject) -> None:
    """Any value either is taken, or refused with an error of gitcp's."""
    cls, name, parameter = data.draw(st.sampled_from(PARAMETERS))
    value = data.draw(VALUES)
    with suppress(GitcpError):
        call(programs, cls, name, {parameter: value})


def test_the_ones_that_were_met(programs: dict[type, Any]) -> None:
    """Each error names the parameter, the value and what to pass."""
    checkpoints, session = programs[gitcp.Checkpoints], programs[gitcp.Session]
    cases: dict[str, tuple[Callable[[], object], str]] = {
        "facts is None: nothing was saved": (
            lambda: session.save(facts=None),
            "pass a dict",
        ),
        "limit is -1: nothing was read": (
            lambda: checkpoints.log(limit=-1),
            "pass 0 or more, or None",
        ),
        "limit is '3': nothing was read": (
            lambda: checkpoints.log(limit="3"),
            "pass int or None",
        ),
        "handoff is {}: nothing was saved": (
            lambda: session.save(handoff={}),
            "pass Handoff or None",
        ),
        "policy is Policy(last='3', within=None, hourly=0, daily=0, weekly=0, monthly=0, …": (
            lambda: checkpoints.plan_prune(gitcp.Policy(last="3")),  # type: ignore[arg-type]
            "pass Policy or None",
        ),
        "do is 3: nothing was run": (lambda: session.step("a", 3), "pass a function or None"),
        "path is 3: nothing was opened": (lambda: gitcp.open(3), "pass str or PathLike"),  # type: ignore[arg-type]
        "conversation is 'text': nothing was saved": (
            lambda: session.save(conversation="text"),
            "pass bytes, Path, a list of dicts, a dict or None",
        ),
    }
    for message, (act, hint) in cases.items():
        with pytest.raises(BadValue) as caught:
            act()
        assert str(caught.value).startswith(message.rstrip("…"))
        assert caught.value.hint == hint
    assert expected(str) == "str"


def test_paths_of_pathlib(programs: dict[type, Any]) -> None:
    """A path may be a `Path`, relative to the root or absolute; one is one."""
    checkpoints = programs[gitcp.Checkpoints]
    for paths in (Path("a.txt"), [Path("a.txt")], checkpoints.root / "a.txt", "a.txt", [b"a.txt"]):
        assert checkpoints.plan("work", paths=paths).files is not None
        assert checkpoints.file("work", Path("a.txt")) == b"one\n"
    with pytest.raises(BadValue, match="is not in"):
        checkpoints.plan("work", paths=["/etc/passwd"])


def test_messages(programs: dict[type, Any]) -> None:
    """A conversation may be a list of messages, as frameworks have it: one line each."""
    checkpoints = programs[gitcp.Checkpoints]
    talk: list[dict[str, Any]] = [{"role": "user", "content": "hello"}]
    checkpoints.save("one", session="talk", conversation=talk)
    talk.append({"role": "assistant", "content": [{"type": "text", "text": "é"}]})
    saved = checkpoints.save("two", session="talk", conversation={"main": talk, "state": b"{}"})

    assert saved.checkpoint.conversation.digest.messages == 2
    assert (
        checkpoints.conversation("talk")
        == (
            '{"role":"user","content":"hello"}\n'
            '{"role":"assistant","content":[{"type":"text","text":"é"}]}\n'
        ).encode()
    )
    with pytest.raises(BadValue, match="message 0 of the conversation is not a JSON value"):
        checkpoints.save("no", session="talk", conversation=[{"role": object()}])
    with pytest.raises(BadValue, match="conversation is"):
        checkpoints.save("no", session="talk", conversation=["hello"])
