"""The scanner: every kind of token in every place, nothing where nothing is, and no text that makes
it slow.
"""

from __future__ import annotations

import hashlib
import json
import random
import time
import uuid

import pytest
from tokens import BEGINNINGS, PLACES, in_context, tokens

from gitcp.secrets.rules import CONTEXTS, IN_RUNS, TOKENS
from gitcp.secrets.scan import BY_PREFIX, fingerprint, masked, redact, scan

KINDS = tokens()
CONTEXT_KINDS = in_context()
HOSTILE = 1 << 16
SLACK = 8
"""Measured are at most 0.8 seconds. A busy machine takes longer, a rule that backtracks minutes."""
NAMED = {
    *("named-secret", "password", "basic-auth", "bearer-token", "registry-auth", "netrc-password"),
    *("aws-secret-key", "azure-storage-key", "braintree-token", "command-password", "fernet-key"),
    *("jwk-private-key", "wordpress-salt"),
}
CLEAN = (
    "password = getpass()",
    "DB_PASSWORD=changeme_in_production",
    'password: "${DB_PASSWORD}"',
    "postgres://postgres:postgres@localhost:5432/app",
    "https://user:password@example.com/",
    "redis://default:s3cr3tpass1@localhost:6379",
    "export GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
    "aws_access_key_id = AKIAIOSFODNN7" + "EXAMPLE",
    '"api_key": os.environ["SERVICE_API_KEY_FOR_TESTING_2024"]',
    '"secret": "my-kubernetes-secret-name-1"',
    "secret_key_base: config.secret_key_base_from_environment",
    "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
    "-----BEGIN PUBLIC KEY-----\n" + "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A" * 8,
    '"max_tokens": 4096, "access_token_ttl": "1800000000000000000000"',
    "sk-learn-contrib-some-really-long-package-name-that-goes-on",
    "key-value-store-implementation-for-the-configuration-service",
    "passwordHash: computePasswordHash2",
)


def test_kinds() -> None:
    """Every rule has a sample here, and there are more than sixty kinds."""
    rules = {rule.name for rule in (*TOKENS, *CONTEXTS, *IN_RUNS)}
    assert rules | NAMED == set(KINDS) | set(CONTEXT_KINDS)
    assert len(KINDS) >= 60


@pytest.mark.parametrize("place", PLACES)
def test_found(place: str) -> None:
    """A token of every kind is found in every place: the whole of it, and nothing around it."""
    for seed in range(3):
        for kind, token in tokens(seed).items():
            text = PLACES[place](token).encode()
            found = scan(text)

            assert [secret.rule for secret in found] == [kind], (kind, found, text)
            hidden = text[found[0].start : found[0].end]
            assert token.encode().endswith(hidden), (kind, hidden)
            assert len(hidden) >= len(token) - 10, (kind, hidden)


@pytest.mark.parametrize("kind", BEGINNINGS)
def test_every_beginning(kind: str) -> None:
    """A token of a kind that begins in several ways is found with each of them, whole."""
    first, *others = BEGINNINGS[kind].split()
    sample = KINDS[kind]
    assert sample.startswith(first)
    for beginning in others:
        token = beginning + sample.removeprefix(first)
        for place in PLACES.values():
            found = scan(place(token).encode())
            assert [(secret.rule, secret.text.decode()) for secret in found] == [(kind, token)], (
                place(token)
            )


def test_beginnings() -> None:
    """Each beginning that a rule has is tried here."""
    several = {rule.name: set(rule.literals) for rule in TOKENS if len(rule.literals) > 1}
    assert several == {kind: set(text.encode().split()) for kind, text in BEGINNINGS.items()}


WORDS = "InternationalizationOfConfigurationManagersAndOfTheirDefaultsForServices"


@pytest.mark.parametrize(
    "text",
    [
        f"csk-{WORDS[:48].lower()}",
        f"fw_{WORDS[:24]}",
        f"as-{WORDS[:22]}",
        f"API-{WORDS[:26].upper()}",
        f"rnd_{WORDS[:32]}",
        f"re_{WORDS[-8:]}_{WORDS[:24]}",
        f"sm_pat_{WORDS[:16]}",
        f"sk-{WORDS[:48]}",
        f"EAAA{WORDS[:60]}",
        f"s.{WORDS[:24]}",
        f"pa-{WORDS[:43]}",
    ],
)
def test_words_after_a_short_beginning(text: str) -> None:
    """Where the beginning and the length fit names in code as well, a name made of words is no
    token.
    """
    assert any(rule.random and rule.pattern.fullmatch(text.encode()) for rule in TOKENS)
    assert scan(f"use {text} here".encode()) == ()


def test_words_after_a_number() -> None:
    """What only a bot's token has before it is enough, whatever it is made of; without that it is
    not found.
    """
    token = f"AA{WORDS[:33]}"

    assert [
        (each.rule, each.text.decode()) for each in scan(f"bot98765432:{token}/getMe".encode())
    ] == [("telegram-token", token)]
    assert scan(f"bot9876543:{token}/getMe".encode()) == ()


def test_kinds_of_letters() -> None:
    """What repeats five letters is a placeholder; with six it is a token."""
    assert scan(b"key ghp_" + b"aQ3zK" * 7 + b"z") == ()
    assert [secret.rule for secret in scan(b"key ghp_" + b"aQ3zK7" * 6)] == ["github-token"]


