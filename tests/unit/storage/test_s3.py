from __future__ import annotations

import dataclasses
import os

import pytest

from sparkstate import errors
from sparkstate.settings import S3Settings
from sparkstate.storage import (
    OpenStores,
    PrefixedStore,
    creating,
    open_made,
    open_store,
    open_within,
    opening,
    s3_errors,
)
from sparkstate.storage.retrying import RetryPolicy
from sparkstate_tools.servers import fault_proxy

NO_RETRY = RetryPolicy(attempts=1)


@pytest.mark.s3
def test_wrong_credentials_are_named_with_their_source(s3, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(errors.StorageError, match=r"credentials of this process .*'state'"):
        open_store("s3://state/x", s3.settings, check=True)


@pytest.mark.s3
def test_missing_credentials_are_named_with_the_remedy(s3, monkeypatch):
    for name in s3.environment:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", "/nonexistent")
    with pytest.raises(errors.StorageRefused, match="set AWS_ACCESS_KEY_ID"):
        open_store("s3://state/x", s3.settings, check=True)


@pytest.mark.s3
@pytest.mark.parametrize("operation", ["get", "head", "list", "put_if_absent"])
def test_a_missing_bucket_is_never_taken_for_an_empty_one(s3, operation):
    store = open_store("s3://nowhere/x", s3.settings)
    act = {
        "get": lambda: store.get("a"),
        "head": lambda: store.head("a"),
        "list": lambda: list(store.list("")),
        "put_if_absent": lambda: store.put_if_absent("a", b""),
    }[operation]
    with pytest.raises(errors.StorageError, match="aws s3 mb s3://nowhere") as caught:
        act()
    assert type(caught.value) is errors.StorageError


@pytest.mark.s3
def test_a_server_that_is_away_is_an_outage_and_the_store_goes_on_when_it_is_back(s3):
    store = open_store("s3://state/outage", s3.settings, retry=NO_RETRY)
    store.put_if_absent("a", b"1")
    s3.stop()
    try:
        with pytest.raises(errors.StorageUnavailable, match="s3://state/outage/a"):
            store.get("a")
        with pytest.raises(errors.StorageUnavailable):
            store.put_if_absent("b", b"2")
    finally:
        s3.start()
    assert store.get("a") == b"1"
    store.put_if_absent("b", b"2")


@pytest.mark.s3
def test_a_multipart_upload_that_fails_leaves_no_parts(s3, tmp_path, monkeypatch):
    from sparkstate.storage import s3 as module

    store = module.S3Store("s3://state/parts", s3.settings)
    source = tmp_path / "file"
    source.write_bytes(os.urandom(module.SINGLE_PUT_LIMIT + 5))
    put_part = module._S3Upload.part

    def cut_after_the_first(upload, number, offset, data):
        if number == 2:
            with store._mapped("store", "big"):
                raise ConnectionResetError("cut")
        put_part(upload, number, offset, data)

    monkeypatch.setattr(module._S3Upload, "part", cut_after_the_first)
    with pytest.raises(errors.StorageUnavailable, match="cut"):
        store.put_file("big", source)
    uploads = store._client.list_multipart_uploads(Bucket="state")
    assert not uploads.get("Uploads")
    with pytest.raises(errors.NotFound):
        store.head("big")


@pytest.mark.parametrize(
    ("code", "status", "kind", "words"),
    [
        ("PreconditionFailed", 412, errors.AlreadyExists, ""),
        ("ConditionalRequestConflict", 409, errors.StorageUnavailable, ""),
        ("SlowDown", 503, errors.StorageUnavailable, ""),
        ("RequestTimeout", 400, errors.StorageUnavailable, ""),
        ("InternalError", 500, errors.StorageUnavailable, ""),
        ("BadDigest", 400, errors.StorageUnavailable, "a proxy between the job and the storage"),
        ("IncompleteBody", 400, errors.StorageUnavailable, "a proxy between the job and the storage"),
        (
            "XAmzContentSHA256Mismatch",
            400,
            errors.StorageUnavailable,
            "a proxy between the job and the storage",
        ),
        ("KMS.ThrottlingException", 400, errors.StorageUnavailable, ""),
        ("408", 408, errors.StorageUnavailable, ""),
        ("499", 499, errors.StorageUnavailable, ""),
        ("InvalidDigest", 400, errors.StorageError, "InvalidDigest"),
        ("NoSuchKey", 404, errors.NotFound, ""),
        ("404", 404, errors.NotFound, ""),
        ("NoSuchBucket", 404, errors.StorageError, "create it"),
        ("AccessDenied", 403, errors.StorageRefused, "credentials"),
        ("ExpiredToken", 400, errors.StorageRefused, "credentials"),
        ("InvalidTokenId", 403, errors.StorageRefused, "credentials"),
        ("RequestTimeTooSkewed", 403, errors.StorageRefused, "clock"),
        ("NotImplemented", 501, errors.StorageError, "lacks an operation"),
        ("PermanentRedirect", 301, errors.StorageError, "region"),
        ("InvalidArgument", 400, errors.StorageError, "InvalidArgument"),
    ],
)
def test_each_answer_of_a_server_has_its_meaning(code, status, kind, words):
    error = s3_errors.translate(code, status, "said so", operation="read", bucket="b", key="k")
    assert type(error) is kind
    assert "s3://b/k: read failed" in str(error)
    assert words in str(error)


@pytest.mark.s3
@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_a_request_whose_body_was_damaged_on_its_way_is_sent_again(s3, method):
    sent = []

    def damaged_once(request):
        sent.append(request.words[0])
        return "BadDigest" if sent.count(method) == 1 and request.words[0] == method else None

    with fault_proxy.FaultProxy(s3.port, refuse=damaged_once) as proxy:
        settings = dataclasses.replace(s3.settings, endpoint=proxy.endpoint)
        store = open_store(f"s3://state/damaged-{method}", settings)
        assert creating.create_or_read(store, "a", b"1") == b"1"
        assert store.get("a") == b"1"
    assert sent.count(method) == 2


RELOADING = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 18\r\n\r\n"


@pytest.mark.s3
@pytest.mark.parametrize("kind", ["GET", "HEAD", "list", "PUT"])
def test_the_404_of_a_proxy_is_no_missing_object(s3, kind):
    """One in front of the storage that is being reloaded knows no route to it. Read as a missing object, state that is
    there was told to be gone."""
    answered = []

    def reloading_once(request):
        asked = "list" if "list-type" in request.words[1] else request.words[0]
        if asked != kind or answered:
            return None
        answered.append(request)
        return RELOADING + (b"" if asked == "HEAD" else b"404 page not found")

    open_store(f"s3://state/reloading-{kind}", s3.settings).put_if_absent("b", b"1")
    with fault_proxy.FaultProxy(s3.port, instead=reloading_once) as proxy:
        store = open_store(
            f"s3://state/reloading-{kind}", dataclasses.replace(s3.settings, endpoint=proxy.endpoint)
        )
        found = {
            "GET": lambda: store.get("b"),
            "HEAD": lambda: store.head("b").size,
            "list": lambda: [info.key for info in store.list("")],
            "PUT": lambda: store.put_if_absent("c", b"2"),
        }[kind]()
        assert found == {"GET": b"1", "HEAD": 1, "list": ["b"], "PUT": None}[kind]
        assert answered
        for missing in (store.get, store.head):
            with pytest.raises(errors.NotFound):
                missing("none")


def test_without_a_scheme_that_we_know_the_message_names_those_we_do():
    with pytest.raises(errors.SpecInvalid, match=r"'gs'.*file:// \(or a path\) and s3://"):
        open_store("gs://bucket/x", S3Settings())


@pytest.mark.s3
def test_a_bucket_is_asked_nothing_when_folders_are_made_or_required(s3):
    """What is a rule for folders of a disk costs no request, and no client, where there are none."""
    asked = []
    with fault_proxy.FaultProxy(s3.port, watch=asked.append) as proxy:
        settings = dataclasses.replace(s3.settings, endpoint=proxy.endpoint)
        stores = OpenStores(settings)
        root = stores.make("s3://state/made")
        assert stores.get("s3://state/made/") is root
        inside = open_within(root, "lineage", settings)
        opening.require_there(root)
        assert asked == []
        inside.put_if_absent("a", b"1")
        assert root.get("lineage/a") == b"1"
        assert isinstance(inside, PrefixedStore) and inside._store is root
        assert open_made("s3://state/never-seen", settings).url == "s3://state/never-seen"
    assert [request.words[0] for request in asked] == ["PUT", "GET"]
