"""Tags: made, moved, deleted, listed; packed or not; and what git sees of them."""

from __future__ import annotations

import pytest
from kinds import FORMAT, in_files

from gitcp.errors import BadValue, Refused, RevisionNotFound, StoreDamaged
from gitcp.model import Checkpoint
from gitcp.state import tag
from gitcp.store import Store
from gitcp.value import replace

from driver import Project
from samples import START, open_store, save


@pytest.fixture
def store(project: Project) -> Store:
    return open_store(project)


@pytest.fixture
def pair(store: Store) -> tuple[Checkpoint, Checkpoint]:
    """Two checkpoints of one session."""
    return save(store, "alpha", label="first"), save(store, "alpha", label="second")


def create(
    store: Store, name: str, checkpoint: Checkpoint, text: str | None = None, force: bool = False
) -> None:
    tag.create(store, name, checkpoint, text=text, force=force, now=START)


def test_a_tag_with_a_message_is_annotated(
    project: Project, store: Store, pair: tuple[Checkpoint, Checkpoint]
) -> None:
    """git sees a tag object with name, time and message, on the checkpoint, outside refs/tags."""
    with project.guard():
        create(store, "v1.0", pair[0], "before the migration")

    shown = project.git(
        "for-each-ref",
        "--format=%(objecttype) %(*objectname) %(tag) %(taggername)",
        "refs/gitcp/tags",
    )
    assert shown == f"tag {pair[0].commit} v1.0 gitcp"
    assert project.git("tag", "--list") == ""
    assert project.git("cat-file", "tag", "refs/gitcp/tags/v1.0").endswith(
        "\n\nbefore the migration"
    )
    assert "1793610000 +0000" in project.git("cat-file", "tag", "refs/gitcp/tags/v1.0")


def test_rewritten_history_makes_no_tag_of_gits(
    project: Project, store: Store, pair: tuple[Checkpoint, Checkpoint]
) -> None:
    """A tag without a message is a ref on the commit, which fast-import leaves where it is; `git
    push --tags` would send what it puts below refs/tags.
    """
    project.write("a", "one\n")
    project.commit()
    create(store, "v1", pair[1])
    assert project.git("rev-parse", "refs/gitcp/tags/v1") == pair[1].commit

    exported = project.git("fast-export", "--all").encode()
    project.git("fast-import", "--force", "--quiet", input=exported)

    assert project.git("for-each-ref", "refs/tags") == ""
    assert list(store.tags()) == ["v1"]


@pytest.mark.parametrize("text", ["", "\n\n", "object 0\ntag evil", "\udcff", "a\0b", "é" * 5000])
def test_any_message_is_sound(
    project: Project, store: Store, pair: tuple[Checkpoint, Checkpoint], text: str
) -> None:
    """Whatever the words, the tag is sound, and is on its checkpoint under its name."""
    with project.guard():
        create(store, "v1", pair[0], text)

    assert store.tags() == {"v1": pair[0].commit}
    assert project.git("for-each-ref", "--format=%(tag)", "refs/gitcp/tags") == "v1"


REFUSED_NAMES = {
    "12": "v12",
    "007": "v007",
    "latest": "newest",
    "@": "newest",
    "@~2": "newest",
    "alpha@12": "alpha-12",
    "alpha@": "alpha",
    "alpha": "alpha-tag",
}


@pytest.mark.parametrize("name", REFUSED_NAMES)
def test_a_name_that_means_something_else(
    store: Store, pair: tuple[Checkpoint, Checkpoint], name: str
) -> None:
    """No tag can be called like a number, an id, the last checkpoint or a session; another name is
    offered, by `save --tag` too.
    """
    for force in (False, True):
        with pytest.raises(BadValue, match="a tag cannot be named") as caught:
            create(store, name, pair[0], force=force)
        assert caught.value.suggestion == REFUSED_NAMES[name]
    with pytest.raises(BadValue, match="a tag cannot be named"):
        tag.check_free(store, name)
    assert store.tags() == {}


def test_a_taken_name(store: Store, pair: tuple[Checkpoint, Checkpoint]) -> None:
    """A name that is on another checkpoint is refused and stays; with force it moves."""
    create(store, "v1", pair[0])
    with pytest.raises(Refused, match="alpha@1") as caught:
        create(store, "v1", pair[1])

    assert "--force" in caught.value.hint
    assert store.tags() == {"v1": pair[0].commit}

    create(store, "v1", pair[1], force=True)
    assert store.tags() == {"v1": pair[1].commit}


def test_the_same_tag_again(store: Store, pair: tuple[Checkpoint, Checkpoint]) -> None:
    """To tag what is tagged so already is fine and changes nothing; with force the words are
    new.
    """
    create(store, "v1", pair[0], "words")
    before = store.repo.refs.read("refs/gitcp/tags/v1")
    create(store, "v1", pair[0], "other words")
    assert store.repo.refs.read("refs/gitcp/tags/v1") == before

    create(store, "v1", pair[0], "other words", force=True)
    assert store.repo.refs.read("refs/gitcp/tags/v1") != before


@pytest.mark.parametrize(
    "name", ["", "a b", "../x", "-x", "a..b", "x.lock", "x.", "é", "a/b", "x\n", "a" * 101, "a~1"]
)
def test_a_name_that_cannot_be_one(
    store: Store, pair: tuple[Checkpoint, Checkpoint], name: str
) -> None:
    """A name that cannot be a ref is refused by every verb, and nothing is written."""
    with pytest.raises(BadValue):
        create(store, name, pair[0])
    with pytest.raises(BadValue):
        tag.check_free(store, name)
    with pytest.raises(BadValue):
        tag.delete(store, name)

    assert store.tags() == {}