@pytest.mark.parametrize("kind", CONTEXT_KINDS)
def test_found_in_context(kind: str) -> None:
    """What only its surroundings give away is found too, as it stands in a file and in a line of
    JSON.
    """
    before, secret, after = CONTEXT_KINDS[kind]
    for text, wanted in (
        ("some text\n" + before + secret + after, secret),
        (json.dumps({"content": "x\n" + before + secret + after}), json.dumps(secret)[1:-1]),
    ):
        found = scan(text.encode())

        assert [s.rule for s in found] == [kind], text
        assert wanted.strip().endswith(text[found[0].start : found[0].end].strip())


@pytest.mark.parametrize("kind", [*KINDS, *CONTEXT_KINDS])
def test_found_alone(kind: str) -> None:
    """A secret is found, too, where nothing is before what gives it away and nothing after it: a
    key in its file.
    """
    before, secret, after = CONTEXT_KINDS.get(kind) or ("", KINDS[kind], "")
    text = (before + secret + after).rstrip("\n")

    assert [(each.rule, each.text.decode()) for each in scan(text.encode())] == [(kind, secret)]


@pytest.mark.parametrize("text", CLEAN)
def test_clean(text: str) -> None:
    """Placeholders, names in code, references and local development are no secrets."""
    assert scan(text.encode()) == ()
    assert scan(json.dumps({"content": text}).encode()) == ()


def test_noise() -> None:
    """Hashes, UUIDs, base64 and numbers, as transcripts are full of them, are no secrets."""
    source = random.Random(7)
    lines = []
    for _ in range(5_000):
        noise = source.randbytes(180)
        lines.append(
            json.dumps(
                {
                    "uuid": str(uuid.UUID(bytes=noise[:16])),
                    "parentUuid": str(uuid.UUID(bytes=noise[16:32])),
                    "requestId": "req_" + noise[:12].hex(),
                    "id": "toolu_01" + noise[20:31].hex(),
                    "signature": noise.hex()[:120],
                    "sha": hashlib.sha1(noise).hexdigest(),
                    "text": "the token was in the secret store, password unknown: " * 2,
                }
            )
        )
    data = "\n".join(lines).encode()

    assert scan(data) == ()


@pytest.mark.faults
@pytest.mark.parametrize(
    "filler", [b"", b"A" * 30, b"a1-" * 6, b"0" * 300, b"eyJ" + b"a" * 40 + b".", b": '"]
)
def test_hostile(filler: bytes) -> None:
    """What a rule almost matches, over and over, makes none of them slow: less than a second for a
    megabyte.
    """
    for rule in (*TOKENS, *CONTEXTS, *IN_RUNS):
        unit = rule.literals[0] + filler + b"-"
        data = (unit * (HOSTILE // len(unit) + 1))[:HOSTILE]
        most = SLACK * HOSTILE / (1 << 20)
        tries = (_seconds(data) for _ in range(5))  # beside other work one takes longer
        assert any(taken < most for taken in tries), (rule.name, unit)


def _seconds(data: bytes) -> float:
    start = time.process_time()
    scan(data)
    return time.process_time() - start


def test_escapes() -> None:
    """A token after an escape of JSON or of a URL begins behind the escape."""
    token = KINDS["github-token"]
    for before in ("\\n", "\\t", "\\u001b", "%3D", "%22", "=", "\\\\n"):
        found = scan((before + token).encode())
        assert [s.rule for s in found] == ["github-token"], before
    assert scan(("n" + token).encode()) == ()


def test_what_begins_inside_after_an_escape() -> None:
    """A token right behind an escape is found whole, also where a part of it looks like the
    beginning of another.
    """
    token = KINDS["gitlab-token"] + "-pa-" + WORDS[:43]

    for before in (" ", "\\n", "\\u001b", "%3D"):
        found = scan((before + token).encode())
        assert [(each.rule, each.text.decode()) for each in found] == [("gitlab-token", token)], (
            before
        )


def test_prefixes_do_not_hide() -> None:
    """Where one prefix begins with another, both rules are tried."""
    assert {rule.name for rule in BY_PREFIX[b"sk-proj-"]} >= {"openai-key", "openai-legacy-key"}


def test_redacted() -> None:
    """What is redacted names its rule, is found no more, and JSON stays JSON; the rest stays byte
    for byte.
    """
    for kind, token in KINDS.items():
        line = json.dumps({"a": "before\n" + token + "\n", "b": "\u00e9\ud83d\ude00"}).encode()
        clean = redact(line)

        assert scan(clean) == ()
        assert token.encode() not in clean
        assert json.loads(clean)["b"] == json.loads(line)["b"]
        assert "[REDACTED:" in json.loads(clean)["a"], kind
    untouched = b"nothing\xff\x00 here"
    assert redact(untouched) is untouched


def test_redacted_in_part() -> None:
    """What is not wanted stays."""
    text = f"{KINDS['github-token']} {KINDS['npm-token']}".encode()

    kept = redact(text, lambda secret, _text: secret.rule == "npm-token")

    assert KINDS["github-token"].encode() in kept
    assert kept.endswith(b"[REDACTED:npm-token]")


def test_masked() -> None:
    """What is shown of a secret is its beginning and its length; its ID is the same everywhere and
    differs by rule.
    """
    token = KINDS["github-token"].encode()

    assert masked(token) == "ghp_" + token.decode()[4:6] + "… (40 bytes)"
    assert masked(b"hunter2!") == "hu… (8 bytes)"
    assert len(fingerprint("github-token", token)) == 12
    assert fingerprint("github-token", token) != fingerprint("jwt", token)
