"""Remotes that checkpoints are pushed to and fetched from. None until the user enables one.

A remote is one of git's, plus a setting of gitcp's. A remote that only holds checkpoints has no
fetch refspec, so plain `git fetch` and `git push` skip it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from gitcp.errors import BadValue, Refused
from gitcp.git import refs, remote
from gitcp.git.repo import Repository
from gitcp.state import push_policy
from gitcp.state.push_policy import Consent, PushPolicy
from gitcp.value import Value

ON = "gitcp"
BRANCHES = "branches"
IMPORTED = "imported"
"""The namespace of imports, next to those of fetched remotes. No remote can have this
name, with or without a number.
"""


class Remote(Value):
    """A git remote, whether it is enabled for checkpoints, and whether they
    are pushed as branches and tags.

    `push_url` is git's `pushurl`, "" if there is none.
    """

    name: str
    url: str
    enabled: bool
    as_branches: bool = False
    push_url: str = ""

    @property
    def shared(self) -> str:
        """The ref prefix of sessions on the remote, which are in directories below it."""
        return "refs/heads/gitcp/shared/" if self.as_branches else refs.SHARED

    @property
    def catalogue(self) -> str:
        """The ref of the catalogue on the remote."""
        return self.shared + refs.CATALOGUE_NAME

    @property
    def flat_sessions(self) -> str:
        """The ref prefix under which an older gitcp put sessions on the remote."""
        return "refs/heads/gitcp/" if self.as_branches else refs.SESSIONS

    @property
    def tags(self) -> str:
        """The ref prefix of tags on the remote."""
        return "refs/tags/gitcp/" if self.as_branches else refs.TAGS

    @property
    def tracking(self) -> str:
        """The local ref prefix of what was fetched from it."""
        return f"{refs.REMOTES}{self.name}/"

    @property
    def destination(self) -> str:
        """The URL that is pushed to."""
        return self.push_url or self.url

    @property
    def shown(self) -> str:
        """The URL without a password."""
        return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:…@", self.url)


def listing(repo: Repository) -> tuple[Remote, ...]:
    """Return all git remotes of the repository, by name."""
    config = remote.settings(repo)
    names = sorted({key[7:-4] for key in config if key.endswith(".url")})
    return tuple(
        Remote(
            n,
            _address(config[f"remote.{n}.url"], names),
            value not in {"", "false"},
            value == BRANCHES,
            _address(config.get(f"remote.{n}.pushurl", ""), names),
        )
        for n in names
        for value in [config.get(f"remote.{n}.{ON}", "")]
    )


def _address(url: str, names: Sequence[str]) -> str:
    """Return a URL that git does not mistake for a remote's name: a directory may be called the
    same.
    """
    return f"./{url}" if url in names else url


def choose(repo: Repository, name: str | None) -> Remote:
    """Return the named remote, else the only enabled one.

    Raises BadValue if there is no such remote or more than one is enabled, Refused if it is not
    enabled.
    """
    all_remotes = listing(repo)
    if name is not None:
        match = next((each for each in all_remotes if each.name == name), None)
        if match is None:
            raise BadValue(
                f"no remote {name!r}; nothing was sent or fetched",
                hint=f"gitcp remote {name} URL",
            )
        if not match.enabled:
            raise Refused(
                f"remote {name} is not enabled for checkpoints; nothing was sent or fetched",
                hint=f"gitcp remote {name}",
            )
        return match
    enabled = [each for each in all_remotes if each.enabled]
    if len(enabled) == 1:
        return enabled[0]
    if enabled:
        names = ", ".join(each.name for each in enabled)
        raise BadValue(
            f"several remotes are enabled for checkpoints ({names}); name one",
            hint=f"gitcp push {enabled[0].name}",
        )
    names = ", ".join(each.name for each in all_remotes)
    raise Refused(
        "no remote is enabled for checkpoints; nothing was sent or fetched",
        hint=f"gitcp remote {all_remotes[0].name}" if names else "gitcp remote NAME URL",
    )


def enable(repo: Repository, name: str, url: str | None, *, as_branches: bool) -> Remote:
    """Enable a remote for checkpoints, and create it if it is new. Writes the repository's git
    config.

    Raises BadValue for an invalid name or URL, and Refused if the remote has another URL.
    """
    refs.check_name(name, "remote")
    if re.fullmatch(rf"{IMPORTED}(-\d+)?", name):
        raise BadValue(
            f"the name {name} is reserved for imports; nothing was changed",
            hint="choose another name",
        )
    existing = next((each for each in listing(repo) if each.name == name), None)
    if existing is None and url is None:
        raise BadValue(f"no remote {name!r}; nothing was changed", hint=f"gitcp remote {name} URL")
    if url is not None:
        _check_url(repo, name, url)
    if existing is not None and url not in (None, existing.url):
        raise Refused(
            f"remote {name} already has the URL {existing.shown}; nothing was changed",
            hint="choose another name",
        )
    if existing is None and url is not None:
        remote.configure(repo, f"remote.{name}.url", url)
        remote.configure(repo, f"remote.{name}.skipFetchAll", "true")
        remote.configure(repo, f"remote.{name}.tagOpt", "--no-tags")
    remote.configure(repo, f"remote.{name}.{ON}", BRANCHES if as_branches else "true")
    return next(each for each in listing(repo) if each.name == name)


def disable(repo: Repository, name: str) -> Remote:
    """Disable a remote for checkpoints, with background pushes; the git remote stays. If git has
    none of this name any more, return one without URL. Raises BadValue if there was none.
    """
    existing = next((each for each in listing(repo) if each.name == name), None)
    if existing is None and push_policy.is_said(repo, name):
        push_policy.withdraw(repo, name)
        return Remote(name, "", enabled=False)
    if existing is None:
        raise BadValue(f"no remote {name!r}; nothing was changed", hint="gitcp remote")
    remote.configure(repo, f"remote.{name}.{ON}", None)
    push_policy.withdraw(repo, name)
    return next(each for each in listing(repo) if each.name == name)


def is_as_branches(repo: Repository, name: str) -> bool:
    """Return whether a remote is enabled with branches and tags."""
    return any(each.name == name and each.as_branches for each in listing(repo))


def allow_pushes(
    repo: Repository, to: Remote, policy: PushPolicy, *, unfiltered: bool = False
) -> None:
    """Record that gitcp may push to a remote in the background by this policy, from now on, or no
    longer. Consent that was given before keeps its time. `unfiltered`: also files that git would
    filter in a commit.
    """
    if policy is PushPolicy.NEVER:
        push_policy.withdraw(repo, to.name)
        return
    url, before = push_policy.fingerprint(to.destination), push_policy.read(repo, to.name)
    since = before.since if before and before.url == url else repo.host.now()
    push_policy.record(repo, Consent(to.name, policy, url, since, unfiltered))


def policy_of(repo: Repository, of: Remote) -> PushPolicy:
    """Return when gitcp pushes to a remote in the background."""
    consent = push_policy.read(repo, of.name) if of.enabled else None
    if consent is None or consent.url != push_policy.fingerprint(of.destination):
        return PushPolicy.NEVER
    return consent.policy


def _check_url(repo: Repository, name: str, url: str) -> None:
    """Raise BadValue for a URL that git would not use, and for a path at which there is nothing."""
    if not url.strip() or url.startswith("-") or re.search(r"[\x00-\x1f\x7f]|^\w+::", url):
        raise BadValue(
            f"{url!r} is not a usable URL; nothing was changed",
            hint=f"gitcp remote {name} URL",
        )
    is_path = url.startswith(("/", "./", "../"))
    if is_path and not os.path.lexists(os.path.join(repo.root, url)):
        raise BadValue(
            f"there is no repository at {url}: nothing was changed", hint=f"gitcp remote {name} URL"
        )
