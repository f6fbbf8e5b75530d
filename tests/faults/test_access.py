"""An S3 storage that cannot be reached or refuses: each says bucket, cause and remedy, and whether to wait."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import itertools
import socket
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sparkstate import errors
from sparkstate.settings import S3Settings
from sparkstate.storage import open_store
from sparkstate.storage.retrying import RetryPolicy
from sparkstate_tools.servers import fault_proxy, s3server

pytestmark = [pytest.mark.fault_on("S3"), pytest.mark.s3]
ONCE = RetryPolicy(attempts=1)


def operations(store, tmp_path):
    """Each operation once."""
    (tmp_path / "file").write_bytes(b"data")
    return {
        "create": lambda: store.put_if_absent("a", b"data"),
        "store": lambda: store.put_file("b", tmp_path / "file"),
        "read": lambda: store.get("a"),
        "read-file": lambda: store.get_file("a", tmp_path / "target"),
        "look-up": lambda: store.head("a"),
        "list": lambda: list(store.list("")),
        "begin-move": lambda: store.begin_move("a", "b"),
        "move": lambda: store.move("ticket", "a", "b", 4),
        "delete": lambda: store.delete(["a"]),
    }


def assert_each_says(store, tmp_path, words, kind=errors.StorageError):
    for name, operation in operations(store, tmp_path).items():
        with pytest.raises(kind, match=words) as refused:
            operation()
        assert refused.value.exit_code == 5, name
        waiting_helps = isinstance(refused.value, errors.StorageUnavailable)
        assert waiting_helps == (kind is errors.StorageUnavailable), name
        assert not isinstance(refused.value, errors.NotFound), "it would read as: there is no state"


@pytest.mark.fault(
    broken="the bucket does not exist",
    when="at each of the eight operations of a storage",
    expected="StorageError (exit code 5) with the bucket's name and how to make it; never `no such object`",
)
def test_a_missing_bucket_is_named(s3, tmp_path):
    store = open_store("s3://missing/jobs", s3.settings, retry=ONCE)
    assert_each_says(store, tmp_path, "no bucket 'missing'.*aws s3 mb s3://missing")


@pytest.mark.fault(
    broken="wrong credentials: {what}",
    when="at each of the eight operations of a storage",
    expected="StorageRefused (exit code 5) which says where credentials come from; no secret in the message",
)
@pytest.mark.parametrize("what", ["an unknown access key", "a wrong secret key"])
def test_wrong_credentials_are_refused_with_a_remedy(s3, tmp_path, monkeypatch, what):
    name = "AWS_ACCESS_KEY_ID" if "unknown" in what else "AWS_SECRET_ACCESS_KEY"
    monkeypatch.setenv(name, "WRONGWRONGWRONG")
    store = open_store("s3://state/jobs", s3.settings, retry=ONCE)
    assert_each_says(
        store, tmp_path, "'state'|s3://state.*credentials of this process", errors.StorageRefused
    )
    with pytest.raises(errors.StorageRefused, match="check that the credentials") as refused:
        store.get("a")
    assert s3.secret_key not in str(refused.value) and "WRONGWRONGWRONG" not in str(refused.value)


@pytest.mark.fault(
    broken="half of the credentials: no AWS_SECRET_ACCESS_KEY",
    when="when a storage is opened",
    expected="StorageRefused (exit code 5) with the names of both variables",
)
def test_half_of_the_credentials_is_an_error_and_no_outage(s3, monkeypatch):
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(errors.StorageRefused, match="AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY") as refused:
        open_store("s3://state/jobs", s3.settings, check=True, retry=ONCE)
    assert not isinstance(refused.value, errors.StorageUnavailable)


@pytest.mark.fault(
    broken="nobody listens at the endpoint",
    when="at each of the eight operations of a storage",
    expected="StorageUnavailable with the endpoint: waiting is right; nothing reads as missing",
)
def test_an_endpoint_that_refuses_is_an_outage(s3, tmp_path):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{closed.getsockname()[1]}"
        settings = S3Settings(endpoint=endpoint, region="us-east-1", path_style=True)
        store = open_store("s3://state/jobs", settings, retry=ONCE)
        assert_each_says(store, tmp_path, endpoint.removeprefix("http://"), errors.StorageUnavailable)


@pytest.mark.fault(
    broken="the endpoint is no URL: {endpoint}",
    when="when a storage is opened",
    expected="SpecInvalid (exit code 2) with the field, the value and an example",
)
@pytest.mark.parametrize("endpoint", ["minio:9000", "http://", "not a url"])
def test_an_endpoint_that_is_no_url_is_a_wrong_field(endpoint):
    with pytest.raises(errors.SpecInvalid, match=r"s3\.endpoint.*http") as refused:
        open_store("s3://state/jobs", S3Settings(endpoint=endpoint, region="us-east-1"))
    assert repr(endpoint) in str(refused.value)


@pytest.mark.fault(
    broken="the bucket has a name that S3 does not allow",
    when="at the first operation",
    expected="StorageError (exit code 5) with the name: nobody waits for it",
)
def test_a_bucket_name_that_cannot_be_is_no_outage(s3):
    with pytest.raises(errors.StorageError, match=r"Bad_Bucket!.*correct the storage URL") as refused:
        open_store("s3://Bad_Bucket!/jobs", s3.settings, check=True, retry=ONCE)
    assert not isinstance(refused.value, errors.StorageUnavailable)


@pytest.mark.fault(
    broken="the server is stopped and started again",
    when="between two operations",
    expected="StorageUnavailable while it is away, all objects afterwards",
)
def test_after_an_outage_everything_is_there_again(monkeypatch):
    with s3server.running() as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        store = open_store("s3://state/jobs", server.settings, retry=ONCE)
        store.put_if_absent("a", b"data")
        server.stop()
        for look in (lambda: store.get("a"), lambda: list(store.list("")), lambda: store.head("a")):
            with pytest.raises(errors.StorageUnavailable):
                look()
        server.start()
        assert store.get("a") == b"data"
        with pytest.raises(errors.AlreadyExists):
            store.put_if_absent("a", b"other")


@pytest.fixture
def rotated():
    """A server of the test's own, whose key it changes."""
    with s3server.running() as server:
        yield server


