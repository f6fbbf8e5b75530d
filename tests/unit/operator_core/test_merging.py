"""The user's pod template under the operator's pod."""

from __future__ import annotations

from sparkstate_operator.objects import merging


def test_maps_merge_and_ours_wins() -> None:
    assert merging.merge({"a": 1, "b": {"x": 1, "y": 2}}, {"b": {"y": 3}}) == {"a": 1, "b": {"x": 1, "y": 3}}


def test_named_lists_merge_by_name_and_keep_what_is_only_theirs() -> None:
    theirs = {"containers": [{"name": "side", "image": "s"}, {"name": "driver", "image": "x", "tty": True}]}
    ours = {"containers": [{"name": "driver", "image": "job"}]}
    assert merging.merge(theirs, ours) == {
        "containers": [{"name": "driver", "image": "job", "tty": True}, {"name": "side", "image": "s"}]
    }


def test_mounts_are_told_apart_by_their_path() -> None:
    theirs = {"volumeMounts": [{"name": "mine", "mountPath": "/data"}, {"name": "evil", "mountPath": "/tmp"}]}
    ours = {"volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}]}
    merged = merging.merge(theirs, ours)["volumeMounts"]
    assert merged == [{"name": "tmp", "mountPath": "/tmp"}, {"name": "mine", "mountPath": "/data"}]


def test_other_lists_are_taken_from_ours() -> None:
    assert merging.merge({"args": ["a", "b"]}, {"args": ["c"]}) == {"args": ["c"]}


def test_our_mount_takes_nothing_of_a_mount_of_theirs_at_its_place() -> None:
    theirs = {"volumeMounts": [{"name": "mine", "mountPath": "/opt/code", "subPath": "src"}]}
    ours = {"volumeMounts": [{"name": "code", "mountPath": "/opt/code", "readOnly": True}]}
    assert merging.merge(theirs, ours) == ours


def test_our_variable_takes_no_source_of_theirs() -> None:
    theirs = {
        "env": [{"name": "HOME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "A"}]
    }
    assert merging.merge(theirs, {"env": [{"name": "HOME", "value": "/work"}]})["env"] == [
        {"name": "HOME", "value": "/work"},
        {"name": "A"},
    ]


def test_a_probe_and_a_profile_are_ours_alone() -> None:
    """A probe with two handlers is refused, and so is a profile's file beside another type."""
    theirs = {
        "livenessProbe": {"exec": {"command": ["true"]}, "periodSeconds": 3},
        "securityContext": {"seccompProfile": {"type": "Localhost", "localhostProfile": "x"}, "runAsUser": 7},
    }
    ours = {
        "livenessProbe": {"httpGet": {"path": "/livez", "port": 1}},
        "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
    }
    assert merging.merge(theirs, ours) == {
        **ours,
        "securityContext": {**ours["securityContext"], "runAsUser": 7},
    }
