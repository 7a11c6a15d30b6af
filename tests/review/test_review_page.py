"""The page of `gitcp review`: prompts and hunks linked both ways, the picture; in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser
from talk import Talk

from gitcp.model import Oid
from gitcp.policy.settings import Settings
from gitcp.review import page_diff
from gitcp.review import review as op
from gitcp.review.pages.review import render, timeline
from gitcp.review.review import ReviewRange, Story

from driver import Project
from samples import open_store

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
LINES = 60


def text(**changed: str) -> str:
    """A file of sixty lines; `l3="x"` replaces the one numbered 3."""
    return "".join(changed.get(f"l{n}", f"line number {n}") + "\n" for n in range(LINES))


class Work(Talk):
    """An agent on a branch: each step is a prompt, changed files, a checkpoint."""

    def __init__(self, project: Project) -> None:
        super().__init__(project)
        self.project = project

    def step(self, prompt: str, *options: str, **files: str) -> None:
        """Say a prompt, change files (`a_py` is a.py) and save."""
        self.say(prompt, "Done.")
        for name, content in files.items():
            self.project.write(name.replace("_", "."), content)
        self.project.gitcp("save", prompt, *options, check=0)


@pytest.fixture
def work(project: Project) -> Work:
    """Two prompts in one commit, each with a hunk of its own; a third, dropped by a restore."""
    project.write("a.py", text())
    project.commit("begin")
    project.git("checkout", "--quiet", "-b", "topic")
    made = Work(project)
    made.run("pytest -q", "1 failed in 0.1s")
    made.step("first prompt", "--objective", "Sign in by email", a_py=text(l5="from the first"))
    made.step("dropped prompt", "--failed", "a cache", a_py=text(l5="x"), c_py="dropped\n")
    project.gitcp("restore", "1", "--files", "--yes", check=0)
    made.run("pytest -q", "3 passed in 0.1s")
    second = text(l5="from the first", l50="from the second")
    made.step("second prompt", a_py=second, b_py="added with the second\n")
    project.commit("Add sign-in")
    return made


def story(project: Project) -> Story:
    """The story of the branch, with diffs."""
    base, head = (Oid(project.git("rev-parse", name)) for name in ("main", "topic"))
    return op.build(open_store(project), ReviewRange(base, head), Settings(), diffs=True)


def test_each_hunk_has_its_checkpoint(work: Work) -> None:
    """The lines of a hunk are followed to the checkpoint that wrote them."""
    (commit,) = story(work.project).commits
    found = {file.patch.path: file.sources for file in commit.diff.files}

    first, *_, second = commit.checkpoints
    assert found == {"a.py": ((first,), (second,)), "b.py": ((second,),)}


def test_deleted_lines_and_renames(work: Work) -> None:
    """A hunk that only removes lines, and one in a file that moved, are followed too."""
    project = work.project
    kept = text(l5="from the first", l50="from the second").splitlines()
    work.step("third prompt", a_py="\n".join(kept[:20] + kept[25:]) + "\n")
    project.commit("Remove")
    project.git("mv", "a.py", "moved.py")
    moved = project.read("moved.py").decode().replace("line number 30", "a longer line 30")
    work.step("fourth prompt", moved_py=moved)
    project.commit("Move")

    _, removed, renamed = story(project).commits
    assert [file.sources for file in removed.diff.files] == [((removed.checkpoints[-1],),)]
    (file,) = renamed.diff.files
    assert (file.patch.origin, file.patch.path, file.patch.kind) == ("a.py", "moved.py", "moved")


def test_without_a_page_nothing_is_compared(work: Work) -> None:
    """A comment needs no diffs, so none are made and none are scanned."""
    project = work.project
    made = op.build(
        open_store(project),
        ReviewRange(Oid(project.git("rev-parse", "main")), Oid(project.git("rev-parse", "topic"))),
        Settings(),
    )
    assert not made.commits[0].diff.files


def test_links_both_ways(work: Work) -> None:
    """Each prompt links to its hunks, each hunk to its prompt, and every link of the page has a
    target.
    """
    made = render(story(work.project))
    ids = re.findall(r' id="([^"]+)"', made)
    links = set(re.findall(r'href="#([^"]+)"', made))

    assert len(ids) == len(set(ids))
    assert links <= set(ids), links - set(ids)
    prompts = re.findall(r'<div class="prompt" id="([^"]+)">.*?</div>', made, re.DOTALL)
    hunk_start = r'<div class="hunk" id="([^"]+)"><h4>.*?#([^"]+)">prompt of'
    hunks = re.findall(hunk_start, made, re.DOTALL)
    first, dropped, second = prompts
    assert [prompt for _, prompt in hunks] == [first, second, second]
    assert dropped not in {prompt for _, prompt in hunks}
    for hunk, _ in hunks:
        assert f'<a href="#{hunk}"><code>' in made
    assert "Tried and dropped: <em>a cache</em>" in made
    assert "<h1>How topic was made</h1>" in made
    assert "Objective: <em>Sign in by email</em>" in made
    request = re.search(r'<div class="request".*?</div>', made, re.DOTALL)
    assert request
    assert "first prompt</pre>" in request[0]
    assert request.start() < made.index("<figure>")


def test_own_files_are_folded(project: Project) -> None:
    """What `gitcp enable` wrote is one entry of a commit and of a checkpoint; what no commit has is
    listed only where it changed something.
    """
    project.write("a.py", text())
    project.commit("begin")
    project.git("checkout", "--quiet", "-b", "topic")
    work = Work(project)
    project.gitcp("enable", "claude", "--yes", check=0)
    work.step("first prompt", a_py=text(l5="new"))
    project.commit("Add it")
    work.step("a question")
    work.step("dropped", b_py="b\n")
    made = render(story(project))

    own = re.search(r'<details class="own">.*?</details></details>', made, re.DOTALL)
    assert own
    assert "files that <code>gitcp enable</code> writes</summary>" in own[0]
    assert ".claude/settings.json" in own[0]
    assert ".claude/settings.json" not in made.replace(own[0], "")
    unlinked = made[made.index('id="unlinked"') : made.index('id="checkpoints"')]
    assert "dropped" in unlinked
    assert "a question" not in unlinked
    assert '<span class="soft">b.py</span>' in made
    comment = project.gitcp("review", "main..", check=0).out
    assert ".claude" not in comment
    assert re.search(r"\n- \d+ files that `gitcp enable` writes\n", comment)


def test_picture(work: Work) -> None:
    """Checkpoints in order of time, red and green, the commit below its last one, the restore an
    arc back.
    """
    told = story(work.project)
    picture = timeline(told)
    xs = [dot.x for dot in picture.dots]

    assert xs == sorted(xs)
    assert len(set(xs)) == len(told.steps) == 4
    assert [dot.result for dot in picture.dots] == ["failed", "", "", "passed"]
    assert [(arc.start, arc.end) for arc in picture.arcs] == [(xs[2], xs[0])]
    assert [diamond.x for diamond in picture.diamonds] == [xs[3]]


def test_large_diffs(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large or too many is named, not shown; the other files of that diff are shown."""
    monkeypatch.setattr(page_diff, "LARGEST_FILE", 100)
    monkeypatch.setattr(page_diff, "MOST_FILES", 2)
    project.commit("begin")
    for name, content in (("a", "a\n"), ("b", "b\n" * 200), ("c", "c\n"), ("d", "d\n")):
        project.write(name, content)
    project.commit("four")
    store = open_store(project)
    old, new = (Oid(project.git("rev-parse", f"{name}^{{tree}}")) for name in ("HEAD~", "HEAD"))

    shown, same, none = page_diff.page_diffs(store, [(old, new), (new, new), (None, old)])
    assert [file.path for file in shown.files] == ["a", "c"]
    assert shown.others == (b"b", b"d")
    assert (same.files, same.others, none.files) == ((), (), ())


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser with a home of its own."""
    made = Browser(tmp_path_factory.mktemp("browser"))
    yield made
    made.close()


@needs_browser
def test_in_a_browser(work: Work, browser: Browser, tmp_path: Path) -> None:
    """Nothing is asked of the network, nothing is wider than the screen, a link into a folded file
    unfolds it.
    """
    page = tmp_path / "page.html"
    page.write_text(render(story(work.project)), "utf-8")
    for width in (1500, 900, 390):
        browser.resize(width, 900)
        browser.open(page)
        assert browser.run("document.documentElement.scrollWidth") <= width
        wide = "[...document.querySelectorAll('figure, svg')].some(e => e.scrollWidth > {})"
        assert not browser.run(wide.format(width))
        lines = "[...document.querySelectorAll('.entry')].map(e => e.getClientRects().length)"
        assert set(browser.run(lines)) == {1}
    asked = [event["request"]["url"] for event in browser.named("Network.requestWillBeSent")]
    assert asked == [page.as_uri()]
    assert not browser.named("Runtime.exceptionThrown", "Log.entryAdded")

    assert browser.run("document.querySelectorAll('details.file[open]').length") == 0
    browser.run("document.querySelector('.led a').click()")
    browser.until("document.querySelector('details.file[open] .hunk:target')")
    browser.run("document.querySelector('.hunk:target h4 a').click()")
    browser.until("document.querySelector('.prompt:target')")
