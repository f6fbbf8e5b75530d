"""A Kubernetes API for one driver: it answers as far as Spark's backend asks, and a pod that is created is a process.

Used by ``classes.py``: executors and the driver's Kubernetes client load classes that nothing else does.
"""

from __future__ import annotations

import json
import os
import ssl
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

NAMESPACE, DRIVER = "default", "driver"
ENTRY = Path(__file__).with_name("executor.py")
PATIENCE_S = 600


class Cluster(ThreadingHTTPServer):
    """Serves HTTPS on a free port. ``folder`` gets the certificate, a token and what else a pod has as files."""

    daemon_threads = True

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), Api)
        self.folder = folder
        self.pods: dict[str, dict[str, Any]] = {DRIVER: pod({"metadata": {"name": DRIVER}})}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.ended = threading.Event()
        request = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=cluster",
            "-days",
            "9",
        ]
        request += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out", "ca.pem"]
        subprocess.run(request, cwd=folder, check=True, stderr=subprocess.DEVNULL)
        (folder / "token").write_text("no secret: it lives for one build step")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(folder / "ca.pem", folder / "key.pem")
        self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def conf(self) -> dict[str, str]:
        """What ``sparkstate.spark.kubernetes`` sets, with this cluster's places."""
        token = str(self.folder / "token")
        return {
            "spark.master": f"k8s://https://127.0.0.1:{self.server_address[1]}",
            "spark.executor.instances": "1",
            "spark.executor.cores": "2",
            "spark.kubernetes.namespace": NAMESPACE,
            "spark.kubernetes.container.image": "image",
            "spark.kubernetes.driver.pod.name": DRIVER,
            "spark.kubernetes.executor.podNamePrefix": "classes",
            "spark.kubernetes.authenticate.oauthTokenFile": token,
            "spark.kubernetes.authenticate.caCertFile": str(self.folder / "ca.pem"),
            "spark.kubernetes.executor.disableConfigMap": "true",
            "spark.kubernetes.driver.service.deleteOnTermination": "false",
            "spark.kubernetes.driver.ownPersistentVolumeClaim": "false",
            "spark.kubernetes.driver.reusePersistentVolumeClaim": "false",
            "spark.authenticate.secret.file": token,
        }

    def start(self, wanted: dict[str, Any]) -> dict[str, Any]:
        """Start an executor's process by its pod."""
        made = pod(wanted)
        self.pods[made["metadata"]["name"]] = made
        places = {"status.podIP": "127.0.0.1", "metadata.name": made["metadata"]["name"]}
        environ = dict(os.environ)
        for one in made["spec"]["containers"][0]["env"]:
            field = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            environ[one["name"]] = places[field] if field else one.get("value", "")
        words = [sys.executable, "-I", str(ENTRY)]
        with (self.folder / f"{made['metadata']['name']}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(words, env=environ, cwd=self.folder, stdout=log, stderr=subprocess.STDOUT)
            )
        return made

    def stop(self) -> None:
        """Wait for the executors' own end."""
        self.ended.set()
        for process in self.processes:
            process.wait(PATIENCE_S)
        self.shutdown()


class Api(BaseHTTPRequestHandler):
    """Pods are created, read, listed and watched; all else is said to be done."""

    protocol_version = "HTTP/1.1"
    server: Cluster

    def do_GET(self) -> None:
        """One pod, all of them, or a watch in which nothing happens."""
        path, _, query = self.path.partition("?")
        name = path.rsplit("/", 1)[1]
        if "watch=true" in query and "Upgrade" not in self.headers:
            self.send_response(200)
            self.send_header("Connection", "close")
            self.end_headers()
            self.server.ended.wait()
            self.close_connection = True
        elif name == "pods":
            # The driver's own pod is asked for by its name, executors by their labels.
            alone = "fieldSelector=metadata.name" in query
            found = [one for each, one in self.server.pods.items() if (each == DRIVER) == alone]
            version = {"resourceVersion": "1"}
            self._answer({"kind": "PodList", "apiVersion": "v1", "metadata": version, "items": found})
        else:
            self._answer(self.server.pods.get(name, {}))

    def do_POST(self) -> None:
        """An object is created."""
        wanted = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        self._answer(self.server.start(wanted) if wanted.get("kind") == "Pod" else wanted, 201)

    def do_DELETE(self) -> None:
        """Deleting is left to the end of this process."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self._answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})

    do_PATCH = do_PUT = do_DELETE

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def _answer(self, document: dict[str, Any], code: int = 200) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def pod(wanted: dict[str, Any]) -> dict[str, Any]:
    """A pod as a cluster gives it back: it runs and is ready."""
    metadata = {"namespace": NAMESPACE, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata |= {**wanted["metadata"], "uid": wanted["metadata"]["name"]}
    status = {"phase": "Running", "podIP": "127.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    return {"kind": "Pod", "apiVersion": "v1", "spec": {}, **wanted, "metadata": metadata, "status": status}
