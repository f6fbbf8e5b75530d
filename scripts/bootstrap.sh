#!/bin/sh
# Finds a Python that fits and hands over to bootstrap.py. This part is shell because it must still be able to
# say something clear on a machine whose Python is too old to parse the rest.
set -eu
here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)

fits() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' >/dev/null 2>&1
}

for candidate in "${PYTHON:-}" python3 python3.11 python3.12 python3.13 python3.14; do
    if [ -n "$candidate" ] && fits "$candidate"; then
        exec "$candidate" "$here/bootstrap.py" "$@"
    fi
done

found=$(python3 --version 2>&1 || echo "no python3 on PATH")
cat >&2 <<EOF
sparkstate needs Python 3.11 to 3.14; found: $found.
  Debian, Ubuntu:  sudo apt-get install python3 python3-venv
  Fedora:          sudo dnf install python3.12
  macOS:           brew install python@3.12
Another interpreter can be named: make PYTHON=/path/to/python3.12 ...
EOF
exit 1
