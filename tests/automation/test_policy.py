"""What an agent's event means: payloads, shell commands, risk, failed tests, triggers. All of it
pure.
"""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcp import agents
from gitcp.agents import COMMANDS
from gitcp.automation.install import shipped
from gitcp.model import Trigger
from gitcp.policy import events, outcome, patterns, payload, risk, shell, triggers
from gitcp.policy.events import Event, EventCall
from gitcp.policy.settings import AUTOMATIC, Settings

ANY_JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def event(agent: str, name: str, **fields: Any) -> Event:
    """An event that is known."""
    found = events.read(agent, name, {"session_id": "s1", **fields})
    assert found is not None
    return found


def before(command: str, tool: str = "Bash") -> Event:
    """A shell command that is about to run."""
    return event("claude", "PreToolUse", tool_name=tool, tool_input={"command": command})


def after(command: str, output: object) -> Event:
    """A shell command that ran."""
    return event(
        "claude",
        "PostToolUse",
        tool_name="Bash",
        tool_input={"command": command},
        tool_response=output,
    )


def decided(
    found: Event, settings: Settings | None = None, age: float | None = 1.0, size: int = 0
) -> str | None:
    """The trigger of an event."""
    return triggers.decide(found, settings or Settings(), age, lambda path: size if path else 0)


# ---------------------------------------------------------------- payloads


@given(st.dictionaries(st.text(), ANY_JSON, max_size=5), st.booleans(), st.sampled_from([None, 2]))
def test_payload_round_trip(fields: dict[str, Any], ascii_only: bool, indent: int | None) -> None:
    """Whatever an agent can write is read as it is."""
    text = json.dumps(fields, ensure_ascii=ascii_only, indent=indent)

    assert payload.fields(text) == fields
    assert payload.value(text) == fields


@given(st.dictionaries(st.text(min_size=1), ANY_JSON, max_size=5), st.data())
def test_payload_cut_short(fields: dict[str, Any], data: st.DataObject) -> None:
    """Cut anywhere, it gives the fields before the cut, each whole."""
    text = json.dumps(fields)
    found = payload.fields(text[: data.draw(st.integers(0, len(text)))])

    shorter = dict(list(fields.items())[: len(found)])
    numbers = (int, float)
    assert list(found) == list(shorter)
    assert all(found[name] == shorter[name] or isinstance(shorter[name], numbers) for name in found)


@given(st.text() | st.text(alphabet='{}[]",:\\ntrue0-9.'))
def test_payload_garbage(text: str) -> None:
    """Anything at all is read without an error."""
    assert isinstance(payload.fields(text), dict)


def test_payload_nested_too_deeply() -> None:
    """Depth is no way to break it: what stood before is there."""
    assert payload.fields('{"a": 1, "b": ' + "[" * 100_000) == {"a": 1}


# ---------------------------------------------------------------- events


@pytest.mark.parametrize(
    ("agent", "name", "kind"),
    [(known.name, n, k) for known in agents.KNOWN for n, k in known.hooks.events.items()],
)
def test_events_are_known(agent: str, name: str, kind: str) -> None:
    """Each event of each agent is of its kind."""
    assert event(agent, name, trigger="manual", prompt="do it").kind == kind


@pytest.mark.parametrize(
    ("agent", "name", "fields"),
    [
        ("claude", "Notification", {}),
        ("claude", "stop", {}),
        ("cursor", "Stop", {}),
        ("cursor", "beforeReadFile", {}),
        ("", "", {}),
        ("gemini", "PreCompress", {"trigger": "auto"}),
        ("codex", "UserPromptSubmit", {"agent_id": "a1"}),
        ("opencode", "chat.message", {"parent_id": "ses_1"}),
        ("codex", "notify", {"type": "approval-requested"}),
    ],
)
def test_events_that_pass(agent: str, name: str, fields: dict[str, Any]) -> None:
    """What is not known, and what a sub-agent does with itself, leads to nothing."""
    assert events.read(agent, name, {"session_id": "s1", **fields}) is None


