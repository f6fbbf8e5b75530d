"""All that can go wrong between the operator, the API server and a driver, sorted by what the caller can do about it::

OperatorError
├── SpecInvalid        the spec cannot run: the status says why, nothing is retried
├── ApiError           the API server refused, or gave no answer
│   ├── NotFound          the object is gone: look again
│   ├── Conflict          somebody wrote first: look again, decide again
│   ├── AlreadyExists     an earlier create succeeded, or the object is a stranger's
│   ├── Invalid           the object itself is refused: the status says why
│   ├── Refused           too many requests, or a webhook that denies or fails: try later
│   └── Forbidden         a missing right, a quota, or a namespace that is being deleted
├── DriverUnavailable  no answer, or one of another driver: ask later
│   ├── DriverRefusal     it does not do what it is asked for: its message says why
│   └── AnswerTooLarge    more than the operator reads: the log says so
├── Foreign            an object of the name that we need belongs to somebody else
├── DriverRoleMissing  the role that drivers are bound to does not exist: an Event says so, tried again
├── WatchMissing       the API server did not tell kopf of a kind: the watches begin anew
├── WatchesBlocked     the watches failed and do not end: the process ends, another one leads
└── BadKey             the operator's own key is unusable: the operator does not start
"""

from __future__ import annotations


class OperatorError(Exception):
    """Base of all errors raised on purpose. ``reason`` is the stable word for conditions, Events and logs."""

    @property
    def reason(self) -> str:
        """The class name."""
        return type(self).__name__


class SpecInvalid(OperatorError):
    """The spec is accepted by the schema and still cannot be run; the message says what to change."""


class ApiError(OperatorError):
    """Any answer of the API server other than success. ``status`` 0: there was no answer, or a success that
    cannot be read."""

    def __init__(self, status: int, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def made_nothing(self) -> bool:
        """Whether the answer to a creation proves that the object was not made. A 5xx or no answer proves nothing."""
        return 400 <= self.status < 500 or isinstance(self, Refused)

    @property
    def judged(self) -> bool:
        """Whether the API server has judged the request. It has not where it fails, does not answer or has too much to
        do, or where a webhook fails: the same request may pass the next time."""
        return 400 <= self.status < 500 and self.status not in (408, 429)


class NotFound(ApiError):
    """There is no such object."""


class Conflict(ApiError):
    """The precondition (uid, resourceVersion) does not hold any more."""


class AlreadyExists(ApiError):
    """There is an object of that name."""


class Invalid(ApiError):
    """The object is refused as it is (400, 422), or for its size (413), as policies may do."""


class Refused(ApiError):
    """Turned away before anything was written: too many requests (429), a webhook that refuses or does not answer."""


class Forbidden(ApiError):
    """Not allowed: RBAC, quota, Pod Security, or a namespace that is being deleted."""

    @property
    def terminating(self) -> bool:
        """Whether the namespace is being deleted, so that nothing can be created in it."""
        return "because it is being terminated" in str(self)


class DriverUnavailable(OperatorError):
    """The driver does not answer, or another one answers at its address."""


class DriverRefusal(DriverUnavailable):
    """The driver answers, and does not do what it is asked for. The message is its own, with its remedy. ``for_good``:
    it would answer the same request in the same way."""

    def __init__(self, message: str, *, for_good: bool) -> None:
        super().__init__(message)
        self.for_good = for_good


class AnswerTooLarge(DriverUnavailable):
    """The driver answers with more than the operator reads."""


class Foreign(OperatorError):
    """An object of the name that we need exists and is not ours."""


class DriverRoleMissing(OperatorError):
    """The role that drivers with executors are bound to is not there; the message names it."""


class WatchMissing(OperatorError):
    """The watches have begun, but not that of each kind; the message says which ones are missing."""


class WatchesBlocked(OperatorError):
    """The watches have failed, and do not end so that they could begin anew."""


class BadKey(OperatorError):
    """The operator's key is missing or too short; the message says where it was looked for."""


TOLD = (Forbidden, Invalid, Refused, Foreign, SpecInvalid, DriverRoleMissing)
"""Only a person can help with these: a quota, a policy, a webhook, somebody else's object, a revision that an older
operator let through, a missing role. People look at the job's Events, so each becomes one."""
