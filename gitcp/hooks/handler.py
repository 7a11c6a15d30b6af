"""`gitcp hook AGENT EVENT`, which agents call many times a turn. It never fails, never blocks the
agent, and normally prints nothing.

It first checks the event (gitcp.policy), then the cached state (gitcp.fastpath.hook_memo): most
events end there, with nothing else imported. Saving runs in a detached process, for which the hook
waits only up to a limit (gitcp.hooks.limits).
"""

from __future__ import annotations

import os
import sys
import time

from gitcp import agents, clock, discovery, fingerprint, regular
from gitcp.cli.background import WAIT_LESS, run_detached
from gitcp.fastpath import answer, hook_memo, watched
from gitcp.git import shared
from gitcp.hooks import limits
from gitcp.policy import events, payload, triggers
from gitcp.state import hook_failures, tool_log, turn_start

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from gitcp.agents import KnownAgent
    from gitcp.cli.context import Context
    from gitcp.model import CheckpointId
    from gitcp.policy.events import Event
    from gitcp.policy.settings import Settings
    from gitcp.saving.save import Saved
    from gitcp.store import Store
    from gitcp.worktree.snapshot import Limits

LOG_SIZE = 1 << 17
BUSY = "hook.busy"
LAGGING_BEFORE_TOOL = 2.0
MOST_BELOW = 200
"""Entries of a directory that are looked at for worktrees, before it is deleted."""

COMMAND = b"gitcp hook"
"""What is in each file with hooks of gitcp's."""


def run(arguments: Sequence[str], until: float) -> int:
    """Run `gitcp hook ARGUMENTS` until `time.monotonic()` reaches `until`; return 0."""
    if events.TRIAL in os.environ and os.environ[events.TRIAL] == os.getcwd():
        os.write(1, events.ANSWER)
        return 0
    called: list[_Called] = []
    try:
        if arguments[:1] == ["git"]:
            _answer_git(arguments[1:], until)
            return 0
        agent, name, *rest = arguments
        given = rest[0] if rest else limits.payload(until)
        event = events.read(agent, name, payload.fields(given))
        if event is not None and not triggers.is_idle(event):
            events.attribute(event, os.environ, os.path.expanduser("~"))
            called.extend(_Called(event, *location) for location in _places(event))
            for each in called:
                each.note_done()
            _save_worktrees_being_deleted(event, until)
            _answer(called, until)
            if not called:
                _fail_without_repository(event)
    except BaseException as error:  # noqa: BLE001 -- whatever it is, the agent must not feel it
        for each in called:
            each.fail(error)
    return 0


def _fail_without_repository(event: Event) -> None:
    """Record, and tell the agent, that nothing can be saved where `.git` names no repository. Does
    nothing where there is no `.git`.
    """
    directory = discovery.unusable(event.cwd or ".")
    if directory is None:
        return
    telling = _Telling(event, directory, "")
    if event.kind in (agents.PROMPT, agents.TURN):
        from gitcp.cli.context import Context
        from gitcp.errors import GitcpError
        from gitcp.git.repo import Repository

        context = Context(("hook",))
        context.directory = directory
        try:
            Repository.open(context.cwd, context.host)
        except GitcpError as error:
            telling.record(error)
    if telling.listens and telling.is_due:
        telling.tell(())


def _save_worktrees_being_deleted(event: Event, until: float) -> None:
    """Save the worktrees that a command is about to delete, each into its own sessions."""
    if event.kind != agents.BEFORE_TOOL:
        return
    from gitcp.policy import risk  # only before a tool that can be risky

    paths = {path for call in event.calls for path in risk.deleted_directories(call)}
    for path in sorted(paths):
        for root, git_dir in _worktrees_at(os.path.join(event.cwd or ".", path)):
            doomed = _Called(event, root, git_dir)
            if doomed.wants_a_save():
                run_detached(doomed.save_worktree, doomed.fail, until)


