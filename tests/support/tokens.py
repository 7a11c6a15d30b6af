"""Secrets of every kind, made up when a test runs: none is written down, so none is in the
repository.
"""

from __future__ import annotations

import base64
import random
import string
from collections.abc import Callable

ALNUM = string.ascii_letters + string.digits
UPPER = string.ascii_uppercase + string.digits
LOWER = string.ascii_lowercase + string.digits
BASE32 = string.ascii_uppercase + "234567"
HEX = "0123456789abcdef"
DASHED = ALNUM + "-_"

LONG = {
    # kind: how it begins, of which letters the rest is made, how many
    "adobe-secret": ("p8" + "e-", LOWER, 32),
    "apify-token": ("apify_" + "api_", ALNUM, 36),
    "artifactory-reference-token": ("cm" + "Vmd", ALNUM, 59),
    "bedrock-key": ("AB" + "SK", ALNUM + "+/", 128),
    "bedrock-short-term-key": ("bedrock-" + "api-key-", ALNUM + "+/", 900),
    "cerebras-key": ("cs" + "k-", LOWER, 48),
    "clickhouse-key": ("4b" + "1d", ALNUM, 38),
    "dbt-token": ("db" + "tc_", DASHED, 42),
    "deno-token": ("dd" + "p_", ALNUM, 36),
    "dropbox-token": ("s" + "l.", DASHED, 135),
    "e2b-key": ("e2" + "b_", HEX, 40),
    "elevenlabs-key": ("s" + "k_", HEX, 48),
    "firecrawl-key": ("f" + "c-", HEX, 32),
    "fireworks-key": ("f" + "w_", ALNUM, 24),
    "google-refresh-token": ("1/" + "/0", DASHED, 100),
    "grafana-key": ("eyJr" + "Ijoi", ALNUM, 90),
    "intra42-secret": ("s-s4t2" + "ud-", HEX, 64),
    "mailersend-token": ("ml" + "sn.", HEX, 64),
    "modal-token": ("a" + "s-", ALNUM, 22),
    "neon-key": ("na" + "pi_", LOWER, 64),
    "notion-secret": ("sec" + "ret_", ALNUM, 43),
    "nvidia-key": ("nv" + "api-", DASHED, 64),
    "octopus-key": ("AP" + "I-", UPPER, 26),
    "ramp-secret": ("ramp_" + "sec_", ALNUM, 48),
    "render-key": ("rn" + "d_", ALNUM, 32),
    "rootly-token": ("root" + "ly_", HEX, 64),
    "settlemint-token": ("sm_" + "pat_", ALNUM, 16),
    "sk-key": ("s" + "k-", HEX, 32),
    "sourcegraph-license-token": ("sl" + "k_", HEX, 64),
    "square-access-token": ("EA" + "AA", ALNUM, 60),
    "together-key": ("tgp_" + "v1_", DASHED, 43),
    "vault-legacy-token": ("s" + ".", ALNUM, 24),
    "voyage-key": ("p" + "a-", DASHED, 43),
    "adafruit-key": ("aio_", ALNUM, 28),
    "age-key": ("AGE-SECRET-KEY-" + "1", UPPER, 58),
    "alibaba-access-key": ("LT" + "AI", ALNUM, 20),
    "anthropic-key": ("sk-" + "ant-api03-", DASHED, 95),
    "artifactory-token": ("AKC" + "p", ALNUM, 69),
    "atlassian-token": ("ATAT" + "T3", ALNUM, 180),
    "aws-access-key": ("AK" + "IA", BASE32, 16),
    "buildkite-token": ("bkua_", HEX, 40),
    "clojars-token": ("CLOJARS_", LOWER, 60),
    "contentful-token": ("CFPAT-", ALNUM, 43),
    "crates-token": ("ci" + "o", ALNUM, 32),
    "databricks-token": ("da" + "pi", HEX, 32),
    "digitalocean-token": ("dop_" + "v1_", HEX, 64),
    "docker-token": ("dckr_" + "pat_", ALNUM, 27),
    "doppler-token": ("dp." + "pt.", ALNUM, 43),
    "duffel-token": ("duffel_" + "live_", ALNUM, 43),
    "easypost-key": ("EZ" + "AK", ALNUM, 54),
    "facebook-token": ("EAA" + "M", ALNUM, 120),
    "figma-token": ("figd_", ALNUM, 40),
    "flutterwave-key": ("FLWSECK" + "-", ALNUM, 32),
    "fly-token": ("fm2_", ALNUM, 200),
    "frameio-token": ("fio-u-", ALNUM, 64),
    "github-fine-grained-token": ("github_" + "pat_", ALNUM, 82),
    "github-token": ("gh" + "p_", ALNUM, 36),
    "gitlab-token": ("gl" + "pat-", ALNUM, 20),
    "gitlab-runner-token": ("gl" + "rt-", ALNUM, 20),
    "gitlab-trigger-token": ("gl" + "ptt-", HEX, 40),
    "gitlab-agent-token": ("glagent-", ALNUM, 50),
    "google-api-key": ("AI" + "za", ALNUM, 35),
    "google-client-secret": ("GOC" + "SPX-", ALNUM, 28),
    "google-access-token": ("ya" + "29.", ALNUM, 120),
    "grafana-token": ("glc_" + "eyJ", ALNUM, 120),
    "groq-key": ("gs" + "k_", ALNUM, 52),
    "huggingface-token": ("h" + "f_", ALNUM, 34),
    "infracost-key": ("ico-", ALNUM, 32),
    "linear-key": ("lin_" + "api_", ALNUM, 40),
    "mailgun-key": ("key-", HEX, 32),
    "netlify-token": ("nfp_", ALNUM, 36),
    "newrelic-key": ("NR" + "AK-", UPPER, 27),
    "notion-token": ("ntn_", ALNUM, 46),
    "npm-token": ("np" + "m_", ALNUM, 36),
    "nuget-key": ("oy" + "2", LOWER, 43),
    "onepassword-token": ("ops_" + "eyJ", ALNUM, 300),
    "openai-key": ("sk-" + "proj-", ALNUM, 120),
    "openrouter-key": ("sk-or-" + "v1-", HEX, 64),
    "perplexity-key": ("pplx-", ALNUM, 48),
    "planetscale-token": ("pscale_" + "tkn_", ALNUM, 43),
    "posthog-key": ("phx_", ALNUM, 43),
    "prefect-key": ("pnu_", ALNUM, 36),
    "pulumi-token": ("pul-", HEX, 40),
    "pypi-token": ("pypi-" + "AgEIcHlwaS5vcmc", ALNUM, 150),
    "razorpay-key": ("rzp_" + "live_", ALNUM, 14),
    "readme-key": ("rdme_", LOWER, 70),
    "replicate-token": ("r8_", ALNUM, 37),
    "rubygems-key": ("rubygems_", HEX, 48),
    "scalingo-token": ("tk-us-", ALNUM, 48),
    "sentry-token": ("sntrys_" + "eyJ", ALNUM, 120),
    "shippo-key": ("shippo_" + "live_", HEX, 40),
    "shopify-token": ("shp" + "at_", HEX, 32),
    "sonar-token": ("sq" + "u_", HEX, 40),
    "square-token": ("sq0" + "atp-", ALNUM, 22),
    "stripe-key": ("sk_" + "live_", ALNUM, 24),
    "stripe-webhook-secret": ("wh" + "sec_", ALNUM, 32),
    "supabase-key": ("sb" + "p_", HEX, 40),
    "tavily-key": ("tvly-", ALNUM, 32),
    "tencent-key": ("AK" + "ID", ALNUM, 32),
    "twilio-key": ("S" + "K", HEX, 32),
    "typeform-token": ("tfp_", ALNUM, 59),
    "vault-token": ("hv" + "s.", ALNUM, 90),
    "vercel-token": ("vercel_blob_" + "rw_", ALNUM, 40),
    "xai-key": ("xai-", ALNUM, 80),
    "yandex-key": ("AQ" + "VN", ALNUM, 35),
    "aiven-token": ("AV" + "NS_", ALNUM, 19),
    "aws-session-token": ("IQoJ" + "b3JpZ2lu", ALNUM, 300),
    "backblaze-key": ("K0" + "03", ALNUM, 27),
    "bitbucket-token": ("BB" + "DC-", ALNUM, 44),
    "brave-key": ("B" + "SA", ALNUM, 28),
    "browserbase-key": ("bb_" + "live_", ALNUM, 27),
    "calcom-key": ("cal_" + "live_", HEX, 32),
    "confluent-key": ("cf" + "lt", ALNUM, 60),
    "cursor-key": ("cr" + "sr_", HEX, 64),
    "daytona-key": ("dt" + "n_", HEX, 64),
    "depot-token": ("depot_" + "project_", HEX, 64),
    "discord-mfa-token": ("mf" + "a.", ALNUM, 84),
    "friendli-token": ("fl" + "p_", ALNUM, 46),
    "gemini-key": ("A" + "Q.", ALNUM, 50),
    "helicone-key": ("sk-" + "helicone-", LOWER, 31),
    "honeycomb-key": ("hc" + "aik_", LOWER, 58),
    "inngest-key": ("signkey-" + "prod-", HEX, 64),
    "kaggle-token": ("KG" + "AT_", HEX, 32),
    "klaviyo-key": ("p" + "k_", HEX, 34),
    "langchain-key": ("l" + "s__", HEX, 32),
    "mem0-key": ("m" + "0-", ALNUM, 40),
    "mongodb-atlas-secret": ("mdb_" + "sa_sk_", ALNUM, 40),
    "polar-token": ("polar_" + "oat_", ALNUM, 43),
    "runpod-key": ("rp" + "a_", ALNUM, 42),
    "snyk-token": ("snyk_" + "uat.0a1b2c3d.", ALNUM, 60),
    "socket-token": ("sk" + "tsec_", ALNUM, 44),
    "stytch-secret": ("secret-" + "live-", ALNUM, 36),
    "trello-token": ("AT" + "TA", HEX, 72),
    "trigger-key": ("tr_" + "dev_", ALNUM, 24),
    "volcengine-key": ("AK" + "LT", ALNUM, 44),
    "xata-key": ("xa" + "u_", ALNUM, 36),
}

