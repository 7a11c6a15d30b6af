"""A project after two days of work, in which a new user types what other tools have taught."""

from __future__ import annotations

import os
import pwd
import shutil
from pathlib import Path

from talk import Talk

from driver import Project, Result

SESSION = "7c1f0a52-0000-4000-8000-000000000001"
LABELS = {
    1: "start",
    4: "parser",
    5: "README.rst",
    8: "docs",
    9: "before rename",
    10: "rename to size",
    14: "last",
}
DELETED = ("code.py", "tests/deleted.py")


class FirstHour:
    """The project in `base/shop`, with a remote `hub.git`, a linked worktree and some other places
    beside it. `reset` undoes whatever a line changed.
    """

    def __init__(self, base: Path) -> None:
        self.base = base
        self.project = Project(base / "shop", own_store=False)
        self.home = Path(os.environ["HOME"])
        if self.home.samefile(pwd.getpwuid(os.getuid()).pw_dir):
            raise RuntimeError(f"{self.home} is a real home: `reset` would remove it")
        self._make()
        shutil.rmtree(self.project.git_dir / "hooks")
        self._kept = base.with_name(f"{base.name}-kept")
        shutil.copytree(base, self._kept / "base", symlinks=True)
        shutil.copytree(self.home, self._kept / "home", symlinks=True)

    def reset(self) -> None:
        """Put everything back as it was made, at the same paths."""
        for path, kept in ((self.base, "base"), (self.home, "home")):
            shutil.rmtree(path)
            shutil.copytree(self._kept / kept, path, symlinks=True)

    def type(self, place: str, *words: str) -> Result:
        """Run `gitcp WORDS` in a place: the project, its directory `scrapy`, or one beside it."""
        return self.project.gitcp(*words, cwd=self.directory(place))

    def directory(self, place: str) -> Path:
        """Return the directory of a place."""
        return {"shop": self.project.root, "scrapy": self.project.root / "scrapy"}.get(
            place, self.base / place
        )

    def state(self) -> tuple[str, object, str]:
        """Return what no line may change that only looks, or is refused."""
        refs = self.project.git("for-each-ref", "refs/gitcp/sessions", "refs/gitcp/tags")
        config = self.project.git("config", "--local", "--list")
        return refs, self.project.files(), config

    def _make(self) -> None:
        project, base = self.project, self.base
        for name in ("README.rst", "docs/guide.rst", "docs/index.rst", "scrapy/VERSION", *DELETED):
            project.write(name, f"{name}\nline 2\nline 3\n")
        project.write("scrapy/extensions/closespider.py", "size_count = 0\n")
        project.write("tests/test_closespider.py", "def test_it(): pass\n")
        project.commit("start")
        project.git("init", "--quiet", "--bare", str(base / "hub.git"))
        project.git("remote", "add", "origin", "../hub.git")
        talk = Talk(project, SESSION)
        for number in range(1, 15):
            talk.say(f"please do task {number}", f"task {number} is done")
            project.write("scrapy/extensions/closespider.py", f"size_count = {number}\n")
            project.write("README.rst", f"README\nat {number}\nline 3\n")
            if number == 3:
                project.write("docs/guide.rst", "guide\n")
            if number == 6:
                for name in DELETED:
                    project.remove(name)
            phase = {4: "implementation", 8: "docs"}.get(number)
            options = ["--phase", phase] if phase else []
            label = [LABELS[number]] if number in LABELS else []
            project.gitcp("save", *label, *options, check=0)
        project.gitcp("tag", "day1", "3", check=0)
        project.gitcp("tag", "works", "12", check=0)
        project.gitcp("fork", "3", "--name", "try2", check=0)
        project.write("README.rst", "README\nnot saved yet\nline 3\n")
        project.git("worktree", "add", "--quiet", "--detach", str(base / "linked"))
        base.joinpath("outside").mkdir()
        Project(base / "empty", own_store=False)
        merging = Project(base / "merging", own_store=False)
        merging.write("a", "1\n")
        merging.gitcp("save", "one", check=0)
        merging.commit("one")
        merging.write("a", "2\n")
        merging.git_dir.joinpath("MERGE_HEAD").write_text(merging.git("rev-parse", "HEAD") + "\n")
