"""What programs were promised, each with the test that shows it: the lists of docs/promises.md.

UPDATE_DOCS=1 writes the lists.
"""

from __future__ import annotations

import ast
import os
import re
from functools import cache
from typing import NamedTuple

import pytest

from driver import SOURCE

PAGE = SOURCE / "docs/promises.md"
UPDATE = bool(os.environ.get("UPDATE_DOCS"))
TABLE = re.compile(r"(<!-- promises -->\n).*(<!-- /promises -->)", re.DOTALL)


class Promise(NamedTuple):
    """What a program can rely on, the test that shows it, and what does not hold of it."""

    what: str
    test: str
    but: str = ""


KEEP = (
    Promise(
        "messages are saved whole and load verbatim", "sharing/test_import.py::test_conversation"
    ),
    Promise("messages are passed as a list", "api/test_wrong_types.py::test_messages"),
    Promise(
        "phase, objective and date are carried on",
        "cli/test_cli_save.py::test_facts_stay_until_dropped",
    ),
    Promise("a saved message never changes", "store/test_format.py::test_segments_stay"),
    Promise(
        "facts come first in a restored context",
        "api/test_verbs.py::test_messages",
    ),
    Promise(
        "load, confirm, continue, in another process",
        "api/test_plans.py::test_carried_out_elsewhere",
    ),
    Promise("a session resumes in a line", "restoring/test_resume.py::test_goes_on"),
    Promise("a fork is a session of its own", "lifecycle/test_fork.py::test_fork"),
    Promise("two sessions are never merged", "lifecycle/test_fork.py::test_merge_is_no_command"),
    Promise("1,000 items, resumed at the next one", "running/test_steps.py::test_resume"),
    Promise("a refactoring goes back to a phase", "cli/test_cli_restore.py::test_of_a_phase"),
    Promise(
        "a batch of records, killed, goes on exactly",
        "integrations/test_pipeline.py::test_killed_at_any_step",
    ),
    Promise(
        "the same, if others change files meanwhile",
        "running/test_others_kept.py::test_two_batches",
    ),
    Promise(
        "a session goes from machine to machine",
        "sharing/test_import.py::test_transcript_goes_on",
        "as a bundle or a transcript; an export as JSON is read, and no agent resumes it",
    ),
    Promise("a session is sent as one file", "sharing/test_export.py::test_bundle"),
    Promise("sessions are shared by git", "sharing/test_share.py::test_there_and_back"),
    Promise(
        "work is handed over",
        "real/test_real_share.py::test_handed_over",
    ),
    Promise("a few checkpoints for many turns", "lifecycle/test_auto_retention.py::test_count"),
    Promise("a checkpoint before and after a decision", "running/test_run.py::test_success"),
    Promise(
        "a workflow returns to an earlier version",
        "restoring/test_undo.py::test_any_tree_to_any_other",
    ),
    Promise(
        "the most recent state of a long context",
        "real/test_real_claude.py::test_it_continues_in_an_empty_home_at_another_path",
    ),
    Promise("a restored session keeps its id", "integrations/test_claude_sdk.py::test_rewind"),
    Promise(
        "files and conversation are of one moment",
        "integrations/test_claude_sdk.py::test_rewind_to_the_result_of_a_tool",
    ),
)
WORK = (
    Promise(
        "`GitSaver` in the place of `MemorySaver`",
        "integrations/test_langgraph.py::test_conformance",
    ),
    Promise("a state after each node", "integrations/test_langgraph.py::test_one_commit_a_put"),
    Promise(
        "a person approves in another process",
        "integrations/test_langgraph_files.py::test_killed_resumed_sent_back",
    ),
    Promise(
        "a killed graph goes on",
        "integrations/test_langgraph_together.py::test_killed_at_any_change",
    ),
    Promise(
        "a replay restores the files",
        "integrations/test_langgraph_files.py::test_a_replay_keeps_what_others_did",
    ),
    Promise(
        "the same with LangGraph's default durability",
        "integrations/test_langgraph_files.py::test_each_state_has_its_files",
    ),
    Promise("tasks that are done are not run again", "running/test_steps.py::test_done_once"),
    Promise(
        "files, conversation and position in one",
        "saving/test_position.py::test_resume_goes_by_the_position",
    ),
    Promise("a list to select from", "cli/test_pick.py::test_pick_by_number"),
    Promise("a log of versions", "running/test_affected_steps.py::test_back_and_forth"),
    Promise(
        "a change runs the affected steps alone",
        "running/test_affected_steps.py::test_exactly_the_affected",
    ),
    Promise(
        "a failed transaction compensates in reverse", "running/test_transaction.py::test_failure"
    ),
    Promise(
        "effects of affected steps are compensated",
        "running/test_step_effects.py::test_newest_first",
    ),
    Promise(
        "only the failed part is run again",
        "running/test_affected_steps.py::test_failure_in_the_middle",
    ),
    Promise(
        "others' work in progress stays",
        "running/test_others_kept.py::test_transactions_side_by_side",
    ),
    Promise(
        "55 % fewer tokens than a restart",
        "running/test_affected_steps.py::test_figures",
        "plans of 30 steps and 3 faults, see [pipelines.md](pipelines.md)",
    ),
    Promise(
        "2.06 × as fast as a restart",
        "running/test_affected_steps.py::test_figures",
        "steps of 0.2 to 0.6 s; nothing is gained with steps of 20 ms",
    ),
    Promise("automatic, manual, or both", "automation/test_policy.py::test_triggers_switched_off"),
    Promise("at each edit, task or milestone", "automation/test_policy.py::test_triggers"),
    Promise("kept for a time", "lifecycle/test_auto_retention.py::test_age"),
    Promise(
        "kept up to a number",
        "lifecycle/test_auto_retention.py::test_safety_and_expiry",
        "exactly by `delete --old`; the automatic limit drops nothing younger than a day",
    ),
    Promise("kept as milestones", "lifecycle/test_prune.py::test_what_stays"),
    Promise(
        '`/checkpoint "before the migration"`',
        "real/test_real_recovery.py::test_a_slash_command",
        "as `/gitcp:checkpoint` in Claude Code, which keeps `/checkpoint` for itself",
    ),
    Promise("effects elsewhere are compensated", "running/test_compensate.py::test_named"),
    Promise("decisions are stored with the state", "store/test_readme.py::test_a_full_one"),
    Promise("back to before a context overflowed", "automation/test_hook.py::test_compaction"),
)
SKILL = (
    Promise(
        '`/checkpoint "note"`',
        "automation/test_enable.py::test_slash_commands_have_the_names_people_know",
        "as `/gitcp:checkpoint` in Claude Code",
    ),
    Promise(
        "`/checkpoints` lists them",
        "automation/test_policy.py::test_the_commands_that_are_installed",
    ),
    Promise("`/restore 1` is the oldest", "history/test_revisions.py::test_forms"),
    Promise("`/rollback` goes back by one", "restoring/test_rollback.py::test_choice"),
    Promise("`/prune` keeps ten", "lifecycle/test_retention.py::test_last"),
    Promise("trigger: an interval", "automation/test_policy.py::test_interval"),
    Promise("trigger: before a refactoring", "automation/test_policy.py::test_triggers"),
    Promise("trigger: after a bug was found", "automation/test_policy.py::test_triggers"),
    Promise("trigger: before a risky change", "automation/test_policy.py::test_risky_commands"),
    Promise(
        "trigger: when tests fail", "automation/test_hook.py::test_risky_changes_and_failed_tests"
    ),
    Promise(
        "settings for all of these",
        "automation/test_policy.py::test_triggers_switched_off",
        "each by its own setting; there is no single switch",
    ),
    Promise("task, decisions, failures, next steps", "api/test_api.py::test_one_text_is_one"),
    Promise("a page for people with each checkpoint", "store/test_readme.py::test_a_full_one"),
    Promise(
        "restored in 30 seconds",
        "restoring/test_undo.py::test_any_tree_to_any_other",
        "2,000 files and 20 MB took 2.9 s; the test has no clock",
    ),
)
SDK = (
    Promise(
        "the id of a session is known", "real/test_real_claude_sdk.py::test_rewind_knows_the_shell"
    ),
    Promise("resume", "real/test_real_claude_sdk.py::test_goes_on_from_the_beginning"),
    Promise("fork, and both go on", "integrations/test_claude_sdk.py::test_conformance"),
    Promise(
        "rewind takes back what the shell did",
        "real/test_real_claude_sdk.py::test_rewind_knows_the_shell",
    ),
    Promise("rewind to any prompt", "integrations/test_claude_sdk.py::test_rewind"),
    Promise(
        "rewind to any message of the user",
        "integrations/test_claude_sdk.py::test_rewind_to_the_result_of_a_tool",
        'to the result of a tool with `session_store_flush="eager"`; or the error has the prompt',
    ),
    Promise(
        "rewind in the stream", "integrations/test_claude_sdk.py::test_rewind_while_the_turn_runs"
    ),
    Promise(
        "rewind to the first prompt, and go on",
        "real/test_real_claude_sdk.py::test_goes_on_from_the_beginning",
    ),
    Promise(
        "rewind touches what the session changed",
        "integrations/test_claude_sdk.py::test_rewind_keeps_what_others_did",
    ),
    Promise(
        "the files alone", "integrations/test_claude_sdk.py::test_rewind_to_the_result_of_a_tool"
    ),
    Promise(
        "across sessions and processes",
        "integrations/test_claude_sdk.py::test_writers_at_once_lose_nothing",
    ),
    Promise(
        "across machines",
        "integrations/test_claude_sdk.py::test_fetched_sessions",
        "once the user trusts what was fetched: `gitcp restore REMOTE/SESSION --trust`",
    ),
    Promise("a rewind is undone", "integrations/test_claude_sdk.py::test_rewind"),
    Promise("rewind on the command line", "cli/test_cli_restore.py::test_before_a_message"),
    Promise(
        "notebooks",
        "automation/test_edited.py::test_one_place",
        "like any file; no real agent edits one in a test",
    ),
)
PROMISES = (
    ("Checkpoints and sessions", KEEP),
    ("Work that runs by itself", WORK),
    ("A skill for checkpoints", SKILL),
    ("Sessions and files of an agent SDK", SDK),
)


@cache
def defined(module: str) -> frozenset[str]:
    """The tests of a module; none if there is no such module."""
    path = SOURCE / "tests" / module
    if not path.is_file():
        return frozenset()
    functions = (
        node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.FunctionDef)
    )
    return frozenset(node.name for node in functions)


@pytest.mark.parametrize("kind", PROMISES, ids=lambda kind: kind[0])
def test_shown_by_a_test(kind: tuple[str, tuple[Promise, ...]]) -> None:
    """The test that a promise names is there."""
    for promise in kind[1]:
        module, _, name = promise.test.partition("::")
        assert name in defined(module), promise


def test_table() -> None:
    """The page has each promise, and what does not hold of it."""
    lines = []
    for title, promises in PROMISES:
        listed = (f"- {each.what}" + (f" ({each.but})" if each.but else "") for each in promises)
        lines += [f"## {title}", "", *listed, ""]
    text = PAGE.read_text("utf-8")
    made = TABLE.sub(lambda found: found[1] + "\n" + "\n".join(lines) + found[2], text)
    if UPDATE:
        PAGE.write_text(made, "utf-8")

    assert sum(len(promises) for _, promises in PROMISES) == 78
    assert made == text or UPDATE
