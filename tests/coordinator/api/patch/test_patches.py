"""Strategic merge, merge patch and JSON patch: examples of their rules, and random objects."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.api.patch.errors import PatchError
from coordinator.api.patch.json_patch import MAX_OPERATIONS, json_patch, same
from coordinator.api.patch.merge_keys import shape_of
from coordinator.api.patch.merge_patch import merge_patch
from coordinator.api.patch.strategic_merge import strategic_merge
from tests.examples import examples

POD = shape_of("Pod")
JOB = shape_of("Job")
QUEUE = shape_of("Queue")


def pod_spec(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "a", "labels": {"x": "1", "y": "2"}}, "spec": spec}


def strategic(old: dict[str, Any], patch: dict[str, Any], shape: Any = POD) -> dict[str, Any]:
    before = copy.deepcopy((old, patch))
    new = strategic_merge(old, patch, shape)
    assert (old, patch) == before, "an argument was changed"
    return new


# --- strategic merge --------------------------------------------------------------------------


def test_fields_are_merged_and_null_goes() -> None:
    old = pod_spec(nodeSelector={"a": "1", "b": "2"}, priority=5)
    new = strategic(old, {"spec": {"nodeSelector": {"a": None, "c": "3"}, "priority": None}})
    assert new["spec"] == {"nodeSelector": {"b": "2", "c": "3"}}
    assert new["metadata"] == old["metadata"]


def test_null_in_something_new_is_not_there() -> None:
    assert strategic({}, {"spec": {"a": {"b": None, "c": 1}}}) == {"spec": {"a": {"c": 1}}}


def test_containers_are_merged_by_name() -> None:
    old = pod_spec(containers=[{"name": "a", "image": "1"}, {"name": "b", "image": "1"}])
    patch = {"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}]}}
    assert strategic(old, patch)["spec"]["containers"] == [
        {"name": "a", "image": "1"},
        {"name": "b", "image": "2"},
        {"name": "c", "image": "3"},
    ]


def test_a_tolerations_list_is_one_value() -> None:
    old = pod_spec(tolerations=[{"key": "a"}, {"key": "b"}])
    new = strategic(old, {"spec": {"tolerations": [{"key": "c"}]}})
    assert new["spec"]["tolerations"] == [{"key": "c"}]


def test_an_item_is_deleted_and_the_order_kept() -> None:
    old = pod_spec(containers=[{"name": n} for n in "abcde"])
    patch = {
        "spec": {
            "$setElementOrder/containers": [{"name": n} for n in "feca"],
            "containers": [{"name": "f"}, {"name": "b", "$patch": "delete"}],
        }
    }
    names = [c["name"] for c in strategic(old, patch)["spec"]["containers"]]
    # "d" is not in the order: it stays before what it was before.
    assert names == ["f", "d", "e", "c", "a"]


def test_an_order_alone_sorts() -> None:
    old = pod_spec(containers=[{"name": n} for n in "abc"])
    patch = {"spec": {"$setElementOrder/containers": [{"name": n} for n in "cba"]}}
    assert [c["name"] for c in strategic(old, patch)["spec"]["containers"]] == ["c", "b", "a"]
    assert strategic({"spec": {}}, patch) == {"spec": {}}


def test_set_element_order_chooses_the_merge_key() -> None:
    """Taints are one value, unless a client says by what it told them apart."""
    node = shape_of("Node")
    old = {"spec": {"taints": [{"key": "a", "effect": "x"}, {"key": "b", "effect": "x"}]}}
    whole = {"spec": {"taints": [{"key": "b", "effect": "y"}]}}
    assert strategic(old, whole, node) == whole
    order = {"$setElementOrder/taints": [{"key": "b"}, {"key": "a"}]}
    assert strategic(old, {"spec": whole["spec"] | order}, node) == {
        "spec": {"taints": [{"key": "b", "effect": "y"}, {"key": "a", "effect": "x"}]}
    }


def test_replace_directives() -> None:
    old = pod_spec(nodeSelector={"a": "1"}, containers=[{"name": "a"}, {"name": "b"}])
    patch = {
        "spec": {
            "nodeSelector": {"$patch": "replace", "z": "1"},
            "containers": [{"$patch": "replace"}, {"name": "c"}],
        }
    }
    new = strategic(old, patch)["spec"]
    assert new == {"nodeSelector": {"z": "1"}, "containers": [{"name": "c"}]}


def test_retained_keys() -> None:
    old = pod_spec(volumes=[{"name": "v", "emptyDir": {}}])
    patch = {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "nfs"], "nfs": {"x": 1}}]}}
    assert strategic(old, patch)["spec"]["volumes"] == [{"name": "v", "nfs": {"x": 1}}]


def test_plain_lists_are_united_and_parted() -> None:
    old = {"metadata": {"finalizers": ["a", "b", "c"]}}
    assert strategic(old, {"metadata": {"finalizers": ["d", "a"]}})["metadata"] == {
        "finalizers": ["a", "b", "c", "d"]
    }
    patch = {
        "metadata": {
            "$deleteFromPrimitiveList/finalizers": ["b"],
            "$setElementOrder/finalizers": ["c", "a"],
        }
    }
    assert strategic(old, patch)["metadata"] == {"finalizers": ["c", "a"]}


def test_tasks_of_a_job_down_to_their_containers() -> None:
    task = {"name": "w", "replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    patch = {
        "spec": {
            "tasks": [
                {
                    "name": "w",
                    "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}},
                }
            ]
        }
    }
    new = strategic({"spec": {"tasks": [task, {"name": "p"}]}}, patch, JOB)
    assert new["spec"]["tasks"] == [
        {
            "name": "w",
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "c", "image": "x"}]}},
        },
        {"name": "p"},
    ]


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"$patch": "other"}},
        {"spec": {"$retainKeys": 5}},
        {"spec": {"containers": [{"image": "no name"}]}},
        {"spec": {"containers": [5]}},
        {"spec": {"containers": [], "$setElementOrder/containers": 5}},
        {"spec": {"containers": [{"name": {}}]}},
        {"metadata": {"finalizers": [{}]}},
        {"metadata": {"finalizers": ["a"], "$setElementOrder/finalizers": [1]}},
        {"metadata": {"$deleteFromPrimitiveList/finalizers": [1]}},
    ],
)
def test_a_wrong_strategic_patch_says_so(patch: dict[str, Any]) -> None:
    with pytest.raises(PatchError, match=";"):
        strategic(pod_spec(containers=[{"name": "a"}]), patch)


def diff(old: Any, new: Any, shape: Any) -> dict[str, Any]:
    """A strategic patch from one object to another, as kubectl makes them."""
    patch: dict[str, Any] = {name: None for name in old if name not in new}
    for name, value in new.items():
        inner = shape.of(name)
        if name not in old:
            patch[name] = value
        elif isinstance(value, dict) and isinstance(old[name], dict):
            patch[name] = diff(old[name], value, inner)
        elif inner.keyed(value) and inner.keyed(old[name]):
            key = inner.keys[0]
            by_key = {item[key]: item for item in old[name]}
            items = [
                diff(by_key.get(item[key], {}), item, inner) | {key: item[key]} for item in value
            ]
            left = by_key.keys() - {item[key] for item in value}
            patch[name] = items + [{key: gone, "$patch": "delete"} for gone in left]
            patch[f"$setElementOrder/{name}"] = [{key: item[key]} for item in value]
        elif not same(old[name], value):
            patch[name] = value
    return patch


_TEXT = st.sampled_from(["", "1", "2"])
_MAPS = st.dictionaries(st.sampled_from("abc"), _TEXT, max_size=3)


def _named(item: st.SearchStrategy[dict[str, Any]], key: str) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["a", "b", "c", "d"])
    pairs = st.dictionaries(names, item, max_size=4)
    return pairs.map(lambda d: [v | {key: k} for k, v in d.items()]).flatmap(st.permutations)


def _some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=fields)


CONTAINERS = _named(
    _some(
        image=_TEXT,
        env=_named(_some(value=_TEXT), "name"),
        resources=_some(requests=_MAPS, limits=_MAPS),
        args=st.lists(_TEXT, max_size=3),
    ),
    "name",
)
POD_SPECS = _some(
    containers=CONTAINERS,
    nodeSelector=_MAPS,
    tolerations=st.lists(_some(key=_TEXT, value=_TEXT), max_size=3),
    priorityClassName=_TEXT,
    volumes=_named(_some(emptyDir=st.just({}), hostPath=_some(path=_TEXT)), "name"),
)
PODS = st.builds(
    lambda labels, spec: {"metadata": {"name": "p", "labels": labels}, "spec": spec},
    _MAPS,
    POD_SPECS,
)


@settings(max_examples=examples(200))
@given(PODS, PODS)
def test_the_patch_between_two_objects_makes_the_second(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert strategic(old, diff(old, new, POD)) == new
    assert strategic(new, diff(new, new, POD)) == new


# --- merge patch ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "patch", "new"),
    [  # the examples of RFC 7386 that concern objects
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
    ],
)
def test_merge_patch(old: Any, patch: Any, new: Any) -> None:
    before = copy.deepcopy(old)
    assert merge_patch(old, patch) == new
    assert old == before


# --- JSON patch -------------------------------------------------------------------------------


def ops(*operations: tuple[Any, ...]) -> list[dict[str, Any]]:
    names = {"move": "from", "copy": "from"}
    return [
        {"op": op, "path": path, **({names.get(op, "value"): rest[0]} if rest else {})}
        for op, path, *rest in operations
    ]


@pytest.mark.parametrize(
    ("operations", "new"),
    [
        (ops(("add", "/b", 1)), {"a": [1, 2], "b": 1, "c/d": {"~": 0}}),
        (ops(("add", "/a/0", 0)), {"a": [0, 1, 2], "c/d": {"~": 0}}),
        (ops(("add", "/a/-", 3)), {"a": [1, 2, 3], "c/d": {"~": 0}}),
        (ops(("remove", "/a/0"), ("remove", "/c~1d")), {"a": [2]}),
        (ops(("replace", "/c~1d/~0", 5)), {"a": [1, 2], "c/d": {"~": 5}}),
        (ops(("move", "/b", "/c~1d/~0")), {"a": [1, 2], "b": 0, "c/d": {}}),
        (
            ops(("copy", "/a/-", "/a"), ("add", "/a/2/-", 9)),
            {"a": [1, 2, [1, 2, 9]], "c/d": {"~": 0}},
        ),
        (ops(("test", "/a", [1, 2.0]), ("replace", "", {"x": 1})), {"x": 1}),
    ],
)
def test_json_patch(operations: Any, new: Any) -> None:
    old = {"a": [1, 2], "c/d": {"~": 0}}
    before = copy.deepcopy(old)
    assert json_patch(old, operations) == new
    assert old == before


@pytest.mark.parametrize(
    ("operations", "malformed"),
    [
        ({}, True),
        ([5], True),
        ([{"op": "sort", "path": ""}], True),
        ([{"op": "add", "path": "/x"}], True),
        ([{"op": "remove", "path": "x"}], True),
        ([{"op": "remove", "path": 5}], True),
        (ops(("remove", "")), True),
        (ops(("move", "/a/b", "/a")), True),
        (ops(("test", "/a", 2)), False),
        (ops(("test", "/a", True)), False),
        (ops(("remove", "/b")), False),
        (ops(("remove", "/l/1")), False),
        (ops(("remove", "/l/01")), False),
        (ops(("remove", "/l/-")), False),
        (ops(("add", "/l/3", 1)), False),
        (ops(("add", "/a/b", 1)), False),
        (ops(("replace", "/b", 1)), False),
        (ops(("add", "/b/c", 1)), False),
        (ops(("test", "/a", 1)) * (MAX_OPERATIONS + 1), True),
    ],
)
def test_a_wrong_json_patch_says_so(operations: Any, malformed: bool) -> None:
    with pytest.raises(PatchError, match=";") as caught:
        json_patch({"a": 1, "l": [0]}, operations)
    assert caught.value.malformed is malformed


@pytest.mark.timeout(20)
def test_copies_of_copies_are_bounded() -> None:
    with pytest.raises(PatchError, match="bytes"):
        json_patch({"a": ["x" * 1000]}, ops(*[("copy", "/a/-", "/a")] * 1000))
    deep = ops(*[("add", "/a" * i, {"a": {}}) for i in range(1, 400)])
    with pytest.raises(PatchError, match="deep"):
        json_patch({}, [*deep, *ops(("copy", "/b", "/a"))])
