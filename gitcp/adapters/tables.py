"""The description of an agent by a TOML file, from which `table_adapter` makes an adapter
(docs/adapters.md shows one).

A path or a command has placeholders in braces, a field is a path of names with dots between them.
"""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gitcp.adapters import base
from gitcp.errors import BadValue
from gitcp.value import EMPTY, Value

TRANSCRIPT = "transcript"
ABOUT = "about"
FORMATS = ("jsonl", "json")
ROLES = ("user", "assistant", "thinking", "call", "result", "summary", "system")

PATH = ("slug", "session", "time", "agent")
SLUG = ("base", "dashed", "md5", "quoted", "sha256", "slashes")
VALUE = ("agent", "cwd", "directory", "home", "key", "session", "slug")

TOP = (
    *("name", "title", "resume", "latest", "variable"),
    *("files", "session", "cwd", "prompt", "rewrite", "message"),
)
FILES = (
    *("home", "home_variable", "transcript", "about", "agents"),
    *("slug", "format", "records", "time"),
)


class Field(Value):
    """A field of one of a session's files: of the transcript's first line that has it, or of each
    line. `value` is what it is of a copy.
    """

    file: str
    name: str
    value: str
    each: bool = False


class Rewrite(Value):
    """A field that a copy at another place must have with another value: in the lines that match,
    or in the document beside.
    """

    file: str
    field: str
    value: str
    when: Mapping[str, Any] = EMPTY


class Rule(Value):
    """How a record that matches `when` is shown. With `each`, a message for each object in that
    list that matches `only`, whose fields `text`, `tool`, `call` and `failed` are.
    """

    role: str
    when: Mapping[str, Any]
    text: str
    each: str = ""
    only: Mapping[str, Any] = EMPTY
    id: str = ""
    time: str = ""
    model: str = ""
    tool: str = ""
    call: str = ""
    failed: str = ""


class Table(Value):
    """An agent, as its file describes it."""

    name: str
    title: str
    resume: tuple[str, ...]
    home: str
    transcript: str
    rules: tuple[Rule, ...]
    cwd: Field | None = None
    session: Field | None = None
    latest: tuple[str, ...] = ()
    variable: str = ""
    home_variable: str = ""
    about: str = ""
    agents: str = ""
    slug: str = ""
    time: str = "%Y-%m-%dT%H-%M-%S"
    format: str = "jsonl"
    records: str = ""
    prompt: Mapping[str, Any] = EMPTY
    rewrites: tuple[Rewrite, ...] = ()