def change_key(server, secret):
    server.stop()
    server.secret_key = secret
    server.start()


def keys_in_a_file(server, folder, monkeypatch):
    """As a Secret that is mounted, or an agent, has them."""
    file = folder / "credentials"
    s3server.write_keys(server, file)
    for name in server.environment:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    return file


@pytest.mark.fault(
    broken="the server's key changes, and later the file of credentials does",
    when="between two requests of an open storage",
    expected="StorageRefused until the file has the new key; then the same store goes on, at each operation",
)
@pytest.mark.parametrize(
    "name", ["create", "store", "read", "read-file", "look-up", "list", "begin-move", "move", "delete"]
)
def test_keys_that_change_in_their_file_are_read_again(rotated, tmp_path, monkeypatch, name):
    file = keys_in_a_file(rotated, tmp_path, monkeypatch)
    policy = RetryPolicy(attempts=2, first_pause_s=0.01)
    store = open_store("s3://state/jobs", rotated.settings, retry=policy)
    store.put_file("a", file)
    change_key(rotated, "another-secret")
    operation = operations(store, tmp_path)[name]
    with pytest.raises(errors.StorageRefused, match="check that the credentials") as refused:
        operation()
    assert not isinstance(refused.value, errors.StorageUnavailable)
    s3server.write_keys(rotated, file)
    if name == "create":
        store.delete(["a"])
    operation()


