"""Dialogs over the panes: the plan of an act, a line of text, and the list of keys."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from itertools import zip_longest
from queue import SimpleQueue
from typing import ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen

from gitcp.tui import keys
from gitcp.tui.acts import MINE, TRUST, WHOLE_TREE, Perform, Proposal
from gitcp.tui.bars import Field, Keybar, Typed, bindings
from gitcp.tui.keys import Key
from gitcp.tui.lines import Line, Lines, Prepared, fitted, shown, wrapped

AT_WORK = "changed by sessions at work"
"""Begins the part of a plan that names other sessions whose changes it would undo."""
UNTRUSTED = 14
"""Exit code of a command that needs --trust."""

NOTHING = "  nothing to restore:"
"""How the line of a plan begins that would change nothing. Paths are indented further."""


WIDEST, RIGHT_COLUMN = 190, 90
"""Cells that the list of keys takes at most, and that its second column takes at least."""


AGE = re.compile(r"just now|[0-9]+ [a-z]+ ago")


def _ageless(lines: Sequence[str]) -> list[str]:
    """Return the lines of a plan without ages: a second later, y had to be pressed once more."""
    return [AGE.sub("", line) for line in lines]


class Dialog(ModalScreen[object]):
    """A box with a title, over the panes."""

    field: Field | None = None
    """Where text is typed."""

    def leave(self) -> None:
        """Close the dialog."""
        self.app.typing = None  # type: ignore[attr-defined]  # our app's
        _ = self.dismiss(None)

    def titled(self, box: Vertical, title: str) -> Vertical:
        """Return the box with its title as text."""
        box.border_title = Content(shown(title))
        return box


class Act(threading.Thread):
    """A command that runs beside the interface: its lines and questions go to the dialog."""

    def __init__(self, perform: Perform, args: Sequence[str], tell: Callable[[Message], object]):
        super().__init__(daemon=True)
        self._perform, self._args, self._tell = perform, args, tell
        self._answers: SimpleQueue[bool] = SimpleQueue()
        self._withdrawn = False
        self.lines: list[str] = []
        self.asked_at: int | None = None

    def run(self) -> None:
        self._tell(Ended(self, self._perform(self._args, self)))

    def line(self, text: str) -> None:
        """Take a line of output."""
        self.lines += text.split("\n")

    def ask(self, question: str) -> bool:
        """Show the question and wait for the answer."""
        if self._withdrawn:
            return False
        self.asked_at = len(self.lines)
        self._tell(Asked(self, question))
        return self._answers.get()

    def answer(self, *, agreed: bool) -> None:
        """Answer a question that was asked."""
        self._answers.put(agreed)

    def withdraw(self) -> None:
        """Answer no to every question, also to those that are asked later."""
        self._withdrawn = True
        self._answers.put(False)

    @property
    def report(self) -> list[str]:
        """What the command printed after it asked; all of it if it did not."""
        return self.lines[self.asked_at or 0 :]


class Asked(Message):
    """The command shows its plan and asks."""

    def __init__(self, act: Act, question: str) -> None:
        super().__init__()
        self.act, self.question = act, question


class Ended(Message):
    """The command ended with an exit code."""

    def __init__(self, act: Act, code: int) -> None:
        super().__init__()
        self.act, self.code = act, code


class Done(Message):
    """An act is over: what it did or why it failed, and how to undo it."""

    def __init__(self, text: str, undo: str, *, failed: bool) -> None:
        super().__init__()
        self.text, self.undo, self.failed = text, undo, failed


class Quiet(Act):
    """An act that needs no dialog: it asks nothing, and tells what it did."""

    def __init__(
        self, perform: Perform, proposal: Proposal, tell: Callable[[Message], object]
    ) -> None:
        super().__init__(perform, proposal.args, tell)
        self._proposal = proposal

    def run(self) -> None:
        failed = bool(self._perform(self._args, self))
        self._tell(done(self, self._proposal, failed=failed))

    def ask(self, question: str) -> bool:  # noqa: ARG002
        return False


def done(act: Act | None, proposal: Proposal, *, failed: bool, changed: bool = True) -> Done:
    """Return what the status line says of an act that is over."""
    lines = [line.strip() for line in (act.report if act else []) if line.strip()]
    undo = proposal.undo if changed and not failed else ""
    return Done(" · ".join(lines[:2]) or proposal.title, undo, failed=failed)


class PlanDialog(Dialog):
    """Shows what an act would do, and does it once somebody agrees.

    `scopes` returns the proposal for another scope of a restore.
    """

    BINDINGS: ClassVar = bindings(
        (*keys.PLAN, *keys.SCOPES, keys.TRUST, *keys.SHARED, *keys.CHOICE[1:])
    )

    def __init__(
        self,
        perform: Perform,
        proposal: Proposal,
        scopes: Callable[[str], Proposal] | None = None,
        elsewhere: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__()
        self._perform, self._proposal = perform, proposal
        self._scopes, self._elsewhere = scopes, elsewhere
        self._act: Act | None = None
        self._state = "new"
        self._question = ""
        self._agreed: list[str] = []

    def compose(self) -> ComposeResult:
        with self.titled(Vertical(id="box"), self._proposal.title):
            yield Lines(id="plan", marks=False)
            yield Keybar()

    def on_mount(self) -> None:
        if self._state == "new":  # not if it was closed by a key that was typed ahead
            self._begin()
            self.query_one(Lines).focus()

    def _begin(self) -> None:
        """Plan: run the command up to its question, or the command that shows what would happen."""
        proposal = self._proposal
        self._state, self._question = "planning", ""
        self.titled(self.query_one("#box", Vertical), proposal.title)
        if proposal.asks or proposal.first:
            self._run(proposal.first or proposal.args)
        else:
            self._act = None
            self._ready()
        self._show()

    def _run(self, args: Sequence[str]) -> None:
        self._act = Act(self._perform, args, self.post_message)
        self._act.start()

    def _ready(self) -> None:
        self._state = "ready"
        self._show()

    def on_asked(self, message: Asked) -> None:
        """Agree to the plan that was agreed to; show another plan, and other questions than whether
        to carry it out.
        """
        is_choice = " " in message.question
        is_agreed = _ageless(message.act.lines) == _ageless(self._agreed)
        if message.act is not self._act or self._state == "closed":
            message.act.withdraw()
        elif self._state == "working" and not is_choice and is_agreed:
            message.act.answer(agreed=True)
        else:
            self._question = message.question if is_choice else ""
            self._ready()

    def on_ended(self, message: Ended) -> None:
        if message.act is not self._act or self._state == "closed":
            return
        proposal = self._proposal
        if self._state == "planning" and proposal.first and not message.code:
            empty = any(line.startswith(NOTHING) for line in message.act.lines)
            self._state = "nothing" if empty else "shared" if self._is_shared else "ready"
            self._show()
        elif message.code or (self._state == "planning" and proposal.asks):
            self._state = "failed" if message.code else "nothing"
            if message.code == UNTRUSTED and TRUST not in proposal.args:
                self._state = "untrusted"
            self._show()
            self._tell(failed=bool(message.code))
        else:
            self._tell(failed=False)
            if proposal.answers:
                self._state = "over"
                self._show()
            else:
                self.leave()

    @property
    def _is_shared(self) -> bool:
        """Whether the plan must first be limited to one session, or extended to all."""
        lines = self._act.lines if self._act else []
        is_open = not {MINE, WHOLE_TREE} & set(self._proposal.args)
        return is_open and any(line.strip().startswith(AT_WORK) for line in lines)

    def _tell(self, *, failed: bool) -> None:
        changed = self._state != "nothing"
        told = done(self._act, self._proposal, failed=failed, changed=changed)
        self.app.screen_stack[0].post_message(told)

    def _show(self) -> None:
        width = max(self.query_one(Lines).size.width - 2, 40)
        lines = [Line((("Command  ", "dim"), (self._proposal.command, "head"))), Line(())]
        if self._proposal.about:
            lines += [Line(((each, ""),)) for each in wrapped(self._proposal.about, width)]
        if self._state == "planning":
            lines.append(Line((("planning …", "dim"),)))
        elif self._state == "working":
            lines.append(Line((("working …", "dim"),)))
        for text in self._act.lines if self._act and self._state != "planning" else ():
            role = "error" if text.startswith("error:") else ""
            lines += [Line(((each, role),)) for each in wrapped(text, width)]
        if self._question and self._state == "ready":
            lines += [Line(()), Line(((self._question, "head"),))]
        numbered = [(str(number), line) for number, line in enumerate(lines)]
        self.query_one(Lines).show(Prepared(numbered), reset=True)
        self.query_one(Keybar).show(self._footer())

    def _footer(self) -> list[Key]:
        apply, cancel = keys.PLAN[:2]
        scopes = list(keys.SCOPES) if self._scopes is not None else []
        if self._state == "ready":
            return [*(keys.CHOICE if self._question else (apply, *scopes)), cancel]
        if self._state == "untrusted":
            return [keys.TRUST, *scopes, cancel]
        if self._state == "shared":
            return [*keys.SHARED, *scopes, cancel]
        return [*(scopes if self._state != "working" else []), cancel]

    # ------------------------------------------------------------ keys

    def action_apply(self) -> None:
        if self._state != "ready":
            return
        self._state = "working"
        self._show()
        if self._act is not None and self._act.asked_at is not None:
            self._act.answer(agreed=True)
        else:
            self._agreed = list(self._act.lines) if self._act is not None else []
            self._run(self._proposal.args)

    def action_decline(self) -> None:
        """Answer no to a question; the command goes on."""
        if self._state == "ready" and self._question and self._act is not None:
            self._state = "working"
            self._show()
            self._act.answer(agreed=False)

    def action_cancel(self) -> None:
        """Close; a command that waits for its answer hears no, one that works goes on."""
        self._withdraw()
        self.leave()

    def _withdraw(self) -> None:
        """Answer no, also to a question that is not asked yet: nobody may be left to answer it."""
        self._state = "closed"
        if self._act is not None:
            self._act.withdraw()

    def action_trust(self) -> None:
        """Plan again, for a checkpoint from another repository."""
        if self._state == "untrusted":
            self._proposal = self._proposal.trusting
            self._scopes = _trusting(self._scopes)
            self._begin()

    def action_share(self, option: str) -> None:
        """Plan again, for one session's changes or for those of all."""
        if self._state == "shared":
            self._proposal = self._proposal.with_option(option)
            self._begin()

    def action_scope(self, scope: str) -> None:
        if self._scopes is not None and self._state not in ("new", "working"):
            self._withdraw()
            self._proposal = self._scopes(scope)
            self._begin()

    def action_to_directory(self) -> None:
        self._go_elsewhere("directory")

    def action_to_worktree(self) -> None:
        self._go_elsewhere("worktree")

    def _go_elsewhere(self, where: str) -> None:
        if self._elsewhere is not None and self._state != "working":
            self._withdraw()
            self.leave()
            self._elsewhere(where)

    def action_move(self, steps: int) -> None:
        self.query_one(Lines).move(steps)


