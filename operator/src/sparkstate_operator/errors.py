"""What can go wrong between the operator, the API server and a driver; by what the caller can do about it::

OperatorError
├── SpecInvalid      the spec cannot be run: told in the status, nothing is retried
├── ApiError         the API server refused
│   ├── NotFound        gone: look again
│   ├── Conflict        somebody wrote first: look again, decide again
│   ├── AlreadyExists   a create that was done before, or a stranger's object
│   ├── Invalid         the object itself is refused: told in the status
│   ├── Refused         too many requests, or a webhook that says no or fails: later
│   └── Forbidden       a right, a quota or a closing namespace
├── DriverUnavailable   no answer, or not from the driver that was meant: ask later
├── Foreign          an object of our name belongs to somebody else
├── DriverRoleMissing  the role that drivers are bound to is not there: told, tried again
└── BadKey           the operator's own key is none: it does not start
"""

from __future__ import annotations


class OperatorError(Exception):
    """Base of all errors raised on purpose. ``reason`` is the stable word for conditions, events and logs."""

    @property
    def reason(self) -> str:
        """The class name."""
        return type(self).__name__


class SpecInvalid(OperatorError):
    """The spec is accepted by the schema and still cannot be run; the message says what to change."""


class ApiError(OperatorError):
    """An answer of the API server other than success. ``status`` 0: there was no answer."""

    def __init__(self, status: int, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after_s = retry_after_s

    @property
    def made_nothing(self) -> bool:
        """Whether the answer to a creation proves that the object was not made. A 5xx or no answer proves nothing."""
        return 400 <= self.status < 500 or isinstance(self, Refused)


class NotFound(ApiError):
    """There is no such object."""


class Conflict(ApiError):
    """The precondition (uid, resourceVersion) does not hold any more."""


class AlreadyExists(ApiError):
    """There is an object of that name."""


class Invalid(ApiError):
    """The object is refused as it is (400, 422)."""


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


class Foreign(OperatorError):
    """An object of the name that we need exists and is not ours."""


class DriverRoleMissing(OperatorError):
    """The role that drivers with executors are bound to is not there; the message names it."""


class BadKey(OperatorError):
    """What should be the operator's key is too short, or no key; the message says where it is."""


TOLD = (Forbidden, Invalid, Refused, Foreign, SpecInvalid, DriverRoleMissing)
"""A quota, a policy, a webhook, somebody else's object, a revision that an older operator let through, a role that is
missing: only a person can help, who looks at the job's Events."""
