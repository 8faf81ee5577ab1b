"""Server-side apply and the account of who owns which field."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.api.patch.apply import BEFORE, Conflicts, apply
from coordinator.api.patch.errors import PatchError
from coordinator.api.patch.field_sets import decode_fields, encode_fields, leaves, path_text
from coordinator.api.patch.managed_fields import known_owners, ownable, read_owners, updated
from coordinator.api.patch.merge_keys import shape_of
from tests.coordinator.api.patch.test_patches import PODS
from tests.examples import examples

POD = shape_of("Pod")
T1, T2, T3 = (f"2026-01-0{i}T00:00:00Z" for i in (1, 2, 3))


def pod(labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": "p", "namespace": "n"}
    if labels is not None:
        meta["labels"] = labels
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def applied(
    live: dict[str, Any] | None,
    wanted: dict[str, Any],
    manager: str = "one",
    *,
    now: str = T1,
    force: bool = False,
) -> dict[str, Any]:
    before = copy.deepcopy((live, wanted))
    new = apply(live, wanted, POD, manager=manager, now=now, force=force)
    assert (live, wanted) == before, "an argument was changed"
    return new


def owned(obj: dict[str, Any]) -> dict[tuple[str, str], set[str]]:
    return {
        (owner.name, owner.operation): {path_text(path) for path in owner.fields}
        for owner in known_owners(obj)
    }


def plain(obj: dict[str, Any]) -> dict[str, Any]:
    """Without the account."""
    return obj | {"metadata": {k: v for k, v in obj["metadata"].items() if k != "managedFields"}}


def test_the_account_has_kubernetes_form() -> None:
    expected = pod(
        {"app": "x"}, containers=[{"name": "a", "args": ["1"], "ports": [{"containerPort": 80}]}]
    )
    (entry,) = applied(None, expected)["metadata"]["managedFields"]
    assert entry == {
        "manager": "one",
        "operation": "Apply",
        "apiVersion": "v1",
        "time": T1,
        "fieldsType": "FieldsV1",
        "fieldsV1": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"a"}': {
                        ".": {},
                        "f:name": {},
                        "f:args": {},
                        "f:ports": {
                            'k:{"containerPort":80,"protocol":"TCP"}': {
                                ".": {},
                                "f:containerPort": {},
                            }
                        },
                    }
                }
            },
        },
    }


def test_the_same_again_changes_nothing() -> None:
    expected = pod({"app": "x"}, containers=[{"name": "a"}], nodeSelector={})
    first = applied(None, expected)
    assert applied(first, expected, now=T2) == first


def test_fields_dropped_by_their_only_owner_are_removed() -> None:
    first = applied(None, pod({"a": "1", "b": "2"}, containers=[{"name": "a"}, {"name": "b"}]))
    second = applied(first, pod({"a": "1"}, containers=[{"name": "b"}]), now=T2)
    assert plain(second) == pod({"a": "1"}, containers=[{"name": "b"}])
    third = applied(second, pod(containers=[{"name": "b"}]), now=T3)
    assert plain(third) == pod(containers=[{"name": "b"}])


def test_a_field_with_two_owners_stays_until_both_drop_it() -> None:
    both = applied(applied(None, pod({"a": "1"}, x=1)), pod({"a": "1"}), "two", now=T2)
    one_left = applied(both, pod(x=1), "one", now=T3)
    assert one_left["metadata"]["labels"] == {"a": "1"}
    assert "labels" not in applied(one_left, pod(), "two", now=T3)["metadata"]


def test_a_field_of_another_is_a_conflict_unless_forced() -> None:
    live = applied(None, pod(containers=[{"name": "a", "image": "1"}]))
    expected = pod(containers=[{"name": "a", "image": "2"}])
    with pytest.raises(Conflicts) as caught:
        applied(live, expected, "two")
    assert str(caught.value) == (
        'Apply failed with 1 conflict: conflict with "one": .spec.containers[name="a"].image'
    )
    forced = applied(live, expected, "two", force=True, now=T2)
    assert forced["spec"]["containers"] == [{"name": "a", "image": "2"}]
    image = '.spec.containers[name="a"].image'
    assert image not in owned(forced)["one", "Apply"]
    assert image in owned(forced)["two", "Apply"]


def test_several_conflicts_are_listed_by_manager() -> None:
    live = applied(None, pod({"a": "1"}, x=1))
    live = updated(live, live | {"spec": {"x": 1, "y": 1}}, POD, manager="edit", now=T2)
    with pytest.raises(Conflicts) as caught:
        applied(live, pod({"a": "2"}, x=2, y=2), "two")
    assert str(caught.value) == (
        'Apply failed with 3 conflicts: conflicts with "edit" using v1 at 2026-01-02T00:00:00Z:\n'
        '- .spec.y\nconflicts with "one":\n- .metadata.labels.a\n- .spec.x'
    )
    assert {c.owner.name for c in caught.value.found} == {"one", "edit"}


def test_fields_before_the_first_apply_have_an_owner() -> None:
    live = pod({"a": "1"}, x=1)
    with pytest.raises(Conflicts, match=BEFORE):
        applied(live, pod({"a": "2"}))
    adopted = applied(live, pod({"a": "1", "b": "1"}))
    assert set(owned(adopted)) == {("one", "Apply"), (BEFORE, "Update")}
    assert plain(applied(adopted, pod({"b": "1"}), now=T2)) == pod({"a": "1", "b": "1"}, x=1)


def test_items_keep_their_order_beside_those_of_others() -> None:
    live = applied(None, pod(containers=[{"name": n} for n in "abc"]))
    both = applied(live, pod(containers=[{"name": "d"}, {"name": "c"}, {"name": "b"}]), "two")
    assert [c["name"] for c in both["spec"]["containers"]] == ["a", "d", "c", "b"]


def test_null_is_not_said() -> None:
    assert plain(applied(None, pod(x=None, containers=[{"name": "a", "image": None}]))) == pod(
        containers=[{"name": "a"}]
    )


def test_items_without_a_key_are_one_value() -> None:
    first = applied(None, pod(containers=[{"image": "a"}, {"image": "b"}]))
    assert owned(first)["one", "Apply"] == {".spec.containers"}
    second = applied(first, pod(containers=[{"image": "c"}]), now=T2)
    assert second["spec"]["containers"] == [{"image": "c"}]


# --- updates ----------------------------------------------------------------------------------


def test_an_update_makes_its_manager_the_only_owner_of_a_field() -> None:
    live = applied(None, pod({"a": "1", "b": "1"}))
    new = updated(live, pod({"a": "2", "c": "1"}), POD, manager="edit", now=T2)
    assert owned(new) == {
        ("one", "Apply"): {".spec"},
        ("edit", "Update"): {".metadata.labels.a", ".metadata.labels.c"},
    }
    again = updated(new, plain(new), POD, manager="edit", now=T3)
    assert again == new


def test_an_account_that_is_given_counts() -> None:
    live = applied(None, pod({"a": "1"}))
    entry = live["metadata"]["managedFields"][0] | {"manager": "other"}
    moved = copy.deepcopy(live)
    moved["metadata"]["managedFields"] = [entry]
    assert set(owned(updated(live, moved, POD, manager="m", now=T2))) == {("other", "Apply")}
    moved["metadata"]["managedFields"] = [{}]
    assert owned(updated(live, moved, POD, manager="m", now=T2)) == {}


@pytest.mark.parametrize(
    "entries",
    [
        5,
        [5],
        [{"operation": "Delete"}],
        [{"operation": "Apply", "manager": 5}],
        [{"operation": "Apply", "fieldsV1": 5}],
        [{"operation": "Apply", "fieldsV1": {"x": {}}}],
        [{"operation": "Apply", "fieldsV1": {"k:[": {}}}],
        [{"operation": "Apply", "fieldsV1": {"f:a": 5}}],
        [{"operation": "Apply"}] * 101,
    ],
)
def test_a_wrong_account_is_refused_where_it_is_sent(entries: Any) -> None:
    with pytest.raises(PatchError, match=";"):
        read_owners(entries)
    stored = pod()
    stored["metadata"]["managedFields"] = entries
    assert known_owners(stored) == ()


# --- at random --------------------------------------------------------------------------------


@settings(max_examples=examples(200))
@given(PODS)
def test_sets_keep_their_form(obj: dict[str, Any]) -> None:
    fields = frozenset(leaves(ownable(obj), POD))
    assert decode_fields(encode_fields(fields), "") == fields


@settings(max_examples=examples(200))
@given(PODS, PODS)
def test_the_last_apply_of_one_author_decides(
    first: dict[str, Any], second: dict[str, Any]
) -> None:
    """An author's last apply decides the object, and applying it again changes nothing."""
    live = applied(applied(None, first), second, now=T2)
    assert trimmed(plain(live)) == trimmed(second)
    assert applied(live, second, now=T3) == live


