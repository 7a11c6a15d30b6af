"""Detect tool calls that are hard to undo: deleting, rewriting history,
migrations, deployments, large rewrites.
"""

from __future__ import annotations

from gitcp.policy import patterns, shell

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from gitcp.policy.events import EventCall
    from gitcp.policy.settings import Settings

    SizeOf = Callable[[str], int]
    """The size of the file at a path, 0 where there is none."""

SHELLS = frozenset(
    "Bash bash run_shell_command exec_command Shell shell local_shell powershell PowerShell".split()
)
WRITERS = frozenset("Write write write_file create create_file".split())
EDITORS = frozenset(
    "Edit MultiEdit NotebookEdit edit replace multiedit str_replace_editor str_replace".split()
    + "StrReplace EditNotebook".split()
)
PATCHERS = frozenset("apply_patch patch".split())
DELETING = ("delete", "remove")
READERS = frozenset(
    (
        "Read Grep Glob LS NotebookRead WebFetch WebSearch TodoWrite TodoRead ToolSearch "
        "AskUserQuestion BashOutput"
    ).split()
    + "read grep glob list webfetch todowrite todoread view_image update_plan web_search".split()
    + "read_file read_many_files list_directory search_file_content".split()
    + "google_web_search web_fetch view".split()
)
"""Tools that change no files."""

COMMANDS = tuple(
    line.strip()
    for line in """
    rm, rmdir, unlink, shred, truncate, dd, mkfs*, find -delete, git rm, rsync --delete*, git reset
    --hard, git reset --merge, git reset --keep, git checkout -f, git checkout --force, git checkout
    --, git checkout ., git restore, git clean, git switch -f, git switch --discard-changes, git
    stash drop, git stash clear, git rebase, git filter-branch, git filter-repo, git commit --amend,
    git branch -D, git push -f, git push --force*, git push --mirror, git push --delete, git reflog
    expire, git gc --prune*, git update-ref -d, git worktree remove, git submodule deinit, git lfs
    migrate, alembic upgrade, alembic downgrade, python* migrate, django-admin migrate, manage.py
    migrate, flask upgrade, rails db:*, rake db:*, prisma migrate, prisma db, knex migrate*,
    sequelize db:*, typeorm migration:*, drizzle-kit, flyway, liquibase, diesel migration, goose,
    dbmate, sqlx migrate, atlas migrate, mix ecto.*, php *migrate*, artisan migrate*, dropdb,
    redis-cli flush*, kubectl apply, kubectl delete, kubectl replace, kubectl rollout, terraform
    apply, terraform destroy, tofu apply, tofu destroy, pulumi up, pulumi destroy, helm install,
    helm upgrade, helm uninstall, helm rollback, cdk deploy, cdk destroy, sls deploy, serverless
    deploy, sam deploy, ansible-playbook, cap *deploy*, fab *deploy*, dokku, eb deploy, fly deploy,
    flyctl deploy, vercel, netlify deploy, wrangler deploy, wrangler publish, firebase deploy,
    gcloud *deploy*, az *deploy*, aws *delete*, aws s3 rm, aws s3 sync, heroku, docker push, docker
    system prune, docker volume rm, docker compose down -v, npm publish, yarn publish, pnpm publish,
    cargo publish, twine upload, gem push, poetry publish, uv publish, gh release, npm run *deploy*,
    npm run *migrat*, yarn *deploy*, yarn *migrat*, pnpm *deploy*, pnpm *migrat*, bun *deploy*, make
    *deploy*, make *migrat*, make *release*, make *clean*, *deploy*, *migrate*
    """.replace("\n", " ").split(",")
)
"""The built-in risky commands, as patterns (gitcp.policy.patterns)."""

SQL = frozenset("psql mysql mariadb sqlite3 sqlcmd clickhouse-client duckdb".split())
STATEMENTS = ("drop ", "delete from", "truncate ", "alter table", "update ")


def may_be(call: EventCall) -> bool:
    """Return whether a tool can be risky at all, before a closer look."""
    tool = call.tool
    return (
        tool in SHELLS or tool in WRITERS or tool in EDITORS or tool in PATCHERS or _deletes(tool)
    )


def is_risky(call: EventCall, settings: Settings, size_of: SizeOf) -> bool:
    """Return whether this call deserves a checkpoint before it runs."""
    tool, large = call.tool, settings.large_rewrite
    if tool in SHELLS:
        return any(_is_risky(command, settings, size_of) for command in in_shell(call))
    if tool in PATCHERS:
        return _is_risky_patch(call.text("command", "input", "patch", "patchText"), large)
    if tool in WRITERS:
        return size_of(call.text("file_path", "filePath", "path", "absolute_path")) >= large
    if tool in EDITORS:
        return len(call.text("old_string", "oldString", "old_str")) >= large
    return _deletes(tool)


def in_shell(call: EventCall) -> list[shell.ShellCommand]:
    """Return the commands that a shell tool runs; none for other tools."""
    if call.tool not in SHELLS:
        return []
    words = call.input.get("command")
    if isinstance(words, list):
        return shell.of_words([word for word in words if isinstance(word, str)])
    return shell.commands(call.text("command", "cmd", "script"))


def deleted_directories(call: EventCall) -> list[str]:
    """Return the paths that `git worktree remove` or `rm -r` would delete, as they are typed."""
    paths: list[str] = []
    for command in in_shell(call):
        words = list(command.words[1:])
        if command.program == "rm" and any(map(_is_recursive, words)):
            paths += [word for word in words if not word.startswith("-")]
        elif command.program == "git" and "worktree" in words:
            rest = words[words.index("worktree") + 1 :]
            paths += [word for word in rest[1:] if rest[0] == "remove" and word[:1] != "-"]
    return paths


def _is_recursive(word: str) -> bool:
    short = word.startswith("-") and not word.startswith("--")
    return word == "--recursive" or (short and ("r" in word or "R" in word))


def _is_risky(command: shell.ShellCommand, settings: Settings, size_of: SizeOf) -> bool:
    if patterns.applies(command, COMMANDS, settings.risky):
        return True
    if any(size_of(path) >= settings.large_rewrite for path in command.written):
        return True
    if command.program == "apply_patch":
        return _is_risky_patch(
            " ".join((*command.words[1:], command.input)), settings.large_rewrite
        )
    text = " ".join((*command.words[1:], command.input)).lower() if command.program in SQL else ""
    return any(statement in text for statement in STATEMENTS)


def _is_risky_patch(patch: str, large: int) -> bool:
    removed = sum(len(line) for line in patch.splitlines() if line.startswith("-"))
    return "*** Delete File:" in patch or removed >= large


def _deletes(tool: str) -> bool:
    return any(word in tool.lower() for word in DELETING)
