"""StateSnapshots of any content, as people and the CRDs of other versions may leave them."""

from __future__ import annotations

import datetime
from typing import Any

from hypothesis import strategies as st
from support.specs import accepted, hostile

from sparkstate_operator import labels

TEXTS = st.sampled_from(
    ["", "-", "--help", "a b", "$(AWS_SECRET_ACCESS_KEY)", "$$", "\x00", "x" * 2000]
) | st.text(max_size=8)
TIMES = st.sampled_from(
    [
        "2026-01-01T12:00:00Z",
        "9999-12-31T23:59:59Z",
        "0001-01-01T00:00:00+14:00",
        "9999-12-31T23:59:59-14:00",
        "2026-01-01",
        "2026-W01-1",
        "20260101T120000Z",
        "24:00",
    ]
) | st.datetimes(timezones=st.timezones() | st.just(datetime.UTC)).map(lambda one: one.isoformat())
MARKS = st.sampled_from(
    ["shop/operator", "shop/operator@blue", "a/b/c", "../x", "shop/", "/", "shop/" + "o" * 300, "@"]
)
PINS = st.sampled_from(
    ["uid-1//blue", "/cluster/green", "uid-1/x/../..", "//", "uid-1//$(HOME)", "uid-1//a\x00"]
)
ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        labels.MANAGER: MARKS | TEXTS,
        labels.SCHEDULED: TIMES | TEXTS,
        labels.CLUSTER_KEPT: PINS | TEXTS,
        labels.CLUSTER: TEXTS,
        labels.START: st.sampled_from(["{}", "[]", "null", '{"since": "x"}', '{"uri": 5}']) | TEXTS,
        labels.COMMAND: TEXTS,
    },
)
LABELS = st.fixed_dictionaries(
    {},
    optional={
        labels.JOB: st.just("orders") | TEXTS,
        labels.JOB_UID: st.just("uid-1") | TEXTS,
        labels.SNAPSHOT_TYPE: st.just(labels.PERIODIC) | TEXTS,
        labels.OPERATOR_CLASS: TEXTS,
        labels.ATTEMPT: st.sampled_from(["1", "999999999", "-1", "\u0664"]) | TEXTS,
    },
)
URIS = accepted.LOCATIONS | TEXTS.map(lambda text: f"s3://bucket/{text}") | TEXTS
DURATIONS = accepted.DURATIONS | st.sampled_from(["9" * 31 + "h", "2562047h", "soon"])
S3 = hostile.mixed(
    endpoint=st.sampled_from(["http://minio:9000", "http://$(HOME)"]) | TEXTS,
    region=TEXTS,
    pathStyle=st.booleans(),
    secretRef=hostile.mixed(name=st.just("keys") | TEXTS),
    accessKey=TEXTS,
)
OPTIONAL: dict[str, st.SearchStrategy[Any]] = {
    "s3": S3,
    "template": hostile.TEMPLATES | hostile.ANY,
    "serviceAccountName": st.just("robot") | hostile.ANY,
    "deadline": DURATIONS | hostile.ANY,
    "pinned": st.booleans() | hostile.ANY,
    "deletionPolicy": st.sampled_from(["Retain", "Delete"]) | hostile.ANY,
    "other": hostile.ANY,
}
REGISTERED = st.fixed_dictionaries({"uri": URIS | hostile.ANY}, optional=OPTIONAL)
TAKEN = st.fixed_dictionaries(
    {"jobRef": st.just({"name": "orders"}) | hostile.mixed(name=st.just("orders"), uid=st.just("uid-1"))},
    optional={
        **OPTIONAL,
        "storage": URIS | hostile.ANY,
        "timeout": DURATIONS | hostile.ANY,
        "triggerId": st.just("t-1") | hostile.ANY,
    },
)
SPECS = REGISTERED | TAKEN | st.fixed_dictionaries({}, optional=OPTIONAL)