def _worktrees_at(path: str) -> list[tuple[str, str]]:
    """Return the linked worktree at a path, or those directly below it."""
    try:
        below = sorted(os.listdir(path))[:MOST_BELOW]
    except (OSError, ValueError):
        return []
    if ".git" in below:
        below = [""]
    places = (os.path.realpath(os.path.join(path, name)) for name in below)
    linked = (directory for directory in places if os.path.isfile(os.path.join(directory, ".git")))
    discovered = (discovery.discover(directory) for directory in linked)
    return [each for each in discovered if each is not None]


def _answer_git(arguments: Sequence[str], until: float) -> None:
    """Handle a git hook. Killed at the limit, so that git's files do not change later."""

    def work() -> None:
        name, file, source = (*arguments, "", "", "")[:3]
        if name != "prepare-commit-msg" or not file:
            return
        from gitcp.cli.context import Context  # not for an agent
        from gitcp.review import prepare_commit_msg

        context = Context(("hook",))
        context.finishing = True  # nobody reads what an interrupted restore would be said by
        prepare_commit_msg.add(context.store, context.cwd / file, source)

    run_detached(work, lambda _: None, until, goes_on=False)


def _answer(called: Sequence[_Called], until: float) -> None:
    """Handle the event in each working tree. They share the time limit, and one prints."""
    told = False
    for each in called:
        telling = not told and each.can_notify()
        if not telling and not each.calls_for_a_save():
            each.begin_turn()
            each.note_begin(each.began)
        else:
            each.note_asked()
            limit = each.patience(until)
            words = run_detached(
                each.worker(telling=telling), each.fail, limit, overdue=each.is_overdue
            )
            each.note_begin(clock.of_files())
            told = told or bool(words)
            if words:
                os.write(1, words)


class _Telling:
    """What a hook tells the agent of failed saves, and what it records of them."""

    def __init__(self, event: Event, root: str, git_dir: str) -> None:
        self.event = event
        home = os.path.expanduser("~")
        self.files = hook_failures.places(root, git_dir, os.environ, home)
        hooks = event.known.hooks
        hears = {agents.PROMPT: hooks.hears_at_prompts, agents.START: hooks.hears_at_start}
        self.listens = hears.get(event.kind, False)

    @property
    def is_due(self) -> bool:
        """Return whether the agent is to be told of failed saves now: at each start of a session,
        and else once for each session and reason.
        """
        failing = hook_failures.read(self.files)
        if failing is None:
            return False
        return self.event.kind == agents.START or failing.told != self._key(failing)

    def _key(self, failing: hook_failures.Failing) -> str:
        return f"{self.event.session_id} {failing.reason}"

    def record(self, error: BaseException) -> None:
        """Record a failed save."""
        from gitcp.cli.failure import describe

        if not isinstance(error, Exception):
            hook_failures.record(self.files, type(error).__name__, "", clock.seconds())
            return
        failure = describe(error)
        hook_failures.record(self.files, failure.message, failure.hint, clock.seconds())

    def tell(self, notices: Sequence[str]) -> bool:
        """Print these notices for the agent, and what failed if that is due. Return whether
        anything was printed.
        """
        failing = hook_failures.read(self.files) if self.is_due else None
        words = []
        if failing is not None:
            from gitcp.safe import safe

            hook_failures.tell(self.files, failing, self._key(failing))
            hint = f" To repair it, run: {failing.hint}" if failing.hint else ""
            words = [safe(f"gitcp: {failing}. Nothing is saved until that is repaired.{hint}")]
        text = "\n".join((*words, *notices))
        if text:
            self._print(text, words)
        return bool(text)

    def _print(self, text: str, for_user: Sequence[str]) -> None:
        from gitcp import wire

        context = f"{text}\nTell the user." if for_user else text
        field = self.event.known.hooks.answer
        answer: wire.Json = {field or "additionalContext": context}
        if not field:
            answer = {"hookSpecificOutput": {"hookEventName": self.event.name, **answer}}
        if for_user and self.event.known.hooks.shows:
            answer["systemMessage"] = "\n".join(for_user)
        sys.stdout.write(wire.dumps(answer).decode() + "\n")
        sys.stdout.flush()


