"""`gitcp save`."""

from __future__ import annotations

from typing import Any

import click

from gitcp.cli import saving
from gitcp.cli.context import Context
from gitcp.cli.options import (
    WORDS,
    Command,
    exact_session_option,
    json_option,
    note_options,
    pass_context,
)
from gitcp.model import Trigger

TRIGGERS = [trigger.value for trigger in Trigger]
WHY = f"one of: {', '.join(TRIGGERS)}"


@click.command(cls=Command)
@click.argument("label", required=False, type=WORDS)
@note_options
@click.option(
    "--compensate",
    metavar="CMD",
    type=WORDS,
    multiple=True,
    help="what would undo an effect elsewhere",
)
@click.option(
    "--trigger",
    metavar="WHY",
    type=click.Choice(TRIGGERS),
    default="manual",
    help=f"one of: {', '.join(TRIGGERS)}",
)
@click.option(
    "--tag",
    "tags",
    metavar="NAME",
    type=WORDS,
    multiple=True,
    help="name the checkpoint (can be repeated)",
)
@exact_session_option
@click.option("--agent", metavar="NAME", type=WORDS, help="take the conversation of this agent")
@click.option(
    "--conversation",
    metavar="FILE|-",
    help="take this file for the conversation; - is standard input",
)
@click.option(
    "--include",
    metavar="GLOB",
    type=WORDS,
    multiple=True,
    help="take ignored files too (can be repeated)",
)
@click.option("--force", is_flag=True, help="save even if nothing changed")
@click.option("--quiet", "-q", is_flag=True, help="say nothing unless it fails")
@json_option
@pass_context
def command(context: Context, /, **given: Any) -> None:
    """Save files and conversation as a checkpoint

    Tracked files are saved always, untracked ones unless they are ignored or very large; what is
    left out is listed. The conversation is that of the agent that runs this, else the newest one of
    this directory. Phase, objective, facts and handoff stay until they are said anew.

      gitcp save "before migration" --fact database=sqlite
      gitcp save --decided "one file per change" --next "write the tests"
      gitcp save --conversation - --position record=7000000 < talk.jsonl
    """
    saving.perform(context, given)
