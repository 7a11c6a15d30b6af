"""The rules for secrets, from the formats that their issuers document.

A token rule starts with a literal that only such tokens have. A context rule is a literal with a
pattern around it, whose group "secret" is the secret. All quantifiers are bounded, so that no input
makes a rule slow. Values that are only secret by their name are found by gitcp.secrets.named.
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
    """A kind of secret: its name, the literals to search for, and the pattern to match.

    A token rule's pattern is matched at the literal; a context rule's starts `back` bytes before
    it. Its literals begin with the same byte, which makes their search fast. If `random`, the rest
    must look random too: literal and length alone also match identifiers.
    """

    name: str
    literals: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    back: int = 0
    random: bool = False


def _token(name: str, prefixes: str, rest: str, *, random: bool = False) -> Rule:
    literals = tuple(prefix.encode() for prefix in prefixes.split())
    starts = b"|".join(map(re.escape, literals))
    pattern = re.compile(b"(?P<secret>(?:" + starts + b")" + rest.encode() + b")")
    return Rule(name, literals, pattern, random=random)


def _context(name: str, literals: str, pattern: bytes, back: int = 0) -> Rule:
    return Rule(name, tuple(literals.encode().split()), re.compile(pattern), back)


def _identifiable(marks: str, back: int, rest: str) -> Rule:
    """Return the rule for keys of Azure that name their service at a fixed position."""
    pattern = f"(?P<secret>[A-Za-z0-9+/_-]{{{back}}}{rest})"
    return _context("azure-key", marks, pattern.encode(), back)


TOKENS = (
    _token("adafruit-key", "aio_", f"{ALNUM}{{28}}{END}"),
    _token("adobe-secret", "p8e-", f"{LOWER}{{32}}{END}"),
    _token("age-key", "AGE-SECRET-KEY-1", f"{UPPER}{{58}}"),
    _token("airtable-token", "pat", f"{ALNUM}{{14}}\\.{HEX}{{64}}"),
    _token("aiven-token", "AVNS_", f"{DASHED}{{19}}(?![A-Za-z0-9_-])", random=True),
    _token("alibaba-access-key", "LTAI", f"{ALNUM}{{16,26}}{END}"),
    _token("anthropic-key", "sk-ant-", f"[a-z0-9]{{2,12}}-{DASHED}{{32,200}}"),
    _token("apify-token", "apify_api_", f"{ALNUM}{{36}}{END}"),
    _token("artifactory-reference-token", "cmVmd", f"{ALNUM}{{59}}{END}"),
    _token("artifactory-token", "AKCp", f"{ALNUM}{{60,100}}"),
    _token("asana-token", "2/1", f"[0-9]{{12,20}}/[0-9]{{13,20}}:{HEX}{{32}}{END}"),
    _token("atlassian-token", "ATATT3 ATCTT3 ATSTT3 ATBB", f"{DASHED}{{24,240}}=?"),
    _token("aws-access-key", "AKIA ASIA ABIA ACCA", f"[A-Z2-7]{{16}}{END}"),
    _token("aws-session-token", "IQoJb3JpZ2lu FwoGZXIvYXdz", "[A-Za-z0-9+/%]{100,2000}={0,2}"),
    _token("axiom-token", "xaat- xapt-", UUID),
    _token("backblaze-key", "K00", "[0-9][A-Za-z0-9+/]{27}(?![A-Za-z0-9+/])", random=True),
    _token("baidu-key", "ALTAK-", f"{ALNUM}{{21}}/{HEX}{{40}}"),
    _token("bedrock-key", "ABSK", "[A-Za-z0-9+/]{100,300}={0,2}"),
    _token("bedrock-short-term-key", "bedrock-api-key-", "[A-Za-z0-9+/]{60,6000}={0,2}"),
    _token("bitbucket-token", "BBDC-", "[A-Za-z0-9+/@_-]{40,50}"),
    _token("bitwarden-token", "0.", rf"{UUID}\.{ALNUM}{{30}}:[A-Za-z0-9+/]{{22}}={{0,2}}"),
    _token("brave-key", "BSA", f"{DASHED}{{27,28}}(?![A-Za-z0-9_-])", random=True),
    _token("brevo-key", "xkeysib- xsmtpsib-", f"{HEX}{{64}}-{ALNUM}{{16}}"),
    _token("browserbase-key", "bb_live_", f"{DASHED}{{24,60}}", random=True),
    _token("buildkite-token", "bkua_ bkaj_", f"{HEX}{{40}}"),
    _token("calcom-key", "cal_live_", f"{HEX}{{32}}"),
    _token("cerebras-key", "csk-", f"{ALNUM}{{40,64}}{END}", random=True),
    _token("circleci-token", "CCIPAT_ CCIPRJ_", f"{ALNUM}{{20,30}}_{HEX}{{40}}"),
    _token("clickhouse-key", "4b1d", f"{ALNUM}{{38}}{END}"),
    _token("clickup-token", "pk_", f"[0-9]{{6,10}}_{UPPER}{{32}}{END}"),
    _token("clojars-token", "CLOJARS_", f"{LOWER}{{60}}"),
    _token("cloudflare-origin-key", "v1.0-", f"{HEX}{{24}}-{HEX}{{146}}"),
    _token("cloudflare-token", "cfut_ cfat_ cfk_", f"{ALNUM}{{40}}{HEX}{{8}}{END}"),
    _token("cockroach-key", "CCDB1_", f"{ALNUM}{{22}}_{ALNUM}{{40}}"),
    _token("confluent-key", "cflt", "[A-Za-z0-9+/]{60}", random=True),
    _token("contentful-token", "CFPAT-", f"{DASHED}{{43}}"),
    Rule(
        "convex-key",
        (b"eyJ2MiI6",),
        re.compile(rb"(?<=\|)(?P<secret>eyJ2MiI6[A-Za-z0-9+/_-]{20,400}={0,2})"),
    ),
    _token("crates-token", "cio", f"{ALNUM}{{32}}{END}"),
    _token("cursor-key", "crsr_ key_", f"{HEX}{{64}}{END}"),
    _token("databricks-token", "dapi dose", f"{HEX}{{32}}(?:-[0-9])?{END}"),
    _token("daytona-key", "dtn_", f"{HEX}{{64}}"),
    _token("dbt-token", "dbtc_ dbtu_", f"{DASHED}{{30,80}}"),
    _token("defined-networking-token", "dnkey-", f"{DASHED}{{26}}-{DASHED}{{52}}"),
    _token("deno-token", "ddp_ ddw_", f"{ALNUM}{{36}}{END}"),
    _token("depot-token", "depot_project_ depot_org_ depot_user_", f"{ALNUM}{{40,64}}"),
    _token("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", f"{HEX}{{64}}"),
    _token("discord-mfa-token", "mfa.", f"{DASHED}{{80,100}}"),
    _token(
        "discord-token",
        "MT Mj Mz ND NT Nj Nz OD OT",
        rf"{DASHED}{{22,26}}\.{DASHED}{{6}}\.{DASHED}{{27,38}}{END}",
    ),
    _token("docker-token", "dckr_pat_ dckr_oat_", f"{DASHED}{{27,60}}"),
    _token(
        "doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", "[A-Za-z0-9_.-]{40,64}"
    ),
    _token("dropbox-token", "sl.", f"(?:u\\.)?{DASHED}{{130,1200}}"),
    _token("duffel-token", "duffel_live_ duffel_test_", f"{DASHED}{{43}}"),
    _token("dynatrace-token", "dt0c01. dt0s01. dt0s02.", f"{UPPER}{{24}}\\.{UPPER}{{64}}"),
    _token("e2b-key", "e2b_ sk_e2b_", f"{HEX}{{40}}{END}"),
    _token("easypost-key", "EZAK EZTK", f"{ALNUM}{{54}}"),
    _token("elevenlabs-key", "sk_", f"{HEX}{{48}}{END}"),
    _token("facebook-token", "EAA", f"[MC]{ALNUM}{{80,300}}"),
    Rule(
        "fcm-server-key",
        (b"APA91b",),
        re.compile(rb"(?<=AAAA[A-Za-z0-9_-]{7}:)(?P<secret>APA91b[A-Za-z0-9_-]{134})"),
    ),
    _token(
        "figma-token", "figd_ figu_ figp_ figo_ figr_ figh_ figuh_ figor_", f"{DASHED}{{36,60}}"
    ),
    _token("firecrawl-key", "fc-", f"{HEX}{{32}}{END}"),
    _token("fireworks-key", "fw_", f"{ALNUM}{{22,28}}{END}", random=True),
    _token("flutterwave-key", "FLWSECK- FLWSECK_TEST-", f"{ALNUM}{{12,40}}"),
    _token("fly-token", "fm1r_ fm2_ fo1_", "[A-Za-z0-9_+/-]{43,900}={0,2}"),
    _token("frameio-token", "fio-u-", f"{DASHED}{{60,70}}"),
    _token("friendli-token", "flp_", f"{ALNUM}{{44,60}}", random=True),
    _token("gemini-key", "AQ.", f"{DASHED}{{48,80}}", random=True),
    _token("github-fine-grained-token", "github_pat_", f"{WORD}{{50,255}}"),
    _token("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", f"{ALNUM}{{36,255}}"),
    _token("gitlab-agent-token", "glagent-", f"{DASHED}{{50,120}}"),
    _token("gitlab-runner-token", "glrt- glrtr- glcbt- GR1348941", f"{DOTTED}{{20,120}}"),
    _token(
        "gitlab-token", "glpat- gldt- glft- gloas- glimt- glsoat- glffct-", f"{DOTTED}{{20,120}}"
    ),
    _token("gitlab-trigger-token", "glptt-", f"{HEX}{{40}}"),
    _token("google-access-token", "ya29.", f"{DASHED}{{30,300}}"),
    _token("google-api-key", "AIza", f"{DASHED}{{35}}(?![A-Za-z0-9_-])"),
    _token("google-client-secret", "GOCSPX-", f"{DASHED}{{28}}"),
    _token("google-refresh-token", "1//0", f"{DASHED}{{40,200}}"),
    _token("grafana-key", "eyJrIjoi", f"{ALNUM}{{70,400}}={{0,3}}"),
    _token("grafana-service-token", "glsa_", f"{ALNUM}{{32}}_[0-9A-Fa-f]{{8}}"),
    _token("grafana-token", "glc_", "eyJ[A-Za-z0-9+/]{40,400}={0,2}"),
    _token("groq-key", "gsk_", f"{ALNUM}{{40,60}}"),
    _token("harness-token", "pat. sat.", f"{DASHED}{{22}}\\.{ALNUM}{{24}}\\.{ALNUM}{{20}}{END}"),
    _token("helicone-key", "sk-helicone-", "[a-z0-9-]{24,60}", random=True),
    _token("heroku-key", "HRKU-", f"(?:{UUID}|{DASHED}{{58,64}})"),
    _token("honeycomb-key", "hcaik_ hcbik_ hcamk_ hccik_ hcxik_", f"{ALNUM}{{40,64}}"),
    _token("hubspot-token", "pat-na1- pat-eu1-", UUID),
    _token("huggingface-token", "hf_ api_org_", f"[A-Za-z0-9]{{34,37}}{END}"),
    _token("infisical-token", "st.", rf"[0-9a-f-]{{24,36}}\.{HEX}{{32,64}}\.{HEX}{{32,64}}{END}"),
    _token("infracost-key", "ico-", f"{ALNUM}{{32}}{END}"),
    _token("inngest-key", "signkey-prod- signkey-test- signkey-branch-", f"{HEX}{{32,128}}"),
    _token("intra42-secret", "s-s4t2ud- s-s4t2af-", f"{HEX}{{64}}"),
    _token("jina-key", "jina_", f"{HEX}{{32}}{DASHED}{{20,40}}"),
    _token("jwt", "eyJ", rf"{DASHED}{{10,600}}+\.eyJ{DASHED}{{10,4000}}+\.{DASHED}{{16,1400}}"),
    _token("kaggle-token", "KGAT_", f"{ALNUM}{{32}}"),
    _token("klaviyo-key", "pk_", f"{HEX}{{34}}{END}"),
    _token("langchain-key", "ls__", f"{HEX}{{32}}{END}"),
    _token("langfuse-key", "sk-lf-", UUID),
    _token("langsmith-key", "lsv2_pt_ lsv2_sk_", f"{HEX}{{32}}_{HEX}{{10}}"),
    _token("launchdarkly-key", "api- sdk-", UUID),
    _token("linear-key", "lin_api_ lin_oauth_ lin_wh_", f"{ALNUM}{{32,64}}"),
    _token("mailersend-token", "mlsn.", f"{HEX}{{64}}"),
    _token("mailgun-key", "key-", f"{HEX}{{32}}{END}"),
    _token("mapbox-secret-token", "sk.eyJ", rf"{DASHED}{{40,300}}\.{DASHED}{{20,44}}"),
    _token("mem0-key", "m0-", f"{ALNUM}{{40}}{END}", random=True),
    _token("modal-token", "ak- as-", f"{ALNUM}{{22}}{END}", random=True),
    _token("mongodb-atlas-secret", "mdb_sa_sk_", f"{DASHED}{{40}}"),
    _token("neon-key", "napi_", f"{ALNUM}{{60,80}}"),
    _token("netlify-token", "nfp_ nfc_ nfo_", f"{ALNUM}{{36,60}}"),
    _token("newrelic-key", "NRAK- NRII- NRIQ- NRJS- NRRA- NRSP- NRBR- NRAL-", f"{DASHED}{{19,44}}"),
    _token("notion-secret", "secret_", f"{ALNUM}{{43}}{END}"),
    _token("notion-token", "ntn_", f"{ALNUM}{{43,50}}"),
    _token("npm-token", "npm_", f"{ALNUM}{{36}}{END}"),
    _token("nuget-key", "oy2", f"[a-z0-9]{{43}}{END}"),
    _token("nvidia-key", "nvapi-", f"{DASHED}{{60,80}}"),
    _token("octopus-key", "API-", f"{UPPER}{{26}}{END}", random=True),
    _token(
        "onepassword-secret-key",
        "A3-",
        f"{UPPER}{{6}}-(?:{UPPER}{{11}}|{UPPER}{{6}}-{UPPER}{{5}})(?:-{UPPER}{{5}}){{3}}{END}",
    ),
    _token("onepassword-token", "ops_eyJ", f"{DASHED}{{200,2000}}"),
    _token("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", f"{DASHED}{{40,200}}"),
    _token("openai-legacy-key", "sk-", f"{ALNUM}{{20}}T3BlbkFJ{ALNUM}{{20}}"),
    _token("openrouter-key", "sk-or-v1-", f"{HEX}{{64}}"),
    _token(
        "paddle-key",
        "pdl_live_apikey_ pdl_sdbx_apikey_",
        f"{LOWER}{{26}}_{ALNUM}{{22}}_{ALNUM}{{3}}",
    ),
    _token("perplexity-key", "pplx-", f"{ALNUM}{{40,60}}"),
    _token("pinecone-key", "pcsk_", f"{ALNUM}{{5,6}}_{ALNUM}{{50,80}}"),
    _token("plaid-token", "access-production- access-development- access-sandbox-", UUID),
    _token("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", f"{DOTTED}{{32,64}}"),
    _token("polar-token", "polar_oat_ polar_pat_ polar_cs_ polar_whs_", f"{ALNUM}{{32,60}}"),
    _token("posthog-key", "phx_", f"{ALNUM}{{40,60}}"),
    _token("postman-key", "PMAK-", f"{HEX}{{24}}-{HEX}{{34}}"),
    _token("prefect-key", "pnu_ pnb_", f"{ALNUM}{{36}}"),
    _token("pulumi-token", "pul-", f"{HEX}{{40}}"),
    _token("pypi-token", "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw", f"{DASHED}{{50,400}}"),
    _token("ramp-secret", "ramp_sec_", f"{ALNUM}{{48}}{END}"),
    _token("razorpay-key", "rzp_live_", f"{ALNUM}{{14,24}}"),
    _token("readme-key", "rdme_", f"{LOWER}{{70}}"),
    _token("render-key", "rnd_", f"{ALNUM}{{28,36}}{END}", random=True),
    _token("replicate-token", "r8_", f"{ALNUM}{{37}}{END}"),
    _token("resend-key", "re_", f"{ALNUM}{{8}}_{ALNUM}{{24}}{END}", random=True),
    _token("rootly-token", "rootly_", f"{HEX}{{64}}"),
    _token("rubygems-key", "rubygems_", f"{HEX}{{48}}"),
    _token("runpod-key", "rpa_", f"{ALNUM}{{40,56}}"),
    _token("scalingo-token", "tk-us-", f"{DASHED}{{48}}"),
    _token("sendgrid-key", "SG.", rf"{DASHED}{{22}}\.{DASHED}{{43}}"),
    _token("sentry-token", "sntrys_ sntryu_ sntrya_ sntryi_", "[A-Za-z0-9+/=_-]{60,400}"),
    _token("settlemint-token", "sm_aat_ sm_pat_ sm_sat_", f"{ALNUM}{{16}}{END}", random=True),
    _token("shippo-key", "shippo_live_ shippo_test_", f"{HEX}{{40}}"),
    _token("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_", "[0-9a-fA-F]{32}"),
    _token("sk-key", "sk-", f"(?:{HEX}{{32}}|{ALNUM}{{48}}){END}", random=True),
    _token("slack-app-token", "xapp-", f"[0-9]-{UPPER}{{8,14}}-[0-9]{{8,16}}-[a-z0-9]{{32,80}}"),
    _token(
        "slack-token",
        "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxd- xoxe- xoxe.xoxp- xoxe.xoxb-",
        "[A-Za-z0-9%-]{20,250}",
    ),
    _token(
        "snyk-token",
        "snyk_uat. snyk_sat.",
        rf"{LOWER}{{8}}\.{DASHED}{{20,80}}(?:\.{DASHED}{{20,120}})?",
    ),
    _token("socket-token", "sktsec_", f"{DASHED}{{30,80}}"),
    _token("sonar-token", "squ_ sqp_ sqa_", f"{HEX}{{40}}"),
    _token("sourcegraph-license-token", "slk_ sgd_", f"{HEX}{{64}}"),
    _token("sourcegraph-token", "sgp_", f"(?:(?:[0-9a-fA-F]{{16}}|local)_)?[0-9a-fA-F]{{40}}{END}"),
    _token("square-access-token", "EAAA", f"{DASHED}{{60}}{END}", random=True),
    _token("square-token", "sq0atp- sq0csp- sq0idp-", f"{DASHED}{{22,43}}"),
    _token("stripe-key", "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_", f"{ALNUM}{{20,250}}"),
    _token("stripe-webhook-secret", "whsec_", "[A-Za-z0-9+/]{32,64}={0,2}"),
    _token("stytch-secret", "secret-live- secret-test-", f"{DASHED}{{36}}=?"),
    _token("supabase-key", "sbp_ sb_secret_", f"{DASHED}{{30,48}}"),
    _token("tailscale-key", "tskey-", f"[a-z]{{2,12}}-{ALNUM}{{6,24}}-{ALNUM}{{16,64}}"),
    _token("tavily-key", "tvly-", f"{DASHED}{{30,60}}"),
    Rule(
        "telegram-token",
        (b"AA",),
        re.compile(rb"(?<=[0-9]{8}:)(?P<secret>AA[A-Za-z0-9_-]{33})(?![A-Za-z0-9_-])"),
    ),
    _token("telnyx-key", "KEY0", f"[0-9A-F]{{31}}_{ALNUM}{{22}}"),
    _token("tencent-key", "AKID", f"{ALNUM}{{32}}{END}"),
    _token("tinybird-token", "p.eyJ", rf"{DASHED}{{40,300}}\.{DASHED}{{40,60}}"),
    _token("together-key", "tgp_v1_", f"{DASHED}{{40,50}}"),
    _token("trello-token", "ATTA", f"{HEX}{{56,64}}[0-9A-Fa-f]{{8}}{END}"),
    _token("trigger-key", "tr_dev_ tr_prod_ tr_pat_ tr_stg_", f"{ALNUM}{{20,40}}", random=True),
    _token("twilio-key", "SK", f"{HEX}{{32}}{END}"),
    _token("typeform-token", "tfp_", f"{DASHED}{{40,60}}={{0,2}}"),
    _token("vault-legacy-token", "s.", f"{ALNUM}{{24}}{END}", random=True),
    _token("vault-token", "hvs. hvb. hvr.", f"{DASHED}{{24,300}}"),
    _token("vercel-token", "vercel_blob_rw_ vcp_ vci_", f"{WORD}{{24,80}}"),
    _token("volcengine-key", "AKLT", "[A-Za-z0-9+/_-]{40,80}={0,2}", random=True),
    _token("voyage-key", "pa-", f"{DASHED}{{43}}(?![A-Za-z0-9_-])", random=True),
    _token("xai-key", "xai-", f"{ALNUM}{{70,90}}"),
    _token("xata-key", "xau_", f"{ALNUM}{{32,60}}", random=True),
    _token("yandex-key", "AQVN", f"{DASHED}{{35,38}}{END}"),
    _token("zoho-token", "1000.", f"{HEX}{{32}}\\.{HEX}{{32}}{END}"),
)

CONTEXTS = (
    _context(
        "private-key",
        "-----BEGIN",
        rb"(?P<secret>-----BEGIN[A-Z0-9 ]{0,32} ?PRIVATE KEY(?: BLOCK)?-----"
        rb"(?:[A-Za-z0-9+/=\s\\:,.()]|-(?!-)){64,16000}+(?:-----END[A-Z0-9 ]{0,40}-----)?)",
    ),
    _context(
        "putty-key",
        "Private-Lines:",
        rb"Private-Lines: ?[0-9]{1,4}(?P<secret>[A-Za-z0-9+/=\s\\]{64,16000}+)",
    ),
    _context(
        "url-password",
        "://",
        rb"://(?P<user>[^\s/@:\"'\\<>$]{0,64}):(?P<secret>[^\s/@:\"'\\<>(){}$*|,]{6,128})"
        rb"@(?!localhost|127\.|0\.0\.0\.0|\[::1|example\.|host\b|[a-z.]*\.example\b)",
    ),
    _context(
        "azure-client-secret",
        "~",
        rb"(?:(?<![\w~.-])|(?<=\\[nrtbf])|(?<=\\u[0-9a-f]{4}))(?P<secret>[\w~.-]{3}[0-9]Q~[\w~.-]{31,34})(?![\w~.-])",
        5,
    ),
    _context(
        "url-token",
        "://",
        rb"://(?P<secret>[A-Za-z0-9_.~-]{20,255})(?::(?:x-oauth-(?:basic|token)|[a-z]{0,12}))?"
        rb"@(?![a-z0-9.-]{0,60}\bsentry\b)[A-Za-z0-9]",
    ),
    _context(
        "azure-signature",
        "sig=",
        rb"(?:(?<![A-Za-z0-9])|(?<=u0026))sig=(?P<secret>(?:[A-Za-z0-9/+_-]|%[0-9A-Fa-f]{2}){43,130}={0,2})",
    ),
    _context(
        "pgpass-password",
        ":5432: :5433: :5434: :6432: :6543: :25060: :26257: :*:",
        rb":(?:[0-9]{4,5}|\*):[\w*.-]{1,64}:(?P<user>[\w*.@-]{1,64}):"
        rb"(?P<secret>[^\s:\"'`\\|,;<>(){}]{6,128})(?=[\s\"'`\\]|\Z)",
    ),
    _context(
        "asana-token",
        "1/12",
        f"(?<![A-Za-z0-9/.])(?P<secret>1/12[0-9]{{11,18}}:{HEX}{{32}}){END}".encode(),
    ),
    _context("openshift-token", "~", rb"(?P<secret>sha256~[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])", 6),
)
"""Searched everywhere."""

BEFORE_RUN = re.compile(
    rb"(?:Fernet\((?P<fernet>[bf]?\\*[\"'])"
    rb"|\"(?P<jwk>d|p|q|dp|dq|qi|k)\\*\"[ \t]{0,4}:[ \t]{0,4}\\*\""
    rb"|(?<![A-Za-z0-9/.])(?P<asana>1/1[0-9]{11,19}:))\Z"
)
"""What is right before a run of token characters that is a secret: of Fernet, of a JSON Web Key, of
Asana.
"""

IN_RUNS = (
    _context(
        "slack-webhook",
        "hooks.slack.com/",
        rb"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[A-Za-z0-9]{8,14}/[A-Za-z0-9]{8,14}/[A-Za-z0-9/]{16,60})",
    ),
    _context(
        "discord-webhook",
        "/api/webhooks/",
        rb"/api/webhooks/(?P<secret>[0-9]{17,20}/[A-Za-z0-9_-]{60,72})",
    ),
    _context(
        "teams-webhook",
        ".webhook.office.com/",
        rb"\.webhook\.office\.com/(?P<secret>webhookb2/[0-9a-f@/-]{60,90}/IncomingWebhook/[0-9a-f]{32}/[0-9a-f-]{36})",
    ),
    _context(
        "azure-devops-token", "AZDO", f"(?P<secret>{ALNUM}{{76}}AZDO{ALNUM}{{4}}){END}".encode(), 76
    ),
    _context(
        "azure-key", "JQQJ9", f"(?P<secret>{ALNUM}{{52}}JQQJ9{ALNUM}{{27}}){END}".encode(), 52
    ),
    _identifiable("ACDb APIM", 76, "(?:ACDb|APIM)[A-Za-z0-9+/]{6}=="),
    _identifiable("ABa AMC ASt", 77, "A(?:Ba|MC|St)[A-Za-z0-9+/]{6}=="),
    _identifiable("AIoT AzCa", 33, "A(?:IoT|zCa)[A-Za-z0-9+/]{6}="),
    _identifiable("AEh ARm ASb", 34, "A(?:Eh|Rm|Sb)[A-Za-z0-9+/]{6}="),
    _identifiable("ACR", 43, f"ACR{ALNUM}{{6}}{END}"),
    _identifiable("AzSe", 42, f"AzSe{ALNUM}{{6}}{END}"),
    _identifiable("AzFu", 44, f"AzFu{DASHED}{{6}}=="),
    _context("newrelic-license-key", "NRAL", f"(?P<secret>{ALNUM}{{36}}NRAL){END}".encode(), 36),
    _context(
        "roblox-cookie",
        "ROBUX-and-items.",
        rb"ROBUX-and-items\.\|_(?P<secret>[A-Za-z0-9_.-]{64,2000})",
    ),
    _context(
        "zapier-webhook",
        "hooks.zapier.com/",
        rb"hooks\.zapier\.com/hooks/catch/(?P<secret>[0-9]{4,10}/[A-Za-z0-9]{5,10})",
    ),
    _context(
        "aws-secret-key",
        "AKIA",
        rb"AKIA[A-Z2-7]{16}(?:[\s,:;|\"'\\]|\\[nrt]){1,8}(?P<secret>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/=])",
    ),
    _context("mailchimp-key", "-us", f"(?P<secret>{HEX}{{32}}-us[0-9]{{1,2}}){END}".encode(), 32),
    _context(
        "maxmind-key", "_mmk", f"(?P<secret>{ALNUM}{{6}}_{ALNUM}{{29}}_mmk){END}".encode(), 36
    ),
    _context(
        "terraform-token",
        ".atlasv1.",
        f"(?P<secret>{ALNUM}{{14}}\\.atlasv1\\.[A-Za-z0-9_-]{{60,70}})".encode(),
        14,
    ),
)
"""Searched only in long runs of token characters. Those with `back` start at a word boundary."""