def test_copilot_spells_otherwise() -> None:
    """Camel case, and the input of a tool as JSON in a string."""
    found = events.read(
        "copilot",
        "preToolUse",
        {"sessionId": "s2", "cwd": "/w", "toolName": "bash", "toolArgs": '{"command": "rm -rf x"}'},
    )

    assert found is not None
    assert (found.session_id, found.cwd, found.calls[0].tool) == ("s2", "/w", "bash")
    assert decided(found) == "before-risky-change"


def test_codex_notifies() -> None:
    """The turn that Codex tells by `notify`."""
    found = events.read(
        "codex", "notify", {"type": "agent-turn-complete", "thread-id": "t1", "cwd": "/w"}
    )

    assert found is not None
    assert (found.kind, found.session_id) == (agents.TURN, "t1")


def test_a_subagent_belongs_to_its_parent() -> None:
    """The tools of a sub-agent are tools of the session that started it; its end is no turn."""
    tools = event(
        "opencode", "tool.execute.after", session_id="ses_2", parent_id="ses_1", tool_name="edit"
    )
    stop = event("codex", "Stop", agent_id="a1")

    assert (tools.session_id, tools.subagent, decided(tools)) == ("ses_1", "ses_2", "tools")
    assert decided(stop) == "tools"


@pytest.mark.parametrize(
    "text", ["../../etc", "a/b", "", ".", "-x", "a" * 65, "a\0b", "a\nb", "é", "/etc/passwd"]
)
def test_session_ids_that_are_none(text: str) -> None:
    """What could be part of a path is no session id."""
    assert events.session_id(text) == ""
    assert event("claude", "Stop", session_id=text).session_id == ""


@given(
    st.dictionaries(
        st.sampled_from([*events.SESSION, *events.TOOL, *events.INPUT, "tool_calls", "prompt"]),
        ANY_JSON,
    )
)
def test_events_of_any_shape(fields: dict[str, Any]) -> None:
    """A field of an unexpected type is no error, in any event."""
    for agent, kinds in ((known.name, known.hooks.events) for known in agents.SAVED.values()):
        for name in kinds:
            found = events.read(agent, name, fields)
            assert found is None or triggers.is_idle(found) or decided(found) in {None, *AUTOMATIC}


# ---------------------------------------------------------------- shell


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ls -la", ["ls -la"]),
        ("a && b || c; d & e | f |& g", ["a", "b", "c", "d", "e", "f", "g"]),
        ("a\nb\\\n c", ["a", "b c"]),
        ("echo 'rm x; y' \"rm $z\" # rm w", ["echo rm x; y rm $z"]),
        ("X=1 Y+=2 make -j2", ["make -j2"]),
        (
            "sudo -u bob env -u A B=1 git reset",
            ["sudo -u bob env -u A B=1 git reset", "env -u A B=1 git reset", "git reset"],
        ),
        ("sh -c 'a; b'", ["sh -c a; b", "a", "b"]),
        ('bash -lc "cd x && rm y"', ["bash -lc cd x && rm y", "cd x", "rm y"]),
        ("eval 'rm x'", ["eval rm x", "rm x"]),
        ('echo $(rm a) `rm b` "$(rm c)"', ["rm a", "rm b", "rm c", "echo $(rm a) `rm b` $(rm c)"]),
        ("(a; b) && { c; }", ["a", "b", "c"]),
        ("if a; then b; else c; fi", ["a", "b", "c"]),
        ("while a; do b; done", ["a", "b"]),
        ("diff <(a b) c", ["diff", "a b", "c"]),
        ("timeout -k 3 5 nice -n 4 a b", ["timeout -k 3 5 nice -n 4 a b", "nice -n 4 a b", "a b"]),
        ("ls | xargs -n 1 rm -f", ["ls", "xargs -n 1 rm -f", "rm -f"]),
        ("find . -name x -exec rm {} ;", ["find . -name x -exec rm {}", "rm {}"]),
        ("uv run --with x pytest -q", ["uv run --with x pytest -q", "pytest -q"]),
        ("docker exec -u me box rm x", ["docker exec -u me box rm x", "rm x"]),
        ("cat <<EOF\nrm x\nEOF\nls", ["cat", "ls"]),
        ("bash <<'EOF'\nrm x\nEOF\nls", ["bash", "rm x", "ls"]),
        ("bash <<< 'rm x'", ["bash", "rm x"]),
        ("a 2>&1 >/dev/null <in", ["a"]),
        ("$'a\\tb' c", ["a\\tb c"]),
        ('echo "unclosed $(rm x', ["rm x", "echo unclosed $(rm x"]),
        ("'unclosed", ["unclosed"]),
        ("", []),
        ("&& ; | (", []),
    ],
)
def test_commands(text: str, expected: list[str]) -> None:
    """Every program that a shell would run is found, in the words it would be given."""
    assert [
        " ".join(command.words) for command in shell.commands(text) if command.words
    ] == expected


