#!/usr/bin/env bash
# gitcp: the review step of action.yml. A pull request never fails because its story cannot be told.
set -uo pipefail

out="$RUNNER_TEMP/gitcp-review"
warn() { echo "::warning title=gitcp::$1"; }
# At most five minutes each; macOS runners have no timeout(1).
limited() { if command -v timeout >/dev/null; then timeout -k 10 300 "$@"; else "$@"; fi; }

mkdir -p "$out"
{ limited gitcp remote "$REMOTE" && limited gitcp fetch "$REMOTE"; } || warn "no checkpoints were fetched from $REMOTE"
if ! limited gitcp review "$BASE..$HEAD" --redact --force -o "$out/review.md" -o "$out/review.html"; then
  warn "the review could not be made"
  exit 0
fi
cat "$out/review.md" >> "$GITHUB_STEP_SUMMARY"
# A fork's job may read and not write: its reader has the summary.
if [ "$COMMENT" = true ] && [ "$FROM" = "$GITHUB_REPOSITORY" ]; then
  limited gitcp review "$BASE..$HEAD" --redact --post || warn "the comment could not be written; the summary has it"
fi
exit 0
