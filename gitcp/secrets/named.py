"""Find values with a name that marks them as secret: `DB_PASSWORD=…`, `"apiKey":
"…"`, `token: …`, `--api-key …`, `mysql -p…`.

The name alone is not enough: the value must look random, or like a password if the name says
password. Short options mean something else in each program (`-p` is a port, a path or a password),
so the program must be on the same command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from gitcp.secrets.values import (
    CACHED,
    PLACEHOLDER,
    UUID,
    holds_password,
    is_password,
    is_real,
    kinds,
    looks_generated,
    looks_random,
)

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


LITERALS = (b"token", b"secret", b"pass", b"pwd", b"key", b"credential", b"auth", b"_pat")
"""Searched in the lowercased data."""

BEFORE = 48
HEAD = re.compile(rb"[A-Za-z0-9_.-]*\Z")
VALUE = rb"[^\s\"'`\\<>(){}\[\],;|&$]"
PLAIN = VALUE + rb"{8,4000}+(?:\|(?=[A-Za-z0-9])" + VALUE + rb"{1,4000}+)?"
QUOTED = rb"[^\s\"'`\\<>{}]"
TYPED = rb": ?[A-Za-z&'][A-Za-z0-9_&'.<> |?\[\]]{0,30}? ?=(?!=)"
ASSIGNED = re.compile(
    rb"(?P<rest>[A-Za-z0-9_-]{0,20}+)(?P<closed>\\*[\"'`])?\]?"
    rb"(?:(?P<pair>(?=[\s,\\])(?:[\s,-]|\\+[nrt]){1,40}\\*[\"']?[vV]alue\\*[\"']?"
    rb"[ \t]{0,8}(?:=|:|=>))"
    rb"|[ \t]{0,8}(?:"
    + TYPED
    + rb"|:=|=>|[?|]{0,2}=(?!=)|[:>]|(?P<comma>,))|(?P<space>(?:\s|\\+[nrt]){1,12}))[ \t]{0,8}"
    rb"(?:[bBfFrRuU]{1,2}(?=\\*[\"']))?(?P<quote>\\*[\"'`])?"
    rb"(?:(?P<scheme>[Bb]asic|[Bb]earer|[Tt]oken|[Bb]ot)[ ]{1,4})?"
    rb"(?P<secret>(?(quote)" + QUOTED + rb"{8,4000}|" + PLAIN + rb"))"
)
HEADER = re.compile(
    rb"(?i:ori[sz]ation)\\*[\"'`]?[ \t]{0,4}[:=,][ \t]{0,4}\\*[\"'`]?"
    rb"(?!(?i:basic|bearer|token|bot) )[A-Za-z][A-Za-z0-9_-]{1,30}[ ]{1,4}"
    rb"(?:[A-Za-z_]{1,12}=\\*\"?)?(?P<secret>" + VALUE + rb"{8,4000})"
)
"""An authorization header may have any word before its value."""

SET = re.compile(
    rb"(?:(?:set|setx|setenv|ENV|put|export|add|config)(?:[ \t]+-[a-z]{1,2})?[ \t]+|-)\Z"
)
"""Before a name whose value follows without a sign."""

SQL = re.compile(rb"(?i)\b(?:with|encrypted|set)[ \t]+\Z")
KAGGLE = re.compile(rb"username\\*\"\s{0,4}:\s{0,4}\\*\"[^\"\\]{1,60}\\*\",\s{0,4}\\*\"\Z")
SPACED = re.compile(rb"(?<![A-Za-z0-9_.-])(?P<word>[A-Za-z]{2,12}) \Z")
BRAINTREE = re.compile(
    rb"access_token\$(?:production|sandbox)\$[a-z0-9]{16}\$[0-9a-f]{32}(?![A-Za-z0-9])"
)
SALT = re.compile(
    rb"define\(\s{0,4}\\*[\"'](?:SECURE_AUTH|AUTH|LOGGED_IN|NONCE)_(?:KEY|SALT)\\*[\"']\s{0,4},\s{0,40}"
    rb"(?P<quote>\\*[\"'])(?P<secret>[^\r\n'\"]{40,100})(?P=quote)"
)
SHORTEST_NAME = 6
"""With its quote: `"pass", "…"` are two words, `"token", "…"` is a name and its value."""

SALTS = 2400
SPECIAL = (b"$", b"_", b"o", b"O")
"""What follows `token` in a token of Braintree, `AUTH` in WordPress and `auth` in a header."""

PASS = re.compile(rb"-pass(?:in|out|word|wd)?[ =\"',]{1,4}\Z")
NETRC = re.compile(rb"login(?:\s|\\+[nrt]){1,12}[^\s\"'`\\]{1,200}(?:\s|\\+[nrt]){1,12}\Z")
LONGEST_LOGIN = 240
KINDS = (
    ("password", re.compile(rb"passw(?:or)?d|passphrase|pwd|pass$|(?:^|[_.-])psk$")),
    ("auth", re.compile(rb"auth(?:ori[sz]ation)?$")),
    ("aws", re.compile(rb"secret_?(?:access_?)?key$")),
    ("azure", re.compile(rb"(?:account|shared_?access)_?key$")),
)
SERVICES = b"|".join(
    (
        b"ai21 algolia anthropic anyscale asana azure binance brevo cerebras claude cloudflare "
        b"cohere coinbase convex cosmos(?:_?db)? daytona datadog deepgram deepseek "
        b"digitalocean django dropbox elevenlabs fal fastly fcm fernet figma fireworks "
        b"firebase flask gemini github gitlab google grafana groq helicone heroku hetzner "
        b"huggingface infisical inngest jira jwt kraken langchain langfuse langsmith laravel "
        b"linear linode mailchimp mailgun mapbox mistral neon new_?relic ngrok notion nvidia "
        b"okta openai openrouter pagerduty paypal perplexity pinecone plaid posthog postmark "
        b"qdrant rails razorpay replicate resend roblox segment sendgrid sentry shopify slack "
        b"snyk sonar square stability stripe supabase tavily telegram together trello "
        b"turnstile twilio vercel voyage vultr wandb weaviate xai zilliz "
    ).split()
)
"""The key of such a service is a secret, as in `STRIPE_KEY`."""

IS_SECRET = re.compile(
    rb"token|secret|credential|passw|passphrase|pwd|_pat$|(?:^|[_.-])auth(?:ori[sz]ation)?$"
    rb"|(?:^|[_.-]|user|db|root|store|key|require|smtp|mail|ftp|admin)pass$|(?:^|[_.-])psk$"
    rb"|(?:api|access|private|secret|sign(?:ing)?|encrypt(?:ion)?|auth|service|account|licen[sc]e|master|consumer|app"
    rb"|application|client|deploy|admin|shared|webhook|session|storage|function|subscription|ingest|root|hmac|bot|integration"
    rb"|security|server|write|read|user|org|event|project|team|personal|management|subscription"
    rb"|" + SERVICES + rb")[_.-]?key"
)
IS_PASSWORD = re.compile(rb"(?i)passw(?:or)?d|passphrase|pwd")
IS_OTHER = re.compile(
    rb"(?:(?<![a-z])(?:id|ur[li]|dir|ttl|version|arn|length|len|size|count|limit|index|format|prefix|suffix|regex|pattern"
    rb"|expir[a-z]*|at|algorithm|alg|class|field|column|ref|label|digest|checksum|sha\d*|fingerprint|hint|thumbprint|kid"
    rb"|offset|header|endpoint|status|scope|template|code|author|authority)|name|type|path|file|hash)s?$"
    rb"|public|tokeniz|tokenis"
    rb"|(?:next|page|continuation|sync|delta|resume|skip|marker|cancel(?:lation)?|request|change|lock|idempotency)"
    rb"[a-z_.-]{0,8}token"
)
NO_SECRET = re.compile(
    rb"_?[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z_][A-Za-z0-9_]*)+\.?|_[A-Za-z_]+"
    rb"|arn:.*|\d{4}-\d\d-\d\d[T ]?[0-9:.Z+-]*|(?:/[A-Za-z0-9_.-]+)+/?"
)
"""An identifier, a resource name, a time, or a path."""

LOWER_TO_UPPER = re.compile(rb"(?<=[a-z0-9])(?=[A-Z])")
AWS_SECRET = re.compile(rb"[A-Za-z0-9+/]{40}")
AZURE_KEY = re.compile(rb"[A-Za-z0-9+/]{42,86}={1,2}")
LEAST_RANDOM = 16


def values(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield rule and span of each value with such a name, unordered."""
    lower = data.lower()
    for literal in LITERALS:
        at = lower.find(literal)
        while at >= 0:
            end = at + len(literal)
            match = ASSIGNED.match(data, end)
            if match is not None and (span := _named(data, at, end, match)) is not None:
                yield span
            if data[end : end + 1] in SPECIAL:
                yield from _special(data, at, end)
            at = lower.find(literal, end)