@settings(max_examples=examples(200))
@given(PODS, PODS, PODS)
def test_two_authors(first: dict[str, Any], second: dict[str, Any], third: dict[str, Any]) -> None:
    """Each finds what he forced; nobody owns what is not there; one conflict changes nothing."""
    live = applied(None, first)
    live = applied(live, second, "two", now=T2, force=True)
    check_account(live)
    expected = leaves(ownable(second), POD)
    there = leaves(ownable(live), POD)
    for path, value in expected.items():
        if value not in ({}, []):
            assert there[path] == value
    try:
        live = applied(live, third, "one", now=T3)
    except Conflicts as error:
        assert error.found
        assert {c.owner.name for c in error.found} == {"two"}
        return
    check_account(live)
    assert applied(live, third, "one", now=T3) == live


def check_account(obj: dict[str, Any]) -> None:
    there = leaves(ownable(obj), POD)
    prefixes = {path[:i] for path in there for i in range(1, len(path) + 1)}
    for owner in known_owners(obj):
        assert owner.fields
        missing = owner.fields - prefixes
        assert not missing, (owner.name, missing)


def trimmed(value: Any) -> Any:
    """Without empty objects and lists, which mean the same as none."""
    if isinstance(value, dict):
        rest = {k: trimmed(v) for k, v in value.items()}
        return {k: v for k, v in rest.items() if v not in ({}, [])}
    if isinstance(value, list):
        return [trimmed(item) for item in value]
    return value


@given(
    st.lists(st.sampled_from("abcd"), unique=True), st.lists(st.sampled_from("abcd"), unique=True)
)
def test_plain_lists_are_shared(one: list[str], two: list[str]) -> None:
    def finalizers(names: list[str]) -> dict[str, Any]:
        return {"metadata": {"name": "p", "finalizers": names}}

    live = applied(applied(None, finalizers(one)), finalizers(two), "two", now=T2)
    assert set(live["metadata"].get("finalizers", [])) == {*one, *two}
    live = applied(live, {"metadata": {"name": "p"}}, now=T3)
    assert live["metadata"].get("finalizers", []) == two