Draw = Callable[[str, int], str]

COMPOSED: dict[str, Callable[[Draw], str]] = {
    "cloudflare-origin-key": lambda d: f"v1.0-{d(HEX, 24)}-{d(HEX, 146)}",
    "cloudflare-token": lambda d: f"cfut_{d(ALNUM, 40)}{d(HEX, 8)}",
    "defined-networking-token": lambda d: f"dnkey-{d(ALNUM, 26)}-{d(ALNUM, 52)}",
    "harness-token": lambda d: f"pat.{d(ALNUM, 22)}.{d(HEX, 24)}.{d(ALNUM, 20)}",
    "hubspot-token": lambda d: f"pat-na1-{_uuid(d)}",
    "jina-key": lambda d: f"jina_{d(HEX, 32)}{d(ALNUM, 28)}",
    "langfuse-key": lambda d: f"sk-lf-{_uuid(d)}",
    "launchdarkly-key": lambda d: f"sdk-{_uuid(d)}",
    "onepassword-secret-key": lambda d: "A3-" + "-".join(d(UPPER, n) for n in (6, 6, 5, 5, 5, 5)),
    "pinecone-key": lambda d: f"pcsk_{d(ALNUM, 5)}_{d(ALNUM, 63)}",
    "resend-key": lambda d: f"re_{d(ALNUM, 8)}_{d(ALNUM, 24)}",
    "sourcegraph-token": lambda d: f"sgp_{d(HEX, 16)}_{d(HEX, 40)}",
    "tailscale-key": lambda d: f"tskey-auth-k{d(ALNUM, 11)}CNTRL-{d(ALNUM, 32)}",
    "zoho-token": lambda d: f"1000.{d(HEX, 32)}.{d(HEX, 32)}",
    "asana-token": lambda d: f"2/1{d('123456789', 15)}/1{d('123456789', 15)}:{d(HEX, 32)}",
    "axiom-token": lambda d: f"xaat-{_uuid(d)}",
    "baidu-key": lambda d: f"ALTAK-{d(ALNUM, 21)}/{d(HEX, 40)}",
    "bitwarden-token": lambda d: f"0.{_uuid(d)}.{d(ALNUM, 30)}:{d(ALNUM, 22)}==",
    "clickup-token": lambda d: f"pk_{d('123456789', 8)}_{d(UPPER, 32)}",
    "cockroach-key": lambda d: f"CCDB1_{d(ALNUM, 22)}_{d(ALNUM, 40)}",
    "infisical-token": lambda d: f"st.{d(HEX, 24)}.{d(HEX, 32)}.{d(HEX, 32)}",
    "paddle-key": lambda d: f"pdl_live_apikey_{d(LOWER, 26)}_{d(ALNUM, 22)}_{d(ALNUM, 3)}",
    "telnyx-key": lambda d: f"KEY0{d('0123456789ABCDEF', 31)}_{d(ALNUM, 22)}",
    "tinybird-token": lambda d: f"p.eyJ{d(ALNUM, 80)}.{d(ALNUM, 43)}",
    "airtable-token": lambda d: f"pat{d(ALNUM, 14)}.{d(HEX, 64)}",
    "brevo-key": lambda d: f"xkeysib-{d(HEX, 64)}-{d(ALNUM, 16)}",
    "circleci-token": lambda d: f"CCIPAT_{d(ALNUM, 22)}_{d(HEX, 40)}",
    "discord-token": lambda d: f"MT{d(ALNUM, 24)}.G{d(ALNUM, 5)}.{d(ALNUM, 38)}",
    "dynatrace-token": lambda d: f"dt0c01.{d(UPPER, 24)}.{d(UPPER, 64)}",
    "grafana-service-token": lambda d: f"glsa_{d(ALNUM, 32)}_{d(HEX, 8)}",
    "heroku-key": lambda d: f"HRKU-{d(HEX, 8)}-{d(HEX, 4)}-{d(HEX, 4)}-{d(HEX, 4)}-{d(HEX, 12)}",
    "jwt": lambda d: f"eyJ{d(ALNUM, 33)}.eyJ{d(ALNUM, 60)}.{d(DASHED, 43)}",
    "langsmith-key": lambda d: f"lsv2_pt_{d(HEX, 32)}_{d(HEX, 10)}",
    "mapbox-secret-token": lambda d: f"sk.eyJ{d(ALNUM, 80)}.{d(ALNUM, 22)}",
    "openai-legacy-key": lambda d: f"sk-{d(ALNUM, 20)}T3Blbk" + f"FJ{d(ALNUM, 20)}",
    "plaid-token": lambda d: (
        f"access-production-{d(HEX, 8)}-{d(HEX, 4)}-{d(HEX, 4)}-{d(HEX, 4)}-{d(HEX, 12)}"
    ),
    "postman-key": lambda d: f"PMAK-{d(HEX, 24)}-{d(HEX, 34)}",
    "sendgrid-key": lambda d: f"SG.{d(ALNUM, 22)}.{d(ALNUM, 43)}",
    "slack-token": lambda d: f"xoxb-{d('123456789', 12)}-{d('123456789', 13)}-{d(ALNUM, 24)}",
    "slack-app-token": lambda d: f"xapp-1-A{d(UPPER, 10)}-{d('123456789', 13)}-{d(HEX, 64)}",
}

