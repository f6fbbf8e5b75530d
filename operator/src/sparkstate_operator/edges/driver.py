"""The driver's REST endpoint (docs/rest-api.md). The only importer of ``httpx``.

An answer counts only if it names the job and attempt that were meant: pod addresses are used again.
"""

from __future__ import annotations

from typing import Any

import httpx

from sparkstate_operator import errors
from sparkstate_operator.config import DRIVER_PORT

TIMEOUT_S = 5.0
UID_HEADER = "X-Sparkstate-Job-Uid"
ATTEMPT_HEADER = "X-Sparkstate-Attempt"

Document = dict[str, Any]


class Drivers:
    """Talks to drivers. ``port`` is for tests; a pod's is always the same."""

    def __init__(self, port: int = DRIVER_PORT) -> None:
        self._port = port
        self._client = httpx.AsyncClient(
            timeout=TIMEOUT_S, trust_env=False, limits=httpx.Limits(max_connections=64)
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def status(self, ip: str, token: str, uid: str, attempt: int) -> Document:
        """The JobStatus. Raises ``DriverUnavailable``."""
        return await self._call("GET", ip, "/v1/status", token, uid, attempt)

    async def savepoint(
        self, ip: str, token: str, uid: str, attempt: int, trigger_id: str
    ) -> Document | None:
        """What became of a trigger; None if the driver knows nothing of it."""
        return (
            await self._call("GET", ip, f"/v1/savepoints/{trigger_id}", token, uid, attempt, missing_ok=True)
            or None
        )

    async def trigger(
        self,
        ip: str,
        token: str,
        uid: str,
        attempt: int,
        trigger_id: str,
        *,
        stop: bool,
        directory: str | None,
    ) -> Document:
        """Ask for a savepoint; asking again with the same id is harmless."""
        body: Document = {"trigger_id": trigger_id, "stop": stop}
        if directory is not None:
            body["target_directory"] = directory
        return await self._call("POST", ip, "/v1/savepoints", token, uid, attempt, body=body)

    async def let_claim(self, ip: str, token: str, uid: str, attempt: int) -> None:
        """Tell it that the drivers of all older attempts have ended."""
        await self._call("POST", ip, "/v1/claim", token, uid, attempt)

    async def _call(
        self,
        method: str,
        ip: str,
        path: str,
        token: str,
        uid: str,
        attempt: int,
        *,
        body: Document | None = None,
        missing_ok: bool = False,
    ) -> Document:
        host = f"[{ip}]" if ":" in ip else ip
        url = f"http://{host}:{self._port}{path}"
        try:
            answer = await self._client.request(
                method, url, json=body, headers={"Authorization": f"Bearer {token}"}
            )
        except (httpx.HTTPError, OSError) as error:
            raise errors.DriverUnavailable(f"{method} {url}: {type(error).__name__}: {error}") from error
        _require_same(answer.headers, uid, attempt, url)
        if answer.status_code == 404 and missing_ok:
            return {}
        if answer.status_code >= 400:
            raise errors.DriverUnavailable(f"{method} {url}: {answer.status_code} {answer.text[:500]}")
        document: Document = answer.json()
        return document


def _require_same(headers: httpx.Headers, uid: str, attempt: int, url: str) -> None:
    told = headers.get(UID_HEADER), headers.get(ATTEMPT_HEADER)
    if told != (uid, str(attempt)):
        raise errors.DriverUnavailable(
            f"{url} is answered by job {told[0]}, attempt {told[1]}, not by job {uid}, attempt {attempt}"
        )
