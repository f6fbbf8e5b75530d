#!/bin/sh
# Used by the Dockerfile.
#   install.sh locked DISTRIBUTION [--extra NAME]...   its dependencies, versions and hashes from uv.lock, into /opt/sparkstate
#   install.sh own FOLDER TARGET                       the distribution itself, into TARGET, to be laid over /opt/sparkstate
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
own)
    # Built without network: the build backend is in the build environment already.
    $pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /tmp/own "./$2"
    $pip --python /opt/sparkstate/bin/python install --quiet --no-cache-dir --no-compile --no-deps --no-index /tmp/own/*.whl
    # What this added to the environment is copied to a place of its own: a layer of a few hundred kilobytes, so that
    # a change of our code leaves the large layers as they are.
    name=$(basename /tmp/own/*.whl | cut -d- -f1)
    site=$(/opt/sparkstate/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    below=${site#/opt/sparkstate/}
    mkdir -p "$3/$below" "$3/bin"
    cp -a "$site/$name" "$site/$name"-*.dist-info "$3/$below/"
    for script in /opt/sparkstate/bin/sparkstate*; do [ ! -f "$script" ] || cp -a "$script" "$3/bin/"; done
    /opt/sparkstate/bin/python -m compileall -q --invalidation-mode unchecked-hash "$3/$below"
    ;;
esac
