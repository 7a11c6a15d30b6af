"""Find passwords that programs take on their command lines.

Short options mean something else in each program: `-p` is a port, a path or a password. So the
program must be on the same command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gitcp.secrets.values import is_password, looks_random

OPTION = re.compile(
    rb"-(?<=[\s\"',=(\[]-)(?P<option>[uUpPaAwk]|pw|-user|-proxy-user|-auth|-password(?:-stdin)?|-pass)"
    rb"(?P<gap>[ \t]{1,8}|=|(?:\\*[\"'])?,[ \t\r\n]{0,8}|)(?:\\*[\"'])?"
    rb"(?P<value>[^\s\"'`\\<>{}()\[\]$;&][^\s\"'`\\<>{}()\[\];&]{3,200})?"
)
PROGRAM = re.compile(
    rb"(?:\A|[\s\"'`/\\(=\[,]|\\n)(?P<program>curl|https?|xh|sshpass|lftp|smbclient|ab"
    rb"|(?:mysql|mariadb)(?:dump|admin|import|check|show|slap|sh|-dump|-admin)?"
    rb"|docker|podman|nerdctl|helm|buildah|skopeo|crane|oras|regctl|az|oc|cf|ibmcloud"
    rb"|mongo(?:sh|dump|restore|export|import|stat)?|redis-cli|valkey-cli"
    rb"|ldap(?:search|add|modify|delete|passwd|whoami)|sqlcmd|bcp|osql|isql|tsql|cqlsh|influx"
    rb"|mosquitto_(?:pub|sub)|plink|pscp|psftp|7za?|7zz|zip|unzip|rar|unrar|wget|openssl|vncviewer)"
    rb"(?:\.exe)?(?=[\s\"',\\])"
)
SEPARATOR = re.compile(rb"(?<!\\)\n|\\n(?<!\\\\\\n)|;|&&|\|\|")
FARTHEST = 800
LONGEST_PROGRAM = 24
LONGEST_ECHO = 300

PAIRS = {
    **dict.fromkeys((b"curl",), (b"u", b"U", b"-user", b"-proxy-user")),
    **dict.fromkeys((b"http", b"https", b"xh"), (b"a", b"-auth")),
    b"ab": (b"A",),
    b"lftp": (b"u",),
    b"smbclient": (b"U",),
}
"""Options whose value is a user with a password."""

WITH_LOGIN = frozenset(
    b"docker podman nerdctl helm buildah skopeo crane oras regctl az oc cf ibmcloud".split()
)
GLUED = frozenset((b"7z", b"7za", b"7zz", b"rar", b"unrar"))
SHORT = {
    b"redis-cli": b"a",
    b"valkey-cli": b"a",
    b"sqlcmd": b"P",
    b"bcp": b"P",
    b"osql": b"P",
    b"isql": b"P",
    b"tsql": b"P",
    b"mosquitto_pub": b"P",
    b"mosquitto_sub": b"P",
    b"zip": b"P",
    b"unzip": b"P",
    b"openssl": b"k",
    b"plink": b"pw",
    b"pscp": b"pw",
    b"psftp": b"pw",
}
"""The short option for a password; for `ldapsearch` and the like it is `w`, for others `p`."""

USER_AND_PASSWORD = re.compile(rb"(?P<user>[^:,%]{0,200})[:,%](?P<password>.*)", re.DOTALL)
ECHOED = re.compile(
    rb"(?:echo|printf|<<<)[ \t]{1,4}(?:-n[ \t]{1,4}|\\*[\"']?%s(?:\\n)?\\*[\"']?[ \t]{1,4})?"
    rb"\\*[\"']?(?P<secret>[^\s\"'`\\$|]{4,200})\\*[\"']?[ \t]{0,4}\|[ \t]{0,8}\Z"
)


def command_passwords(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield rule and span of each password on a command line, unordered."""
    program, done = None, 0
    for match in OPTION.finditer(data):
        at = match.start()
        # Only what is new since the last option, so that many options take no longer than few.
        program = next(
            reversed(list(PROGRAM.finditer(data, max(done, at - FARTHEST), at))), program
        )
        done = max(done, at - LONGEST_PROGRAM)
        if program is None or program.start() < at - FARTHEST:
            continue
        if SEPARATOR.search(data, program.end(), at):
            continue
        start, end = _password(data, program, match)
        if start < end:
            yield "command-password", start, end


def _password(data: bytes, program: re.Match[bytes], match: re.Match[bytes]) -> tuple[int, int]:
    """Return the span of the password that an option gives to a program, an empty one if none."""
    if match["option"] == b"-password-stdin":
        start = program.start("program")
        echoed = ECHOED.search(data, max(0, start - LONGEST_ECHO), start)
        is_one = echoed is not None and is_password(echoed["secret"])
        return echoed.span("secret") if echoed is not None and is_one else (0, 0)
    if match["value"] is None:
        return 0, 0
    return _secret(program["program"], data[program.start() : match.start()], match)


def _secret(program: bytes, line: bytes, match: re.Match[bytes]) -> tuple[int, int]:
    """Return the span of the password in an option's value, an empty one if there is none."""
    option, (start, end) = match["option"], match.span("value")
    value = match["value"]
    if program in PAIRS:
        if option not in PAIRS[program]:
            return 0, 0
        pair = USER_AND_PASSWORD.fullmatch(value)
        if pair is None:
            return 0, 0
        if is_password(pair["password"]) and pair["password"] != pair["user"]:
            return start + pair.start("password"), end
        is_token = looks_random(pair["user"]) and len(pair["user"]) >= 16
        return (start, start + pair.end("user")) if is_token else (0, 0)
    if program in WITH_LOGIN and b"login" not in line:
        return 0, 0
    return (start, end) if _takes(program, option, match["gap"]) and is_password(value) else (0, 0)


def _takes(program: bytes, option: bytes, gap: bytes) -> bool:
    """Return whether the option of a program is one for its password."""
    if option in (b"-password", b"-pass"):
        return gap != b""
    short = b"w" if program.startswith(b"ldap") else SHORT.get(program, b"p")
    if program.startswith((b"mysql", b"mariadb")) or program in GLUED:
        return option == b"p" and gap == b""  # with a space, it is the name of a database
    return option == short