class _Called:
    """One event in one working tree."""

    def __init__(self, event: Event, root: str, git_dir: str) -> None:
        self.event, self.root, self.git_dir = event, root, git_dir
        self.began = clock.of_files()
        # Since Linux 6.13 a file can be stamped by the exact clock, between two ticks: what a call
        # wrote in its last milliseconds would be later than its end.
        self.arrived = clock.nanoseconds()
        self.settings = hook_memo.settings(git_dir)
        self.last = hook_memo.last(git_dir, event.agent, event.session_id)
        self.look = answer.look_at(root, git_dir)
        self.telling = _Telling(event, root, git_dir)
        self.is_echo = event.is_borrowed and _has_own_hooks(event.known, root)

    def note_done(self) -> None:
        """Log the event, unless a tool is about to begin."""
        if self.event.kind != agents.BEFORE_TOOL:
            self._note(self.arrived)

    def note_asked(self) -> None:
        """Log that a tool waits for a save: what changes meanwhile is not of it."""
        if self.event.kind == agents.BEFORE_TOOL:
            self._note(self.began, asked=True)

    def note_begin(self, time: int) -> None:
        """Log that a tool begins."""
        if self.event.kind == agents.BEFORE_TOOL:
            self._note(time)

    def _note(self, time: int, *, asked: bool = False) -> None:
        """Log the event, unless the agent calls its own hook as well, which logs it: a call that
        has begun twice, under two names, ends once.
        """
        if not self.is_echo:
            tool_log.note(self.git_dir, self.root, self.event, time, asked=asked)

    def calls_for_a_save(self) -> bool:
        """Return whether there may be something to save, from cached state."""
        return self.settings is None or self._calls_for_a_save(self.settings)

    def wants_a_save(self) -> bool:
        """Return whether the settings want a checkpoint before this event."""
        return self.settings is None or self._decided(self.settings) is not None

    def save_worktree(self) -> None:
        """Save this working tree, in a detached process, whatever agent it belongs to."""
        from gitcp.automation import worktree

        limits.end_work()
        worktree.save_all(self._context().store)

    def begin_turn(self) -> None:
        """For a prompt without a save, record that the turn starts at the last checkpoint."""
        if self.event.kind == agents.PROMPT and self.last is not None:
            turn_start.write(self.git_dir, self.last.tip[1])

    def worker(self, *, telling: bool) -> Callable[[], None]:
        """Return the function to run in a detached process: print the notice, then save."""

        def work() -> None:
            limits.end_work()
            has_told = telling and self._tell()
            if telling and not self.calls_for_a_save():
                self.begin_turn()
                return
            try:
                self._save()
            except BaseException as error:  # noqa: BLE001 -- nobody else is left to tell it
                self.fail(error)
                if self.telling.listens and not has_told:
                    self.telling.tell(())
                return
            hook_failures.clear(self.telling.files, reason=hook_failures.OVERDUE)

        return work

    def patience(self, until: float) -> float:
        """Return until when to wait for the save: hardly, if another has not finished in time since
        the prompt.
        """
        failing = hook_failures.read(self.telling.files)
        if (
            failing is None
            or failing.reason != hook_failures.OVERDUE
            or self.event.kind in (agents.START, agents.PROMPT)
        ):
            return until
        # Where saves hung, each tool waited anew: one prompt could take more than a minute.
        return min(until, time.monotonic() + limits.LIMIT_AFTER_ANOTHER)

    def is_overdue(self, child: int) -> None:
        """Record that the process that saves has not finished in time. It goes on, and forgets that
        if it succeeds.
        """
        now = clock.seconds()
        hook_failures.record(self.telling.files, hook_failures.OVERDUE, "gitcp doctor", now)
        if os.waitpid(child, os.WNOHANG)[0] == child:  # just now
            hook_failures.clear(self.telling.files, reason=hook_failures.OVERDUE)

    def _trigger(self, settings: Settings) -> str | None:
        trigger = self._decided(settings)
        if trigger is None and self.event.kind == agents.BEFORE_TOOL:
            return triggers.before_edit(settings)
        return trigger

    def _decided(self, settings: Settings) -> str | None:
        age = clock.seconds() - self.last.created if self.last else None
        return triggers.decide(self.event, settings, age, self._size)

    def _calls_for_a_save(self, settings: Settings) -> bool:
        trigger = self._trigger(settings)
        if trigger is None:
            return False
        if self.event.kind == agents.START:
            return bool(self._behind())
        if self._is_before_edit(trigger):
            return self._has_unsaved()
        is_stamped = self.event.kind == agents.TURN and self.event.stamp and not self.is_echo
        if self.last is None or is_stamped:
            return True  # a transcript that is written later looks as it did
        files_alone, whole = trigger == "tools", trigger == answer.RISKY
        if whole and settings.risky_states:
            return True
        if not hook_memo.is_unchanged(self.look, self.last, files_alone=files_alone, whole=whole):
            return True
        if self.event.kind == agents.BEFORE_TOOL:
            tool_log.note_unchanged(self.git_dir, self.began)
        return self.event.kind == agents.TURN and not self._has_written()

    def _is_before_edit(self, trigger: str) -> bool:
        """Return whether a tool is about to change files, without a risk: then only what others
        have changed is saved.
        """
        return self.event.kind == agents.BEFORE_TOOL and trigger == triggers.TOOLS

    def _has_unsaved(self) -> bool:
        """Return whether the files that a tool is about to change may differ from the last
        checkpoint here, of any session. What it is about to do would hide who changed them.
        """
        if self._names_saved_files():
            return False
        if not hook_memo.scanned(self.git_dir) or not hook_memo.is_as_scanned(self.look):
            return True
        tool_log.note_unchanged(self.git_dir, self.began)
        return False

    def _names_saved_files(self) -> bool:
        """Return whether the calls change only files that they name, and these are as the last
        checkpoint has them.
        """
        paths, since = tool_log.named(self.event, self.root), hook_memo.scanned(self.git_dir)
        return paths is not None and all(_is_older(self.root, path, since) for path in paths)

    def _has_written(self) -> bool:
        """Return whether the transcript has the agent's last message; True if it never will."""
        awaited = _awaited(self.event)
        if (
            not isinstance(awaited, bytes)
            or not awaited
            or self.last is None
            or self._waited_in_vain()
        ):
            return True
        return hook_memo.ends_with(self.last.transcript or self.event.transcript, awaited)

    def _waited_in_vain(self) -> bool:
        """Return whether an earlier wait for this session's transcript timed out and it is still
        missing.
        """
        return self.last is not None and self.last.is_missing

    def _size(self, path: str) -> int:
        try:
            return os.stat(os.path.join(self.event.cwd or self.root, path)).st_size if path else 0
        except (OSError, ValueError):
            return 0

    def _save(self) -> None:
        """Save, in the detached process."""
        watched.begin(self.look)
        with _Busy(os.path.join(self.git_dir, "gitcp")):
            self._save_here()

    def _save_here(self) -> None:
        context = self._context()
        settings = self._asked(context)
        trigger = self._trigger(settings)
        if trigger is None or (self._is_before_edit(trigger) and self._names_saved_files()):
            return
        if self.event.kind != agents.START:
            self._record(context, trigger, self.event.session_id, self.event.transcript)
            return
        from gitcp.saving import unchanged

        unchanged.forget_old_hooks(self.git_dir)
        for session_id, transcript in self._behind():
            self._record(context, trigger, session_id, transcript, late=True)

    def _behind(self) -> list[tuple[str, str]]:
        """Return the agent's sessions with unsaved messages, except one it is rewriting now."""
        grown = hook_memo.behind(self.git_dir, self.event.agent)
        resumed = self.event.session_id if self.event.known.hooks.rewrites else ""
        return [
            (session_id, transcript) for session_id, transcript in grown if session_id != resumed
        ]

    def _asked(self, context: Context) -> Settings:
        """Return the settings. Logs and skips what cannot be read."""
        from gitcp.errors import BadValue
        from gitcp.saving import unchanged
        from gitcp.state import settings

        if self.settings is not None:
            return self.settings
        mistakes: list[BadValue] = []
        policy = settings.policy(context.store.repo, mistakes)
        for error in mistakes:
            self.log(error)
        if not mistakes:
            unchanged.remember_settings(context.store, policy)
        return policy

    def _record(
        self,
        context: Context,
        trigger: str,
        session_id: str,
        transcript: str,
        *,
        late: bool = False,
    ) -> None:
        from gitcp.automation import hook
        from gitcp.model import Trigger
        from gitcp.saving import unchanged

        store = context.store
        files = unchanged.deciding(store)
        before_edit = self._is_before_edit(trigger)
        hook_event = hook.HookEvent(
            cwd=context.cwd,
            agent=self.event.agent,
            session_id=session_id,
            trigger=Trigger(trigger),
            transcript=transcript,
            awaited=b"" if before_edit or self.is_echo else _awaited(self.event),
            seen=self.last.seen if self.last else 0,
            patience=0.0 if self._waited_in_vain() else _patience(self.event),
            late=late,
            before_edit=before_edit,
            limits=self._limits(context),
        )
        saved = hook.record(store, hook_event)
        if saved is None:
            return
        self._follow(store, saved)
        if before_edit and not saved.saved:  # it is saved, but in another session
            tool_log.note_unchanged(self.git_dir, saved.taken.started)
        elif session_id:
            missing = self._waited_in_vain() or bool(hook_event.awaited)
            unchanged.remember_hook(
                store, self.event.agent, session_id, saved, files, transcript, missing=missing
            )

    def _follow(self, store: Store, saved: Saved) -> None:
        """Do what follows a save: remember where a turn began, report problems, keep the limits."""
        if self.event.kind == agents.PROMPT:
            turn_start.write(str(store.repo.git_dir), saved.checkpoint.commit)
        if saved.damage:
            self._report(store, saved.damage)
        if saved.saved and saved.missing_states:
            from gitcp.errors import GitcpError

            missing = "; ".join(saved.missing_states)
            self.log(GitcpError(f"{saved.checkpoint.id} lacks {missing}"))
        self._report_unread(store, saved)
        if saved.saved:
            self._retain(store, saved.checkpoint.id)

    def _report(self, store: Store, damage: str) -> None:
        """Log a damaged session for `gitcp doctor`, and leave a notice for the agent."""
        from gitcp.errors import StoreDamaged
        from gitcp.restoring import restore_notice

        self.log(StoreDamaged(damage))
        restore_notice.leave_notice(
            store, f"{damage}; `gitcp doctor --store` names what is damaged"
        )

    def _report_unread(self, store: Store, saved: Saved) -> None:
        """Log a conversation that cannot be read, or what is broken of git's, and leave a notice
        for the agent, once until that is over.
        """
        from gitcp.errors import ConversationUnreadable, GitFailed
        from gitcp.restoring import restore_notice

        text = f"{saved.unread}" if saved.unread else ""
        if restore_notice.leave_once(store, restore_notice.UNREAD, text):
            self.log(ConversationUnreadable(text))
        broken = "; ".join(map(str, saved.faults))
        if restore_notice.leave_once(store, restore_notice.FAULTS, broken):
            self.log(GitFailed(broken))

    def _retain(self, store: Store, saved: CheckpointId) -> None:
        from gitcp.errors import BadValue, GitcpError
        from gitcp.lifecycle import housekeeping

        try:
            housekeeping.after_save(store, saved)
        except BadValue:
            return  # a setting that cannot be read was logged already
        except GitcpError as error:
            self.log(error)

    def _limits(self, context: Context) -> Limits:
        from gitcp.errors import BadValue
        from gitcp.state import settings

        mistakes: list[BadValue] = []
        limits = settings.limits(context.store.repo, mistakes=mistakes)
        for error in mistakes:
            self.log(error)
        return limits

    def can_notify(self) -> bool:
        """Return whether the agent reads output now and a notice may be pending."""
        event = self.event
        changed = f"changed/{event.agent}.{event.session_id}"
        names = ("untold", "notice", *([changed] if event.session_id else []))
        left = (os.path.join(self.git_dir, "gitcp", name) for name in names)
        return self.telling.listens and (any(map(os.path.exists, left)) or self.telling.is_due)

    def _tell(self) -> bool:
        """Print pending notices for the agent: files were restored, a session was damaged, or saves
        failed. Return whether there were any.
        """
        try:
            return self.telling.tell(self._notices())
        except Exception as error:  # noqa: BLE001 -- the save is worth more than the words
            self.log(error)
            return False

    def _notices(self) -> tuple[str, ...]:
        from gitcp.errors import GitcpError
        from gitcp.restoring import restore_notice

        try:
            store = self._context().store
            notices = (
                restore_notice.take_notice(store),
                restore_notice.take_changed(store, self.event.agent, self.event.session_id),
                restore_notice.take(store, self.event.agent, self.event.session_id),
            )
        except GitcpError as error:
            self.log(error)
            return ()
        return tuple(filter(None, notices))

    def _context(self) -> Context:
        from gitcp.cli.context import Context

        context = Context(("hook",), self.look)
        inside = _is_inside(self.event.cwd, self.root) and discovery.discover(self.event.cwd) == (
            self.root,
            self.git_dir,
        )
        context.directory = self.event.cwd if inside else self.root
        context.finishing = True  # it has nothing to say
        return context

    def fail(self, error: BaseException) -> None:
        """Log and record that a save failed."""
        self.log(error)
        self.telling.record(error)

    def log(self, error: BaseException) -> None:
        from gitcp.cli.failure import describe
        from gitcp.safe import safe

        what = (
            str(describe(error).message) if isinstance(error, Exception) else type(error).__name__
        )
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        line = safe(
            f"{stamp} {self.event.agent} {self.event.name} {self.event.session_id or '-'}: {what}"
        )[:2000]
        _append(os.path.join(self.git_dir, "gitcp", events.LOG), line)


