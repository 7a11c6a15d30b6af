"""The rules: what secrets look like, from the formats their issuers document.

A token rule begins with a literal that only such tokens have. A context rule is a literal, and a pattern around it
whose group "secret" is what must not be seen. All quantifiers are bounded, so that no input makes a rule slow.
"""

from __future__ import annotations

import re
from typing import NamedTuple

ALNUM = "[A-Za-z0-9]"
WORD = "[A-Za-z0-9_]"
DASHED = "[A-Za-z0-9_-]"
DOTTED = "[A-Za-z0-9_.-]"
UPPER = "[A-Z0-9]"
LOWER = "[a-z0-9]"
HEX = "[0-9a-f]"
UUID = f"{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}"
END = "(?![A-Za-z0-9])"


class Rule(NamedTuple):
    """A kind of secret: its name, the literals it is found by, and what must stand there.

    The pattern of a token rule is matched where the literal begins; that of a context rule up to `back` bytes before.
    """

    name: str
    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    back: int = 0


def _token(name: str, prefixes: str, rest: str) -> Rule:
    literals = tuple(prefix.encode() for prefix in prefixes.split())
    starts = b"|".join(map(re.escape, literals))
    return Rule(name, literals, re.compile(b"(?P<secret>(?:" + starts + b")" + rest.encode() + b")"))


def _context(name: str, literals: str, pattern: bytes, back: int = 0) -> Rule:
    return Rule(name, tuple(text.encode() for text in literals.split()), re.compile(pattern), back)