def test_check_free(store: Store, pair: tuple[Checkpoint, Checkpoint]) -> None:
    """Only a name that is taken is refused, and it is said by what."""
    tag.check_free(store, "v1")
    create(store, "v1", pair[0])

    with pytest.raises(Refused, match="alpha@1"):
        tag.check_free(store, "v1")


@pytest.mark.parametrize("packed", ["loose", "packed", "both"])
def test_delete(
    project: Project, store: Store, pair: tuple[Checkpoint, Checkpoint], packed: str
) -> None:
    """A tag is deleted wherever it lies, and nothing but it."""
    create(store, "v1", pair[0])
    create(store, "v2", pair[1])
    if packed != "loose":
        project.git("pack-refs", "--all")
    if packed == "both":
        create(store, "v1", pair[1], force=True)
    with project.guard():
        tag.delete(store, "v1")

    assert store.tags() == {"v2": pair[1].commit}
    assert project.git("for-each-ref", "refs/gitcp/tags/v1") == ""
    assert store.tip("alpha") == pair[1].commit


def test_words_in_the_other_order(project: Project, pair: tuple[Checkpoint, Checkpoint]) -> None:
    """Only what could be a name is suggested as one. A tag that is moved to a checkpoint that does
    not exist: the error names the checkpoint.
    """
    project.gitcp("tag", "good", "alpha@1", check=0)

    swapped = project.gitcp("tag", "alpha@1", "better").err
    missing = [
        project.gitcp("tag", "--force", "good", "alpha@9", check=16).err,
        project.gitcp("tag", "--force", "good", "nothing", check=16).err,
        project.gitcp("tag", "alpha", "alpha@9", check=16).err,
    ]

    assert swapped.endswith("hint: gitcp tag better alpha@1\n")
    assert not any("comes first" in each for each in missing)


def test_delete_what_is_not_there(store: Store) -> None:
    """There is nothing to delete: said, and exit code 16's error."""
    with pytest.raises(RevisionNotFound, match="v1"):
        tag.delete(store, "v1")


def test_a_deleted_name_is_free(
    project: Project, store: Store, pair: tuple[Checkpoint, Checkpoint]
) -> None:
    """A name can be used again after it was deleted, also where it had been packed."""
    for checkpoint in pair:
        create(store, "v1", checkpoint)
        project.git("pack-refs", "--all")
        assert store.tags() == {"v1": checkpoint.commit}
        tag.delete(store, "v1")


def test_listing(store: Store, pair: tuple[Checkpoint, Checkpoint]) -> None:
    """Every tag by name, with its checkpoint."""
    assert tag.listing(store) == []

    create(store, "b", pair[0])
    create(store, "a", pair[1])
    create(store, "c", pair[0])

    assert [(name, str(s.id), s.subject) for name, s in tag.listing(store)] == [
        ("a", "alpha@2", "second"),
        ("b", "alpha@1", "first"),
        ("c", "alpha@1", "first"),
    ]


@in_files  # git refuses to put a ref in reftable on nothing
def test_listing_does_not_hide_damage(store: Store, pair: tuple[Checkpoint, Checkpoint]) -> None:
    """A tag that is on nothing is an error, and not left out."""
    create(store, "v1", pair[0])
    create(store, "v2", replace(pair[0], commit="1" * FORMAT.digits))

    with pytest.raises(StoreDamaged, match="1" * FORMAT.digits):
        tag.listing(store)


def test_nothing_of_a_tag_is_pushed(
    project: Project, store: Store, pair: tuple[Checkpoint, Checkpoint]
) -> None:
    """`git push --tags` carries no tag of ours."""
    project.commit()
    create(store, "v1", pair[0])
    project.git("init", "--quiet", "--bare", str(project.root / "remote.git"))
    project.git("push", "--quiet", "--tags", "remote.git", "main")

    listed = project.git("ls-remote", "remote.git").split()
    assert listed == [project.git("rev-parse", "HEAD"), "refs/heads/main"]


def test_by_commit(project: Project, store: Store, pair: tuple[Checkpoint, Checkpoint]) -> None:
    """All that are on a commit, in order; of the fetched ones those that say something new."""
    for ref in ("tags/b", "tags/a", "remotes/origin/tags/a", "remotes/origin/tags/c"):
        project.git("update-ref", f"refs/gitcp/{ref}", pair[0].commit)
    project.git("update-ref", "refs/gitcp/remotes/other/tags/a", pair[1].commit)

    assert tag.by_commit(store) == {pair[0].commit: ("a", "b")}
    assert tag.shown(store) == {
        pair[0].commit: ("a", "b", "origin/c"),
        pair[1].commit: ("other/a",),
    }


@in_files
@pytest.mark.parametrize("kind", ["tags", "remotes/origin/tags"])
def test_a_damaged_tag_stops_no_listing(
    project: Project, store: Store, pair: tuple[Checkpoint, Checkpoint], kind: str
) -> None:
    """Neither one of ours nor a fetched one; `gitcp doctor --store` reports it."""
    project.git("update-ref", "refs/gitcp/tags/a", pair[0].commit)
    project.write(f"{project.git_dir}/refs/gitcp/{kind}/lost", "1" * FORMAT.digits + "\n")

    assert tag.shown(store) == {pair[0].commit: ("a",)}
    listed = project.gitcp("log", "--oneline", "--session", "alpha", check=0)
    assert listed.out.count("alpha@") == 2
    if kind == "tags":
        with pytest.raises(StoreDamaged):
            store.tags()
