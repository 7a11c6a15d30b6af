"""Remotes: which other repositories checkpoints may go to. None, until the user names it.

A remote is one of git's, with a setting of ours beside it. One that is for checkpoints alone gets
no fetch refspec, so that git's own `fetch` and `push` leave it alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gitcp.errors import BadValue, Refused
from gitcp.git import refs, remote
from gitcp.git.repo import Repository
from gitcp.value import Value

ON = "gitcp"
BRANCHES = "branches"
IMPORTED = "imported"
"""Where imports are kept, beside what was fetched: no remote can have this name, or it with a
number.
"""


class Remote(Value):
    """A remote: its name, its URL, whether checkpoints may go there, and whether as branches and
    tags.

    `push_url` is where they go if that is another one (git's `pushurl`).
    """

    name: str
    url: str
    enabled: bool
    as_branches: bool = False
    push_url: str = ""

    @property
    def sessions(self) -> str:
        """Where sessions lie there."""
        return "refs/heads/gitcp/" if self.as_branches else refs.SESSIONS

    @property
    def tags(self) -> str:
        """Where tags lie there."""
        return "refs/tags/gitcp/" if self.as_branches else refs.TAGS

    @property
    def tracking(self) -> str:
        """Where what it has is kept here."""
        return f"{refs.REMOTES}{self.name}/"

    @property
    def shown(self) -> str:
        """Its URL without a password."""
        return re.sub(r"(://[^/@:]*):[^/@]*@", r"\1:…@", self.url)


def listing(repo: Repository) -> tuple[Remote, ...]:
    """Every remote that git has here, by name."""
    found = remote.settings(repo)
    names = sorted({key[7:-4] for key in found if key.endswith(".url")})
    return tuple(
        Remote(
            n,
            _address(found[f"remote.{n}.url"], names),
            value not in {"", "false"},
            value == BRANCHES,
            _address(found.get(f"remote.{n}.pushurl", ""), names),
        )
        for n in names
        for value in [found.get(f"remote.{n}.{ON}", "")]
    )


def _address(url: str, names: Sequence[str]) -> str:
    """A directory that is called like a remote is meant as one: git would take its name for the
    remote's.
    """
    return f"./{url}" if url in names else url


def choose(repo: Repository, name: str | None) -> Remote:
    """The remote that is meant: the named one, else the only one that is enabled. Raises BadValue,
    Refused.
    """
    known = listing(repo)
    if name is not None:
        found = next((one for one in known if one.name == name), None)
        if found is None:
            raise BadValue(
                f"there is no remote {name!r}: nothing was sent or fetched",
                hint="gitcp remote NAME URL",
            )
        if not found.enabled:
            raise Refused(
                f"checkpoints do not go to {name} until you say so: nothing was sent or fetched",
                hint=f"gitcp remote {name}",
            )
        return found
    enabled = [one for one in known if one.enabled]
    if len(enabled) == 1:
        return enabled[0]
    if enabled:
        names = ", ".join(one.name for one in enabled)
        raise BadValue(
            f"checkpoints go to more than one remote ({names}): name one", hint="gitcp push REMOTE"
        )
    names = ", ".join(one.name for one in known)
    raise Refused(
        "checkpoints go to no remote yet: nothing was sent or fetched",
        hint=f"gitcp remote NAME  (there is: {names})" if names else "gitcp remote NAME URL",
    )


def enable(repo: Repository, name: str, url: str | None, *, as_branches: bool) -> Remote:
    """Let checkpoints go to a remote; one that is new is made with `url`. Writes git's config of
    this repository.

    Raises BadValue for a name or URL that cannot be one, Refused if the remote has another URL.
    """
    refs.check_name(name, "remote")
    if re.fullmatch(rf"{IMPORTED}(-\d+)?", name):
        raise BadValue(
            f"{name} is where imports are kept: nothing was changed", hint="choose another name"
        )
    known = next((one for one in listing(repo) if one.name == name), None)
    if known is None and url is None:
        raise BadValue(
            f"there is no remote {name!r}: nothing was changed", hint=f"gitcp remote {name} URL"
        )
    if url is not None and (
        not url.strip() or url.startswith("-") or re.search(r"[\x00-\x1f\x7f]|^\w+::", url)
    ):
        raise BadValue(
            f"{url!r} is no URL that can be used: nothing was changed",
            hint=f"gitcp remote {name} URL",
        )
    if known is not None and url not in (None, known.url):
        raise Refused(
            f"{name} is at {known.shown} already: nothing was changed", hint="choose another name"
        )
    if known is None and url is not None:
        remote.configure(repo, f"remote.{name}.url", url)
        remote.configure(repo, f"remote.{name}.skipFetchAll", "true")
        remote.configure(repo, f"remote.{name}.tagOpt", "--no-tags")
    remote.configure(repo, f"remote.{name}.{ON}", BRANCHES if as_branches else "true")
    return next(one for one in listing(repo) if one.name == name)


def disable(repo: Repository, name: str) -> Remote:
    """Let no more checkpoints go there; the remote itself stays. Raises BadValue if there is
    none.
    """
    known = next((one for one in listing(repo) if one.name == name), None)
    if known is None:
        raise BadValue(f"there is no remote {name!r}: nothing was changed", hint="gitcp remote")
    remote.configure(repo, f"remote.{name}.{ON}", None)
    return next(one for one in listing(repo) if one.name == name)
