#!/bin/sh
# install_browser.sh: Chromium from Debian, and axe-core from npm, for tests/browser.
# Without them those tests are skipped: nothing here is an error.
set -u
if ! command -v chromium >/dev/null 2>&1; then
    if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null 2>&1; then
        apt-get update -qq && apt-get install -y -qq chromium >/dev/null ||
            echo "chromium could not be installed: tests/browser will be skipped" >&2
    else
        echo "chromium is missing (Debian: apt-get install chromium): tests/browser will be skipped" >&2
    fi
fi
if command -v npm >/dev/null 2>&1; then
    npm install --prefix tests/browser --no-package-lock --no-audit --no-fund --silent ||
        echo "axe-core could not be installed: the tests with it will be skipped" >&2
else
    echo "npm is missing: the tests with axe-core will be skipped" >&2
fi
