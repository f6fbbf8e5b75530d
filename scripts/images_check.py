"""Looks into the built images as a cluster would run them: as their user, with a read-only root file system.

    make images ARGS=--check          after the build, by buildah (as root)

Each program below runs in the image's own file system: mounted read-only, with empty folders where the image declares
volumes, no network, user 185:185. A job runs once more as a user whom the image does not know, as on OpenShift.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PYTHON = "/opt/sparkstate/bin/python"
IMPORTS = """
import importlib, importlib.util, pkgutil, sys
root, forbidden = sys.argv[1], sys.argv[2:]
package = importlib.import_module(root)
names = [m.name for m in pkgutil.walk_packages(package.__path__, root + '.') if not m.name.endswith('__main__')]
for name in names:
    importlib.import_module(name)
there = [name for name in forbidden if importlib.util.find_spec(name) is not None]
assert not there, f'{there} must not be in this image'
print(len(names), 'modules import')
"""
COMPILED = """
import shutil
from sparkstate.operators import compiled
assert compiled.status() == compiled.IN_USE, compiled.status()
found = [name for name in ('cc', 'gcc', 'as', 'ld') if shutil.which(name)]
assert not found, f'{found} must not be in this image'
print('compiled record path:', compiled.status())
"""
FILES = """
import os, pwd, sys
entry = pwd.getpwuid(os.getuid())
assert (entry.pw_name, f'{os.getuid()}:{os.getgid()}') == ('sparkstate', sys.argv[1]), entry
writable = [p for p in ('/', '/opt/sparkstate', '/usr', '/etc', '/home', entry.pw_dir, '/tmp') if os.access(p, os.W_OK)]
assert writable == sys.argv[2:], writable
print('writable:', *writable)
"""
JOB = """
import sparkstate
from sparkstate import KeyedProcessFunction, Types, ValueStateDescriptor
class Count(KeyedProcessFunction):
    def open(self, ctx):
        self.seen = ctx.get_state(ValueStateDescriptor("seen", Types.LONG()))
    def process_element(self, row, ctx):
        seen = (self.seen.value() or 0) + 1
        self.seen.update(seen)
        yield row.value % 7, seen
def job(spark, params):
    rows = spark.readStream.schema("value long").option("maxFilesPerTrigger", 1).json(params["input"])
    (sparkstate.keyed(rows, "value").process(Count(), uid="count", output_schema="key long, seen long")
        .sink(sparkstate.FileSink(params["output"], format="json")))
"""
MANIFEST = {
    "apiVersion": "sparkstate.io/v1alpha1",
    "kind": "StatefulSparkJob",
    "metadata": {"name": "check"},
    "spec": {
        "pythonFile": "/tmp/job.py",
        "params": {"input": "/tmp/in", "output": "/tmp/out"},
        "slots": 2,
        "stateBackend": {"type": "rocksdb"},
        "trigger": {"availableNow": True},
        "checkpointing": {"interval": "1s", "storage": "/tmp/checkpoints"},
        "driver": {"memory": "512Mi"},
        "sparkConf": {"spark.driver.extraJavaOptions": "-Xlog:class+load:file=/tmp/classes.log"},
    },
}
SHARED = """
import collections, pathlib, re
def check_shared(log):
    sources = re.findall(r'source: (shared objects file|file:|jrt:)', pathlib.Path(log).read_text())
    count = collections.Counter(sources)
    archived, read = count['shared objects file'], count['file:'] + count['jrt:']
    text = f'{archived} classes from archives, {read} read'
    assert archived > 9 * read, text + ': the archive of classes was not used (run that java with -Xshare:on)'
    print(text)
"""
RUN_JOB = """
import json, pathlib, subprocess, sys
tmp = pathlib.Path('/tmp')
(tmp / 'job.py').write_text(sys.argv[1])
(tmp / 'job.yaml').write_text(sys.argv[2])
(tmp / 'in').mkdir()
for f in range(3):
    (tmp / 'in' / f'{f}.json').write_text(''.join(json.dumps({'value': v}) + chr(10) for v in range(100)))
subprocess.run(['sparkstate-driver', '--manifest', '/tmp/job.yaml', '--work-dir', '/var/lib/sparkstate',
                '--termination-log', '/tmp/end.json'], check=True)