def _wait_less() -> None:
    """Ask the waiting hook to stop waiting soon."""
    try:
        os.write(1, WAIT_LESS)
    except OSError:
        return  # it has left


class _Busy:
    """Marks a working tree while a hook works in it. Shortens the agent's wait if another hook has
    been working for too long, because this one may hang as well.

    The mark is a lock on an empty file, which the system releases however the process ends; the
    file's time is the start. Nothing waits for the lock, and the work is done without it too.
    """

    def __init__(self, directory: str) -> None:
        self._path = os.path.join(directory, BUSY)
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        import fcntl  # not where nothing is saved
        from pathlib import Path

        from gitcp.git.fsync import open_shared

        try:
            shared.make_directory(os.path.dirname(self._path))
            self._descriptor = open_shared(Path(self._path), os.O_RDWR | os.O_NONBLOCK)
            since = os.fstat(self._descriptor).st_mtime
            # a child of ours does not have this one
            fcntl.lockf(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.utime(self._descriptor)
        except (BlockingIOError, PermissionError):
            if self._descriptor is not None and clock.seconds() - since > limits.OVERDUE:
                _wait_less()
        except OSError:
            pass  # the mark spares a wait, and nothing depends on it

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)


def _append(path: str, line: str) -> None:
    """Append a line to the log and drop its older half if it is too long. Ignores write errors."""
    from pathlib import Path  # only where something went wrong

    from gitcp.git.fsync import open_shared, replace_file

    if os.path.islink(os.path.dirname(path)):
        return
    try:
        if os.path.exists(path) and os.path.getsize(path) > LOG_SIZE:
            with regular.opened(path) as file:
                file.seek(-LOG_SIZE // 2, os.SEEK_END)
                newer = file.read().partition(b"\n")[2]
            replace_file(Path(path), newer, durable=False)
        shared.make_directory(os.path.dirname(path))
        descriptor = open_shared(Path(path), os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
        with open(descriptor, "a", encoding="utf-8", errors="backslashreplace") as log:
            log.write(line + "\n")
    except OSError:
        return


def _places(event: Event) -> list[tuple[str, str]]:
    """Return the event's working tree, and those of other repositories that the agent was started
    in: an agent that entered a submodule still works on the project, and neither's checkpoints
    contain the other's files.
    """
    started = os.environ.get(event.known.hooks.start_variable, "")
    candidates = (
        _where(event),
        discovery.discover("."),
        discovery.discover(started) if os.path.isabs(started) else None,
    )
    # An agent that entered a submodule left its project without checkpoints.
    by_repository: dict[str, tuple[str, str]] = {}
    for location in candidates:
        if location is not None:
            by_repository.setdefault(os.path.realpath(discovery.common(location[1])), location)
    return list(by_repository.values())


def _where(event: Event) -> tuple[str, str] | None:
    """Return the event's working tree: the current one, unless the event names one inside it."""
    here = discovery.discover(".")
    named = event.cwd if os.path.isabs(event.cwd) else ""
    if here is None or (named and _is_inside(named, here[0])):
        return discovery.discover(named) if named else here
    return here


def _is_older(root: str, path: bytes, time: int) -> bool:
    """Return whether a file is there and was changed before `time`."""
    try:
        status = os.lstat(os.path.join(os.fsencode(root), path))
        return fingerprint.of(status)[fingerprint.CTIME] < time
    except (OSError, ValueError):
        return False


def _is_inside(path: str, root: str) -> bool:
    try:
        real = os.path.realpath(path) if os.path.isabs(path) else ""
    except (OSError, ValueError):
        return False
    return (real == root or real.startswith(root.rstrip("/") + "/")) and os.path.isdir(real)


def _has_own_hooks(agent: KnownAgent, root: str) -> bool:
    """Return whether gitcp's own hooks of an agent are installed, which also runs those of
    another one.
    """
    file = agent.pieces[0].target
    own = agent.home_in(os.environ, os.path.expanduser("~"))
    paths = (os.path.join(root, agent.project, file), os.path.join(own, file))
    return agent.hooks.runs_others and any(COMMAND in discovery.beginning(path) for path in paths)


def _patience(event: Event) -> float:
    """Return the seconds to wait for the agent's transcript. Before a tool the agent is blocked."""
    delay = event.known.hooks.delay
    return min(delay, LAGGING_BEFORE_TOOL) if event.kind == agents.BEFORE_TOOL else delay


def _awaited(event: Event) -> bytes | tuple[str, int]:
    """Return what the agent is about to write to its transcript: the tool call's id, or the end of
    its message. For an agent that logs hook calls: the event's name and time.
    """
    if not event.known.hooks.delay or event.kind not in (agents.BEFORE_TOOL, agents.TURN):
        return b""
    if event.known.hooks.is_logged:
        return (event.name, event.stamp) if event.stamp else b""
    if event.kind == agents.BEFORE_TOOL:
        return next((call.id for call in event.calls if call.id), "").encode("utf-8", "replace")
    tail = event.said.rstrip()[-200:]
    plain = [at for at, char in enumerate(tail) if char in '"\\' or not char.isprintable()]
    end = tail[plain[-1] + 1 :] if plain else tail
    return f'{end}"'.encode("utf-8", "replace") if end else b""