TOKENS = (
    _token("adafruit-key", "aio_", f"{ALNUM}{{28}}{END}"),
    _token("age-key", "AGE-SECRET-KEY-1", f"{UPPER}{{58}}"),
    _token("airtable-token", "pat", f"{ALNUM}{{14}}\\.{HEX}{{64}}"),
    _token("alibaba-access-key", "LTAI", f"{ALNUM}{{16,26}}{END}"),
    _token("anthropic-key", "sk-ant-", f"[a-z0-9]{{2,12}}-{DASHED}{{32,200}}"),
    _token("artifactory-token", "AKCp", f"{ALNUM}{{60,100}}"),
    _token("atlassian-token", "ATATT3 ATCTT3 ATBB", f"{DASHED}{{24,240}}=?"),
    _token("aws-access-key", "AKIA ASIA ABIA ACCA", f"[A-Z2-7]{{16}}{END}"),
    _token("brevo-key", "xkeysib- xsmtpsib-", f"{HEX}{{64}}-{ALNUM}{{16}}"),
    _token("buildkite-token", "bkua_ bkaj_", f"{HEX}{{40}}"),
    _token("circleci-token", "CCIPAT_ CCIPRJ_", f"{ALNUM}{{20,30}}_{HEX}{{40}}"),
    _token("clojars-token", "CLOJARS_", f"{LOWER}{{60}}"),
    _token("contentful-token", "CFPAT-", f"{DASHED}{{43}}"),
    _token("crates-token", "cio", f"{ALNUM}{{32}}{END}"),
    _token("databricks-token", "dapi", f"{HEX}{{32}}(?:-[0-9])?{END}"),
    _token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", f"{HEX}{{64}}"),
    _token("discord-token", "MT Mj Mz ND NT Nj Nz OD OT", rf"{DASHED}{{22,26}}\.{DASHED}{{6}}\.{DASHED}{{27,38}}{END}"),
    _token("docker-token", "dckr_pat_ dckr_oat_", f"{DASHED}{{27,60}}"),
    _token("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "[A-Za-z0-9_.-]{40,64}"),
    _token("duffel-token", "duffel_live_ duffel_test_", f"{DASHED}{{43}}"),
    _token("dynatrace-token", "dt0c01. dt0s01. dt0s02.", f"{UPPER}{{24}}\\.{UPPER}{{64}}"),
    _token("easypost-key", "EZAK EZTK", f"{ALNUM}{{54}}"),
    _token("facebook-token", "EAA", f"[MC]{ALNUM}{{80,300}}"),
    _token("figma-token", "figd_ figu_", f"{DASHED}{{36,60}}"),
    _token("flutterwave-key", "FLWSECK- FLWSECK_TEST-", f"{ALNUM}{{12,40}}"),
    _token("fly-token", "fm1r_ fm2_ fo1_", "[A-Za-z0-9_+/-]{43,900}={0,2}"),
    _token("frameio-token", "fio-u-", f"{DASHED}{{60,70}}"),
    _token("github-fine-grained-token", "github_pat_", f"{WORD}{{50,255}}"),
    _token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{ALNUM}{{36,255}}"),
    _token("gitlab-token", "glpat- gldt- glft- gloas- glimt- glsoat- glffct-", f"{DOTTED}{{20,120}}"),
    _token("gitlab-runner-token", "glrt- glrtr- glcbt- GR1348941", f"{DOTTED}{{20,120}}"),
    _token("gitlab-trigger-token", "glptt-", f"{HEX}{{40}}"),
    _token("gitlab-agent-token", "glagent-", f"{DASHED}{{50,120}}"),
    _token("google-api-key", "AIza", f"{DASHED}{{35}}(?![A-Za-z0-9_-])"),
    _token("google-client-secret", "GOCSPX-", f"{DASHED}{{28}}"),
    _token("google-access-token", "ya29.", f"{DASHED}{{30,300}}"),
    _token("grafana-token", "glc_", "eyJ[A-Za-z0-9+/]{40,400}={0,2}"),
    _token("grafana-service-token", "glsa_", f"{ALNUM}{{32}}_[0-9A-Fa-f]{{8}}"),
    _token("groq-key", "gsk_", f"{ALNUM}{{40,60}}"),
    _token("heroku-key", "HRKU-", f"(?:{UUID}|{DASHED}{{58,64}})"),
    _token("huggingface-token", "hf_ api_org_", f"[A-Za-z0-9]{{34,37}}{END}"),
    _token("infracost-key", "ico-", f"{ALNUM}{{32}}{END}"),
    _token("jwt", "eyJ", rf"{DASHED}{{10,600}}+\.eyJ{DASHED}{{10,4000}}+\.{DASHED}{{16,1400}}"),
    _token("langsmith-key", "lsv2_pt_ lsv2_sk_", f"{HEX}{{32}}_{HEX}{{10}}"),
    _token("linear-key", "lin_api_ lin_oauth_", f"{ALNUM}{{40,64}}"),
    _token("mailgun-key", "key-", f"{HEX}{{32}}{END}"),
    _token("mapbox-secret-token", "sk.eyJ", rf"{DASHED}{{40,300}}\.{DASHED}{{20,44}}"),
    _token("netlify-token", "nfp_ nfc_ nfo_", f"{ALNUM}{{36,60}}"),
    _token("newrelic-key", "NRAK- NRII- NRAL-", f"{DASHED}{{27,40}}"),
    _token("notion-token", "ntn_", f"{ALNUM}{{43,50}}"),
    _token("npm-token", "npm_", f"{ALNUM}{{36}}{END}"),
    _token("nuget-key", "oy2", f"[a-z0-9]{{43}}{END}"),
    _token("onepassword-token", "ops_eyJ", f"{DASHED}{{200,2000}}"),
    _token("openai-key", "sk-proj- sk-svcacct- sk-admin-", f"{DASHED}{{40,200}}"),
    _token("openai-legacy-key", "sk-", f"{ALNUM}{{20}}T3BlbkFJ{ALNUM}{{20}}"),
    _token("openrouter-key", "sk-or-v1-", f"{HEX}{{64}}"),
    _token("perplexity-key", "pplx-", f"{ALNUM}{{40,60}}"),
    _token("plaid-token", "access-production- access-development- access-sandbox-", UUID),
    _token("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", f"{DOTTED}{{32,64}}"),
    _token("postman-key", "PMAK-", f"{HEX}{{24}}-{HEX}{{34}}"),
    _token("posthog-key", "phx_", f"{ALNUM}{{40,60}}"),
    _token("prefect-key", "pnu_ pnb_", f"{ALNUM}{{36}}"),
    _token("pulumi-token", "pul-", f"{HEX}{{40}}"),
    _token("pypi-token", "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw", f"{DASHED}{{50,400}}"),
    _token("razorpay-key", "rzp_live_", f"{ALNUM}{{14,24}}"),
    _token("readme-key", "rdme_", f"{LOWER}{{70}}"),
    _token("replicate-token", "r8_", f"{ALNUM}{{37}}{END}"),
    _token("rubygems-key", "rubygems_", f"{HEX}{{48}}"),
    _token("scalingo-token", "tk-us-", f"{DASHED}{{48}}"),
    _token("sendgrid-key", "SG.", rf"{DASHED}{{22}}\.{DASHED}{{43}}"),
    _token("sentry-token", "sntrys_ sntryu_ sntrya_ sntryi_", "[A-Za-z0-9+/=_-]{60,400}"),
    _token("shippo-key", "shippo_live_ shippo_test_", f"{HEX}{{40}}"),
    _token("shopify-token", "shpat_ shpca_ shppa_ shpss_", "[0-9a-fA-F]{32}"),
    _token("slack-token", "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxe- xoxe.xoxp- xoxe.xoxb-", "[A-Za-z0-9-]{20,250}"),
    _token("slack-app-token", "xapp-", f"[0-9]-{UPPER}{{8,14}}-[0-9]{{8,16}}-[a-z0-9]{{32,80}}"),
    _token("sonar-token", "squ_ sqp_ sqa_", f"{HEX}{{40}}"),
    _token("square-token", "sq0atp- sq0csp- sq0idp-", f"{DASHED}{{22,43}}"),
    _token("stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_", f"{ALNUM}{{20,250}}"),
    _token("supabase-key", "sbp_ sb_secret_", f"{DASHED}{{30,48}}"),
    _token("tavily-key", "tvly-", f"{DASHED}{{30,60}}"),
    Rule(
        "telegram-token",
        (b"AA",),
        re.compile(rb"(?<=[0-9]{8}:)(?P<secret>AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])"),
    ),
    _token("tencent-key", "AKID", f"{ALNUM}{{32}}{END}"),
    _token("twilio-key", "SK", f"{HEX}{{32}}{END}"),
    _token("typeform-token", "tfp_", f"{DASHED}{{40,60}}={{0,2}}"),
    _token("vault-token", "hvs. hvb. hvr.", f"{DASHED}{{24,300}}"),
    _token("vercel-token", "vercel_blob_rw_ vcp_ vci_", f"{WORD}{{24,80}}"),
    _token("xai-key", "xai-", f"{ALNUM}{{70,90}}"),
    _token("yandex-key", "AQVN", f"{DASHED}{{35,38}}{END}"),
)

SECRET_NAME = re.compile(
    rb"(?i)(?:secret|passw(?:or)?d|api_?-?key|access_?-?key|private_?-?key|auth_?-?token|access_?-?token|credential)"
    rb"[a-z0-9_-]{0,16}[\"'\\\]]{0,6}\Z"
)
"""The end of what stands before `=` or `:` where a name calls the value secret."""

QUOTE = rb"(?:\\*[\"'`])?"

CONTEXTS = (
    _context(
        "private-key",
        "-----BEGIN",
        rb"(?P<secret>-----BEGIN[A-Z0-9 ]{0,32} ?PRIVATE KEY(?: BLOCK)?-----"
        rb"(?:[A-Za-z0-9+/=\s\\:,.()]|-(?!-)){64,16000}+(?:-----END[A-Z0-9 ]{0,40}-----)?)",
    ),
    _context("putty-key", "Private-Lines:", rb"Private-Lines: ?[0-9]{1,4}(?P<secret>[A-Za-z0-9+/=\s\\]{64,16000}+)"),
    _context(
        "url-password",
        "://",
        rb"://(?P<user>[^\s/@:\"'\\<>$]{0,64}):(?P<secret>[^\s/@:\"'\\<>(){}$*|,]{6,128})"
        rb"@(?!localhost|127\.|0\.0\.0\.0|\[::1|example\.|host\b|[a-z.]*\.example\b)",
    ),
    _context(
        "slack-webhook",
        "hooks.slack.com/",
        rb"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9]{8,14}/[A-Za-z0-9]{8,14}/[A-Za-z0-9/]{16,60})",
    ),
    _context("discord-webhook", "/api/webhooks/", rb"/api/webhooks/(?P<secret>[0-9]{17,20}/[A-Za-z0-9_-]{60,72})"),
    _context(
        "teams-webhook",
        ".webhook.office.com/",
        rb"\.webhook\.office\.com/(?P<secret>webhookb2/[0-9a-f@/-]{60,90}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36})",
    ),
    _context(
        "azure-storage-key",
        "Key=",
        rb"(?:Account|SharedAccess)Key=(?P<secret>[A-Za-z0-9+/]{42,86}={1,2})",
        12,
    ),
    _context("azure-client-secret", "Q~", rb"(?<![\w~.-])(?P<secret>[\w~.-]{3}[0-9]Q~[\w~.-]{31,34})(?![\w~.-])", 4),
    _context(
        "aws-secret-key",
        "ecret SECRET",
        rb"(?i)secret_?(?:access_?)?key"
        + QUOTE
        + rb"[ \t]{0,4}[:=][ \t]{0,4}"
        + QUOTE
        + rb"(?P<secret>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
        1,
    ),
    _context(
        "basic-auth",
        "uthorization",
        rb"uthorization"
        + QUOTE
        + rb"[ \t]{0,4}[:=][ \t]{0,4}"
        + QUOTE
        + rb"[Bb]asic (?P<secret>[A-Za-z0-9+/]{16,400}={0,2})",
    ),
    _context(
        "password",
        "passw Passw PASSW",
        rb"(?i)passw(?:or)?d"
        + QUOTE
        + rb"[ \t]{0,4}[:=][ \t]{0,4}"
        + QUOTE
        + rb"(?P<secret>[^\s\"'`\\<>(){}\[\]$,;&|]{8,128})",
    ),
    _context("stripe-webhook-secret", "whsec_", rb"(?P<secret>whsec_[A-Za-z0-9+/]{32,64}={0,2})"),
)
