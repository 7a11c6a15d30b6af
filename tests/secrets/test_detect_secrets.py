"""Another scanner as a measure: what detect-secrets finds by known forms is found here too."""

from __future__ import annotations

from typing import Any

from detect_secrets.core.scan import scan_line
from detect_secrets.settings import transient_settings
from tokens import in_context, tokens

from gitcp.secrets.scan import scan

PLUGINS = (
    "ArtifactoryDetector",
    "AWSKeyDetector",
    "AzureStorageKeyDetector",
    "BasicAuthDetector",
    "DiscordBotTokenDetector",
    "GitHubTokenDetector",
    "GitLabTokenDetector",
    "JwtTokenDetector",
    "MailchimpDetector",
    "NpmDetector",
    "OpenAIDetector",
    "PrivateKeyDetector",
    "PypiTokenDetector",
    "SendGridDetector",
    "SlackDetector",
    "SquareOAuthDetector",
    "StripeDetector",
    "TelegramBotTokenDetector",
    "TwilioKeyDetector",
)
"""The rules of detect-secrets that go by a known form.

Its others go by randomness or by any keyword, or find what is no secret (IP addresses). Those for
Cloudant, IBM and SoftLayer want a hexadecimal value beside a name, as our rule for names does.
"""


def test_finds_what_detect_secrets_finds() -> None:
    """In samples of every kind, in several places, all that detect-secrets finds by known forms is
    found here too.
    """
    lines = [
        form.format(token) for seed in range(4) for token in tokens(seed).values() for form in FORMS
    ]
    lines += [
        before + secret for seed in range(4) for before, secret, _ in in_context(seed).values()
    ]
    found_by_both = set[str]()
    with transient_settings({"plugins_used": [{"name": name} for name in PLUGINS]}):
        for line in "\n".join(lines).split("\n"):
            others: set[Any] = set(scan_line(line))
            ours = scan(line.encode())
            for each in others:
                # its first line is enough there; ours needs a part of the key
                if each.type == "Private Key":
                    continue
                value = each.secret_value.encode()
                found_by_both.add(each.type)
                assert any(value in s.text or s.text in value for s in ours), (each.type, line)
    assert len(found_by_both) >= 14, found_by_both


FORMS = ("{}", "x = '{}'", "https://api.service.dev/?key={}&n=1", '{{"a": "{}"}}')
