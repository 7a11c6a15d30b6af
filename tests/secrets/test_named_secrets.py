"""Values that a name calls secret, what else its surroundings give away, and how much is found
where nothing is.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest
from false_alarms import count
from tokens import ALNUM, COMPOSED, HEX, IN_CONTEXT, LOWER, drawn, in_context, tokens

from gitcp.secrets.rules import CONTEXTS, IN_RUNS, TOKENS
from gitcp.secrets.scan import redact, scan
from gitcp.secrets.values import kinds, looks_random

DRAW = drawn(11)
VALUES = {
    "letters and digits": "k7" + DRAW(ALNUM, 30) + "Q4",
    "hexadecimal": "7c" + DRAW(HEX, 30),
    "small letters and digits": "4k" + DRAW(LOWER, 38),
    "base64": "9/" + DRAW(ALNUM, 40) + "+8==",
    "a UUID": "-".join(DRAW(HEX, size) for size in (8, 4, 4, 4, 12)),
}
NAMES = (
    "GH_TOKEN",
    "SERVICE_SECRET",
    "DB_PASSWORD",
    "API_KEY",
    "apiKey",
    "client_secret",
    "x-api-key",
    "accessToken",
    "SIGNING_KEY",
    "passphrase",
    "AZURE_DEVOPS_PAT",
    "app.credential",
    "secret_key_base",
    "SMTP_PWD",
    "webhookSecret",
    "ENCRYPTION_KEY",
    "authToken",
)
WRITTEN = (
    "{0}={1}\n",
    "export {0}='{1}'\n",
    '{0}: "{1}"\n',
    "  {0}: {1}\n",
    '{{"{0}": "{1}", "n": 1}}',
    '{0} = "{1}"\n',
    "{0} := `{1}`\n",
    "const {0}: string = '{1}';",
    '"{0}" => "{1}",',
    "--{0} {1} --more",
    "--{0}={1}",
    "<{0}>{1}</{0}>",
    "{0} = b'{1}'",
    'env["{0}"] = "{1}"',
    '{{\\"{0}\\": \\"{1}\\"}}',
    "-e {0}={1} image",
    "a=1&{0}={1}&b=2",
    "\\n{0}={1}\\n",
    'let {0} = "{1}"',
    "{0} ?= {1}",
)
ORDINARY = (
    "token = tokens[position + 1]",
    "secret = os.environ['SERVICE_SECRET_NAME_2']",
    '"next_page_token": "{random}"',
    "TOKEN_TYPE=Bearer",
    '"tokenizer": "{random}"',
    '"password_hash": "{random}"',
    "secret_name = projects/9/secrets/db-main-2",
    '"key": "{random}"',
    '"access_key_id": "{random}"',
    "public_key = {random}",
    '"sha256": "{random}"',
    "token: ${{{{ secrets.GITHUB_TOKEN_7 }}}}",
    'password: "{{{{ vault_password_2 }}}}"',
    "password = get_password_2_from_vault()",
    "PASSWORD_FILE=/run/secrets/db_password_2",
    "api_key = settings.services.main.api_key2",
    "the token {random} is short",
    "tokens: 1234567890123456",
    '"token": "abcdefabcdefabcdef"',
    "auth = HTTPBasicAuth(user, name)",
    "Authorization: Bearer $TOKEN_OF_SERVICE_2",
    "Authorization: Bearer the-token-of-that-service",
    "Authorization: Bearer k7Qm29fmZxQ4vB8",
    "Authorization: Basic {{credentials}}",
    'author = "{random}"',
    "monkey={random}",
    "password_changed: 2026-03-04T10:11:12Z",
    "secret_arn: arn:aws:x:eu-west-1:1:secret/a1b2c3",
    "public_token_url: {random}",
    "--verbose {random}",
    "login to the machine with password {random}",
)


@pytest.mark.parametrize("written", WRITTEN)
def test_assigned(written: str) -> None:
    """A random value of a name that calls it secret is found, whole, however the two are written
    down.
    """
    for name in NAMES:
        for kind, value in VALUES.items():
            text = written.format(name, value)
            found = scan(text.encode())

            assert [each.text for each in found] == [value.encode()], (text, kind)
            assert redact(text.encode()).count(b"[REDACTED:") == 1


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary(text: str) -> None:
    """Names that only sound like it, references, times, and random values that nothing calls secret
    are none.
    """
    for value in ("9f" + DRAW(HEX, 30), "k7" + DRAW(ALNUM, 30)):
        line = text.replace("{random}", value).encode()
        assert scan(line) == (), line


KEYS = (
    "api access private secret sign signing encrypt encryption auth service account license "
    "licence "
    "master consumer app application client deploy admin shared webhook session storage function "
    "subscription ingest root hmac bot integration security server write read user org "
).split()
SECRETS = "token secret credential credentials password passwd passphrase pwd auth authorization _pat".split()  # noqa: E501
OTHERS = (
    "id ids url uri dir ttl version arn length len size count limit index format prefix suffix "
    "regex "
    "pattern expires expiry at algorithm alg class field column ref label digest checksum sha256 "
    "fingerprint hint thumbprint kid offset header endpoint status scope template code author "
    "authority "
    "name type path file hash names types paths "
).split()
PAGING = "next page continuation sync delta resume skip marker cancel cancellation request change lock idempotency".split()  # noqa: E501
VALUE = VALUES["small letters and digits"]


def test_names() -> None:
    """Which names say secret, written with underscores, dashes or capitals, and which say something
    else.
    """
    called = [f"{key}_key" for key in KEYS] + [f"my_{secret.strip('_')}" for secret in SECRETS]
    for name in called:
        for spelt in (name, name.upper(), name.replace("_", "-"), name.title().replace("_", "")):
            # a pattern, or whatever else
            if name.startswith("my_pat") and spelt in ("my-pat", "MyPat"):
                continue
            assert len(scan(f'x {spelt} = "{VALUE}"'.encode())) == 1, spelt
    for name in (
        *(f"api_token_{other}" for other in OTHERS),
        *(f"{paging}_token" for paging in PAGING),
        *(f"{paging}_page_token" for paging in ("next", "sync")),
        *(
            "public_api_key",
            "tokenizer_secret",
            "tokeniser_secret",
            "key",
            "mykey",
            "keyboard",
            "author",
            "monkey",
            "sort_key",
            "cache_key",
        ),
    ):
        for spelt in (name, name.upper(), name.title().replace("_", "")):
            assert scan(f'x {spelt} = "{VALUE}"'.encode()) == (), spelt


def test_limits() -> None:
    """How short a value may be, and how far it may stand from its name."""
    draw = drawn(33)
    drawn_value = "k7" + draw(ALNUM, 12) + "Q4"
    assert len(scan(f"token={drawn_value}".encode())) == 1
    assert scan(f"token={drawn_value[:15]}".encode()) == ()
    assert len(scan(f"token={'7c' + HEX[::-1][:9] + '0b3e71f9a'}".encode())) == 1
    assert scan(b"token=7c0b3e71f9a4d2850b3") == ()
    assert len(scan(b"password=aB3!5678")) == 1
    assert scan(b"password=aB3!567") == ()
    assert len(scan(f"password={'aB3!x' * 25}aB3".encode())) == 1
    assert scan(f"password={'aB3!x' * 25}aB3x".encode()) == ()
    for size in (1, 8, 16):
        assert len(scan(f"token{' ' * size}={' ' * 8}{VALUE}".encode())) == (size <= 8)
    assert len(scan(f"token_{'a' * 19}={VALUE}".encode())) == 1
    assert scan(f"token_{'a' * 20}={VALUE}".encode()) == ()
    assert scan(f"token == {VALUE}".encode()) == ()
    assert scan(f"token: str == {VALUE}".encode()) == ()
    assert scan(f"password=$abc{VALUE}".encode()) == ()
    assert scan(f"password = x{VALUE}(a)".encode()) == ()
    assert scan(f"password = x{VALUE}[0]".encode()) == ()
    assert len(scan(f'password = "x{VALUE}"(a)'.encode())) == 1


def test_kinds_of_passwords() -> None:
    """A password has three kinds of characters, differs within, and is no name, time or path."""
    for value in ("abcdefg9!", "ABCDEF9!", "aB9aB9xyz", "p,a;s&s9|", "Zz9-Zz9.q"):
        written = json.dumps(value)
        assert [each.rule for each in scan(f"password: {written}".encode())] == ["password"], value
    for value in (
        "abcdefgh!",
        "abcdefg12",
        "ABCDEFG12",
        "aA1aA1aA1",
        "self.value_2",
        "/run/x/Pass1",
        "2026-03-04T10:11:12Z",
        "Example9!x",
    ):
        assert scan(f"password: '{value}'".encode()) == (), value


def test_basic() -> None:
    """What decodes to a user's name and a password is found; with the same for both, or a word, it
    is not.
    """
    for pair, is_found in (
        ("bot:x7Qk29fmZ", True),
        (":x7Qk29fmZ", True),
        ("bot:password", False),
        ("admin:admin", False),
        ("x7Qk29fmZ:x7Qk29fmZ", False),
        ("bot x7Qk29fmZ", False),
        ("bot:x7Q\n29fmZ", False),
        ("bot:x7é9fmZ", False),
        ("b" * 200 + ":x7Qk29fmZ", True),
    ):
        value = base64.b64encode(pair.encode()).decode()
        for form in (f"Authorization: Basic {value}", f'"auth": "{value}"', f"_auth={value}"):
            found = [
                each.rule
                for each in scan(form.encode())
                if each.rule in ("basic-auth", "registry-auth")
            ]
            assert bool(found) == is_found, (pair, form)
    value = base64.b64encode(b"bot:x7Qk29fmZ").decode()
    assert scan(f"Authorization: Basic {value[:8]}-{value[8:]}".encode()) == ()


@pytest.mark.parametrize(
    ("text", "rule", "secret"),
    [
        ("//npm.example.com/:_authToken={uuid}", "named-secret", "{uuid}"),
        ("//npm.pkg.dev/:_auth={basic}", "registry-auth", "{basic}"),
        ('{{"auths": {{"r.dev": {{"auth": "{basic}"}}}}}}', "registry-auth", "{basic}"),
        ("machine a.dev login me password {short}", "netrc-password", "{short}"),
        ("machine a.dev\\n\\tlogin me\\n\\tpassword {short}\\n", "netrc-password", "{short}"),
        ("users:\n- user:\n    token: {random}\n", "named-secret", "{random}"),
        ("curl -H 'Authorization: Bearer {random}'", "bearer-token", "{random}"),
        ("headers:\\nauth: Bearer {random}\\n", "bearer-token", "{random}"),
        ('{{"authorization": "Basic {basic}"}}', "basic-auth", "{basic}"),
        ("AccountName=a;AccountKey={azure};EndpointSuffix=x", "azure-storage-key", "{azure}"),
        ("[default]\naws_secret_access_key = {aws}\n", "aws-secret-key", "{aws}"),
    ],
)
def test_files_of_programs(text: str, rule: str, secret: str) -> None:
    """What npm, Docker, netrc, kubectl, curl, Azure and AWS keep in their files is found."""
    draw = drawn(5)
    given = {
        "uuid": VALUES["a UUID"],
        "basic": base64.b64encode(f"bot:x7{draw(ALNUM, 14)}".encode()).decode(),
        "short": draw(LOWER, 10),
        "random": VALUES["small letters and digits"],
        "azure": draw(ALNUM + "+/", 86) + "==",
        "aws": draw(ALNUM + "+/", 40),
    }
    line = text.format(**given)

    assert [(each.rule, each.text.decode()) for each in scan(line.encode())] == [
        (rule, secret.format(**given))
    ], line


def test_random() -> None:
    """Of values that were drawn at most one in a hundred is taken for written; of words and names
    none for drawn.
    """
    draw = drawn(21)
    for letters, size in ((ALNUM, 20), (ALNUM, 40), (LOWER, 24), (HEX, 32), (ALNUM + "+/", 40)):
        missed = sum(not looks_random(draw(letters, size).encode()) for _ in range(1000))
        assert missed <= 10 + 40 * (size == 20), (letters, size, missed)
    for text in (
        b"",
        b"a1b2c3d4e5f",
        b"service-account-name-of-2024",
        b"request_handler_factory_v2",
        b"1234567890123456",
        b"aaaaaaaaaaaaaaaaaaaa1",
        b"xmlSecCryptoAppKeyLoad",
        b"0011223344556677889900",
        b"AbcAbcAbcAbcAbcAbc",
        b"deadbeefdeadbeef",
        b"----------------1a",
        b"20260304101112131415",
        b"your_api_key_goes_here_9x7q2",
        b"48205d4ffd7feba3",
    ):
        assert not looks_random(text), text


@pytest.mark.parametrize(
    ("drawn_text", "written"),
    [
        pytest.param("qz7x9jkvzq9j7vxk", "qz7xjkvzq7jvxkzj", id="eight letters, and seven"),
        pytest.param(
            "7c0b3e71f9a4d2850b36", "7c0b3e71f9a4d2850b3", id="20 hexadecimal digits, and 19"
        ),
        pytest.param(
            "ststststq7xz9kvj2wq8g",
            "ststststeq7xz9kvj2wq8",
            id="7 of 20 neighbors as in words, and 8",
        ),
        pytest.param(
            "aQxzXkvjqZwvxkqzjststststqZqkXjvzQkjvxqzw",
            "aQxzXkvjqZwvxkqzjststststeqZqkXjvzQkjvxqz",
            id="without a digit half of that",
        ),
        pytest.param("aQxzXkvjqZwvxkqzj", "aQxzXkvjqzwvxkqzj", id="three changes of case, and two"),
        pytest.param(
            "q7x9z2kv33kkzz77xxqq99", "7x9z2kv33kkzz77xxqq99", id="7 of 21 doubled, and of 20"
        ),
        pytest.param("q7x9z2kv3749q0528z586w", "q7x9z2kv3456q0123z567w", id="counted up"),
        pytest.param("q7x9z2kv3749q0528z586w", "q7x9z2kv6543q3210z765w", id="counted down"),
        pytest.param(
            "q7x-9z2-kvj8w6xq4_", "q7x-9z2-kvj8-w6xq4", id="12 neighbors without a sign, and 11"
        ),
    ],
)
def test_barely_random(drawn_text: str, written: str) -> None:
    """What a value must have to be taken for drawn, and with a little less of it is not."""
    assert [each.rule for each in scan(f"token={drawn_text}".encode())] == ["named-secret"]
    assert scan(f"token={written}".encode()) == ()


def test_kinds_of_characters() -> None:
    """Digits, large letters, small ones, and everything else."""
    for text, kind in (
        (b"0123456789", "digit"),
        (b"AMZ", "upper"),
        (b"amz", "lower"),
        (b"/:@[`{ \xe9\x00", "sign"),
    ):
        assert kinds(text) == {kind}
    assert kinds(b"aB3!") == {"lower", "upper", "digit", "sign"}


@pytest.mark.parametrize(
    ("password", "is_one"),
    [
        ("k7qz9xv4", True),
        ("13579864", False),
        ("a1b2c1a2", True),
        ("a1b2a1b2", False),
        ("hunter223", True),
        ("hunter22", False),
        ("HUNTER_TWO22", False),
        ("HunterTwo223", True),
        ("HunterTwo22", False),
    ],
)
def test_passwords_of_urls(password: str, is_one: bool) -> None:
    """A password in a URL has two kinds of characters and five different ones, and is more than a
    name and a number.
    """
    found = scan(f"postgres://app:{password}@db.internal:5432/app".encode())

    assert [(each.rule, each.text.decode()) for each in found] == [
        ("url-password", password)
    ] * is_one


def test_standard_library() -> None:
    """In the source of Python's standard library at most one thing in 10 MB is taken for a
    secret.
    """
    made = count(
        [
            Path(os.__file__).parent / name
            for name in ("asyncio", "email", "http", "test", "unittest", "urllib", "json")
        ]
    )

    assert made.size > 5_000_000
    assert len(made.found) <= made.size / 1e7, made.found


def test_pages() -> None:
    """The page about secrets names every rule for tokens."""
    page = Path(__file__).parents[2].joinpath("docs/secrets.md").read_text()
    named = set(
        page.split("```text\n")[1].split("```")[0].replace("\n", " ").replace(",", " ").split()
    )
    said = {
        "private-key",
        "putty-key",
        "url-password",
        "slack-webhook",
        "discord-webhook",
        "teams-webhook",
        "zapier-webhook",
        "aws-secret-key",
        "azure-signature",
        "pgpass-password",
        "url-token",
    }

    assert named == {rule.name for rule in (*TOKENS, *CONTEXTS, *IN_RUNS)} - said


def test_samples() -> None:
    """The samples are of every rule that is composed of parts, too."""
    assert set(COMPOSED) <= set(tokens())
    assert set(IN_CONTEXT) == set(in_context())
