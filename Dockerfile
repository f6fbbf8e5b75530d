# Two images from one file:
#   --target operator   the Kubernetes operator: no Spark, no RocksDB
#   --target job        the engine with Spark, RocksDB and a Java: the base of every job's image
# Both run as 185:185 with a read-only root file system; what may be written to is declared as a volume. They run as
# any other user of the group 0 too (OpenShift), as packaging/entry tells.
# `make images` builds them with Docker or with buildah; docs/kubernetes.md tells how they get into a cluster.

# Debian 13, debian:trixie-slim of 2026-08-04 for all platforms, as docker-library/repo-info lists it. A digest never
# changes under a build; what Debian has mended since is installed below. `make images` names another base where this
# one cannot be pulled.
ARG BASE=docker.io/library/debian@sha256:3a39a0592364683e6bab97937b72cad5a8fa6dcbbee90edb3bb48c7f8e94f258

FROM ${BASE} AS runtime
# tini is process 1: it reaps the slots that outlive the task that started them, and passes SIGTERM on.
RUN apt-get update \
 && apt-get upgrade -y \
 && apt-get install -y --no-install-recommends python3 ca-certificates tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/* \
 && groupadd --gid 185 sparkstate \
 && useradd --uid 185 --gid 185 --home-dir /var/lib/sparkstate --no-create-home --shell /usr/sbin/nologin sparkstate \
 && install -d -o 185 -g 0 -m 0770 /var/lib/sparkstate
ENV PATH=/opt/sparkstate/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
    HOME=/var/lib/sparkstate \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1
WORKDIR /var/lib/sparkstate

# Builds the virtual environments. The two secrets are optional: pip's configuration and the certificates of a
# host that reaches its package index by a mirror or a proxy. They are no part of any layer.
FROM runtime AS build
RUN apt-get update && apt-get install -y --no-install-recommends binutils python3-venv
ARG UV="uv>=0.8,<1"
RUN --mount=type=secret,id=pipconf,target=/run/secrets/pipconf --mount=type=secret,id=ca,target=/run/secrets/ca \
    python3 -m venv /opt/build && python3 -m venv --without-pip /opt/sparkstate \
 && if [ -s /run/secrets/pipconf ]; then export PIP_CONFIG_FILE=/run/secrets/pipconf; fi \
 && if [ -s /run/secrets/ca ]; then export PIP_CERT=/run/secrets/ca; fi \
 && /opt/build/bin/pip install --quiet --no-cache-dir "$UV" hatchling
COPY packaging/install.sh packaging/prune.py /opt/packaging/
WORKDIR /src
# The workspace has tools/ too, which no image needs: uv passes over a member whose folder is not there.
COPY pyproject.toml uv.lock ./
COPY spec/pyproject.toml spec/pyproject.toml
COPY engine/pyproject.toml engine/pyproject.toml
COPY operator/pyproject.toml operator/pyproject.toml

# --- operator ---------------------------------------------------------------------------------------------------

FROM build AS operator-packages
RUN --mount=type=secret,id=pipconf,target=/run/secrets/pipconf --mount=type=secret,id=ca,target=/run/secrets/ca \
    sh /opt/packaging/install.sh locked sparkstate-operator && python3 /opt/packaging/prune.py /opt/sparkstate
FROM operator-packages AS operator-code
COPY LICENSE NOTICE ./
COPY spec spec
COPY operator operator
RUN sh /opt/packaging/install.sh own /opt/own spec operator

FROM runtime AS operator
LABEL org.opencontainers.image.title="sparkstate operator" \
      org.opencontainers.image.description="Kubernetes operator for stateful Spark jobs" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=operator-packages /opt/sparkstate /opt/sparkstate
COPY --from=operator-code /opt/own /opt/sparkstate
USER 185:185
VOLUME ["/tmp"]
ENTRYPOINT ["tini", "--", "python", "-m", "sparkstate_operator"]

# --- job --------------------------------------------------------------------------------------------------------

FROM build AS job-packages
RUN --mount=type=secret,id=pipconf,target=/run/secrets/pipconf --mount=type=secret,id=ca,target=/run/secrets/ca \
    sh /opt/packaging/install.sh locked sparkstate --extra rocksdb --extra s3 \
 && python3 /opt/packaging/prune.py /opt/sparkstate
# The record path in C. The compiler stays in this stage, which is built anew only if compiled/ changes.
FROM build AS compiled
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev python3-dev
COPY compiled compiled
RUN --mount=type=secret,id=pipconf,target=/run/secrets/pipconf --mount=type=secret,id=ca,target=/run/secrets/ca \
    sh /opt/packaging/install.sh wheel /opt/wheels compiled
FROM job-packages AS job-code
COPY LICENSE NOTICE ./
COPY spec spec
COPY engine engine
COPY --from=compiled /opt/wheels wheels
RUN sh /opt/packaging/install.sh own /opt/own spec engine wheels/*.whl

# A Java of the modules that Spark, its libraries and whoever looks at a running job may use; compilers are not among
# them. The class files are packed: nearly all that are loaded come from the archives of classes, of which this writes
# the JVM's own. They are without debugging information, a tenth of both archives (stack traces do without the lines
# in Java's own classes). Certificates are those of Debian's ca-certificates. dpkg-status tells the SBOM which of
# Debian's packages it was made of.
FROM runtime AS java
ARG MODULES=java.se,jdk.charsets,jdk.crypto.cryptoki,jdk.crypto.ec,jdk.httpserver,jdk.incubator.vector,jdk.jcmd,jdk.jfr,\
jdk.localedata,jdk.management,jdk.management.agent,jdk.naming.dns,jdk.net,jdk.nio.mapmode,jdk.security.auth,\
jdk.security.jgss,jdk.unsupported,jdk.xml.dom,jdk.zipfs
RUN mkdir -p /usr/share/man/man1 \
 && apt-get update \
 && apt-get install -y --no-install-recommends openjdk-21-jdk-headless
RUN jlink --add-modules "$MODULES" --compress=zip-6 --strip-java-debug-attributes --no-header-files --no-man-pages \
          --output /opt/java \
 && cp -L /etc/ssl/certs/java/cacerts /opt/java/lib/security/cacerts \
 && cp /usr/share/doc/openjdk-21-jre-headless/copyright /opt/java/legal/copyright \
 && dpkg --status openjdk-21-jre-headless > /opt/java/legal/dpkg-status \
 && /opt/java/bin/java -Xshare:dump

# All of the job's image that changes seldom.
FROM runtime AS spark
# What Java reads pictures with (Spark's image source). And a second /etc/passwd, which may be written at the start of a
# container: the root file system is read-only, and Hadoop refuses a user without a name (packaging/entry).
RUN apt-get update \
 && apt-get install -y --no-install-recommends libjpeg62-turbo liblcms2-2 libnss-extrausers \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/debconf/*-old /var/log/* \
 && sed -i 's/^passwd:.*/passwd: files extrausers/' /etc/nsswitch.conf \
 && ln -s /tmp/.sparkstate-passwd /var/lib/extrausers/passwd
