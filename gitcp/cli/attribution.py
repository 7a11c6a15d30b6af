"""`gitcp export --as git-ai` and `--as agent-trace`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gitcp import __version__, humanize, wire
from gitcp.cli import allowing
from gitcp.cli.context import Context
from gitcp.cli.output import BOLD, DIM, GREEN, Styled
from gitcp.errors import BadValue
from gitcp.review import agent_trace, attribution, git_ai, links
from gitcp.review.attribution import AttributedCommit
from gitcp.secrets import checkpoint_scan
from gitcp.sharing import output_file
from gitcp.sharing.output_file import STDOUT
from gitcp.value import Value
from gitcp.worktree.paths import display

GIT_AI, AGENT_TRACE = "git-ai", "agent-trace"
FORMATS = (GIT_AI, AGENT_TRACE)
MOST = 20


class Options(Value):
    """What was typed. `unused` has the options that mean nothing here, with their values."""

    range: str | None
    format: str
    output: str
    force: bool
    allow: tuple[str, ...]
    dry_run: bool
    session: str | None
    unused: Mapping[str, object]


def export(context: Context, given: Options) -> None:
    """Write which lines of commits agents wrote, as notes or as lines of JSON."""
    _check(context, given)
    commits = _commits(context, given)
    if given.format == GIT_AI:
        _write_notes(context, commits, given)
    else:
        _write_records(context, commits, given)


def _check(context: Context, given: Options) -> None:
    to_file = {"-o": given.output != STDOUT} if given.format == GIT_AI else {}
    for option, value in {**given.unused, **to_file}.items():
        if value:
            raise BadValue(
                f"{option} and --as {given.format} cannot be used together: nothing was written",
                hint="gitcp export -h",
            )
    path = context.cwd / given.output
    if given.output != STDOUT and (given.output.endswith("/") or path.is_dir()):
        raise BadValue(
            f"--as {given.format} writes one file, and {given.output} names a directory: nothing "
            "was written",
            hint=f"gitcp export --as {given.format} -o FILE",
        )
    if given.output != STDOUT:
        output_file.require_free(path, force=given.force)


def _commits(context: Context, given: Options) -> list[AttributedCommit]:
    """Return the commits of the range of which agents wrote lines, as far as that is recorded."""
    ends = links.between(context.store.repo, given.range, "nothing was written")
    if given.range is None and ends.base in (None, ends.head):
        raise BadValue(
            "no commits here that the default branch lacks: nothing was written",
            hint=f"gitcp export --as {given.format} HEAD~1..",
        )
    session = given.session and context.viewed_session(given.session)
    every = attribution.attributed(context.store, ends.base, ends.head, session)
    commits = [each for each in every if each.files]
    lacking = len(every) - len(commits)
    if lacking:
        context.output.say(
            f"note: {lacking:,} of {humanize.count(len(every), 'commit')}: no line is recorded as "
            "one agent's"
        )
    return commits


def _require_clean(context: Context, texts: Sequence[str], given: Options) -> None:
    """Raise SecretsFound where a path or a name is one."""
    allowed = allowing.answered(context, given.allow, dry_run=given.dry_run)
    text = "\n".join(texts).encode("utf-8", "replace")
    sieve = checkpoint_scan.sieve(context.store, (), allowed, [text])
    if secrets := checkpoint_scan.in_text(text, "export", sieve=sieve):
        raise checkpoint_scan.refused(secrets)


def _write_notes(context: Context, commits: list[AttributedCommit], given: Options) -> None:
    store, output = context.store, context.output
    git_ai.check_ref(store)
    paths = dict.fromkeys(path for each in commits for path in each.files)
    _say_unnamed(context, [path for path in paths if git_ai.name_of(path) is None])
    commits = [named for each in commits if (named := git_ai.named(each)).files]
    known = git_ai.noted(store)
    notes = {each.commit.oid: git_ai.note(each) for each in commits if each.commit.oid not in known}
    _require_clean(context, [*notes.values()], given)
    done = git_ai.Added(frozenset(notes), None, None)
    if not given.dry_run:
        done = git_ai.add(store, notes, context.host.now())
    if kept := len(commits) - len(done.commits):
        output.say(f"note: kept the notes that {humanize.count(kept, 'commit')} already had")
    what = Styled("would write" if given.dry_run else "wrote", BOLD if given.dry_run else GREEN)
    output.line(what, f" {humanize.count(len(done.commits), 'note')} to {git_ai.REF}")
    new = [each for each in commits if each.commit.oid in done.commits]
    for each in new[:MOST]:
        output.line(f"  {each.commit.oid[:10]} {each.commit.subject}", Styled(_extent(each), DIM))
    if len(new) > MOST:
        output.line(f"  and {len(new) - MOST:,} more")
    if new and not given.dry_run:
        former = f"{git_ai.REF} {done.before}" if done.before else f"-d {git_ai.REF}"
        output.line(f"undo with: git update-ref {former} {done.after}")
        output.line(f"share with: git push REMOTE {git_ai.REF}")


def _extent(commit: AttributedCommit) -> str:
    lines = humanize.count(sum(part.lines for part in commit.parts), "line")
    agents = ", ".join(sorted({part.writer.agent.name for part in commit.parts}))
    return f"  {lines} in {humanize.count(len(commit.files), 'file')}, {agents}"


def _write_records(context: Context, commits: list[AttributedCommit], given: Options) -> None:
    unnamed = [path for each in commits for path in each.files if not agent_trace.is_text(path)]
    records = [wire.dumps(agent_trace.record(each, __version__)) + b"\n" for each in commits]
    _require_clean(context, [each.decode("utf-8", "replace") for each in records], given)
    _say_unnamed(context, unnamed)
    count = humanize.count(len(records), "record")
    if given.dry_run:
        context.output.line(f"would write {count}")
    elif given.output == STDOUT:
        for each in records:
            context.output.data(each)
    else:
        output_file.write(context.cwd / given.output, records, force=given.force)
        context.output.line(Styled("wrote", GREEN), f" {count} to {given.output}")


def _say_unnamed(context: Context, paths: Sequence[bytes]) -> None:
    if paths:
        names = humanize.listed([display(path) for path in paths], MOST)
        context.output.say(f"note: the format cannot name these paths: {', '.join(names)}")
