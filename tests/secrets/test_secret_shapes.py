"""Secrets that no form gives away, but what they are written into: a command line, a header, a URL,
a file of a program, an assignment in any syntax.
"""

from __future__ import annotations

import base64
import json

import pytest
from tokens import ALNUM, HEX, LOWER, drawn

from gitcp.secrets.scan import redact, scan

DRAW = drawn(17)
PASSWORD = "Kq7" + DRAW(ALNUM, 10) + "x"
TYPED = "Kq7!" + DRAW(ALNUM, 10) + "x"
RANDOM = "k7" + DRAW(ALNUM, 28) + "Q4"
UUID = "-".join(DRAW(HEX, size) for size in (8, 4, 4, 4, 12))
HEXES = DRAW(HEX, 32)
BASIC = base64.b64encode(f"bot:{PASSWORD}".encode()).decode()
AZURE = DRAW(ALNUM + "+/", 86) + "=="
AWS = DRAW(ALNUM + "+/", 40)
FERNET = DRAW(ALNUM + "-_", 43) + "="
DJANGO = "k7$" + DRAW("abcdefghijklmnopqrstuvwxyz0123456789!@#%^&*(-_=+)", 40) + "!@#%^A"
PART = DRAW(ALNUM, 43)

COMMANDS = (
    "curl -u admin:{0} https://api.a.dev/",
    "curl -s --user 'me:{0}' https://a.dev",
    "curl -uadmin:{0} a.dev",
    "curl -X POST \\\n  -u bot:{0} \\\n  a.dev",
    '["curl", "-u", "bot:{0}", "a.dev"]',
    "curl -x proxy --proxy-user u:{0} a.dev",
    "http -a me:{0} a.dev/items",
    "lftp -u me,{0} ftp.a.dev",
    "smbclient //a/b -U me%{0}",
    "sshpass -p {0} ssh a.dev",
    "sshpass -p'{0}' ssh a.dev",
    "mysql -h db -u root -p{0} app",
    "mysqldump -uroot -p{0} app > dump.sql",
    "mysql -u root --password={0} app",
    "mariadb -p'{0}' app",
    "docker login -u me -p {0} registry.a.dev",
    "docker login --username me --password {0}",
    "echo {0} | docker login -u me --password-stdin",
    "podman login -p={0} registry.a.dev",
    "az acr login -n a -u me -p {0}",
    "redis-cli -a {0} ping",
    "mongosh -u me -p {0} db.a.dev",
    "ldapsearch -D cn=me -w {0}",
    "unzip -P {0} a.zip",
    "7z x -p{0} a.7z",
    "openssl rsa -in key.pem -passin pass:{0}",
    "openssl genrsa -aes256 -passout 'pass:{0}' 2048",
)
NO_PASSWORDS = (
    "docker run -u 1000:1000 -p {0}:80 image",
    "docker run -p {0} image",
    "mkdir -p {0}/a/b",
    "ssh -p {0} a.dev",
    "mysql -u root -p {0}",
    "curl -u $USER:$PASSWORD https://a.dev; echo -p {0}",
    "curl -o {0} a.dev",
    "cp -u {0} curl",
    "curl a.dev\nmkdir -p {0}",
)
HEADERS = (
    "Authorization: {1} {0}",
    "curl -H 'Authorization: {1} {0}' a.dev",
    '{{"Authorization": "{1} {0}"}}',
    "headers = {{'Authorization': '{1} {0}'}}",
    'request.setHeader("Authorization", "{1} {0}")',
    '("authorization", "{1} {0}")',
    'Authorization: {1} token="{0}"',
    "proxy-authorization: {1} {0}",
)
SCHEMES = "Bearer Token ApiKey SSWS GenieKey Klaviyo-API-Key Custom-Scheme".split()
ASSIGNMENTS = (
    "- name: API_KEY\n  value: {0}\n",
    '{{"name": "API_KEY", "value": "{0}"}}',
    '<add key="ApiKey" value="{0}" />',
    "<apiKey>{0}</apiKey>",
    '<entry key="api_key">{0}</entry>',
    "--api-key {0}",
    "--token={0}",
    "tool -token {0} -v",
    '["--api-key", "{0}"]',
    "setx API_KEY {0}",
    "set -gx OPENAI_API_KEY {0}",
    "ENV API_KEY {0}",
    "aws configure set aws_secret_access_key {0}",
    "X-Api-Key: {0}",
    "https://a.dev/b?api_key={0}&c=1",
    "API Key: {0}",
    'config["ApiKey"] = "{0}";',
    'os.getenv("API_KEY", "{0}")',
    "STRIPE_KEY={0}",
    "ngrok config add-authtoken {0}",
)
PASSWORDS = (
    "SMTP_PASS={0}",
    "auth: {{ user: 'me', pass: '{0}' }}",
    "requirepass {0}",
    "CREATE USER me WITH PASSWORD '{0}';",
    '<property name="password" value="{0}"/>',
    "keytool -list -storepass {0}",
)
FILES = {
    "azure-signature": f"https://a.blob.core.windows.net/b?sv=2022-11-02&sig={AZURE[:40]}7%2B7%3D",
    "azure-key": f"use {DRAW(ALNUM, 76)}" + "+AS" + f"t{DRAW(ALNUM, 6)}== there",
    "azure-storage-key": f"AccountEndpoint=https://a.documents.azure.com/;AccountKey={AZURE};",
    "url-token": f"git clone https://{RANDOM}:x-oauth-basic@a.dev/b",
    "fernet-key": f'f = Fernet("{FERNET}")',
    "pgpass-password": f"*:*:*:me:{PASSWORD}\n",
    "jwk-private-key": json.dumps({"kty": "oct", "k": PART}),
    "asana-token": f"asana 1/12{DRAW('123456789', 14)}:{HEXES}",
    "aws-secret-key": "AK" + f"IA{DRAW('ABCDEFGH234567', 16)},{AWS}\n",
    "command-password": f"curl -u {RANDOM}: https://a.dev",
    "url-password": "postgresql://me:np" + f"g_{DRAW('abcdefghijkl', 12)}@ep.a.dev/b",
}


