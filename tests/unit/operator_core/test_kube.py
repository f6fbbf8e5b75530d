"""How the Kubernetes API is reached."""

from __future__ import annotations

import asyncio
from pathlib import Path

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
