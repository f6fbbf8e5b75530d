"""How the Kubernetes API is reached."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest
from support.scene import kubeconfig

from sparkstate_operator.edges import kube

CONFIG = kubeconfig.text("https://api.example:6443")


@pytest.mark.parametrize(
    ("spared", "proxy"), [("other.example", "http://proxy.example:3128"), ("api.example", None)]
)
def test_the_environments_proxy_is_found_once_and_not_for_each_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spared: str, proxy: str | None
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    for name, value in {"https_proxy": "http://proxy.example:3128", "no_proxy": spared}.items():
        monkeypatch.setenv(name, value)
        monkeypatch.delenv(name.upper(), raising=False)
    path = tmp_path / "config"
    path.write_text(CONFIG)

    async def scenario() -> tuple[str | None, object]:
        found = await kube.Kube.connect(str(path))
        try:
            configuration = found._client.configuration
            return configuration.proxy, configuration.client_session_kwargs
        finally:
            await found.close()

    assert asyncio.run(scenario()) == (proxy, {"trust_env": False})


@pytest.mark.parametrize(
    ("server", "spared", "is_spared"),
    [
        ("https://10.96.0.1:443", "10.0.0.0/8,.svc", True),
        ("https://10.96.0.1:443", "localhost, 10.96.0.0/12", True),
        ("https://10.96.0.1:443", "10.96.0.1", True),
        ("https://10.96.0.1:443", "192.168.0.0/16,nonsense/99", False),
        ("https://[fd00::1]:443", "fd00::/8", True),
        ("https://api.example:443", "10.0.0.0/8", False),
    ],
)
def test_a_range_of_addresses_needs_no_proxy(
    monkeypatch: pytest.MonkeyPatch, server: str, spared: str, is_spared: bool
) -> None:
    """As for Go's clients. In a pod the API server is an address, and ``NO_PROXY`` names its range."""
    for name, value in {"https_proxy": "http://proxy.example:3128", "no_proxy": spared}.items():
        monkeypatch.setenv(name, value)
        monkeypatch.delenv(name.upper(), raising=False)
    assert kube.proxy_of(server) == (None if is_spared else "http://proxy.example:3128")


def test_authorities_that_kubectl_takes_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.13 is strict by default, and refuses those without a key identifier."""
    made = ssl.create_default_context

    def strict(*given: Any, **named: Any) -> ssl.SSLContext:
        context = made(*given, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    path = tmp_path / "config"
    path.write_text(CONFIG)

    async def flags() -> ssl.VerifyFlags:
        found = await kube.Kube.connect(str(path))
        try:
            return found._client.rest_client.ssl_context.verify_flags
        finally:
            await found.close()

    assert not asyncio.run(flags()) & ssl.VERIFY_X509_STRICT