rows = [json.loads(l) for p in (tmp / 'out').glob('part-*') for l in p.read_text().splitlines()]
assert len(rows) == 300 and sum(r['seen'] for r in rows) == 100 * (1 + 2 + 3), len(rows)
print(json.loads((tmp / 'end.json').read_text())['reason'], len(rows), 'rows')
check_shared('/tmp/classes.log')
"""
EXECUTOR = """
import subprocess
# No driver answers, so it ends; by then it has loaded what it needs to look for one.
ended = subprocess.run(['/opt/sparkstate/bin/entry', 'executor'], stdout=-3, stderr=-3).returncode
assert ended, 'an executor without driver must fail'
check_shared('/tmp/executor.log')
"""
EXECUTOR_POD = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "check",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "check-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_JAVA_OPT_0": "-Xlog:class+load:file=/tmp/executor.log",
}
ENVIRONMENT = {
    "HOME": "/var/lib/sparkstate",
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PATH": "/opt/sparkstate/bin:/usr/sbin:/usr/bin:/sbin:/bin",
}
JOB_ENVIRONMENT = {
    "JAVA_HOME": "/opt/java",
    "SPARK_HOME": "/opt/sparkstate/spark",
    "PYSPARK_PYTHON": PYTHON,
    "SPARKSTATE_CLASS_ARCHIVE": "/opt/sparkstate/spark/classes.jsa",
}
NAMESPACES = ("unshare", "--mount", "--pid", "--net", "--uts", "--fork", "--kill-child")
USER = "185:185"
ANY_USER = "1000680000:0"
"""As OpenShift runs containers: a user of the namespace's own range, in the group 0."""
ENTRY = "/opt/sparkstate/bin/entry"
VOLUMES = {"operator": ("/tmp",), "job": ("/tmp", "/var/lib/sparkstate")}


def programs(target: str) -> list[list[str]]:
    """What runs in the image of a target as its own user; each must end with success."""
    if target == "operator":
        absent = ("pyspark", "rocksdict", "pyarrow", "sparkstate")
        return [[PYTHON, "-c", FILES, USER, "/tmp"], [PYTHON, "-c", IMPORTS, "sparkstate_operator", *absent]]
    return [
        [PYTHON, "-c", FILES, USER, "/var/lib/sparkstate", "/tmp"],
        ["sparkstate", "--version"],
        [PYTHON, "-c", IMPORTS, "sparkstate", "kopf", "kubernetes", "sparkstate_operator"],
        [PYTHON, "-c", COMPILED],
        ["sparkstate", "doctor"],
        ["/opt/java/bin/java", "-Xshare:on", "-version"],
        [PYTHON, "-c", SHARED + RUN_JOB, JOB, json.dumps(MANIFEST)],
        [
            "env",
            *(f"{name}={value}" for name, value in EXECUTOR_POD.items()),
            PYTHON,
            "-c",
            SHARED + EXECUTOR,
        ],
    ]


def programs_of_any_user(target: str) -> list[list[str]]:
    """What runs as a user whom the image does not know."""
    if target == "operator":
        return [[PYTHON, "-c", IMPORTS, "sparkstate_operator"]]
    return [
        [ENTRY, PYTHON, "-c", FILES, ANY_USER, "/var/lib/sparkstate", "/tmp"],
        [PYTHON, "-c", SHARED + RUN_JOB, JOB, json.dumps(MANIFEST)],
    ]


def check(target: str, tag: str) -> bool:
    """Run every program; prints what they say."""
    with mounted(tag) as root:
        for user, words in [
            *((USER, words) for words in programs(target)),
            *((ANY_USER, words) for words in programs_of_any_user(target)),
        ]:
            code = inside(root, target, words, user)
            print(
                f"[images] {target}: {user} {words[0]} {words[1][:20].strip()!r}: exit code {code}",
                flush=True,
            )
            if code:
                return False
        home = (root / "var/lib/sparkstate").stat()
        print(
            f"[images] {target}: home has group {home.st_gid} and mode {home.st_mode & 0o777:o}", flush=True
        )
        return (home.st_gid, home.st_mode & 0o777) == (0, 0o770)


@contextmanager
def mounted(tag: str) -> Iterator[Path]:
    """The image's file system."""
    container = _output("buildah", "from", "--pull-never", f"localhost/{tag}")
    try:
        yield Path(_output("buildah", "mount", container))
    finally:
        subprocess.run(["buildah", "rm", container], check=False, stdout=subprocess.DEVNULL)


def inside(root: Path, target: str, words: list[str], user: str = USER) -> int:
    """Run ``words`` as that user and group in namespaces of their own; the exit code."""
    environment = {**ENVIRONMENT, **(JOB_ENVIRONMENT if target == "job" else {})}
    volumes = "".join(f"mount -t tmpfs -o mode=1777 tmpfs $r{volume}\n" for volume in VOLUMES[target])
    script = f"""set -e
ip link set lo up
hostname container
r=$1; shift
mount --bind {root} $r
cp -a $r/etc $r.etc
echo 127.0.0.1 localhost container > $r.etc/hosts
mount --bind $r.etc $r/etc
mount -o remount,bind,ro $r
mount -o remount,bind,ro $r/etc
{volumes}mount -t proc proc $r/proc
mount --bind /dev $r/dev
exec env -i "$@"
"""
    settings = [f"{name}={value}" for name, value in environment.items()]
    with tempfile.TemporaryDirectory(prefix="sparkstate-root-") as folder:
        place = str(Path(folder) / "root")
        Path(place).mkdir()
        chroot = ["chroot", f"--userspec={user}", "--groups=", place, *words]
        words = [*NAMESPACES, "sh", "-c", script, "sh", place, *settings, *chroot]
        done = subprocess.run(words, check=False)
    return done.returncode


def _output(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