def test_what_output_goes_to() -> None:
    """A file that is written over is told from one that is added to, and from another
    descriptor.
    """
    (command,) = shell.commands("a 2>errors >> log >|over &>both 2>&1")

    assert command.written == ["errors", "over", "both"]


@given(st.text(alphabet=string.ascii_lowercase + " \n'\"\\`$(){}<>|&;#=-2", max_size=60))
def test_any_command_is_read(text: str) -> None:
    """No text is too odd: it ends, without an error."""
    assert isinstance(shell.commands(text), list)


def test_deeply_nested_commands_end() -> None:
    """Nesting costs no more than it is worth."""
    assert isinstance(shell.commands("$(" * 5000 + "rm x"), list)
    assert isinstance(shell.commands("sudo " * 5000 + "rm x"), list)
    assert isinstance(shell.commands("a;" * 100_000), list)


# ---------------------------------------------------------------- patterns


@pytest.mark.parametrize(
    ("command", "pattern", "expected"),
    [
        ("rm x", "rm", True),
        ("/bin/rm x", "rm", True),
        ("rmdir x", "rm", False),
        ("git push origin main --force", "git push --force", True),
        ("git push --force-with-lease", "git push --force*", True),
        ("git push -fu origin", "git push -f", True),
        ("git push --follow-tags", "git push -f", False),
        ("git -C x reset --hard", "git reset --hard", True),
        ("git reset --soft", "git reset --hard", False),
        ("npm run db:migrate:latest", "npm run *migrat*", True),
        ("npm run build", "npm run *migrat*", False),
        ("python3.11 -m pytest -q", "python* -m pytest*", True),
        ("x ab", "x a*b*c", False),
        ("x abc", "x a*b*c", True),
        ("x aba", "x *ab*ba", False),
        ("x", "", False),
    ],
)
def test_patterns(command: str, pattern: str, expected: bool) -> None:
    """A pattern means what its page says."""
    (found,) = shell.commands(command)[:1]

    assert patterns.matches(found, pattern) is expected


# ---------------------------------------------------------------- risky changes

RISKY = """
rm -rf build
cd x && rm y
sudo rm -rf /srv/x
find . -name '*.pyc' -delete
find . -type f -exec rm {} +
git ls-files -o | xargs rm
git reset --hard HEAD~3
git checkout -- .
git clean -fdx
git rebase -i main
git push --force-with-lease origin main
git commit --amend --no-edit
git branch -D old
git stash drop
bash -c "git filter-branch --all"
alembic upgrade head
python manage.py migrate
bundle exec rails db:migrate
npx prisma migrate deploy
kubectl delete pod x
terraform apply -auto-approve
npm publish
make deploy
./scripts/deploy.sh production
psql -c 'DROP TABLE users'
sqlite3 x.db <<< "delete from users"
echo $(rm x)
""".strip().splitlines()

HARMLESS = """
ls -la
git status
git commit -m "rm -rf everything"
git checkout main
git stash
git log --oneline
echo "git reset --hard" > notes
grep -r "rm -rf" .
pytest -q
npm install
npm run build
python -m http.server
psql -c 'select 1'
""".strip().splitlines()


