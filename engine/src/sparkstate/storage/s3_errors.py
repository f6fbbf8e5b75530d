"""The meaning of an S3 server's answer to us: a pure table, so that it can be tested without a server."""

from __future__ import annotations

from sparkstate import errors

_PASSING = frozenset({"SlowDown", "RequestTimeout", "TooManyRequests", "InternalError"})
_CHANGED = frozenset({"BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"})
"""The body was damaged or cut on its way, which passes as well."""
_PROXY = "; the body was changed on its way: if this stays, a proxy between the job and the storage changes requests"
_PASSING_STATUS = frozenset({408, 409, 429, 499})
# Nothing else: a 404 for another reason, read as "no such object", would be a state that begins empty.
_MISSING = frozenset({"NoSuchKey", "NoSuchVersion", "404", "NotFound", ""})
_EXPIRED = frozenset(
    {
        "ExpiredToken",
        "ExpiredTokenException",
        "TokenRefreshRequired",
        "RequestExpired",
        "InvalidTokenId",  # MinIO's, of a token that it knows no more
    }
)
_DENIED = _EXPIRED | frozenset(
    {
        "AccessDenied",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "InvalidToken",
        "XAdminUserNotFound",  # versitygw's answer to an unknown access key, with status 404
    }
)
_SKEWED = "RequestTimeTooSkewed"
_UNTOLD = frozenset({"400", "403"})
_BARE = frozenset({"404", ""})


def is_untold(code: str) -> bool:
    """Whether the answer, to HEAD, had no body that could say why: a token that has expired, no access, or what has
    nothing to do with credentials."""
    return code in _UNTOLD


def is_bare(code: str, status: int) -> bool:
    """Whether the answer is a 404 without S3's word for it: to HEAD, which has no body, or that of a proxy in between,
    which knows nothing of objects."""
    return status == 404 and code in _BARE


def is_denied(code: str, status: int) -> bool:
    """Whether the server knows the credentials not, or no more, or gives them no access; or it did not say."""
    return code != _SKEWED and (code in _DENIED or code in _UNTOLD or status in (401, 403))


def is_expired(code: str) -> bool:
    """Whether the credentials were right once."""
    return code in _EXPIRED


def _passes(code: str, status: int) -> bool:
    """Whether the same request may succeed at another try, and whether this one was carried out is open. Throttling has
    several names (``Throttling``, ``ThrottlingException``, ``KMS.ThrottlingException``)."""
    if code in _PASSING or code in _CHANGED or "Throttling" in code:
        return True
    return status in _PASSING_STATUS or (status >= 500 and status != 501)


def translate(
    code: str, status: int, message: str, *, operation: str, bucket: str, key: str
) -> errors.StorageError:
    """Our error for an S3 error ``code`` with HTTP ``status``.

    ``ConditionalRequestConflict`` (409) means that another conditional write of that name is under way: the
    outcome is open, so it is tried again, like an outage.
    """
    what = f"s3://{bucket}/{key}: {operation} failed: {code or status} {message}".rstrip()
    if code == "NoSuchBucket":
        return errors.StorageError(
            f"{what}; there is no bucket {bucket!r}: create it (aws s3 mb s3://{bucket}) or correct the URL "
            "and endpoint"
        )
    if status == 412 or code == "PreconditionFailed":
        return errors.AlreadyExists(what)
    if code in ("NoSuchUpload", "InvalidPart"):
        # Completing a multipart upload whose first answer was lost: the object may be there, the upload is not. Or a
        # part was stored again meanwhile, by a try that had been given up, under another tag.
        return errors.StorageUnavailable(what)
    if _passes(code, status):
        return errors.StorageUnavailable(what + _PROXY if code in _CHANGED else what)
    if code in _MISSING and (code or status == 404):
        return errors.NotFound(what)
    if code == _SKEWED:
        return errors.StorageRefused(
            f"{what}; the clocks of this machine and of the server differ: set this one"
        )
    if is_denied(code, status) and code != "400":
        return errors.StorageRefused(
            f"{what}; check that the credentials of this process (boto3's default chain: environment, "
            "profile, role) "
            f"may get, put, list and delete in the bucket {bucket!r}"
        )
    if status == 501 or code == "NotImplemented":
        return errors.StorageError(f"{what}; the server lacks an operation that sparkstate needs")
    if status in (301, 307) or code in ("PermanentRedirect", "AuthorizationHeaderMalformed"):
        return errors.StorageError(f"{what}; the bucket {bucket!r} is in another region: set the S3 region")
    return errors.StorageError(what)