def _trusting(scopes: Callable[[str], Proposal] | None) -> Callable[[str], Proposal] | None:
    return (lambda scope: scopes(scope).trusting) if scopes is not None else None


class TextDialog(Dialog):
    """Asks for one line of text; with `needed`, not an empty one."""

    def __init__(
        self, title: str, hint: str, done: Callable[[str], object], *, needed: bool = True
    ) -> None:
        super().__init__()
        self._title, self._done, self._needed = title, done, needed
        self.field = self._text = Field(hint, Typed(lambda _: None, self._entered, self.leave))

    def compose(self) -> ComposeResult:
        with self.titled(Vertical(id="box"), self._title):
            yield self._text
            yield Keybar([Key("enter", "Enter", "", "", "go on"), keys.PLAN[1]])

    def _entered(self, text: str) -> None:
        if text.strip() or not self._needed:
            self.leave()
            self._done(text.strip())


class KeysDialog(Dialog):
    """Lists keys; with `choose`, typing filters them, and Enter runs the one under the cursor."""

    BINDINGS: ClassVar = bindings(
        (*keys.MOVING[:6], Key("escape,q,question_mark", "Esc", "leave", "close"))
    )

    def __init__(self, pane: str, choose: Callable[[str], object] | None = None) -> None:
        super().__init__()
        self._pane, self._choose = pane, choose
        self._lines = Lines(id="list", marks=choose is not None)
        self.field = self._field = (
            Field("an act", Typed(self._show, self._chosen, self.leave, self.action_move))
            if choose
            else None
        )

    def compose(self) -> ComposeResult:
        box = Vertical(id="box", classes="" if self._choose else "-keys")
        with self.titled(box, "Actions" if self._choose else "Keys"):
            if self._field is not None:
                yield self._field
            yield self._lines
            enter = [Key("enter", "Enter", "", "", "run")] if self._choose else []
            yield Keybar([*enter, Key("escape", "Esc", "", "", "close")])

    def on_mount(self) -> None:
        self._show("")
        self._lines.focus()

    def on_lines_opened(self) -> None:
        self._chosen("")

    def _show(self, words: str) -> None:
        sections = []
        for title, table in keys.SECTIONS:
            shown = [each for each in table if self._is_shown(each, words.lower())]
            lines: list[tuple[str | None, Line]] = [(None, Line(((title, "head"),)))]
            lines += [(f"{each.action}", _key_line(each)) for each in shown]
            sections += [lines] if shown else []
        lines = [line for section in sections for line in section]
        width = min(self.app.size.width * 9 // 10, WIDEST) - 4
        if self._choose is None:
            lines = _side_by_side(sections, width) or lines
        self._lines.show(Prepared(lines or [(None, Line((("no act", "dim"),)))]), reset=True)

    def _is_shown(self, key: Key, words: str) -> bool:
        text = f"{key.about} {key.command} {key.footer}".lower()
        can_run = self._choose is None or (key not in keys.MOVING and self._pane in key.panes)
        return can_run and words in text

    def _chosen(self, text: str) -> None:  # noqa: ARG002 -- the text has filtered the list
        key = self._lines.key
        if self._choose is not None and key is not None:
            self.leave()
            self._choose(key)

    def action_move(self, steps: int) -> None:
        self._lines.move(steps)

    def action_page(self, way: int) -> None:
        self._lines.page(way)

    def action_end(self, way: int) -> None:
        self._lines.end(way)

    def action_leave(self) -> None:
        self.leave()


def _side_by_side(
    sections: Sequence[Sequence[tuple[str | None, Line]]], width: int
) -> list[tuple[str | None, Line]]:
    """Return the lines in two columns: the first section and the last one beside the others. None
    if the right one, whose lines have commands, would have too little room.
    """
    left = [line for _, line in (*sections[0], *sections[-1])]
    right = [line for section in sections[1:-1] for _, line in section]
    widest = 3 + max(sum(cell_len(text) for text, _ in line.left) for line in left)
    if width - widest < RIGHT_COLUMN:
        return []
    return [
        (None, Line((*fitted(one, widest), *other.left), other.right))
        for one, other in zip_longest(left, right, fillvalue=Line(()))
    ]


def _key_line(key: Key) -> Line:
    pad = " " * max(15 - cell_len(key.written), 1)
    where = "" if len(key.panes) == len(keys.PANES) else f"  ({', '.join(key.panes)})"
    command = f"  {key.command} " if key.command else ""
    return Line(
        ((f"  {key.written}{pad}", "accent"), (key.about, ""), (where, "dim")), ((command, "dim"),)
    )
