"""Objects in an S3 bucket, by boto3 (this is its only importer).

Three choices need a reason. *Retries*: conditional writes are sent once, because botocore would hide whether a 412
answers the first try or a repeated one; everything else is idempotent and repeated by botocore. *Checksums*: botocore's
default since 1.36 (CRC32 trailers in ``aws-chunked`` bodies) is refused by many S3 servers, so only Content-MD5 is
sent, which all of them know. *Large files* are cut into parts here, because ``upload_file`` shares threads across calls
and hides the errors of parts.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, cast

import boto3
import botocore.config
import botocore.exceptions

from sparkstate import errors
from sparkstate.settings import MIB, S3Settings
from sparkstate.storage import naming, s3_errors, s3_keys, s3_moving, s3_wire
from sparkstate.storage.arriving import CHUNK, arriving
from sparkstate.storage.objectstore import ObjectInfo, Upload

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, ListObjectsV2OutputTypeDef

SINGLE_PUT_LIMIT = 16 * MIB
"""Files above this size, in bytes, are sent in parts."""
PART_SIZE = 8 * MIB
DELETE_BATCH = 1000
CONNECT_TIMEOUT_S = 5.0
READ_TIMEOUT_S = 30.0


class S3Store:
    """An :class:`ObjectStore` on ``s3://bucket/prefix``. ``threads`` bounds the parts sent at once by this store."""

    def __init__(
        self, url: str, settings: S3Settings, threads: int = 4, ids: Callable[[], str] = naming.random_id
    ) -> None:
        self._url = naming.normalise_url(url)
        self._bucket, _, prefix = self._url.removeprefix("s3://").partition("/")
        self._prefix = f"{prefix}/" if prefix else ""
        self._ids = ids
        self._settings, self._threads = settings, threads
        self._renewing = threading.Lock()
        with _opening(self._url, settings):
            self._connect(boto3.session.Session())
        self._parts = ThreadPoolExecutor(threads, thread_name_prefix="s3-part")

    def _connect(self, session: boto3.Session) -> None:
        self._once = _client(session, self._settings, attempts=1, connections=4 * self._threads)
        self._client = _client(session, self._settings, attempts=3, connections=4 * self._threads)
        self._keys = s3_keys.of(session.get_credentials())  # last: too old a note costs one more try only

    @property
    def url(self) -> str:
        return self._url

    def put_if_absent(self, key: str, data: bytes) -> None:
        with self._mapped("create", key):
            self._once.put_object(
                Bucket=self._bucket,
                Key=self._full(key),
                Body=data,
                IfNoneMatch="*",
                ContentMD5=s3_wire.md5(data),
            )

    def put_file(self, key: str, source: Path) -> None:
        size = source.stat().st_size
        with self._mapped("store", key):
            if size > SINGLE_PUT_LIMIT:
                self._put_parts(key, source, size)
            else:
                data = source.read_bytes()
                self._client.put_object(
                    Bucket=self._bucket, Key=self._full(key), Body=data, ContentMD5=s3_wire.md5(data)
                )

    def upload(self, key: str) -> Upload:
        return _S3Upload(self, key, self._begin_upload(key))

    def get(self, key: str) -> bytes:
        with self._mapped("read", key):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._full(key))
            data = answer["Body"].read()
            s3_wire.require_length(len(data), answer["ContentLength"])
            return data

    def get_file(self, key: str, target: Path) -> str:
        with self._mapped("read", key):
            answer = self._client.get_object(Bucket=self._bucket, Key=self._full(key))
            size = answer["ContentLength"]
            with arriving(target, size, self._ids) as file:
                while data := answer["Body"].read(CHUNK):
                    file.write(data)
                s3_wire.require_length(file.written, size)
                return file.finish()

    def head(self, key: str) -> ObjectInfo:
        with self._mapped("look up", key):
            answer = self._client.head_object(Bucket=self._bucket, Key=self._full(key))
            if s3_wire.may_be_cut(answer["ResponseMetadata"]["HTTPHeaders"]):
                page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._full(key), MaxKeys=1)
                return next(info for info in self._infos(page) if info.key == key)
            return ObjectInfo(
                key=key,
                size=answer["ContentLength"],
                modified_ms=int(answer["LastModified"].timestamp() * 1000),
            )

    def list(self, prefix: str) -> Iterator[ObjectInfo]:
        with self._mapped("list", prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                yield from self._infos(page)

    def _infos(self, page: ListObjectsV2OutputTypeDef) -> Iterator[ObjectInfo]:
        if "IsTruncated" not in page:  # cut before its body: it would read as an empty listing
            raise ValueError("the listing has no end")
        for item in page.get("Contents", []):
            if not item["Key"].endswith("/"):  # folder markers, left by consoles and posix gateways
                yield ObjectInfo(
                    key=item["Key"][len(self._prefix) :],
                    size=item["Size"],
                    modified_ms=int(item["LastModified"].timestamp() * 1000),
                )

    def begin_move(self, source: str, target: str) -> str:
        """The number of a multipart upload, which S3 completes once. Whether there is a source, :meth:`move` says."""
        return self._begin_upload(target)

    def move(self, ticket: str, source: str, target: str, size: int) -> bool:
        """A completion is sent once, and repeated with the copies before it: an upload that is complete takes no part
        any more (``NoSuchUpload``), while servers may answer its repeated completion in any way."""
        name = self._full(target)
        gone = (self._client.exceptions.NoSuchUpload, self._once.exceptions.NoSuchUpload)  # two classes
        with self._mapped("move", source), contextlib.suppress(*gone):
            parts = s3_moving.copy_parts(
                self._client, self._bucket, self._full(source), name, ticket, size, self._parts.map
            )
            self._once.complete_multipart_upload(
                Bucket=self._bucket, Key=name, UploadId=ticket, MultipartUpload={"Parts": parts}
            )
            return True
        return False

    def drop_move(self, ticket: str, target: str) -> None:
        _S3Upload(self, target, ticket).abort()

    def _begin_upload(self, key: str) -> str:
        with self._mapped("store", key):
            return self._client.create_multipart_upload(Bucket=self._bucket, Key=self._full(key))["UploadId"]

    def delete(self, keys: Iterable[str]) -> None:
        names = [self._full(key) for key in keys]
        for start in range(0, len(names), DELETE_BATCH):
            batch = names[start : start + DELETE_BATCH]
            with self._mapped("delete", batch[0].removeprefix(self._prefix)):
                answer = self._client.delete_objects(
                    Bucket=self._bucket, Delete={"Objects": [{"Key": name} for name in batch], "Quiet": True}
                )
            for failure in answer.get("Errors", []):
                if failure.get("Code") not in ("NoSuchKey", "NotFound"):
                    raise s3_errors.translate(
                        failure.get("Code", ""),
                        403 if failure.get("Code") == "AccessDenied" else 500,
                        failure.get("Message", ""),
                        operation="delete",
                        bucket=self._bucket,
                        key=failure.get("Key", ""),
                    )

    def abort_uploads(self, prefix: str, is_dead: Callable[[str], bool], before_ms: int | None = None) -> int:
        with self._mapped("list uploads", prefix):
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            found = [upload for page in pages for upload in page.get("Uploads", [])]
        aborted = 0
        for upload in found:
            name, begun_ms = upload["Key"], upload["Initiated"].timestamp() * 1000
            key = name.removeprefix(self._prefix)
            if (before_ms is not None and begun_ms >= before_ms) or not is_dead(key):
                continue
            with self._mapped("abort", key), contextlib.suppress(self._client.exceptions.NoSuchUpload):
                self._client.abort_multipart_upload(
                    Bucket=self._bucket, Key=name, UploadId=upload["UploadId"]
                )
                aborted += 1
        return aborted

    def _require_absent(self, operation: str, key: str) -> None:
        """A bare 404 may mean that there is no such object or no such bucket, with some servers an unknown access key,
        or that a proxy is just being reloaded. A listing has a body, which tells them apart: state that is there must
        never be told to be missing."""
        bare = (
            f"s3://{self._bucket}/{self._prefix}{key}: {operation} failed: 404, without a word of the storage"
        )
        if operation not in ("read", "look up"):
            raise errors.StorageUnavailable(bare)
        with self._mapped("list", key):
            page = self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix + key, MaxKeys=1)
            is_there = any(info.key == key for info in self._infos(page))
        if is_there:
            raise errors.StorageUnavailable(f"{bare}, and the object is there")

    def _full(self, key: str) -> str:
        return self._prefix + naming.check_key(key)

    def _put_parts(self, key: str, source: Path, size: int) -> None:
        part_size = s3_wire.part_size(size, PART_SIZE)
        upload = _S3Upload(self, key, self._begin_upload(key))

        def put(number: int) -> None:
            offset = (number - 1) * part_size
            with source.open("rb") as file:
                file.seek(offset)
                upload.part(number, offset, file.read(part_size))

        try:
            parts = -(-size // part_size)
            list(self._parts.map(put, range(1, parts + 1)))
            upload.complete(parts, size)
        except BaseException:
            upload.abort()
            raise

    def _require_same_keys(self, keys: s3_keys.Keys, full: str, said: str, *, expired: bool = False) -> None:
        """Raise ``StorageUnavailable``, so that it is tried again, if a request was refused with keys that are others
        by now, or will be: boto3 renews those of roles by itself, and reads a file of keys once.
        """
        found: s3_keys.Keys | None = keys
        if self._keys == keys:
            found = self._look_for_keys()
        why = s3_keys.why_again(keys, self._keys, found, expired=expired)
        if why is not None:
            raise errors.StorageUnavailable(f"s3://{self._bucket}/{full}: {said}: {why}")

    def _look_for_keys(self) -> s3_keys.Keys | None:
        """Those that there are now, with which the store goes on if it may; None: half of them, or nobody answers."""
        try:
            session = boto3.session.Session()
            found = s3_keys.of(session.get_credentials())
            with self._renewing:
                if found.may_replace(self._keys):
                    self._connect(session)
        except botocore.exceptions.BotoCoreError:
            return None
        return found

    @contextlib.contextmanager
    def _mapped(self, operation: str, key: str) -> Iterator[None]:
        full, keys = self._prefix + key, self._keys  # others may be there when the answer is
        try:
            yield
        except botocore.exceptions.ClientError as error:
            answer = error.response
            status = int(answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            detail = answer.get("Error", {})
            code = detail.get("Code") or ""  # None: an element with no text
            if s3_errors.is_untold(code) and operation != "list":
                with self._mapped("list", key):  # its refusal has a body
                    self._client.list_objects_v2(Bucket=self._bucket, Prefix=full, MaxKeys=1)
            if s3_errors.is_bare(code, status):
                self._require_absent(operation, key)
            if s3_errors.is_denied(code, status):
                self._require_same_keys(keys, full, code, expired=s3_errors.is_expired(code))
            raise s3_errors.translate(
                code, status, detail.get("Message", ""),
                operation=operation, bucket=self._bucket, key=full,
            ) from error  # fmt: skip
        except botocore.exceptions.NoCredentialsError as error:
            self._require_same_keys(keys, full, "no credentials found")
            raise errors.StorageRefused(
                f"s3://{self._bucket}/{full}: {operation} failed: no credentials found; set "
                "AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, a profile, or a role that boto3's default chain finds"
            ) from error
        except botocore.exceptions.ParamValidationError as error:
            raise errors.StorageError(
                f"s3://{self._bucket}/{full}: {operation} failed: {error}; correct the storage URL"
            ) from error
        except (KeyError, ValueError, StopIteration) as error:
            # An answer that was cut within its head lacks fields, or has half of one.
            raise errors.StorageUnavailable(
                f"s3://{self._bucket}/{full}: {operation} failed: the answer was cut short ({error!r})"
            ) from error
        except (botocore.exceptions.BotoCoreError, ConnectionError, TimeoutError, ssl.SSLError) as error:
            # Refused or reset, time-outs, a body cut short, name resolution. Errors of local files pass
            # unchanged.
            raise errors.StorageUnavailable(
                f"s3://{self._bucket}/{full}: {operation} failed: {error}"
            ) from error


class _S3Upload:
    """A multipart upload; aborted on any error, so that no invisible parts are left to be paid for."""

    def __init__(self, store: S3Store, key: str, upload_id: str) -> None:
        self._store, self._key, self._id = store, key, upload_id
        self._name = store._full(key)
        self._tags: dict[int, str] = {}

    def part(self, number: int, offset: int, data: bytes | bytearray) -> None:
        del offset
        with self._store._mapped("store", self._key):
            answer = self._store._client.upload_part(
                Bucket=self._store._bucket,
                Key=self._name,
                UploadId=self._id,
                PartNumber=number,
                Body=cast(bytes, data),
                ContentMD5=s3_wire.md5(data),
            )
            self._tags[number] = answer["ETag"]

    def complete(self, parts: int, size: int) -> None:
        listed: list[CompletedPartTypeDef] = [
            {"PartNumber": number, "ETag": self._tags[number]} for number in range(1, parts + 1)
        ]
        try:
            with self._store._mapped("store", self._key):
                self._store._client.complete_multipart_upload(
                    Bucket=self._store._bucket,
                    Key=self._name,
                    UploadId=self._id,
                    MultipartUpload={"Parts": listed},
                )
        except errors.StorageUnavailable:
            # It may have been completed, by this try or one before whose answer was lost; then the upload is gone.
            if not self._is_there(size):
                raise

    def _is_there(self, size: int) -> bool:
        try:
            return self._store.head(self._key).size == size
        except errors.StorageError:
            return False

    def abort(self) -> None:
        with contextlib.suppress(botocore.exceptions.ClientError, botocore.exceptions.BotoCoreError):
            self._store._client.abort_multipart_upload(
                Bucket=self._store._bucket, Key=self._name, UploadId=self._id
            )


@contextlib.contextmanager
def _opening(url: str, settings: S3Settings) -> Iterator[None]:
    """Errors of making a client: nothing was sent yet, so they are all about what was configured."""
    try:
        yield
    except ValueError as error:
        raise errors.SpecInvalid(
            naming.without_user(
                f"spec.s3.endpoint is {settings.endpoint!r}: {error}; write it as http://host:port or https://host"
            )
        ) from error
    except botocore.exceptions.BotoCoreError as error:
        raise errors.StorageRefused(
            f"{url} cannot be opened: {error}; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE to a "
            "profile that exists, and spec.s3.region"
        ) from error


def _client(session: boto3.Session, settings: S3Settings, attempts: int, connections: int) -> S3Client:
    # Servers other than Amazon's take any region, but botocore insists on one for signing.
    fallback = "us-east-1" if settings.endpoint and not session.region_name else None
    client = session.client(
        "s3",
        endpoint_url=settings.endpoint,
        region_name=settings.region or fallback,
        config=botocore.config.Config(
            s3={"addressing_style": "path" if settings.path_style else "auto"},
            retries={"mode": "standard", "total_max_attempts": attempts},
            connect_timeout=CONNECT_TIMEOUT_S,
            read_timeout=READ_TIMEOUT_S,
            max_pool_connections=connections,
            request_checksum_calculation="when_required",
            response_checksum_validation="when_required",
        ),
    )
    client.meta.events.register("before-call.s3.DeleteObjects", s3_wire.add_content_md5)
    return client
