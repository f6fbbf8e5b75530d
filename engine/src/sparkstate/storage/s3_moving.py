"""Server-side copies by multipart upload, whose last step is honoured once: without boto3, which the caller has."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from sparkstate.settings import MIB
from sparkstate.storage import s3_wire

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import CompletedPartTypeDef, CopySourceTypeDef

    Run = Callable[[Callable[[int], CompletedPartTypeDef], Iterable[int]], Iterable[CompletedPartTypeDef]]

PART_SIZE = 16 * MIB
"""Bytes that the server copies for one request, which must not take longer than a read may,
though it is one of many at once."""


def copy_parts(
    client: S3Client, bucket: str, source: str, target: str, upload_id: str, size: int, run: Run
) -> list[CompletedPartTypeDef]:
    """Copy the ``size`` bytes of ``source`` into the parts of an upload of ``target``, by ``run``, a ``map``."""
    part_size = s3_wire.part_size(size, PART_SIZE)
    parts = -(-size // part_size)
    from_: CopySourceTypeDef = {"Bucket": bucket, "Key": source}

    def copy(number: int) -> CompletedPartTypeDef:
        begin = (number - 1) * part_size
        answer = client.upload_part_copy(
            Bucket=bucket, Key=target, UploadId=upload_id, PartNumber=number, CopySource=from_,
            CopySourceRange=f"bytes={begin}-{min(begin + part_size, size) - 1}",
        )  # fmt: skip
        return {"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]}

    if parts > 1:
        return list(run(copy, range(1, parts + 1)))
    # One part is copied whole, without a range: an empty object has none.
    answer = client.upload_part_copy(
        Bucket=bucket, Key=target, UploadId=upload_id, PartNumber=1, CopySource=from_
    )
    return [{"PartNumber": 1, "ETag": answer["CopyPartResult"]["ETag"]}]