def as_written(text: str) -> tuple[str, ...]:
    """A text in a file, and in JSON that stands in JSON, as transcripts have it."""
    return text, json.dumps({"a": f"$ {text}"}), json.dumps(json.dumps({"a": f"$ {text}"}))


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(command: str) -> None:
    """A password on a command line is found, and only the password is taken out."""
    for text in as_written(command.format(PASSWORD)):
        clean = redact(text.encode()).decode()
        assert PASSWORD not in clean, text
        assert clean.split("[REDACTED:")[0] == text.split(PASSWORD)[0]


@pytest.mark.parametrize("command", NO_PASSWORDS)
def test_other_options(command: str) -> None:
    """A short option is one for passwords only with a program that takes one by it."""
    for text in as_written(command.format(PASSWORD)):
        assert scan(text.encode()) == (), text


@pytest.mark.parametrize("header", HEADERS)
def test_schemes(header: str) -> None:
    """An authorization header is found with any word before its value."""
    for scheme in SCHEMES:
        for value in (RANDOM, UUID):
            text = header.format(value, scheme)
            assert [each.text.decode() for each in scan(text.encode())] == [value], text
    basic = header.format(BASIC, "Basic")
    assert "token=" in header or [each.rule for each in scan(basic.encode())] == ["basic-auth"]


@pytest.mark.parametrize("assignment", ASSIGNMENTS)
def test_assignments(assignment: str) -> None:
    """A random value of a name that calls it secret is found in the syntax of any program."""
    for value in (RANDOM, DRAW(LOWER, 36) + "9x"):
        for text in as_written(assignment.format(value))[: 1 if "\n" in assignment else 3]:
            assert value not in redact(text.encode()).decode(), text


@pytest.mark.parametrize("assignment", PASSWORDS)
def test_passwords(assignment: str) -> None:
    """What a person typed is found by the names that programs have for passwords."""
    text = assignment.format(TYPED)
    assert [each.text.decode() for each in scan(text.encode())] == [TYPED], text


@pytest.mark.parametrize("rule", FILES)
def test_files(rule: str) -> None:
    """What cloud providers and programs keep in files and URLs is found."""
    for text in as_written(FILES[rule]):
        assert [each.rule for each in scan(text.encode())][-1:] == [rule], text


def test_keys_in_json() -> None:
    """Of a JSON Web Key every private part is found, and no public one."""
    for kind, private in (("RSA", "d p q dp dq qi"), ("EC", "d"), ("OKP", "d"), ("oct", "k")):
        key = {name: DRAW(ALNUM, 60) for name in ("n", "x", "y", "e", *private.split())}
        for text in (json.dumps({"kty": kind, **key}), json.dumps({**key, "kty": kind}, indent=2)):
            clean = json.loads(redact(text.encode()))
            changed = {name for name in key if clean[name] != key[name]}
            assert changed == set(private.split()), text
    assert scan(json.dumps({"kty": "RSA", "n": PART, "k": PART}).encode()) == ()
    assert scan(json.dumps({"d": PART}).encode()) == ()


def test_generated() -> None:
    """A key of letters, digits and many signs is found by its name; a template is not."""
    for value in (DJANGO, "django-insecure-" + DJANGO[:40]):
        assert len(scan(f"SECRET_KEY = '{value}'".encode())) == 1, value
    assert scan(b"SECRET_KEY = 'https://%s:%s@host/?a=1&b=2#c!'") == ()


def test_salts() -> None:
    """All keys and salts of WordPress are found, with their spaces and signs."""
    names = "AUTH_KEY SECURE_AUTH_KEY LOGGED_IN_KEY NONCE_KEY AUTH_SALT NONCE_SALT".split()
    values = [DRAW(ALNUM, 28) + " !~[{ 9(" + DRAW(ALNUM, 28) for _ in names]
    lines = [f"define('{name}', '{value}');" for name, value in zip(names, values, strict=True)]

    found = scan("\n".join(lines).encode())

    assert [each.text.decode() for each in found] == values
    assert scan(b"define('AUTH_KEY', 'put your unique phrase here');") == ()
