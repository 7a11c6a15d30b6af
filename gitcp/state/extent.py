"""What a restore changed, and which restores can be undone: values, and their JSON."""

from __future__ import annotations

from collections.abc import Mapping

from gitcp import wire
from gitcp.codec import Codec, FieldRule, Form
from gitcp.model import CheckpointId
from gitcp.value import EMPTY, Value


class Extent(Value):
    """What a restore changed, so that undoing it changes no more.

    `paths` limit it (empty: no limit); a directory followed by gitcp.restoring.plan.ALONE excludes
    everything below. `made` are the files it created where nothing was: the state before is known
    to lack them. `bits` are permissions of changed files that the state before does not record
    (gitcp.restoring.permissions). `written` names the list of everything it wrote, `rules` the
    ignore rules in force before it that the state before does not record (both in
    gitcp.restoring.written); "" for none. `memory` is the agent whose memory it changed, "" for
    none, `states` are the states outside the files that it restored. In the operation log `made`
    and `bits` are empty if that list contains them.
    """

    files: bool = True
    conversation: bool = True
    index: bool = False
    paths: tuple[bytes, ...] = ()
    made: tuple[bytes, ...] = ()
    written: str = ""
    bits: tuple[tuple[bytes, int], ...] = ()
    rules: str = ""
    memory: str = ""
    states: tuple[str, ...] = ()


class Restores(Value):
    """The checkpoints that `undo` and `redo` restore, the next one last, and the extent of the
    restore after each.
    """

    undo: tuple[CheckpointId, ...] = ()
    redo: tuple[CheckpointId, ...] = ()
    extents: Mapping[CheckpointId, Extent] = EMPTY


NAME = Form(str, lambda name: name if name.isalnum() else "")
"""The name of a list beside the journal: any other text names none."""

RULES: Mapping[type, Mapping[str, FieldRule]] = {
    Extent: {
        "paths": FieldRule("limits"),
        "written": FieldRule(form=NAME),
        "rules": FieldRule(form=NAME),
    }
}
CODEC = Codec(wire.FORMS, RULES, in_full=True)