def read(path: Path) -> Table:
    """Return the table in a file. Raises BadValue if it cannot be read or is none."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadValue(f"{path} cannot be read: {error}") from None
    return _Reader(str(path)).table(document)


class _Reader:
    """Reads the sections of a file, and says what is wrong with one."""

    def __init__(self, file: str) -> None:
        self.file = file

    def table(self, document: Mapping[str, Any]) -> Table:
        """Return the whole table."""
        self.known(document, TOP, "the file")
        files = self.section(document, "files", FILES)
        name = self.text(document, "name", "the file")
        if base.SESSION_ID.fullmatch(name) is None:
            raise self.wrong(f"name = {name!r} is none: use letters, digits, - and _")
        table = Table(
            name=name,
            title=self.text(document, "title", "the file", name),
            resume=self.words(document, "resume"),
            latest=self.words(document, "latest"),
            variable=self.text(document, "variable", "the file", ""),
            home=self.home(self.text(files, "home", "[files]")),
            home_variable=self.text(files, "home_variable", "[files]", ""),
            transcript=self.path(TRANSCRIPT, self.text(files, TRANSCRIPT, "[files]"), "session"),
            about=self.path(ABOUT, self.text(files, ABOUT, "[files]", "")),
            agents=self.path("agents", self.text(files, "agents", "[files]", "")),
            slug=self.template("slug", self.text(files, "slug", "[files]", ""), SLUG),
            time=self.text(files, "time", "[files]", "%Y-%m-%dT%H-%M-%S"),
            format=self.one_of(self.text(files, "format", "[files]", "jsonl"), FORMATS),
            records=self.text(files, "records", "[files]", ""),
            cwd=self.field(document, "cwd"),
            session=self.field(document, "session"),
            prompt=self.conditions(self.section(document, "prompt", ("begins",)), "begins"),
            rewrites=tuple(self.rewrites(document)),
            rules=tuple(self.rules(document)),
        )
        self.whole(table)
        return table

    def whole(self, table: Table) -> None:
        """Refuse a table of which a part is missing."""
        if not table.rules:
            raise self.wrong("there is no [[message]], so nothing of a conversation is shown")
        if table.cwd is None and "{slug}" not in table.transcript:
            raise self.wrong("neither [cwd] nor {slug} says in which directory a session ran")
        if "{slug}" in table.transcript and not table.slug:
            raise self.wrong("[files] has {slug} and no slug")
        fields = [table.cwd, table.session, *table.rewrites]
        if not table.about and any(each and each.file == ABOUT for each in fields):
            raise self.wrong('[files] has no "about", and a field is in it')
        if not any("{session}" in word for word in table.resume):
            raise self.wrong("resume has no {session}")

    # ------------------------------------------------------------ sections

    def field(self, document: Mapping[str, Any], name: str) -> Field | None:
        if name not in document:
            return None
        where = f"[{name}]"
        fields = self.section(document, name, ("file", "field", "value", "each"))
        file = self.one_of(self.text(fields, "file", where, TRANSCRIPT), (TRANSCRIPT, ABOUT))
        text = self.text(fields, "value", where, f"{{{name}}}")
        value = self.template(f"value in {where}", text, VALUE)
        return Field(file, self.text(fields, "field", where), value, fields.get("each") is True)

    def rewrites(self, document: Mapping[str, Any]) -> Iterator[Rewrite]:
        for fields in self.sections(document, "rewrite", ("file", "field", "value", "when")):
            where = "[[rewrite]]"
            file = self.one_of(self.text(fields, "file", where, TRANSCRIPT), (TRANSCRIPT, ABOUT))
            text = self.text(fields, "value", where)
            value = self.template(f"value in {where}", text, VALUE)
            when = self.conditions(fields, "when")
            yield Rewrite(file, self.text(fields, "field", where), value, when)

    def rules(self, document: Mapping[str, Any]) -> Iterator[Rule]:
        names = ("role", "when", "each", "only", "text")
        more = ("id", "time", "model", "tool", "call", "failed")
        for fields in self.sections(document, "message", (*names, *more)):
            role = self.one_of(self.text(fields, "role", "[[message]]"), ROLES)
            texts = {name: self.text(fields, name, "[[message]]", "") for name in ("each", *more)}
            text = self.text(fields, "text", "[[message]]")
            when, only = (self.conditions(fields, name) for name in ("when", "only"))
            yield Rule(role, when, text, only=only, **texts)

    # ------------------------------------------------------------ values

    def section(
        self, document: Mapping[str, Any], name: str, names: tuple[str, ...]
    ) -> Mapping[str, Any]:
        value = document.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(f"{name} is no table")
        self.known(value, names, f"[{name}]")
        return value

    def sections(
        self, document: Mapping[str, Any], name: str, names: tuple[str, ...]
    ) -> Iterator[Mapping[str, Any]]:
        value = document.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.wrong(f"{name} is no list of tables: write [[{name}]]")
        for each in value:
            self.known(each, names, f"[[{name}]]")
            yield each

    def known(self, fields: Mapping[str, Any], names: tuple[str, ...], where: str) -> None:
        unknown = next((name for name in fields if name not in names), None)
        if unknown is not None:
            raise self.wrong(f"{where} has {unknown!r}, which is none of {', '.join(names)}")

    def text(
        self, fields: Mapping[str, Any], name: str, where: str, default: str | None = None
    ) -> str:
        value = fields.get(name, default)
        if value is None:
            raise self.wrong(f"{where} has no {name}")
        if not isinstance(value, str):
            raise self.wrong(f"{name} in {where} is no text")
        return value

    def words(self, fields: Mapping[str, Any], name: str) -> tuple[str, ...]:
        value = fields.get(name, [])
        if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
            raise self.wrong(f"{name} is no list of words, such as ['agent', '--resume']")
        return tuple(self.template(name, word, ("session",)) for word in value)

    def conditions(self, fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        value = fields.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong(f"{name} is no table, such as {{ type = 'user' }}")
        return dict(_flat(value))

    def one_of(self, value: str, values: tuple[str, ...]) -> str:
        if value not in values:
            raise self.wrong(f"{value!r} is none of {', '.join(values)}")
        return value

    def home(self, path: str) -> str:
        """Return a directory below the home directory, which has no placeholders."""
        if any(each in path for each in "{}*"):
            raise self.wrong(f"home = {path!r} is used as it is: write it without {{, }} and *")
        return self.below("home", path)

    def path(self, key: str, template: str, needed: str = "") -> str:
        """Return a path below the agent's directory. It is also found by its placeholders, and
        what they do not say could not be written again.
        """
        self.template(key, template, PATH)
        what = f"{key} = {template!r}"
        if "*" in template:
            raise self.wrong(f"{what} has *, and a restore could not tell which name to write")
        if "}{" in template:
            raise self.wrong(f"{what} has placeholders with nothing between them")
        if any(form or cut for _, _, form, cut in string.Formatter().parse(template)):
            raise self.wrong(f"{what} cuts a placeholder, which only a slug may: write {{NAME}}")
        if needed and f"{{{needed}}}" not in template:
            raise self.wrong(f"{what} has no {{{needed}}}")
        return self.below(key, template) if template else template

    def below(self, key: str, path: str) -> str:
        if base.place_parts(path) is None:
            raise self.wrong(f"{key} = {path!r} is no path below another directory")
        return path

    def template(self, key: str, template: str, names: tuple[str, ...]) -> str:
        what = f"{key} = {template!r}"
        try:
            used = [
                name for _, name, _, _ in string.Formatter().parse(template) if name is not None
            ]
        except ValueError as error:
            raise self.wrong(f"{what}: {error}") from None
        unknown = next((name for name in used if name not in names), None)
        if unknown is not None:
            raise self.wrong(f"{what} has {{{unknown}}}, which is none of {', '.join(names)}")
        try:
            template.format_map(dict.fromkeys(names, "x"))
        except (ValueError, LookupError) as error:
            raise self.wrong(f"{what} cannot be filled in: {error}") from None
        return template

    def wrong(self, what: str) -> BadValue:
        return BadValue(f"{self.file}: {what}")


def _flat(conditions: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield fields and their values: TOML reads `a.b = 1` as a table in a table."""
    for name, value in conditions.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value


# ---------------------------------------------------------------- fields


def value_at(record: Any, field: str) -> Any:
    """Return what a record has in a field, None if it has none; `.` is the record itself."""
    for name in field.split(".") if field not in ("", ".") else ():
        record = record.get(name) if isinstance(record, dict) else None
    return record


def text_at(record: Any, field: str) -> str | None:
    """Return the text in a field, None if it has none."""
    value = value_at(record, field) if field else None
    return value if isinstance(value, str) else None


def matches(record: Any, conditions: Mapping[str, Any]) -> bool:
    """Return whether a record has these values; of a list, one of them."""
    return all(
        value_at(record, field) in (wanted if isinstance(wanted, list) else [wanted])
        for field, wanted in conditions.items()
    )
