"""The arguments of each tool and prompt: their types, bounds and descriptions.

What a model reads about an argument stands here. Unknown arguments are refused, with the nearest
known name: a misspelled one must not save or restore something else than was meant.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import ErrorDetails, core_schema

from gitcp.errors import BadValue

A = TypeVar("A", bound="Arguments")

LINE, TEXT, ITEMS, PATHS = 1_000, 10_000, 100, 1_000

Line = Annotated[str, Field(max_length=LINE)]
Text = Annotated[str, Field(max_length=TEXT)]
Texts = Annotated[list[Text], Field(max_length=ITEMS)]
Path = Annotated[str, Field(max_length=4_096)]

Name = Annotated[str, Field(min_length=1, max_length=LINE)]

Session = Annotated[
    Name | None,
    Field(description="use this session instead of the current one (a unique prefix is enough)"),
]
Revision = Annotated[
    Line,
    Field(
        description="a checkpoint: @ (the last one), @~2, a number, SESSION@NUMBER, a tag, an "
        "exact label, or a time (yesterday)"
    ),
]
Paths = Annotated[
    Annotated[list[Path], Field(min_length=1, max_length=PATHS)] | None,
    Field(description="only these files and directories, relative to the repository's root"),
]
Digest = Annotated[
    Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None,
    Field(description="the digest of the plan to carry out; omit it to get the plan"),
]


class _Schema(GenerateJsonSchema):
    """JSON schemas without titles, and without null for what may be left out."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        if schema.get("default", ...) is None:
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:  # noqa: ARG002 -- never
        return False


class Arguments(BaseModel):
    """The base of all arguments. The docstring is the description that clients show."""

    model_config = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    @classmethod
    def description(cls) -> str:
        """Return what the tool or prompt does."""
        return " ".join((cls.__doc__ or "").split())

    @classmethod
    def schema_of(cls) -> dict[str, Any]:
        """Return the JSON schema of the arguments."""
        schema = cls.model_json_schema(schema_generator=_Schema)
        return {key: value for key, value in schema.items() if key not in {"title", "description"}}

    @classmethod
    def read(cls, given: Mapping[str, Any]) -> Self:
        """Return the arguments. null counts as left out. Raises BadValue with every mistake."""
        known = cls.model_fields
        values = {name: value for name, value in given.items() if value is not None}
        values |= {name: None for name in given if name not in known}
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            mistakes = [_mistake(each, list(known)) for each in error.errors(include_url=False)]
        raise BadValue("; ".join(mistakes) + "; nothing was changed")


def _mistake(error: ErrorDetails, known: list[str]) -> str:
    name = ".".join(map(str, error["loc"]))[:100]
    if error["type"] == "extra_forbidden":
        # `restore` with `path` for `paths` planned a restore of everything.
        return f"there is no argument {name!r}{nearest(name, known)}"
    if error["type"] == "missing":
        return f"the argument {name!r} is missing"
    return f"the argument {name!r} is invalid: {error['msg'][:1].lower()}{error['msg'][1:]}"


def nearest(name: str, known: list[str]) -> str:
    """Return what to add to an unknown name: a similar one, or all that there are."""
    similar = get_close_matches(name, known, 1, 0.5)
    return f" (did you mean {similar[0]!r}?)" if similar else f" (there are: {', '.join(known)})"


# ---------------------------------------------------------------- notes


class _NoteFields(Arguments):
    phase: Annotated[
        Line | None, Field(description="the phase of the work, such as plan or build")
    ] = None
    objective: Annotated[Text | None, Field(description="what the session is to achieve")] = None
    facts: Annotated[
        Annotated[dict[Line, Text], Field(max_length=ITEMS)] | None,
        Field(description="facts by name; an empty value removes one"),
    ] = None
    task: Annotated[Text | None, Field(description="what is being worked on right now")] = None
    decided: Annotated[Texts | None, Field(description="decisions made, with their reasons")] = None
    failed: Annotated[Texts | None, Field(description="what was tried and did not work")] = None
    next: Annotated[Texts | None, Field(description="the next steps, in order")] = None
    active: Annotated[Texts | None, Field(description="files being worked on")] = None


class Save(_NoteFields):
    """Save the working tree and the conversation as a checkpoint that can be restored. Call it
    before a risky change and after something works. With phase, facts, task, decided, failed and
    next, it also writes the handoff that the next reader starts from. If nothing changed, no
    checkpoint is made and `saved` is false.
    """

    label: Annotated[Line | None, Field(description="what this checkpoint is, in a few words")] = (
        None
    )
    tags: Annotated[
        Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=20)]
        | None,
        Field(description="names for this checkpoint that stay; each must be new"),
    ] = None
    session: Annotated[
        Name | None, Field(description="save to this session instead of the current one")
    ] = None


class Note(_NoteFields):
    """Write down decisions, failed attempts and next steps for the next checkpoint, whoever saves
    it, without saving now. Returns the whole pending note.
    """

    session: Session = None


# ---------------------------------------------------------------- reading


class List(Arguments):
    """List checkpoints, newest first: id, time, subject, trigger and tags."""

    limit: Annotated[
        int, Field(ge=1, le=1_000, description="the largest number of checkpoints")
    ] = 20
    revision: Annotated[
        Revision, Field(description="list this checkpoint and those before it; or a range A..B")
    ] = "@"
    every_session: Annotated[
        bool, Field(description="list the checkpoints of all sessions, by time")
    ] = False
    session: Session = None


