"""Parse shell commands into programs and arguments. Nothing is run or expanded.

Follows pipes and lists, subshells, command substitution, here-documents fed to a shell, and
programs that run another one (`sudo`, `env`, `xargs`, `sh -c`, `find -exec`, `npx`, …).
"""

from __future__ import annotations

LONGEST = 1 << 16
DEEPEST = 6

SEPARATORS = ("<(", ">(", ";;&", "&&", "||", "|&", ";;", ";&", ";", "&", "|", "(", ")", "\n")
HERE_STRING = "<<<"
HERE_DOCUMENTS = ("<<-", "<<")
WRITING = ("&>>", "&>", ">>", ">|", ">&", ">")
READING = ("<&", "<>", "<")
OPERATORS = ("<(", ">(", HERE_STRING, *HERE_DOCUMENTS, *WRITING, *READING, *SEPARATORS)
BEGINNINGS = frozenset(operator[0] for operator in OPERATORS)

KEYWORDS = frozenset("if then elif else do while until ! { } time coproc done fi esac in".split())
PREFIXES = frozenset(("time",))
"""Keywords that leave the exit code of what follows as it is."""

SHELLS = frozenset("sh bash dash zsh ksh ash fish".split())

WRAPPERS: dict[str, str] = {
    "sudo": "-u -g -h -p -C -r -t -T -U -D -R",
    "doas": "-u -C",
    "env": "-u -C",
    "command": "",
    "builtin": "",
    "exec": "-a",
    "nohup": "",
    "setsid": "",
    "nice": "-n",
    "ionice": "-c -n -p",
    "stdbuf": "-i -o -e",
    "timeout": "-k -s",
    "xargs": "-I -n -P -L -d -E -s -a",
    "time": "-f -o",
    "watch": "-n",
    "caffeinate": "-t -w",
    "npx": "-p --package",
    "bunx": "",
    "uvx": "--from --with --python",
}
"""Programs that run their arguments, with their options that take a value."""

RUNNERS = frozenset(
    (
        *(
            "uv run",
            "poetry run",
            "pipenv run",
            "pdm run",
            "hatch run",
            "rye run",
            "bundle exec",
            "conda run",
        ),
        *("pnpm exec", "pnpm dlx", "yarn exec", "yarn dlx", "npm exec", "mise exec", "direnv exec"),
        *("docker exec", "podman exec"),
    )
)
"""Wrappers that consist of two words."""

PLAIN_ARGUMENTS = {"timeout": 1, "docker exec": 1, "podman exec": 1, "direnv exec": 1}
"""The number of arguments between a wrapper's options and the program."""

RUNNER_OPTIONS = (
    "-e",
    "-u",
    "-w",
    "-n",
    "--with",
    "--extra",
    "--group",
    "--package",
    "--python",
    "--env",
    "--user",
)
FIND_RUNS = ("-exec", "-execdir", "-ok", "-okdir")


class ShellCommand:
    """One program with its arguments, the files it overwrites by redirection, its here-document,
    and the operators between it and the next command (in `sequence`).
    """

    __slots__ = ("after", "input", "words", "written")

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self.written: list[str] = []
        self.input = ""
        self.after: list[str] = []

    @property
    def program(self) -> str:
        """The program's name without its directory."""
        return self.words[0].rpartition("/")[2] if self.words else ""

    def runs(self) -> list[ShellCommand]:
        """Return this command and those it runs."""
        return _expand(self, 0)

    def script(self) -> str:
        """Return the script that a shell is given as an argument, "" for other commands."""
        return _script(ShellCommand(_without_prefix(self.words)))

    def is_structure(self) -> bool:
        """Return whether it is part of a condition, a loop, a group or a negation."""
        return bool(self.words) and self.words[0] in KEYWORDS - PREFIXES


def commands(text: str) -> list[ShellCommand]:
    """Return every simple command in `text`, in order, each followed by the commands it runs."""
    return _commands(text[:LONGEST], 0)


def sequence(text: str) -> list[ShellCommand]:
    """Return the commands of a command line as they are written, each with the operators `after`
    it; those of substitutions are not among them.
    """
    reader = _Reader(text[:LONGEST])
    reader.read()
    return reader.commands


def of_words(words: list[str]) -> list[ShellCommand]:
    """Return the commands for a command given as words."""
    return _expand(ShellCommand(words), 0)


def _commands(text: str, depth: int) -> list[ShellCommand]:
    if depth > DEEPEST:
        return []
    reader = _Reader(text)
    reader.read()
    inner = [command for part in reader.inner for command in _commands(part, depth + 1)]
    return inner + [
        command for command_here in reader.commands for command in _expand(command_here, depth)
    ]


def _expand(command: ShellCommand, depth: int) -> list[ShellCommand]:
    """Return the command without keywords and assignments, and the commands it runs."""
    words = _without_prefix(command.words)
    bare = ShellCommand(words)
    bare.written, bare.input = command.written, command.input
    expanded = [bare] if words or bare.written else []
    if not words or depth > DEEPEST:
        return expanded
    script = _script(bare)
    if script:
        return expanded + _commands(script, depth + 1)
    inside = _wrapped(bare)
    return expanded + (_expand(ShellCommand(inside), depth + 1) if inside else [])