ENV JAVA_HOME=/opt/java \
    SPARK_HOME=/opt/sparkstate/spark \
    PYSPARK_PYTHON=/opt/sparkstate/bin/python \
    PYSPARK_DRIVER_PYTHON=/opt/sparkstate/bin/python
COPY --from=java /opt/java /opt/java
COPY --from=job-packages /opt/sparkstate /opt/sparkstate
RUN ln -s "$(python -c 'import importlib.util as u; print(u.find_spec("pyspark").submodule_search_locations[0])')" /opt/sparkstate/spark

# Spark runs once, in the very files that the image has: a JVM compares the times of jars with those in the archive.
FROM spark AS classes
COPY packaging/classes.py packaging/cluster.py packaging/executor.py /opt/packaging/
RUN python /opt/packaging/classes.py /opt/sparkstate/spark

FROM spark AS job
LABEL org.opencontainers.image.title="sparkstate job" \
      org.opencontainers.image.description="PySpark with keyed state: the base image of stateful Spark jobs" \
      org.opencontainers.image.licenses="Apache-2.0"
ENV SPARKSTATE_CLASS_ARCHIVE=/opt/sparkstate/spark/classes.jsa
COPY --from=classes /opt/sparkstate/spark/classes.jar /opt/sparkstate/spark/classes.jsa /opt/sparkstate/spark/
COPY --from=job-code /opt/own /opt/sparkstate
COPY --chmod=0755 packaging/executor.py packaging/sparkstate-driver packaging/entry /opt/sparkstate/bin/
USER 185:185
VOLUME ["/tmp", "/var/lib/sparkstate"]
ENTRYPOINT ["/opt/sparkstate/bin/entry"]
CMD ["sparkstate", "--help"]
