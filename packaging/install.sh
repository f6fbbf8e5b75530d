#!/bin/sh
# Used by the Dockerfile.
#   install.sh locked DISTRIBUTION [--extra NAME]...   its dependencies, versions and hashes from uv.lock, into /opt/sparkstate
#   install.sh wheel TARGET FOLDER                     a wheel of one that is compiled, with what its pyproject.toml asks for
#   install.sh own TARGET FOLDER|WHEEL...              our own distributions, into TARGET, to be laid over /opt/sparkstate
set -eu
[ ! -s /run/secrets/pipconf ] || export PIP_CONFIG_FILE=/run/secrets/pipconf
[ ! -s /run/secrets/ca ] || export PIP_CERT=/run/secrets/ca
pip="/opt/build/bin/pip --disable-pip-version-check"
case $1 in
locked)
    shift
    /opt/build/bin/uv export --quiet --frozen --no-dev --no-emit-workspace --package "$@" --output-file /tmp/locked.txt
    $pip --python /opt/sparkstate/bin/python install --quiet --no-cache-dir --no-compile --no-deps --require-hashes \
        --requirement /tmp/locked.txt
    ;;
wheel)
    $pip wheel --quiet --no-cache-dir --no-deps --wheel-dir "$2" "./$3"
    ;;
own)
    target=$2
    shift 2
    # Built without network: the build backend is in the build environment already.
    # A wheel that is built is copied as it is.
    for each; do $pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /tmp/own "./$each"; done
    $pip --python /opt/sparkstate/bin/python install --quiet --no-cache-dir --no-compile --no-deps --no-index /tmp/own/*.whl
    # What this added to the environment is copied to a place of its own: a layer of a few hundred kilobytes, so that
    # a change of our code leaves the large layers as they are.
    site=$(/opt/sparkstate/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    below=${site#/opt/sparkstate/}
    mkdir -p "$target/$below" "$target/bin"
    for wheel in /tmp/own/*.whl; do
        name=$(basename "$wheel" | cut -d- -f1)
        cp -a "$site/$name" "$site/$name"-*.dist-info "$target/$below/"
    done
    for script in /opt/sparkstate/bin/sparkstate*; do [ ! -f "$script" ] || cp -a "$script" "$target/bin/"; done
    /opt/sparkstate/bin/python -m compileall -q --invalidation-mode unchecked-hash "$target/$below"
    ;;
esac