def _without_prefix(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and (words[at] in KEYWORDS or _is_assignment(words[at])):
        at += 1
    return words[at:]


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.rstrip("+").isidentifier()


def _script(command: ShellCommand) -> str:
    """Return the script passed to a shell, "" for other programs."""
    rest = command.words[1:]
    if command.program == "eval":
        return " ".join(rest)
    if command.program not in SHELLS:
        return ""
    for at, word in enumerate(rest):
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            return next((each for each in rest[at + 1 :] if not each.startswith("-")), "")
    return command.input


def _wrapped(command: ShellCommand) -> list[str]:
    """Return the words of the program that this one runs, if any."""
    words = command.words
    if command.program == "find":
        at = next((at for at, word in enumerate(words) if word in FIND_RUNS), len(words))
        return words[at + 1 :]
    name, options = command.program, WRAPPERS.get(command.program)
    rest = words[1:]
    if options is None and rest and f"{name} {rest[0]}" in RUNNERS:
        name, rest, options = f"{name} {rest[0]}", rest[1:], " ".join(RUNNER_OPTIONS)
    if options is None:
        return []
    return _without_prefix(_after_options(rest, options.split()))[PLAIN_ARGUMENTS.get(name, 0) :]


def _after_options(words: list[str], with_value: list[str]) -> list[str]:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        if words[at] == "--":
            return words[at + 1 :]
        at += 2 if words[at] in with_value else 1
    return words[at:]


class _Reader:
    """Splits a text into commands. `inner` are the texts of command substitutions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.commands: list[ShellCommand] = []
        self.inner: list[str] = []
        self._now = ShellCommand([])
        self._expected = ""
        self._documents: list[tuple[str, ShellCommand]] = []

    def read(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r" or self.text.startswith("\\\n", self.at):
                self.at += 1 if char != "\\" else 2
            elif char == "#":
                self.at = self._find("\n")
            elif char in BEGINNINGS:
                self._operator(next(o for o in OPERATORS if self.text.startswith(o, self.at)))
            else:
                self._add(self._word())
        self._end()

    def _operator(self, operator: str) -> None:
        self.at += len(operator)
        if operator not in SEPARATORS:
            self._expected = operator
            return
        self._end()
        if self.commands:
            self.commands[-1].after.append(operator)
        if operator == "\n":
            self._read_documents()

    def _end(self) -> None:
        if self._now.words or self._now.written:
            self.commands.append(self._now)
        self._now, self._expected = ShellCommand([]), ""

    def _add(self, word: str) -> None:
        """Add a word to the command, or to the redirection before it."""
        operator, self._expected = self._expected, ""
        if operator in HERE_DOCUMENTS:
            self._documents.append((word, self._now))
        elif operator == HERE_STRING:
            self._now.input = word
        elif operator in WRITING:
            if not (operator == ">&" and word.isdigit()) and operator not in (">>", "&>>"):
                self._now.written.append(word)
        elif not operator and not self._is_descriptor(word):
            self._now.words.append(word)

    def _is_descriptor(self, word: str) -> bool:
        """Return whether it is the 2 of `2>file`."""
        before = self.text[self.at - len(word) - 1 : self.at]
        return (
            word.isdigit()
            and self.text[self.at : self.at + 1] in ("<", ">")
            and before.endswith(word)
        )

    def _read_documents(self) -> None:
        for delimiter, command in self._documents:
            lines = []
            while self.at < len(self.text):
                end = self._find("\n")
                line, self.at = self.text[self.at : end], end + 1
                if line.strip("\t") == delimiter:
                    break
                lines.append(line)
            command.input = "\n".join(lines)
        self._documents.clear()

    def _word(self) -> str:
        """Read one word, without its quotes."""
        parts = []
        while self.at < len(self.text):
            char = self.text[self.at]
            if char in " \t\r" or char in BEGINNINGS:
                break
            parts.append(self._part(char))
        return "".join(parts)

    def _part(self, char: str) -> str:
        start = self.at
        if char == "'" or self.text.startswith("$'", start):
            begin = start + 1 + (char == "$")
            end = self._find("'", begin)
            self.at = end + 1
            return self.text[begin:end]
        if char == '"':
            self.at += 1
            return self._double_quoted()
        if char == "\\":
            self.at += 2
            return self.text[start + 1 : start + 2].strip("\n")
        if char == "`" or self.text.startswith("$(", start):
            return self._substitution()
        self.at += 1
        return char

    def _double_quoted(self) -> str:
        """Read up to the closing double quote."""
        parts = []
        while self.at < len(self.text) and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] not in (
                '"',
                "\\",
                "$",
                "`",
                "\n",
            ):
                parts.append(char)
                self.at += 1
            elif char in "\\`" or self.text.startswith("$(", self.at):
                parts.append(self._part(char))
            else:
                parts.append(char)
                self.at += 1
        self.at += 1
        return "".join(parts)

    def _substitution(self) -> str:
        """Read `$(…)` or backticks. The word keeps them as written; the content is parsed
        separately.
        """
        start = self.at
        if self.text[start] == "`":
            end = self._find("`", start + 1)
            inner = self.text[start + 1 : end]
        else:
            end = self._closing(start + 2)
            inner = self.text[start + 2 : end]
        self.at = end + 1
        self.inner.append(inner)
        return self.text[start : self.at]

    def _closing(self, at: int) -> int:
        """Return the offset of the parenthesis that closes the one before `at`."""
        depth = 1
        while at < len(self.text):
            char = self.text[at]
            if char == "\\":
                at += 1
            elif char == "'":
                at = self._find("'", at + 1)
            depth += (char == "(") - (char == ")")
            if not depth:
                return at
            at += 1
        return len(self.text)

    def _find(self, wanted: str, start: int | None = None) -> int:
        """Return the offset of the next `wanted`, or the end of the input."""
        offset = self.text.find(wanted, self.at if start is None else start)
        return len(self.text) if offset < 0 else offset
