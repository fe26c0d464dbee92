#!/bin/sh
# make_venv.sh PYTHON FOLDER: a virtual environment, with Debian's venv package where it is missing.
set -eu
python=$1
folder=$2
if ! command -v "$python" >/dev/null 2>&1; then
    python=python3
fi
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "domaincal needs Python 3.11 or newer, found $("$python" --version); pass PYTHON=..." >&2
    exit 1
fi
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "$python has no venv module; install it (Debian: apt-get install python3-venv)" >&2
        exit 1
    fi
    apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
fi
"$python" -m venv "$folder"
