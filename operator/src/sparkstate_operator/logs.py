"""Structured logs: one JSON document per line, names of keys and tokens taken out."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from typing import Any

_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_SECRETS = re.compile(
    r"(?i)(authorization['\"]?\s*[:=]\s*['\"]?bearer\s+|(?:token|password|secret[_-]?key|access[_-]?key)['\"]?\s*[:=]\s*['\"]?)"
    r"([^\s'\",}]{4,})"
)
_TRIED_AGAIN = ("failed; will retry: ", "closed; will re-authenticate: ")
_ANSWERS = "kopf._cogs.clients."
"""The modules of kopf's errors for answers of the API server."""


def redact(text: str) -> str:
    """Replaces each value that follows the name of a secret by ``***``."""
    return _SECRETS.sub(r"\1***", text)


class JsonLines(logging.Formatter):
    """One line per record; what was given as ``extra`` becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        document: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redact(record.getMessage()),
        }
        for name, value in record.__dict__.items():
            if (
                name not in _PLAIN
                and not name.startswith("_")
                and isinstance(value, str | int | float | bool)
            ):
                document[name] = redact(value) if isinstance(value, str) else value
        if record.exc_info:
            document["traceback"] = redact("".join(traceback.format_exception(*record.exc_info)))
        return json.dumps(document, ensure_ascii=False)


class RetryFilter(logging.Filter):
    """kopf logs an error when a request fails that it will send again, and a stack for each of its tasks that an answer
    of the API server ends; the watches begin anew then. Here that is a warning without a stack: nobody has to do
    anything, and an alert on errors should not fire when an API server or this operator restarts."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets everything pass."""
        said = str(record.msg)
        error = record.exc_info[1] if record.exc_info else None
        if type(error).__module__.startswith(_ANSWERS):
            record.exc_info = None
        elif not (record.name.startswith("kopf.") and any(words in said for words in _TRIED_AGAIN)):
            return True
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


def configure(level: str) -> None:
    """All logging of the process to standard error as JSON lines. kopf speaks up from warnings on."""
    import time

    handler = logging.StreamHandler(sys.stderr)
    formatter = JsonLines()
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    handler.addFilter(RetryFilter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for name in ("kopf", "aiohttp", "asyncio"):
        logging.getLogger(name).setLevel(max(logging.WARNING, root.level))