BEGINNINGS = {
    # kind: every way in which it may begin, the first as in its sample above
    "aws-session-token": "IQoJb3JpZ2lu FwoGZXIvYXdz",
    "axiom-token": "xaat- xapt-",
    "cursor-key": "crsr_ key_",
    "databricks-token": "dapi dose",
    "depot-token": "depot_project_ depot_org_ depot_user_",
    "honeycomb-key": "hcaik_ hcbik_ hcamk_ hccik_ hcxik_",
    "inngest-key": "signkey-prod- signkey-test- signkey-branch-",
    "paddle-key": "pdl_live_apikey_ pdl_sdbx_apikey_",
    "polar-token": "polar_oat_ polar_pat_ polar_cs_ polar_whs_",
    "snyk-token": "snyk_uat. snyk_sat.",
    "stytch-secret": "secret-live- secret-test-",
    "trigger-key": "tr_dev_ tr_prod_ tr_pat_ tr_stg_",
    "atlassian-token": "ATATT3 ATCTT3 ATSTT3 ATBB",
    "aws-access-key": "AKIA ASIA ABIA ACCA",
    "brevo-key": "xkeysib- xsmtpsib-",
    "buildkite-token": "bkua_ bkaj_",
    "circleci-token": "CCIPAT_ CCIPRJ_",
    "cloudflare-token": "cfut_ cfat_ cfk_",
    "dbt-token": "dbtc_ dbtu_",
    "deno-token": "ddp_ ddw_",
    "digitalocean-token": "dop_v1_ doo_v1_ dor_v1_",
    "discord-token": "MT Mj Mz ND NT Nj Nz OD OT",
    "docker-token": "dckr_pat_ dckr_oat_",
    "doppler-token": "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.",
    "duffel-token": "duffel_live_ duffel_test_",
    "dynatrace-token": "dt0c01. dt0s01. dt0s02.",
    "e2b-key": "e2b_ sk_e2b_",
    "easypost-key": "EZAK EZTK",
    "figma-token": "figd_ figu_ figp_ figo_ figr_ figh_ figuh_ figor_",
    "flutterwave-key": "FLWSECK- FLWSECK_TEST-",
    "fly-token": "fm2_ fm1r_ fo1_",
    "github-token": "ghp_ gho_ ghu_ ghs_ ghr_",
    "gitlab-runner-token": "glrt- glrtr- glcbt- GR1348941",
    "gitlab-token": "glpat- gldt- glft- gloas- glimt- glsoat- glffct-",
    "harness-token": "pat. sat.",
    "hubspot-token": "pat-na1- pat-eu1-",
    "huggingface-token": "hf_ api_org_",
    "intra42-secret": "s-s4t2ud- s-s4t2af-",
    "langsmith-key": "lsv2_pt_ lsv2_sk_",
    "launchdarkly-key": "sdk- api-",
    "linear-key": "lin_api_ lin_oauth_ lin_wh_",
    "modal-token": "as- ak-",
    "netlify-token": "nfp_ nfc_ nfo_",
    "newrelic-key": "NRAK- NRII- NRIQ- NRJS- NRRA- NRSP- NRBR- NRAL-",
    "openai-key": "sk-proj- sk-svcacct- sk-admin- sk-None-",
    "plaid-token": "access-production- access-development- access-sandbox-",
    "planetscale-token": "pscale_tkn_ pscale_pw_ pscale_oauth_",
    "prefect-key": "pnu_ pnb_",
    "pypi-token": "pypi-AgEIcHlwaS5vcmc pypi-AgENdGVzdC5weXBpLm9yZw",
    "sentry-token": "sntrys_ sntryu_ sntrya_ sntryi_",
    "settlemint-token": "sm_pat_ sm_aat_ sm_sat_",
    "shippo-key": "shippo_live_ shippo_test_",
    "shopify-token": "shpat_ shpca_ shppa_ shpss_ shptka_",
    "slack-token": "xoxb- xoxp- xoxa- xoxo- xoxr- xoxs- xoxd- xoxe- xoxe.xoxp- xoxe.xoxb-",
    "sonar-token": "squ_ sqp_ sqa_",
    "sourcegraph-license-token": "slk_ sgd_",
    "square-token": "sq0atp- sq0csp- sq0idp-",
    "stripe-key": "sk_live_ rk_live_ sk_test_ rk_test_ sk_prod_",
    "supabase-key": "sbp_ sb_secret_",
    "vault-token": "hvs. hvb. hvr.",
    "vercel-token": "vercel_blob_rw_ vcp_ vci_",
}
"""The kinds that begin in several ways. Written down once more, so that none gets lost among the
rules.
"""

