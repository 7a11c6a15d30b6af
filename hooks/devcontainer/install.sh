#!/bin/sh
# Install gitcp into a virtual environment of its own, with its commands on everybody's PATH.
# SOURCE is the option of devcontainer-feature.json; PREFIX and BIN are where it goes.
set -eu

prefix="${PREFIX:-/opt/gitcp}"
bin="${BIN:-/usr/local/bin}"

fail() {
    echo "gitcp: $1; nothing was installed" >&2
    exit 1
}

[ -n "${SOURCE:-}" ] || fail 'the option "source" says what to install: a wheel, a directory or an address'
command -v git >/dev/null || fail "git is missing: add the feature ghcr.io/devcontainers/features/git"
python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
    fail "Python 3.11 with venv is missing: add the feature ghcr.io/devcontainers/features/python"

python3 -m venv "$prefix"
"$prefix/bin/pip" install --quiet --disable-pip-version-check "$SOURCE"
mkdir -p "$bin"
for name in gitcp git-gitcp; do
    ln -sf "$prefix/bin/$name" "$bin/$name"
done
"$bin/gitcp" --version