@pytest.mark.fault(
    broken="the token has expired ({source})",
    when="between two requests of an open storage",
    expected="from a file, which somebody renews: an outage, and the job waits; from the environment, which nobody "
    "changes: StorageRefused",
)
@pytest.mark.parametrize("source", ["in a file", "in the environment"])
def test_an_expired_token_is_waited_for_where_it_can_be_renewed(s3, tmp_path, monkeypatch, source):
    kind: type[errors.StorageError] = errors.StorageRefused
    if source == "in a file":
        kind = errors.StorageUnavailable
        keys_in_a_file(s3, tmp_path, monkeypatch)
    with fault_proxy.FaultProxy(s3.port, refuse=lambda request: "ExpiredToken") as proxy:
        store = open_store(
            "s3://state/x", dataclasses.replace(s3.settings, endpoint=proxy.endpoint), retry=ONCE
        )
        with pytest.raises(kind, match="ExpiredToken") as refused:
            store.get("a")
        assert s3.secret_key not in str(refused.value)
        with pytest.raises(kind, match=r"ExpiredToken.*credentials"):
            store.head("a")  # its answer has no code
        proxy.refuse = lambda request: "InvalidTokenId"  # MinIO's
        with pytest.raises(kind, match=r"InvalidTokenId.*credentials") as refused:
            store.get("a")
        assert ("renew it in shared-credentials-file" in str(refused.value)) == (source == "in a file")
        proxy.refuse = lambda request: (
            "AuthorizationHeaderMalformed"
        )  # a wrong region; a HEAD has 400 and no word
        with pytest.raises(errors.StorageError, match="set the S3 region") as refused:
            store.head("a")
        assert not isinstance(refused.value, errors.StorageUnavailable)
        proxy.refuse = lambda request: None
        with pytest.raises(errors.NotFound):
            store.get("a")


@pytest.mark.fault(
    broken="the file of credentials has {what} in it while it is written",
    when="a request is refused and the storage looks for new keys",
    expected="an outage, and the job waits; right keys are never given up for none or for those of another source",
)
@pytest.mark.parametrize("what", ["nothing", "half of the keys", "nothing, and a role has others"])
def test_keys_are_not_lost_while_their_file_is_written(s3, tmp_path, monkeypatch, what):
    file = keys_in_a_file(s3, tmp_path, monkeypatch)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with fault_proxy.FaultProxy(s3.port) as proxy:
        settings = dataclasses.replace(s3.settings, endpoint=proxy.endpoint)
        store = open_store(f"s3://state/{tmp_path.name}", settings, retry=ONCE)
        store.put_if_absent("a", b"data")
        file.write_text("" if "nothing" in what else f"[default]\naws_access_key_id = {s3.access_key}\n")
        if "role" in what:
            config = tmp_path / "config"
            config.write_text("[default]\naws_access_key_id = other\naws_secret_access_key = other\n")
            monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        proxy.refuse = lambda request: "AccessDenied"
        with pytest.raises(errors.StorageUnavailable, match="no whole ones now"):
            store.get("a")
        proxy.refuse = lambda request: None
        assert store.get("a") == b"data"


@pytest.mark.fault(
    broken="there are no credentials yet",
    when="the storage is opened and asked",
    expected="StorageRefused with the remedy; once the file is there the same storage goes on",
)
def test_a_storage_that_began_without_keys_takes_those_that_come(s3, tmp_path, monkeypatch):
    file = keys_in_a_file(s3, tmp_path, monkeypatch)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    file.unlink()
    store = open_store(
        f"s3://state/{tmp_path.name}", s3.settings, retry=RetryPolicy(attempts=2, first_pause_s=0.01)
    )
    with pytest.raises(errors.StorageRefused, match="set AWS_ACCESS_KEY_ID") as refused:
        store.put_if_absent("a", b"data")
    assert not isinstance(refused.value, errors.StorageUnavailable)
    s3server.write_keys(s3, file)
    store.put_if_absent("a", b"data")
    assert store.get("a") == b"data"


