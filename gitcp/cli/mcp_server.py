"""The tools of `gitcp mcp`, for any client of the Model Context Protocol. Sole user of mcp.

Each call opens the repository again, like a command, and calls run one at a time. Results are the
documents that `--json` prints. A restore returns a plan first, and runs only with the digest of
that plan.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from threading import Lock
from typing import Annotated, Any, Literal, ParamSpec, TypeVar

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from gitcp import __version__, adapters, wire
from gitcp.cli import objects, restore_view
from gitcp.cli.context import Context
from gitcp.cli.failure import describe
from gitcp.cli.options import note_of
from gitcp.cli.safe import safe
from gitcp.errors import GitcpError, Refused
from gitcp.history import diff as diff_op
from gitcp.history import show as show_op
from gitcp.history.log import Selection, select
from gitcp.lifecycle import housekeeping
from gitcp.restoring import restore as restore_op
from gitcp.restoring.restore import RestorePlan, RestoreRequest
from gitcp.saving import session as session_op
from gitcp.saving.save import Saved, SaveRequest
from gitcp.saving.save import save as save_op
from gitcp.state import note as note_op
from gitcp.value import replace

P = ParamSpec("P")
R = TypeVar("R")

Json = dict[str, Any]
Revision = Annotated[
    str,
    Field(
        description="@ (the last checkpoint), @~2, a number, SESSION@NUMBER, a tag, an exact "
        "label, or a time (yesterday)"
    ),
]
Session = Annotated[str | None, Field(description="use this session instead of the current one")]
Text = Annotated[str | None, Field()]
Texts = Annotated[list[str] | None, Field()]
Facts = Annotated[
    dict[str, str] | None, Field(description="facts by name; an empty value removes one")
]
Paths = Annotated[
    list[str] | None, Field(description="only these paths, from the root of the repository")
]

MOST = 100_000
PATIENCE = 3.0
"""Seconds for which a save waits for the conversation of the agent that calls."""

LOOKING = ToolAnnotations(read_only_hint=True)
CHANGING = ToolAnnotations(destructive_hint=True)
ADDING = ToolAnnotations(destructive_hint=False)

INSTRUCTIONS = (
    "gitcp keeps checkpoints of the working tree and of the conversation, each one commit in the "
    "user's repository. "
    "Save before something risky and after something works. Write down decisions, what failed and "
    "what comes next with "
    "save or note. restore gives a plan and a digest; call it again with the digest to do what the "
    "plan says."
)


class Tools:
    """The tools for the repository around one directory."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self._one = Lock()

    def server(self) -> MCPServer:
        """Return a server with all tools."""
        server = MCPServer(
            "gitcp", instructions=INSTRUCTIONS, version=__version__, log_level="ERROR"
        )
        for function, hints in (
            (self.save, ADDING),
            (self.list, LOOKING),
            (self.show, LOOKING),
            (self.diff, LOOKING),
            (self.note, ADDING),
            (self.restore, CHANGING),
        ):
            server.tool(annotations=hints)(self._alone(function))
        return server

    def _alone(self, function: Callable[P, R]) -> Callable[P, R]:
        """Serialize calls, and convert errors to ToolError with message, candidates and hint."""

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                with self._one:
                    return function(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 -- a server outlives whatever one call meets
                said = describe(error)
                lines = [
                    said.message,
                    *said.candidates,
                    *([f"hint: {said.hint}"] if said.hint else []),
                ]
                raise ToolError(safe("\n".join(lines))) from None

        return called

    def _context(self) -> Context:
        context = Context(("mcp",))
        context.directory = self._directory
        return context

    # ------------------------------------------------------------ the tools

    def save(
        self,
        label: Text = None,
        phase: Text = None,
        objective: Text = None,
        facts: Facts = None,
        task: Text = None,
        decided: Texts = None,
        failed: Texts = None,
        next: Texts = None,
        active: Texts = None,
        tags: Texts = None,
        session: Session = None,
    ) -> Json:
        """Save files and conversation as a checkpoint, with a note for the next reader."""
        context = self._context()
        note = _note(phase, objective, facts, task, decided, failed, next, active)
        request = SaveRequest(
            context.cwd,
            note=replace(note, label=label),
            tags=tuple(tags or ()),
            session=session,
            limits=context.limits(),
            patience=PATIENCE,
        )
        saved = save_op(context.store, request)
        if saved.saved:
            with suppress(GitcpError):  # the save stands
                housekeeping.after_save(context.store, saved.checkpoint.id)
        found = objects.checkpoint(saved.checkpoint, context.tags.get(saved.checkpoint.commit, ()))
        fields = {"saved": saved.saved, "reason": saved.reason, "checkpoint": found}
        if saved.checkpoint.conversation is None:
            fields["warning"] = _without_conversation(context, saved)
        return objects.document("save", fields)

    def list(
        self,
        limit: Annotated[int, Field(ge=0, le=1000)] = 20,
        every_session: bool = False,
        session: Session = None,
    ) -> Json:
        """List checkpoints, newest first."""
        context = self._context()
        tips = context.readable_tips() if every_session else [context.viewed_tip(session)]
        found = [
            {**objects.summary(each), "tags": [*context.tags.get(each.commit, ())]}
            for each in select(context.store, tips, Selection(limit=limit))
        ]
        return objects.document("list", {"checkpoints": found})

    def show(
        self,
        revision: Revision = "@",
        path: Annotated[
            str | None, Field(description="return the text of this file instead")
        ] = None,
        session: Session = None,
    ) -> Json:
        """Show a checkpoint (facts, handoff, conversation, files), or one file in it."""
        context = self._context()
        found = context.checkpoint(revision, session)
        if path is None:
            return objects.document(
                "checkpoint", objects.checkpoint(found, context.tags.get(found.commit, ()))
            )
        content = show_op.file(
            context.store, found, path.encode("utf-8", "surrogateescape").strip(b"/")
        )
        if isinstance(content, bytes):
            return objects.document("file", {"id": str(found.id), "path": path, **_text(content)})
        return objects.document(
            "directory", {"id": str(found.id), "path": path, "names": objects.paths(content.names)}
        )

    def diff(
        self,
        old: Revision = "@",
        new: Annotated[
            str | None, Field(description="a revision (default: the working tree)")
        ] = None,
        paths: Paths = None,
        session: Session = None,
    ) -> Json:
        """Compare a checkpoint with another one, or with the working tree: paths and a patch."""
        context = self._context()
        a, store = context.checkpoint(old, session), context.store
        wanted = _paths(paths)
        if new is not None:
            b = context.checkpoint(new, session)
            return _differences(diff_op.compare(store, a.root, b.root, wanted))
        with diff_op.compare_with_now(store, a, context.limits(), wanted, text=True) as found:
            return _differences(found)

    def note(
        self,
        phase: Text = None,
        objective: Text = None,
        facts: Facts = None,
        task: Text = None,
        decided: Texts = None,
        failed: Texts = None,
        next: Texts = None,
        active: Texts = None,
        session: Session = None,
    ) -> Json:
        """Add a note to the next checkpoint, whoever saves it. Returns the whole pending note."""
        store = self._context().store
        named = session_op.named(store, session)
        given = _note(phase, objective, facts, task, decided, failed, next, active)
        waiting = note_op.add(store, named, given)
        return objects.document("note", objects.waiting(waiting))

    def restore(
        self,
        revision: Revision,
        digest: Annotated[
            str | None, Field(description="digest of the plan to apply; omit it to get the plan")
        ] = None,
        what: Literal["both", "files", "conversation"] = "both",
        paths: Paths = None,
        session: Session = None,
    ) -> Json:
        """Restore files and conversation from a checkpoint. Without a digest, changes nothing and
        returns a plan.

        The current state is saved first, so a restore can be undone. The conversation is written
        where its agent resumes it; the running conversation is not changed.
        """
        context = self._context()
        wanted = _paths(paths)
        request = RestoreRequest(
            context.checkpoint(revision, session),
            context.cwd,
            files=what != "conversation",
            conversation=what != "files" and not wanted,
            paths=wanted,
            limits=context.limits(),
        )
        plan = restore_op.plan(context.store, request)
        current = _digest(request, plan)
        if digest is None:
            return {**restore_view.plan_document(plan, request), "digest": current}
        if digest != current:
            raise Refused(
                "the digest does not match the current plan: nothing was changed",
                hint="call restore without a digest and review the plan",
            )
        report = restore_op.restore(context.store, request, plan)
        fields = objects.report(report, request.stored[0], plan.effects, saved_first=True)
        return objects.document("restore", fields)


def _without_conversation(context: Context, saved: Saved) -> str:
    """Return the warning for a save that stored files but no conversation."""
    running = adapters.running(context.host)
    if running is None:
        return f"no conversation was saved, only the files: {saved.why}"
    return (
        f"no conversation was saved, only the files: {running.agent} has written none yet; save "
        "again later"
    )


def _note(
    phase: str | None,
    objective: str | None,
    facts: dict[str, str] | None,
    task: str | None,
    decided: list[str] | None,
    failed: list[str] | None,
    next: list[str] | None,
    active: list[str] | None,
) -> Any:
    lists = {"decided": decided, "failed": failed, "next": next, "active": active}
    return note_of(
        {
            "phase": phase,
            "objective": objective,
            "task": task,
            "facts": [f"{key}={value}" for key, value in (facts or {}).items()],
            "position": (),
            **{name: tuple(texts or ()) for name, texts in lists.items()},
        }
    )


def _differences(found: diff_op.Comparison) -> Json:
    patch = found.text()
    fields: Json = {
        "changes": [objects.change(change) for change in found.changes],
        "patch": patch[:MOST].decode("utf-8", "replace"),
        "cut": len(patch) > MOST,
    }
    return objects.document("differences", fields)


def _text(content: bytes) -> Json:
    return {
        "text": content[:MOST].decode("utf-8", "replace"),
        "bytes": len(content),
        "cut": len(content) > MOST,
    }


def _paths(paths: list[str] | None) -> tuple[bytes, ...]:
    found = (path.encode("utf-8", "surrogateescape").strip(b"/") for path in paths or ())
    return tuple(path.removeprefix(b"./") for path in found)


def _digest(request: RestoreRequest, plan: RestorePlan) -> str:
    """Return a digest of a plan: its document, and each file before and after."""
    document = wire.dumps(restore_view.plan_document(plan, request))
    return hashlib.sha256(
        document + repr((request.target.commit, plan.files)).encode("utf-8", "replace")
    ).hexdigest()