class Timeline(Arguments):
    """Show the user a page with the checkpoints, in which they can look at each one and restore it.
    To read the checkpoints yourself, call list.
    """

    limit: Annotated[
        int, Field(ge=1, le=1_000, description="the largest number of checkpoints")
    ] = 100
    session: Session = None


class Show(Arguments):
    """Show one checkpoint: label, facts, handoff, conversation and numbers of files; with path, the
    text of one file or the names in one directory as they were then.
    """

    revision: Revision = "@"
    path: Annotated[
        Path | None,
        Field(description="a file or directory relative to the repository's root; '' is the root"),
    ] = None
    session: Session = None


class Diff(Arguments):
    """Compare a checkpoint with another one, or with the working tree: changed paths and a
    patch.
    """

    old: Revision = "@"
    new: Annotated[
        Line | None, Field(description="the other checkpoint; omit it for the working tree")
    ] = None
    paths: Paths = None
    session: Session = None


Place = Literal["prompts", "answers", "tools", "notes", "paths", "files"]


class Find(Arguments):
    """Search the prompts, answers, tool output, notes, paths and files of all checkpoints for a
    text. Returns each match with the checkpoint where it first appeared, newest first.
    """

    text: Annotated[str, Field(min_length=1, max_length=LINE, description="the text to search for")]
    places: Annotated[
        Annotated[list[Place], Field(min_length=1, max_length=6)] | None,
        Field(description="where to search (default: everywhere)"),
    ] = None
    ignore_case: Annotated[bool, Field(description="ignore upper and lower case")] = False
    limit: Annotated[int, Field(ge=1, le=200, description="the largest number of matches")] = 20
    session: Annotated[
        Name | None, Field(description="search this session only (default: all sessions)")
    ] = None


class Why(Arguments):
    """Explain a line or a file: the checkpoint and the prompt that added the line; or the
    checkpoints that changed the path, and why it is missing from the last one.
    """

    path: Annotated[Path, Field(min_length=1, description="relative to the repository's root")]
    line: Annotated[
        Annotated[int, Field(ge=1, le=10_000_000)] | None,
        Field(description="the number of a line in the current file, from 1"),
    ] = None
    revision: Revision = "@"
    session: Session = None


# ---------------------------------------------------------------- writing


Mine = Annotated[
    bool,
    Field(
        description="undo only what this session changed: what others changed since stays; where "
        "both changed the same lines, nothing is done"
    ),
]
WholeTree = Annotated[
    bool,
    Field(
        description="also undo what other agents changed that are at work in this directory. Ask "
        "the user first"
    ),
]


class Restore(Arguments):
    """Restore files and conversation from a checkpoint. Without digest it changes nothing and
    returns the plan and its digest; called again with that digest, it carries out that plan and no
    other. The current state is saved first, so undo can take it back. The conversation is written
    where its agent resumes it; the running conversation is not changed.
    """

    revision: Revision
    digest: Digest = None
    what: Annotated[
        Literal["both", "files", "conversation"],
        Field(description="restore the files, the conversation, or both"),
    ] = "both"
    paths: Paths = None
    session: Session = None
    mine: Mine = False
    whole_tree: WholeTree = False


class Undo(Arguments):
    """Undo the last restore or revert, keeping what changed since; call it again to undo the one
    before. Conflicts in the plan are changes since that cannot be merged: it is refused then,
    unless whole_tree is set, which undoes them as well. Without digest it changes nothing and
    returns the plan and its digest; called again with that digest, it carries it out. If the last
    operation was a prune or a delete, its checkpoints are brought back at once, since that can lose
    nothing.
    """

    digest: Digest = None
    redo: Annotated[bool, Field(description="redo what was undone last")] = False
    mine: Mine = False
    whole_tree: WholeTree = False


class Revert(Arguments):
    """Undo what one checkpoint changed, and keep everything changed later. Without digest it
    changes nothing and returns the plan and its digest; called again with that digest, it carries
    it out. The current state is saved first, so undo can take it back.
    """

    revision: Annotated[
        Line, Field(description="the checkpoint whose changes are undone, or a range A..B")
    ]
    digest: Digest = None
    paths: Paths = None
    conflicts: Annotated[
        Literal["refuse", "keep", "markers"],
        Field(
            description="what to do where later changes conflict: refuse and change nothing, keep "
            "those files as they are, or write conflict markers into them"
        ),
    ] = "refuse"
    session: Session = None
    mine: Mine = False


class Fork(Arguments):
    """Start a new session from a checkpoint, to try another way. The files here are unchanged; with
    worktree, a new git working tree gets the files of the checkpoint.
    """

    revision: Revision = "@"
    name: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]*$", max_length=100)] | None,
        Field(description="the name of the new session"),
    ] = None
    worktree: Annotated[
        Annotated[str, Field(min_length=1, max_length=4_096)] | None,
        Field(description="a directory that does not exist yet, for a new git working tree"),
    ] = None
    branch: Annotated[
        Annotated[str, Field(min_length=1, max_length=200)] | None,
        Field(description="a new branch, at the commit that the checkpoint was saved on"),
    ] = None
    session: Session = None


# ---------------------------------------------------------------- prompts


class Handoff(Arguments):
    """Write down the state of the work in a checkpoint, for whoever continues it."""


class Resume(Arguments):
    """Continue the work from a checkpoint: its handoff, and what changed since."""

    revision: Revision = "@"