@pytest.mark.fault(
    broken="the server's key and the file of credentials change",
    when="two requests are under way; the second is refused when the first has already taken the new keys",
    expected="both are sent again",
)
def test_every_request_that_was_sent_with_the_old_keys_is_sent_again(rotated, tmp_path, monkeypatch):
    file = keys_in_a_file(rotated, tmp_path, monkeypatch)
    lock, seen, first_ended = threading.Lock(), threading.Semaphore(0), threading.Event()
    numbers = itertools.count()

    def hold_the_second(request):
        with lock:
            number = next(numbers)
        seen.release()
        if number == 0:
            assert both_sent.wait(30)
        elif number == 1:
            both_sent.set()
            assert first_ended.wait(30)

    both_sent = threading.Event()
    with fault_proxy.FaultProxy(rotated.port) as proxy, ThreadPoolExecutor(2) as pool:
        settings = dataclasses.replace(rotated.settings, endpoint=proxy.endpoint)
        store = open_store("s3://state/x", settings, retry=RetryPolicy(attempts=2, first_pause_s=0.01))
        store.put_if_absent("a", b"data")
        change_key(rotated, "another-secret")
        s3server.write_keys(rotated, file)
        proxy.watch = hold_the_second
        asked = [pool.submit(store.get, "a")]
        assert seen.acquire(timeout=30)
        asked.append(pool.submit(store.get, "a"))
        try:
            concurrent.futures.wait(asked, 30, concurrent.futures.FIRST_COMPLETED)
        finally:
            first_ended.set()
        assert [future.result(30) for future in asked] == [b"data", b"data"]


def test_keys_that_boto3_renews_are_renewed_and_a_refusal_of_right_ones_is_no_outage(
    rotated, tmp_path, monkeypatch
):
    """As those of a role or a web identity: somebody is asked for them, before they expire."""
    file = keys_in_a_file(rotated, tmp_path, monkeypatch)
    tell = tmp_path / "tell.py"
    tell.write_text(
        "import configparser, datetime, json\n"
        f"found = configparser.ConfigParser(); found.read({str(file)!r}); keys = found['default']\n"
        "until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=1)\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': keys['aws_access_key_id'],\n"
        "    'SecretAccessKey': keys['aws_secret_access_key'], 'Expiration': until.isoformat()}))\n"
    )
    config = tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {tell}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    store = open_store("s3://state/jobs", rotated.settings, retry=ONCE)
    store.put_file("a", file)
    change_key(rotated, "another-secret")
    with pytest.raises(errors.StorageRefused, match="check that the credentials") as refused:
        store.get("a")
    assert not isinstance(refused.value, errors.StorageUnavailable)
    s3server.write_keys(rotated, file)
    assert store.get("a")


def test_a_process_that_gives_other_keys_each_time_makes_no_outage_of_a_refusal(s3, tmp_path, monkeypatch):
    keys_in_a_file(s3, tmp_path, monkeypatch)
    tell = tmp_path / "tell.py"
    tell.write_text(
        "import json, uuid\n"
        "print(json.dumps({'Version': 1, 'AccessKeyId': 'a', 'SecretAccessKey': uuid.uuid4().hex}))\n"
    )
    config = tmp_path / "config"
    config.write_text(f"[default]\ncredential_process = {sys.executable} {tell}\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with fault_proxy.FaultProxy(s3.port, refuse=lambda request: "AccessDenied") as proxy:
        settings = dataclasses.replace(s3.settings, endpoint=proxy.endpoint)
        store = open_store("s3://state/x", settings, retry=ONCE)
        with pytest.raises(errors.StorageRefused, match="AccessDenied") as refused:
            store.get("a")
        assert not isinstance(refused.value, errors.StorageUnavailable)
        proxy.refuse = lambda request: "ExpiredToken"
        with pytest.raises(errors.StorageUnavailable, match="changed since"):
            store.get("a")