@pytest.mark.parametrize("command", RISKY)
def test_risky_commands(command: str) -> None:
    """What deletes, rewrites history, migrates or deploys is a reason for a checkpoint before
    it.
    """
    assert decided(before(command)) == "before-risky-change"
    assert not triggers.is_idle(before(command))


@pytest.mark.parametrize("command", [*HARMLESS, "cat <<EOF\nrm -rf x\nEOF"])
def test_harmless_commands(command: str) -> None:
    """What does not is none, whatever its text looks like."""
    assert decided(before(command)) is None


@pytest.mark.parametrize(
    ("tool", "given_input", "size", "expected"),
    [
        ("Write", {"file_path": "a", "content": "x"}, 20_000, True),
        ("Write", {"file_path": "a", "content": "x"}, 100, False),
        ("write_file", {"file_path": "a"}, 20_000, True),
        ("write", {"filePath": "a"}, 20_000, True),
        ("Edit", {"file_path": "a", "old_string": "x" * 20_000}, 0, True),
        ("Edit", {"file_path": "a", "old_string": "x"}, 20_000, False),
        ("apply_patch", {"command": "*** Begin Patch\n*** Delete File: a\n*** End Patch"}, 0, True),
        (
            "apply_patch",
            {"command": "*** Begin Patch\n*** Update File: a\n-x\n+y\n*** End Patch"},
            0,
            False,
        ),
        ("apply_patch", {"input": "-" + "x" * 20_000}, 0, True),
        ("mcp__files__delete_file", {"path": "a"}, 0, True),
        ("Read", {"file_path": "a"}, 20_000, False),
        ("Bash", {"command": "sort a > b"}, 20_000, True),
        ("Bash", {"command": ["bash", "-lc", "rm x"]}, 0, True),
        ("exec_command", {"cmd": "rm x"}, 0, True),
        ("Bash", {"command": None}, 0, False),
    ],
)
def test_risky_tools(tool: str, given_input: dict[str, Any], size: int, expected: bool) -> None:
    """A large rewrite and a deletion by a tool count too."""
    found = event("claude", "PreToolUse", tool_name=tool, tool_input=given_input)

    assert (decided(found, size=size) == "before-risky-change") is expected


def test_the_list_can_be_edited() -> None:
    """Patterns are added, and exceptions made."""
    settings = Settings(risky=("make release", "!rm *.tmp", "!git rebase"))

    assert decided(before("make release"), settings) == "before-risky-change"
    assert decided(before("rm x.tmp"), settings) is None
    assert decided(before("rm x.py"), settings) == "before-risky-change"
    assert decided(before("git rebase main"), settings) is None
    assert decided(before("git rebase main; rm x.py"), settings) == "before-risky-change"


@pytest.mark.parametrize("tool", ["Read", "Grep", "Task", "WebFetch", "mcp__x__query"])
def test_tools_that_need_no_look(tool: str) -> None:
    """A tool that can do no harm is decided by its name."""
    assert triggers.is_idle(
        event("claude", "PreToolUse", tool_name=tool, tool_input={"command": "rm x"})
    )


def test_the_lists_are_sound() -> None:
    """No pattern of the built-in lists is empty or matches everything; none is there twice."""
    for listed in (risk.COMMANDS, outcome.COMMANDS):
        assert len(set(listed)) == len(listed)
        assert all(pattern and not pattern.startswith(("* ", "!")) for pattern in listed)
        assert not any(
            patterns.matches(shell.ShellCommand(["ls", "-l"]), pattern) for pattern in listed
        )


