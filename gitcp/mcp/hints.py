"""The hints of errors as a client can follow them: a tool call instead of a command.

What no tool does (`gitcp doctor --store`, `git init`) is for the user, and the hint says so.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from gitcp import wire
from gitcp.cli.failure import describe
from gitcp.errors import GitcpError
from gitcp.safe import safe
from gitcp.wire import Json

OPTION = re.compile(r"--([a-z][a-z-]*)")
PROGRAMS = frozenset("cd chmod claude chgrp git ls opencode pip rm sudo".split())


class _Form(NamedTuple):
    """How a command becomes a tool call: its arguments and options by name, and fixed ones."""

    tool: str
    arguments: tuple[str, ...] = ()
    options: Mapping[str, str] = {}
    fixed: Mapping[str, Any] = {}
    paths: str = ""


SESSION = {"--session": "session"}
FORMS = {
    "save": _Form("save", ("label",), {**SESSION, "--tag": "tags"}),
    "log": _Form("list", ("revision",), {**SESSION, "--oneline": ""}),
    "sessions": _Form("list", fixed={"every_session": True}),
    "show": _Form(
        "show", ("revision",), {**SESSION, "--files": "path", "--conversation": ""}, paths="path"
    ),
    "diff": _Form("diff", ("old", "new"), SESSION, paths="paths"),
    "find": _Form("find", ("text",), SESSION),
    "why": _Form("why", ("path", "revision"), SESSION),
    "restore": _Form("restore", ("revision",), SESSION, paths="paths"),
    "revert": _Form("revert", ("revision",), SESSION, paths="paths"),
    "undo": _Form("undo"),
    "redo": _Form("undo", fixed={"redo": True}),
    "fork": _Form("fork", ("revision",), {**SESSION, "--name": "name"}),
}
VALUELESS = {"--oneline": None, "--conversation": None, "--files": ""}
LISTS = frozenset({"tags", "paths"})


def message(error: Exception, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return an error as text: what happened, the candidates, and what to call next."""
    failure = describe(error)
    hint = _corrected(error, tool, arguments) or in_tools(failure.hint)
    lines = (failure.message, *failure.candidates, *([f"hint: {hint}"] if hint else []))
    return safe("\n".join(lines))


def call(tool: str, arguments: Json) -> str:
    """Return a tool call in words."""
    return f"call {tool}" + (f" with {wire.dumps(arguments).decode()}" if arguments else "")


def in_tools(hint: str) -> str:
    """Return a hint with a tool call in the place of a command."""
    try:
        words = shlex.split(hint)
    except ValueError:
        words = []
    if len(words) > 1 and words[0] == "gitcp" and words[1] == words[1].lower():
        tool_call = _call(words[1], words[2:])
        if tool_call is not None:
            return tool_call
        from gitcp.cli.commands import NAMES  # the rest of the command line, for this alone

        return f"ask the user to run: {hint}" if words[1] in NAMES else hint
    if words and words[0] in PROGRAMS:
        return f"ask the user to run: {hint}"
    return OPTION.sub(lambda option: option[1].replace("-", "_"), hint)


def _call(command: str, words: list[str]) -> str | None:
    """Return the tool call for a command line; None if no tool does the same."""
    form = FORMS.get(command)
    if form is None:
        return None
    arguments: Json = dict(form.fixed)
    places, rest = iter(form.arguments), iter(words)
    for word in rest:
        if word == "--" and form.paths:
            paths = list(rest)
            arguments[form.paths] = paths if form.paths in LISTS else paths[0]
            continue
        name = form.options.get(word) if word.startswith("--") else next(places, None)
        if name is None:
            return None
        value: str | None = word
        if word.startswith("--"):
            value = VALUELESS.get(word) if word in VALUELESS else next(rest, None)
        if name and value is not None:
            arguments[name] = [value] if name in LISTS else value
    return call(form.tool, arguments)


def _corrected(error: Exception, tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the same call with the word that the error corrects; "" if it corrects none."""
    if not isinstance(error, GitcpError) or not error.suggestion or not error.argument:
        return ""
    exact = {name: value for name, value in arguments.items() if value == error.argument}
    for name, value in (exact or arguments).items():
        if isinstance(value, str) and error.argument in value:
            corrected = value.replace(error.argument, error.suggestion, 1)
            return call(tool, {**arguments, name: corrected})
    return ""
