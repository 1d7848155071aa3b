#!/bin/sh
# Makes .venv and installs the cockpit with its development tools into it. Run by make; safe to run again.
#
# What a bare Debian lacks is installed through apt when this runs as root; otherwise the command to run is said.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "$*" >&2; }

is_new_enough() { "$1" -c 'import sys; raise SystemExit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

# The first Python of at least 3.11; $PYTHON goes before all others.
find_python() {
    for name in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
        if is_new_enough "$name"; then
            command -v "$name"
            return 0
        fi
    done
    return 1
}

is_root() { [ "$(id -u)" -eq 0 ]; }

# Install Debian packages, or say how and stop.
need_packages() {
    if is_root && command -v apt-get >/dev/null 2>&1; then
        say "Installing $*"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null
    elif command -v apt-get >/dev/null 2>&1; then
        say "Something is missing. Run this, then try again:"
        say "    sudo apt-get install $*"
        exit 2
    else
        say "Something is missing. Install what Debian calls $* and try again."
        exit 2
    fi
}

if ! python=$(find_python); then
    need_packages python3 python3-venv
    if ! python=$(find_python); then
        say "Python 3.11 or later is needed, and this system's python3 is older."
        say "Install a newer one and name it: make PYTHON=/path/to/python3.12"
        exit 2
    fi
fi

missing=""
if ! "$python" -c 'import ensurepip, venv' >/dev/null 2>&1; then
    missing="$("$python" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')"
fi
# The CPU build of vLLM, which the demo and the tests run, needs libnuma; the cockpit itself does not.
if ! "$python" -c 'import ctypes; ctypes.CDLL("libnuma.so.1")' >/dev/null 2>&1; then
    if [ -n "$missing" ] || is_root; then
        missing="$missing libnuma1"
    else
        say "Note: libnuma is missing, which the CPU build of vLLM needs (sudo apt-get install libnuma1)."
    fi
fi
if [ -n "$missing" ]; then
    # shellcheck disable=SC2086 # one word for each package
    need_packages $missing
fi

if ! .venv/bin/python -c 'import pip' >/dev/null 2>&1; then
    say "Making .venv with $python"
    "$python" -m venv --clear .venv
fi
pip() { .venv/bin/python -m pip "$@"; }
say "Installing the cockpit into .venv"
pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1' # the first that knows dependency groups
pip install --quiet --disable-pip-version-check --editable . --group dev