ROBLOX_WARNING = (
    "_|WARNING:-DO-NOT-SHARE-THIS.--Sharing-this-will-allow-someone-to-log-in-as-you-"
    "and-to-steal-your-ROBUX-and-items.|_"
)
"""What stands before each session cookie."""

IN_CONTEXT: dict[str, Callable[[Draw], tuple[str, str, str]]] = {
    # what stands before the secret, the secret, what stands after it
    "aws-secret-key": lambda d: ("aws_secret_access_key = ", d(ALNUM + "/+", 40), "\n"),
    "azure-client-secret": lambda d: ("secret: ", f"{d(ALNUM, 3)}8Q~{d(ALNUM, 34)}", "\n"),
    "azure-storage-key": lambda d: (";AccountKey=", d(ALNUM + "/+", 86) + "==", ";"),
    "azure-devops-token": lambda d: ("", f"{d(ALNUM, 76)}AZ" + f"DO{d(ALNUM, 4)}", "\n"),
    "azure-key": lambda d: ("key: ", f"{d(ALNUM, 52)}JQQ" + f"J9{d(ALNUM, 27)}", "\n"),
    "basic-auth": lambda d: ("Authorization: Basic ", _encoded("deploy:" + _drawn(d, 18)), "\n"),
    "bearer-token": lambda d: ("Authorization: Bearer ", _drawn(d, 40), "\n"),
    "discord-webhook": lambda d: (
        "https://discord.com/api/webhooks/",
        f"{d('123456789', 18)}/{d(ALNUM, 68)}",
        "\n",
    ),
    "mailchimp-key": lambda d: ("mc = ", f"{d(HEX, 32)}-us14", "\n"),
    "maxmind-key": lambda d: ("", f"{d(ALNUM, 6)}_{d(ALNUM, 29)}_mmk", "\n"),
    "netrc-password": lambda d: (
        "machine api.service.dev\n  login me\n  password ",
        d(LOWER, 12),
        "\n",
    ),
    "openshift-token": lambda d: ("oc login --with ", f"sha256~{d(DASHED, 43)}", "\n"),
    "registry-auth": lambda d: (
        '{"auths":{"r.dev":{"auth":"',
        _encoded("bot:" + _drawn(d, 12)),
        '"}}}',
    ),
    "terraform-token": lambda d: (
        'token = "',
        f"{d(ALNUM, 14)}.atlas" + f"v1.{d(ALNUM, 67)}",
        '"\n',
    ),
    "named-secret": lambda d: ('"clientSecret": "', d(ALNUM, 30) + "907", '"'),
    "password": lambda d: ("DB_PASSWORD=", "Kq7" + d(ALNUM, 9) + "!x", "\n"),
    "private-key": lambda d: ("", _pem(d), "\n"),
    "putty-key": lambda d: ("Private-Lines: 8", "\n" + d(ALNUM, 64) + "\n" + d(ALNUM, 64), ""),
    "slack-webhook": lambda d: (
        "https://hooks.slack.com/services/",
        f"T{d(UPPER, 8)}/B{d(UPPER, 9)}/{d(ALNUM, 24)}",
        "\n",
    ),
    "teams-webhook": lambda d: (
        "https://company.webhook.office.com/",
        f"webhookb2/{d(HEX, 36)}@{d(HEX, 36)}/IncomingWebhook/{d(HEX, 32)}/{d(HEX, 36)}",
        "\n",
    ),
    "telegram-token": lambda d: (f"bot{d('123456789', 9)}:", "AA" + d(ALNUM, 33), "/getMe"),
    "azure-signature": lambda d: (
        "https://a.blob.core.windows.net/c?sv=2022-11-02&sp=r&sig=",
        d(ALNUM, 42) + "7%3D",
        "&x=1\n",
    ),
    "braintree-token": lambda d: (
        "token = '",
        "access_to" + f"ken$production${d(LOWER, 16)}${d(HEX, 32)}",
        "'",
    ),
    "command-password": lambda d: ("curl -u admin:", "Kq7" + d(ALNUM, 11), " https://a.dev/"),
    "convex-key": lambda d: ("prod:happy-otter-7|", "eyJ2" + "MiI6" + d(ALNUM, 80), "\n"),
    "fcm-server-key": lambda d: (f"x AAAA{d(ALNUM, 7)}:", "APA9" + "1b" + d(DASHED, 134), "\n"),
    "fernet-key": lambda d: ("f = Fernet(b'", d(ALNUM, 43) + "=", "')"),
    "jwk-private-key": lambda d: ('{"kty": "EC", "crv": "P-256", "d": "', d(ALNUM, 43), '"}'),
    "newrelic-license-key": lambda d: ("use ", f"{d(HEX, 36)}NR" + "AL", "\n"),
    "pgpass-password": lambda d: ("db.internal:5432:app:me:", "Kq7" + d(ALNUM, 9), "\n"),
    "roblox-cookie": lambda d: (
        ROBLOX_WARNING,
        d("0123456789ABCDEF", 600),
        "\n",
    ),
    "url-token": lambda d: ("https://", _drawn(d, 32), "@git.service.dev/a/b"),
    "wordpress-salt": lambda d: (
        "define('AUTH_KEY', '",
        d(ALNUM, 30) + "!(7 ~[x" + d(ALNUM, 27),
        "');\n",
    ),
    "zapier-webhook": lambda d: (
        "https://hooks.zapier.com/hooks/catch/",
        f"{d('123456789', 7)}/{d(LOWER, 7)}",
        "/\n",
    ),
    "url-password": lambda d: ("postgres://app:", d(ALNUM, 12) + "7q", "@db.internal:5432/app"),
}