# ---------------------------------------------------------------- failed tests


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q", {"stdout": "", "exit_code": 1}),
        ("cd x && python -m pytest", "Exit code 1\n=== 1 failed in 0.2s ==="),
        ("npm test", {"metadata": {"exit": 1}, "output": "no"}),
        ("go test ./...", "--- FAIL: TestX\nFAIL\tx\t0.1s"),
        ("cargo test", "test result: FAILED. 1 passed; 1 failed"),
        ("uv run pytest", {"llmContent": "Output: x\nExit Code: 2", "returnDisplay": "x"}),
        ("make test", "Process exited with code 2\nOutput:"),
        ("python -m unittest", "FAILED (failures=1)"),
        ("npx jest", {"resultType": "failure", "textResultForLlm": "x"}),
        ("pytest", {"content": [{"type": "text", "text": "3 failed, 2 passed in 1.0s"}]}),
    ],
)
def test_failed_tests(command: str, output: object) -> None:
    """A test command that failed is seen, by its exit code or by what it printed."""
    assert decided(after(command, output)) == "on-test-failure"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest -q", {"stdout": "2 passed in 0.1s", "exit_code": 0}),
        ("pytest -q", "Exit code: 0\nFAILED is only a word here"),
        ("pytest -q", "2 passed in 0.1s"),
        ("pytest -q", None),
        ("ls tests", "1 failed in 0.2s"),
        ("echo pytest", {"exit_code": 1}),
    ],
)
def test_tests_that_did_not_fail(command: str, output: object) -> None:
    """A test that passed, and a command that is none, are tools like others."""
    assert decided(after(command, output)) == "tools"


def test_a_failure_that_the_agent_tells() -> None:
    """Claude Code says by the event's name that a tool failed; a batch holds several."""
    failed = event(
        "claude",
        "PostToolUseFailure",
        tool_name="Bash",
        tool_input={"command": "pytest"},
        error="x",
    )
    calls = [
        {"tool_name": "Read", "tool_input": {}, "tool_response": "1 failed in 2s"},
        {"tool_name": "Bash", "tool_input": {"command": "./check"}, "tool_response": "Exit code 3"},
    ]
    batch = event("claude", "PostToolBatch", tool_calls=calls)

    assert decided(failed) == "on-test-failure"
    assert decided(batch) == "tools"
    assert decided(batch, Settings(tests=("check",))) == "on-test-failure"
    assert decided(failed, Settings(tests=("!pytest",))) == "tools"


@pytest.mark.parametrize(
    ("output", "code"),
    [({"exit": 3}, 3), ("x", None), ({"code": "3"}, None), ("exit code: 12.", 12)],
)
def test_exit_codes(output: object, code: int | None) -> None:
    """The code is found as a field or in words."""
    assert outcome.exit_code(output) == code


# ---------------------------------------------------------------- triggers

FORMS = ("", "command", "toml-command")
DECISIONS: list[tuple[Event, str | None]] = [
    (event("claude", "SessionStart", source="startup"), "turn"),
    (event("claude", "UserPromptSubmit", prompt="add a test"), "prompt"),
    (event("claude", "UserPromptSubmit", prompt="Refactor the parser, please"), "before-refactor"),
    (event("gemini", "BeforeAgent", prompt="we need to (restructure) it"), "before-refactor"),
    (event("claude", "UserPromptSubmit", prompt="what is a factor?"), "prompt"),
    (event("claude", "UserPromptSubmit", prompt="/gitcp:checkpoint a refactoring"), None),
    (event("claude", "UserPromptSubmit", prompt="/restore 2"), None),
    (event("copilot", "userPromptSubmitted", prompt="/gitcp rollback"), None),
    (event("codex", "UserPromptSubmit", prompt="$gitcp checkpoints"), None),
    (event("claude", "UserPromptSubmit", prompt="/restored"), "prompt"),
    (event("claude", "UserPromptSubmit", prompt="run /restore"), "prompt"),
    (event("claude", "PostToolBatch", tool_calls=[{"tool_name": "Edit"}]), "tools"),
    (
        event("claude", "PostToolBatch", tool_calls=[{"tool_name": "Read"}, {"tool_name": "Grep"}]),
        None,
    ),
    (
        event(
            "claude",
            "PostToolBatch",
            tool_calls=[{"tool_name": "Read"}, {"tool_name": "mcp__x__y"}],
        ),
        "tools",
    ),
    (event("claude", "SubagentStop", agent_id="a"), "tools"),
    (event("claude", "Stop", last_assistant_message="Done."), "turn"),
    (
        event("claude", "Stop", last_assistant_message="I found the bug: x was 0."),
        "after-bug-found",
    ),
    (event("gemini", "AfterAgent", prompt_response="The root cause is a race."), "after-bug-found"),
    (event("claude", "Stop", last_assistant_message="I found no bug."), "turn"),
    (event("claude", "StopFailure"), "turn"),
    (event("claude", "PreCompact", trigger="auto"), "compaction"),
    (event("gemini", "PreCompress", trigger="manual"), "compaction"),
    (event("claude", "SessionEnd", reason="other"), "session-end"),
]