def _special(data: bytes, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """Yield what is written as in one place only: in an authorization header with any word before
    it, in an access token of Braintree, in the settings of WordPress.
    """
    if (match := HEADER.match(data, end)) is not None:
        rule = _header_rule(b"", match["secret"])
        if rule is not None:
            yield rule, *match.span("secret")
    if (match := BRAINTREE.match(data, max(0, start - 7))) is not None:
        yield "braintree-token", *match.span()
    if data[start:end] == b"AUTH" and data[end : end + 4] in (b"_KEY", b"_SAL"):
        for salt in SALT.finditer(data, max(0, start - BEFORE), start + SALTS):
            if len(kinds(salt["secret"])) >= 3:
                yield "wordpress-salt", *salt.span("secret")


def _named(
    data: bytes, start: int, end: int, match: re.Match[bytes]
) -> tuple[str, int, int] | None:
    """Return rule and span of a value that its name makes a secret, None if it is none."""
    before, value = _name_start(data, start), match["secret"]
    name = before + data[start:end] + match["rest"]
    is_code = match["quote"] is None and data[match.end() : match.end() + 1] in (b"(", b"[")
    kind = None if is_code or NO_SECRET.fullmatch(value) else _kind_of(data, start, name)
    if kind is not None and not _belongs(data, start - len(before), match, kind, before):
        kind = None
    if match["space"] is not None and kind is None:
        is_netrc = IS_PASSWORD.search(name) and NETRC.search(
            data, max(0, start - LONGEST_LOGIN), start
        )
        is_secret = is_netrc and not PLACEHOLDER.search(value) and not NO_SECRET.fullmatch(value)
        return ("netrc-password", *match.span("secret")) if is_secret else None
    if name == b"pass" and PASS.search(data, max(0, start - 16), start) and is_password(value):
        return "command-password", *match.span("secret")
    if kind == "auth":
        return _authorization(match)
    rule = kind and _rule(kind, value)
    return (rule, *match.span("secret")) if rule else None


def _authorization(match: re.Match[bytes]) -> tuple[str, int, int] | None:
    """Return rule and span of the value of an authorization header, or of a registry's `auth`."""
    if match["scheme"] is not None:
        rule = _header_rule(match["scheme"].lower(), match["secret"])
        return (rule, *match.span("secret")) if rule else None
    rule = _rule("auth", match["secret"])
    return (rule, *match.span("secret")) if rule else None


def _kind_of(data: bytes, start: int, name: bytes) -> str | None:
    """Return what a name says about its value. `API Key` is a name of two words."""
    if name.lower() != b"key":
        return _name_kind(name)
    if KAGGLE.search(data, max(0, start - 100), start):
        return "secret"
    word = SPACED.search(data, max(0, start - 16), start)
    return _name_kind(word["word"] + b"_" + name) if word is not None else None


def _belongs(data: bytes, start: int, match: re.Match[bytes], kind: str, before: bytes) -> bool:
    """Return whether the value is that of the name, where only a space or a comma is between."""
    if match["pair"] is not None:
        return True
    if match["comma"] is not None:
        named = data[start : match.start("comma")]
        is_name = (
            data[max(0, start - 1) : start] in (b'"', b"'", b"`") and len(named) > SHORTEST_NAME
        )
        return is_name and match["closed"] is not None and match["quote"] is not None
    if match["space"] is None or before.startswith(b"-"):
        return True
    if kind == "password" and match["quote"] is not None:
        return SQL.search(data, max(0, start - 24), start) is not None
    named = data[start : match.start("space")].lower()
    return named in (b"requirepass", b"masterauth") or (
        match["scheme"] is None and SET.search(data, max(0, start - 24), start) is not None
    )


def _name_start(data: bytes, start: int) -> bytes:
    """Return the start of the name, without the `n` of an escaped line feed."""
    head = HEAD.search(data, max(0, start - BEFORE), start)
    assert head is not None
    return head[0][1:] if data[head.start() - 1 : head.start()] == b"\\" else head[0]


@lru_cache(CACHED)
def _name_kind(name: bytes) -> str | None:
    """Return what a name says about its value: "password", "auth", "aws", "azure", "secret" or
    None.
    """
    words = LOWER_TO_UPPER.sub(b"_", name).lower()
    if IS_OTHER.search(words) or not IS_SECRET.search(words):
        return None
    return next((kind for kind, pattern in KINDS if pattern.search(words)), "secret")


def _header_rule(scheme: bytes, value: bytes) -> str | None:
    if scheme == b"basic":
        return "basic-auth" if holds_password(value) else None
    is_secret = len(value) >= LEAST_RANDOM and looks_random(value)
    return "bearer-token" if is_secret or (UUID.fullmatch(value) and is_real(value)) else None


def _rule(kind: str, value: bytes) -> str | None:
    if kind == "password" and len(value) <= 128 and is_password(value) and len(kinds(value)) >= 3:
        return "password"
    if kind == "aws" and AWS_SECRET.fullmatch(value) and is_real(value):
        return "aws-secret-key"
    if kind == "azure" and AZURE_KEY.fullmatch(value) and is_real(value):
        return "azure-storage-key"
    if kind in ("auth", "password") and holds_password(value):
        return "registry-auth"
    if UUID.fullmatch(value):
        return "named-secret" if is_real(value) else None
    if len(value) < LEAST_RANDOM:
        return None
    return "named-secret" if looks_random(value) or looks_generated(value) else None