PLACES: dict[str, Callable[[str], str]] = {
    "JSON, escaped": lambda t: '{"type":"tool_result","content":"ok\\n' + t + '\\nexit 0"}',
    "an env file": lambda t: f"A=1\nexport SERVICE_CREDENTIAL={t}\nB=2\n",
    "a URL": lambda t: f"GET https://api.service.dev/v1/items?limit=3&key={t}&page=2 HTTP/1.1",
    "a header": lambda t: f"curl -s -H 'Authorization: Bearer {t}' https://api.service.dev/",
    "code": lambda t: f'client = Client(base, "{t}", timeout=3)  # for now',
}


def drawn(seed: int = 1) -> Draw:
    """A source of random letters that gives the same each time."""
    source = random.Random(seed)

    def draw(letters: str, count: int) -> str:
        return "".join(source.choice(letters) for _ in range(count))

    return draw


def tokens(seed: int = 1) -> dict[str, str]:
    """One token of every kind that is known by itself."""
    draw = drawn(seed)
    plain = {kind: prefix + draw(letters, count) for kind, (prefix, letters, count) in LONG.items()}
    return plain | {kind: make(draw) for kind, make in COMPOSED.items()}


def in_context(seed: int = 1) -> dict[str, tuple[str, str, str]]:
    """One secret of every kind that is known by what stands around it."""
    draw = drawn(seed)
    return {kind: make(draw) for kind, make in IN_CONTEXT.items()}


def _uuid(draw: Draw) -> str:
    return "-".join(draw(HEX, count) for count in (8, 4, 4, 4, 12))


def _drawn(draw: Draw, count: int) -> str:
    """Letters, with digits of several kinds in every case."""
    return "k7" + draw(ALNUM, count - 4) + "Q4"


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _pem(draw: Draw) -> str:
    lines = "\n".join(draw(ALNUM + "+/", 64) for _ in range(12))
    return f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{lines}\n-----END RSA PRIVATE {'KEY'}-----"