@pytest.mark.parametrize(
    ("found", "expected"), DECISIONS, ids=[str(n) for n in range(len(DECISIONS))]
)
def test_triggers(found: Event, expected: str | None) -> None:
    """Which event is which trigger."""
    assert decided(found) == expected


@pytest.mark.parametrize(
    ("found", "off", "expected"),
    [
        (event("claude", "UserPromptSubmit", prompt="refactor"), "before-refactor", "prompt"),
        (event("claude", "UserPromptSubmit", prompt="refactor"), "prompt", "before-refactor"),
        (event("claude", "UserPromptSubmit", prompt="x"), "prompt", None),
        (
            event("claude", "Stop", last_assistant_message="found the bug"),
            "after-bug-found",
            "turn",
        ),
        (event("claude", "Stop"), "turn", None),
        (event("claude", "PostToolUse", tool_name="Edit"), "tools", None),
        (event("claude", "SessionEnd"), "session-end", None),
        (event("claude", "PreCompact"), "compaction", None),
        (before("rm x"), "before-risky-change", None),
        (after("pytest", "exit code 1"), "on-test-failure", "tools"),
    ],
)
def test_triggers_switched_off(found: Event, off: str, expected: str | None) -> None:
    """Each trigger can be switched off; a special one leaves the plain one."""
    assert decided(found, Settings(off=frozenset({off}))) == expected


def test_the_commands_that_are_installed() -> None:
    """Each is known by its name, and by its text where an agent passes that."""
    names = shipped.below(COMMANDS)

    assert {name.removesuffix(".md") for name in names} == set(triggers.COMMANDS)
    for name in names:
        content = shipped.read(f"{COMMANDS}/{name}")
        for form in FORMS:
            text = shipped.rewritten(form, content)[0].decode().rstrip("\n'")
            assert triggers.is_own_command(text.replace(shipped.ARGUMENTS, "the refactoring"))


@pytest.mark.parametrize(
    ("age", "settings", "expected"),
    [
        (1.0, Settings(), None),
        (1800.0, Settings(), "interval"),
        (None, Settings(), None),
        (60.0, Settings(interval=60), "interval"),
        (1e9, Settings(interval=0), None),
        (1e9, Settings(off=frozenset({"interval"})), None),
    ],
)
def test_interval(age: float | None, settings: Settings, expected: str | None) -> None:
    """After long enough, tools that only read are a reason too."""
    found = event("claude", "PostToolBatch", tool_calls=[{"tool_name": "Read"}])

    assert decided(found, settings, age) == expected


def test_the_words_are_triggers() -> None:
    """Every trigger that is named is one of the format's, and all but those made by hand or by a
    restore are named.
    """
    made_otherwise = {Trigger.MANUAL, Trigger.BEFORE_RESTORE, Trigger.RESTORE}

    assert {Trigger(name) for name in AUTOMATIC} == set(Trigger) - made_otherwise
    assert set(triggers.PLAIN.values()) <= set(AUTOMATIC)


def test_a_call_without_input() -> None:
    """A tool whose input is nothing is a tool all the same."""
    assert EventCall({"tool_name": "x"}).text("command") == ""
