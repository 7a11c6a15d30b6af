"""The interface: three panes, what they read, and what each key does."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from textual import events
from textual.app import App, ComposeResult, SuspendNotSupported
from textual.containers import Container
from textual.content import Content
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer

from gitcp.errors import BadValue
from gitcp.store import Store, Summary
from gitcp.tui import acts, keys, reading
from gitcp.tui.acts import Perform, Proposal
from gitcp.tui.bars import Field, Keybar, StatusBar, Typed, bindings
from gitcp.tui.lines import Empty, Line, Lines, shown, wrapped
from gitcp.tui.preview import (
    BASES,
    TABS,
    Blocks,
    Paths,
    Preview,
    Wanted,
    block_of,
    path_of,
)
from gitcp.tui.preview import read as read_preview
from gitcp.tui.reading import Delivery, StoreReader
from gitcp.tui.rows import Query, Sessions, Timeline, span
from gitcp.worktree.paths import display

if TYPE_CHECKING:
    from gitcp.tui.dialogs import Dialog
    from gitcp.worktree.snapshot import Limits

URGENT = ("watch", "pages", "preview", "counts", "sessions")
"""What is read first."""

REST = 0.05
"""Seconds that the cursor rests before the preview is read."""

PAUSE = 0.3
"""Seconds without a key before conversations and paths are searched."""

SHORT = 12
"""Digits of a commit on a command line."""

SHORTEST = 2
"""Characters from which conversations and paths are searched."""

HINT = "labels, prompts, answers, paths; tag: phase: trigger:"
HINT_EVERYWHERE = "all sessions: titles, prompts, answers, notes, paths"

MOST_LINES = 4
"""Lines of an error."""

WATCHED = 1.0
"""Seconds between two looks for new checkpoints."""


class Given(NamedTuple):
    """What the command line gives: how to open the store and to run commands.

    `session` is the current one; `cwd` the directory that paths are relative to; `program` the
    command line of gitcp, for what needs the whole terminal.
    """

    open_store: Callable[[], Store]
    perform: Perform
    limits: Callable[[], Limits]
    current: Callable[[Store], str | None]
    now: Callable[[], datetime]
    session: str | None
    root: Path
    cwd: Path
    program: tuple[str, ...]


class Arrived(Message):
    """Something was read."""

    def __init__(self, delivery: Delivery) -> None:
        super().__init__()
        self.delivery = delivery


class Panes(Screen[None], inherit_bindings=False):
    """Sessions, timeline and preview."""

    BINDINGS: ClassVar = bindings(keys.KEYS)
    HORIZONTAL_BREAKPOINTS = [  # noqa: RUF012 -- as textual declares it
        (0, "-narrow"),
        (100, "-normal"),
        (140, "-three"),
        (160, "-wide"),
    ]
    AUTO_FOCUS = "#timeline"

    def __init__(self, given: Given) -> None:
        super().__init__()
        self.given = given
        self.current = given.session
        self.sessions = Sessions((), given.session, given.now())
        self.timeline = Timeline(given.session or "", given.now())
        self.fresh: Timeline | None = None
        self.tab, self.base = "Changes", "parent"
        self.path: bytes | None = None
        self.preview: Preview | None = None
        self.flipped: set[str] = set()
        self.signature: reading.Signature | None = None
        self._waiting: dict[str, Timer] = {}
        self.reader = StoreReader(given.open_store, self._deliver, URGENT)
        self.searcher = StoreReader(given.open_store, self._deliver, ("found",))
        typed = Typed(
            self._searched, lambda _: self._stop_typing(), self._end_search, self.action_move
        )
        self._search = Field(HINT, typed, id="search")
        self._search.display = False
        self._everywhere = False
        self._result = reading.SearchResult()

    def compose(self) -> ComposeResult:
        with Container(id="panes"):
            yield Lines(id="sessions", source=Empty("reading …"))
            yield Lines(id="timeline", source=self.timeline)
            yield Lines(id="preview")
        yield self._search
        yield StatusBar(id="status")
        yield Keybar()

    def on_mount(self) -> None:
        self.reader.start()
        self._look()
        self.reader.ask("pages", lambda store: reading.pages(store, self.timeline.session))
        self._ask_sessions()
        self.set_interval(WATCHED, self._look)
        self._titles()

    def on_unmount(self) -> None:
        self.reader.close()
        self.searcher.close()

    @property
    def idle(self) -> bool:
        """Whether everything that was asked for is on the screen."""
        return not self._waiting and self.reader.idle and self.searcher.idle

    @property
    def _app(self) -> Interface:
        assert isinstance(self.app, Interface)
        return self.app

    def _pane(self, name: str) -> Lines:
        return self.query_one(f"#{name}", Lines)

    @property
    def _focused(self) -> str:
        return self.focused.id or "" if isinstance(self.focused, Lines) else "timeline"

    # ------------------------------------------------------------ reading

    def _deliver(self, delivery: Delivery) -> None:
        self.post_message(Arrived(delivery))

    def _later(self, purpose: str, seconds: float, what: Callable[[], object]) -> None:
        """Call `what` after a while, in place of an earlier call for the same purpose."""

        def act() -> None:
            self._waiting.pop(purpose, None)
            what()

        if purpose in self._waiting:
            self._waiting[purpose].stop()
        self._waiting[purpose] = self.set_timer(seconds, act)

    def _look(self) -> None:
        """Look whether there is a new checkpoint."""

        def look(store: Store) -> Any:
            yield reading.signature(store)

        self.reader.ask("watch", look)

    def _ask_sessions(self) -> None:
        def listed(store: Store) -> Any:
            return reading.listed(store, self.given.current(store))

        self.reader.ask("sessions", listed)

    def on_arrived(self, message: Arrived) -> None:
        """Show what was read."""
        purpose, value, error = message.delivery
        if error is not None:
            self.tell(f"error: {error}", failed=True)
            return
        show: dict[str, Callable[[Any], None]] = {
            "watch": self._watched,
            "pages": self._page,
            "preview": self._previewed,
            "counts": self._counted,
            "sessions": self._listed,
            "found": self._found,
        }
        show[purpose](value)

    def _watched(self, signature: reading.Signature) -> None:
        known, self.signature = self.signature, signature
        if known is not None and known != signature:
            self.read_again()

    def read_again(self) -> None:
        """Read sessions and timeline again, while the screen shows what it has."""
        self.fresh = Timeline(self.timeline.session, self.given.now())
        self.reader.ask("pages", lambda store: reading.pages(store, self.timeline.session))
        self._ask_sessions()

    def _page(self, page: reading.Page) -> None:
        if page.session != self.timeline.session:
            return
        if page.error:
            self.tell(f"error: {page.error}", failed=True)
        if self.fresh is not None:
            self._fresh_page(page)
            return
        first = not self.timeline.rows
        self.timeline.tags = page.tags
        self.timeline.extend(page.rows)
        self.timeline.complete = page.last
        gc.freeze()  # looking through 10,000 rows for garbage takes 90 ms, in which nothing moves
        self._pane("timeline").show(self.timeline, reset=first)
        self._titles()
        self._count()

    def _fresh_page(self, page: reading.Page) -> None:
        """Put new rows before those that are shown, once they join them."""
        assert self.fresh is not None
        known, fresh = self.timeline, self.fresh
        fresh.rows += page.rows
        joint = fresh.joint(known) if page.tags == known.tags and known.complete else None
        if joint is not None:
            self.reader.drop("pages")
            known.replace([*fresh.rows[: joint[0]], *known.rows[joint[1] :]])
        elif page.last:
            known.tags, known.complete = page.tags, True
            known.replace(fresh.rows)
        else:
            return
        known.now, self.fresh = self.given.now(), None
        gc.freeze()
        self._pane("timeline").show(known)
        self._titles()
        self._count()

    def _listed(self, listed: reading.Listed) -> None:
        self.current = listed.current
        self.sessions = Sessions(listed.sessions, listed.current, self.given.now())
        self._filter_sessions()
        if listed.forks != self.timeline.forks and (listed.forks or self.timeline.forks):
            self.timeline.forks = listed.forks
            self.timeline.arrange()
            self._pane("timeline").show(self.timeline)
        pane = self._pane("sessions")
        pane.show(self.sessions)
        if self.timeline.session and pane.key != self.timeline.session and not pane.has_focus:
            pane.go_to(self.timeline.session)
        self._titles()

    def _count(self) -> None:
        """Read how much the rows in sight changed."""
        pane = self._pane("timeline")
        entries = [
            self.timeline.entries[n] for n in pane.in_sight if n < len(self.timeline.entries)
        ]
        rows = [
            each.row
            for each in entries
            if each.row is not None
            and each.kind in ("row", "step")
            and span(each.row) not in self.timeline.totals
        ]
        if rows:
            self.reader.ask("counts", lambda store: reading.counts(store, rows))

    def _counted(self, counts: reading.Counts) -> None:
        self.timeline.totals |= counts.totals
        self._pane("timeline").repaint()

    # ------------------------------------------------------------ the preview

    @property
    def summary(self) -> Summary | None:
        """The checkpoint under the cursor of the timeline."""
        return self.timeline.summary(self._pane("timeline").key)

    def _ask_preview(self) -> None:
        summary = self.summary
        if summary is None:
            self._pane("preview").show(Empty(), reset=True)
            self.preview = None
            return
        width = max(self._pane("preview").scrollable_content_region.width - 1, 20)
        marked = self.timeline.marked
        oldest = self.timeline.oldest(summary)
        wanted = Wanted(summary.commit, oldest, self.tab, width, self.base, marked, self.path)
        self.reader.ask("preview", lambda store: read_preview(store, wanted, self.given.limits()))

    def _previewed(self, preview: Preview) -> None:
        same = self.preview is not None and self.preview.wanted == preview.wanted
        if not same:
            self.flipped = set()
        self.preview = preview
        self._show_preview(reset=not same)
        self._titles()

    def _show_preview(self, *, reset: bool) -> None:
        assert self.preview is not None
        paths = self.preview.paths
        source = Paths(paths) if paths is not None else Blocks(self.preview.blocks, self.flipped)
        self._pane("preview").show(source, reset=reset)

    def on_lines_moved(self, message: Lines.Moved) -> None:
        """The cursor is on another item."""
        if message.lines.id == "timeline":
            self.path = None
            self._later("preview", REST, self._ask_preview)
            self._count()
        elif message.lines.id == "sessions" and message.lines.has_focus and message.key:
            self._later("session", REST * 2, lambda: self.choose(message.lines.key))

    def on_lines_scrolled(self) -> None:
        self._later("counts", REST, self._count)

    def on_resize(self) -> None:
        self._later("preview", REST, self._ask_preview)

    def choose(self, session: str | None) -> None:
        """Show the timeline of a session."""
        if session is None or session == self.timeline.session:
            return
        forks = self.timeline.forks
        self.timeline, self.fresh = Timeline(session, self.given.now()), None
        self.timeline.forks = forks
        self._filter_timeline()
        self._pane("timeline").show(self.timeline, reset=True)
        self.reader.ask("pages", lambda store: reading.pages(store, session))
        self._titles()

    # ------------------------------------------------------------ titles and the two lines below

    def _titles(self) -> None:
        session = self.sessions.named(self.timeline.session)
        name = " ".join(filter(None, (session.agent if session else "", self.timeline.session)))
        self._title("sessions", f"1 Sessions {self._number_of_sessions()}".rstrip())
        self._title("timeline", f"2 Timeline {name}".rstrip())
        pane = self._pane("preview")
        tabs = [(f"[{tab}]" if tab == self.tab else f" {tab} ") for tab in TABS]
        pane.border_title = Content("3 " + "".join(tabs).strip())
        about = self.preview.about if self.preview is not None else ""
        pane.border_subtitle = Content(shown(about))
        top = self._pane("timeline").scroll_offset.y
        above = sum(entry.kind == "row" for entry in self.timeline.entries[: min(top, 100)])
        new = f"▲ {above} newer" if above else ""
        if self.timeline.is_filtered:
            new = f"{len(self.timeline.entries):,} match"
        self._pane("timeline").border_subtitle = Content(new)
        self._keys()

    def _number_of_sessions(self) -> str:
        known, matching = len(self.sessions.known), len(self.sessions.matching)
        more = "+" if self._result.more else ""
        return f"{matching}{more} of {known}" if matching < known else f"{known or ''}"

    def _title(self, pane: str, text: str) -> None:
        self._pane(pane).border_title = Content(shown(text))

    def _keys(self) -> None:
        pane = self._focused
        table = [key for key in keys.of_pane(pane) if key.footer in keys.FOOTER]
        table.sort(key=lambda key: keys.FOOTER.index(key.footer))
        self.query_one(Keybar).show(table, keys.APP[1:])

    def tell(self, text: str, undo: str = "", *, failed: bool = False) -> None:
        """Say what the last act did, and how to undo it."""
        bar, role = self.query_one("#status", StatusBar), "error" if failed else ""
        right = ((f" {undo} ", "accent"),) if undo else ()
        texts = list(wrapped(text, max(self.size.width - 2, 20)))[:MOST_LINES] if failed else [text]
        bar.tell_all([Line(((" ", ""), (each, role)), right) for each in texts])

    def on_descendant_focus(self) -> None:
        self.set_class(self._focused == "sessions", "-choosing")
        for name in keys.PANES:
            self._pane(name).set_class(name == self._focused, "-shown")
        self._keys()

    # ------------------------------------------------------------ moving

    def action_move(self, steps: int) -> None:
        self._pane(self._focused).move(steps)

    def action_page(self, way: int) -> None:
        self._pane(self._focused).page(way)

    def action_end(self, way: int) -> None:
        self._pane(self._focused).end(way)

    def action_pane(self, name: str) -> None:
        if name == "sessions":
            self.add_class("-choosing")  # a pane that is not displayed gets no focus
        for each in keys.PANES:
            self._pane(each).set_class(each == name, "-shown")
        self.set_focus(self._pane(name))

    def action_next_pane(self, way: int) -> None:
        index = keys.PANES.index(self._focused) + way
        self.action_pane(keys.PANES[index % len(keys.PANES)])

    def action_scroll_preview(self, way: int) -> None:
        pane = self._pane("preview")
        pane.scroll_relative(y=way * max(pane.size.height // 2, 1), animate=False)

    def action_tab(self, way: int) -> None:
        self.tab = TABS[(TABS.index(self.tab) + way) % len(TABS)]
        self.path = None
        self._titles()
        self._ask_preview()

    def action_enlarge(self) -> None:
        self.toggle_class("-enlarged")
        self._later("preview", REST, self._ask_preview)

    def action_current(self) -> None:
        self.choose(self.current)
        self._pane("timeline").end(-1)
        self.action_pane("timeline")

    def action_open(self) -> None:
        pane = self._pane(self._focused)
        {"sessions": self._enter, "timeline": self._unfold, "preview": self._flip}[self._focused](
            pane.key
        )

    def on_lines_opened(self, message: Lines.Opened) -> None:
        """A line was clicked twice."""
        message.lines.focus()
        {"sessions": self._enter, "timeline": self._unfold, "preview": self._flip}[
            message.lines.id or ""
        ](message.key)

    def _enter(self, session: str | None) -> None:
        self.choose(session)
        self.action_pane("timeline")

    def _unfold(self, key: str | None) -> None:
        """Unfold a row of steps, go to a fork, or else to the preview."""
        if key is None:
            return
        if key.startswith("fork:"):
            self.choose(key.removeprefix("fork:"))
            self._pane("sessions").go_to(key.removeprefix("fork:"))
        elif self.timeline.is_folded(key):
            self.timeline.unfolded ^= {key}
            self.timeline.arrange()
            self._pane("timeline").show(self.timeline)
            self._count()
        else:
            self.action_pane("preview")

    def _flip(self, key: str | None) -> None:
        """Fold or unfold a block, or open a file."""
        block = block_of(key)
        if block is None or self.preview is None:
            return
        if self.preview.paths is not None:
            self.path = path_of(key)
            self._ask_preview()
            return
        self.flipped ^= {block}
        self._pane("preview").go_to(f"{block}#0")
        self._show_preview(reset=False)

    def action_back(self) -> None:
        if self._search.display:
            self._end_search()
        elif self.path is not None:
            self.path = None
            self._ask_preview()
        elif self.has_class("-enlarged"):
            self.action_enlarge()
        elif self._focused != "timeline":
            self.action_pane("timeline")

    # ------------------------------------------------------------ searching and comparing

    def action_search(self) -> None:
        """Search all sessions from the list of them, else the one that is shown."""
        self._everywhere = self._focused == "sessions"
        self._search.begin(HINT_EVERYWHERE if self._everywhere else HINT)
        self._search.display = True
        self._app.typing = self._search
        if not self._everywhere:
            self.action_pane("timeline")
        if self._search.text:
            self._searched(self._search.text)

    def _searched(self, text: str) -> None:
        """Filter as one types; conversations and paths once there is a pause."""
        self._filter(reading.SearchResult())
        if len(text) >= SHORTEST:
            self._later("search", PAUSE, lambda: self._find(text))

    def _filter(self, result: reading.SearchResult) -> None:
        self._result = result
        self._filter_timeline()
        self._pane("timeline").show(self.timeline)
        self._filter_sessions()
        self._pane("sessions").show(self.sessions)
        self._count()
        self._titles()

    def _filter_timeline(self) -> None:
        """Show what matches. A session that only its title matches has nothing else that does."""
        result = self._result
        is_searched = not self._everywhere or self.timeline.session in result.sessions
        self.timeline.filter(self._search.text if is_searched else "", result.commits)

    def _filter_sessions(self) -> None:
        words = Query.parse(self._search.text).words if self._everywhere else ""
        self.sessions.filter(words, self._result.sessions)

    def _find(self, text: str) -> None:
        words, session = Query.parse(text).words, self.timeline.session
        if not words:
            return
        if not self.searcher.started:
            self.searcher.start()
        everywhere = self._everywhere

        def find(store: Store) -> Any:
            search = reading.search_all(store, words)
            for result in search if everywhere else reading.search_session(store, session, words):
                yield text, result

        self.searcher.ask("found", find)

    def _found(self, answer: tuple[str, reading.SearchResult]) -> None:
        text, result = answer
        if self._search.display and self._search.text == text:
            self._filter(result)

    def _stop_typing(self) -> None:
        self._app.typing = None

    def _end_search(self) -> None:
        self._stop_typing()
        self._search.display = False
        self._search.set("")

    def action_match(self, way: int) -> None:
        """Go to the next or previous match of the last search: a row, or a line of the preview."""
        sought, name = self.timeline.sought, self._focused
        pane = self._pane(name)

        def is_match(index: int) -> bool:
            text = "".join(part for part, _ in pane.source.line(index, pane.size.width).left)
            return bool(sought.words) and sought.words in text.lower()

        if not pane.seek(way, is_match if name == "preview" else self.timeline.is_match):
            self.tell("no match here: / searches")

    def action_mark(self) -> None:
        summary = self.summary
        if summary is not None:
            same = self.timeline.marked == summary.commit
            self.timeline.marked = None if same else summary.commit
            self.base = "parent" if same else "marked"
            self._pane("timeline").repaint()
            self._ask_preview()

    def action_base(self) -> None:
        bases = [each for each in BASES if each != "marked" or self.timeline.marked]
        self.base = bases[(bases.index(self.base) + 1) % len(bases)]
        self.tab = "Changes"
        self._ask_preview()

    # ------------------------------------------------------------ acts

    @property
    def revision(self) -> str | None:
        """The checkpoint under the cursor, as it is typed on a command line."""
        summary = self.summary
        if summary is None:
            return None
        remote, slash, _ = self.timeline.session.partition("/")
        return f"{remote}{slash}{summary.id}" if slash else str(summary.id)

    def _propose(self, proposal: Proposal, **more: Any) -> None:
        from gitcp.tui.dialogs import PlanDialog  # when it is first needed

        self._open(PlanDialog(self.given.perform, proposal, **more))

    def _ask_text(
        self, title: str, hint: str, done: Callable[[str], object], *, needed: bool = True
    ) -> None:
        from gitcp.tui.dialogs import TextDialog  # when it is first needed

        self._open(TextDialog(title, hint, done, needed=needed))

    def _open(self, dialog: Dialog) -> None:
        """Open a dialog. What is typed from now on is for its field, if it has one."""
        self._app.typing = dialog.field
        _ = self.app.push_screen(dialog)

    def action_restore(self) -> None:
        revision = self.revision
        if revision is None:
            return
        path = path_of(self._pane("preview").key) if self._focused == "preview" else None
        if path is not None:
            typed = os.path.relpath(self.given.root / os.fsdecode(path), self.given.cwd)
            self._propose(acts.restore_file(revision, typed, display(path)))
            return
        self._propose(
            acts.restore(revision, "both"),
            scopes=lambda scope: acts.restore(revision, scope),
            elsewhere=lambda where: self._elsewhere(revision, where),
        )

    def _elsewhere(self, revision: str, where: str) -> None:
        make = {"directory": acts.to_directory, "worktree": acts.to_worktree}[where]
        hint = "a new directory, as ../old"
        self._ask_text(
            f"{revision}: to a {where}", hint, lambda text: self._propose(make(revision, text))
        )

    def action_fork(self) -> None:
        if (revision := self.revision) is not None:
            self._ask_text(
                f"Fork {revision}",
                "name of the new session (Enter: a generated one)",
                lambda text: self._propose(acts.fork(revision, text)),
                needed=False,
            )

    def action_save(self) -> None:
        session = self.timeline.session
        into = session if session == self.current and "/" not in session else None

        def save(text: str) -> None:
            self._propose(acts.save(text, into))

        self._ask_text("Save", "a label (Enter: none)", save, needed=False)

    def action_tag(self) -> None:
        if (revision := self.revision) is not None:
            self._ask_text(
                f"Tag {revision}", "a name", lambda text: self._propose(acts.tag(revision, text))
            )

    def action_revert(self) -> None:
        if (revision := self.revision) is not None:
            self._propose(acts.revert(revision))

    def action_bisect(self) -> None:
        if (revision := self.revision) is None:
            return
        marked = self.timeline.marked

        def search(text: str) -> None:
            try:
                good = marked[:SHORT] if marked else None
                self._propose(acts.bisect(good, revision, text))
            except BadValue as error:
                self.tell(f"nothing was run: {error}", failed=True)

        self._ask_text("Bisect", "the command that fails here: pytest -q", search)

    def action_note(self) -> None:
        def noted(text: str) -> None:
            try:
                self._propose(acts.note(text))
            except BadValue as error:
                self.tell(f"no note was added: {error}", failed=True)

        self._ask_text("Note", "decided: one file per change", noted)

    def action_drop(self) -> None:
        session = self.timeline.session
        if self._focused == "sessions":
            session = self._pane("sessions").key or session
            self._propose(acts.delete(session))
        elif session:
            self._propose(acts.prune(session))

    def action_delete(self) -> None:
        if (revision := self.revision) is not None:
            self._propose(acts.delete(revision))

    def action_undo(self) -> None:
        self._propose(acts.undo())

    def action_undo_all(self) -> None:
        self._propose(acts.undo_all())

    def action_redo(self) -> None:
        self._propose(acts.redo())

    def action_browse(self) -> None:
        revision = self.revision
        if revision is None:
            return
        from gitcp.tui.dialogs import Quiet  # when it is first needed

        proposal = acts.view(revision)  # changes nothing, so it is run without a question
        self.tell(f"{proposal.command} …")
        Quiet(self.given.perform, proposal, self.post_message).start()

    def on_done(self, message: Any) -> None:
        """An act is over."""
        self.tell(message.text, message.undo, failed=message.failed)
        self.read_again()
        self._ask_preview()

    def action_resume(self) -> None:
        """Hand the terminal to the agent. `gitcp resume` shows its plan there, and asks."""
        in_sessions = self._focused == "sessions"
        session = self._pane("sessions").key if in_sessions else None
        what = ("--session", session) if session else (self.revision,)
        if None in what:
            return
        words = ("resume", *(each for each in what if each))
        try:
            with self.app.suspend():
                code = subprocess.run((*self.given.program, *words), check=False).returncode
        except SuspendNotSupported:
            self.tell("this terminal cannot be handed over: run gitcp resume", failed=True)
            return
        self.refresh(repaint=True, layout=True)
        self.tell(f"gitcp {' '.join(words)} ended with {code}", failed=bool(code))
        self.read_again()

    def action_copy(self) -> None:
        """Copy the id by OSC 52, and show it, as a terminal may not take it."""
        if (revision := self.revision) is not None:
            self.app.copy_to_clipboard(revision)
            self.tell(f"copied {revision}")

    def action_acts(self) -> None:
        from gitcp.tui.dialogs import KeysDialog  # when it is first needed

        self._open(KeysDialog(self._focused, self._run_act))

    def _run_act(self, action: str) -> None:
        self.call_after_refresh(self.run_action, action)

    def action_keys(self) -> None:
        from gitcp.tui.dialogs import KeysDialog  # when it is first needed

        self._open(KeysDialog(self._focused))

    def action_quit(self) -> None:
        self.app.exit()


class Interface(App[None]):
    """The interface as a program, in the terminal's own colors."""

    CSS_PATH = "app.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "gitcp"

    def __init__(self, given: Given, *, light: bool = False) -> None:
        super().__init__(ansi_color=True)
        self.given = given
        self.theme = "ansi-light" if light else "ansi-dark"
        self.typing: Field | None = None

    async def on_event(self, event: events.Event) -> None:
        """While a field is typed in, it gets every key: also those typed ahead."""
        if (
            self.typing is not None
            and isinstance(event, events.Key | events.Paste)
            and not event.is_forwarded
        ):
            self.typing.type(event)
        else:
            await super().on_event(event)

    def get_default_screen(self) -> Screen[None]:
        return Panes(self.given)


def run(given: Given, *, light: bool, mouse: bool) -> None:
    """Run the interface until it is quit."""
    Interface(given, light=light).run(mouse=mouse)
