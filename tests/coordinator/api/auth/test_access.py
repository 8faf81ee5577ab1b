"""Requests in Kubernetes' terms, as an API server would take the same path."""

from __future__ import annotations

import pytest

from coordinator.api.auth.access import PathAccess, ResourceAccess, access_of

NAMED = {"namespace": "ns", "name": "a", "role": "own"}
PODS = "/api/v1/namespaces/{namespace}/pods"
PLANS = "/apis/quadrant.dev/v1alpha1/plans"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}"


@pytest.mark.parametrize(
    ("method", "route", "expected"),
    [
        ("GET", f"{PODS}/{{name}}", ResourceAccess("get", "", "v1", "pods", "", "ns", "a")),
        ("HEAD", f"{PODS}/{{name}}", ResourceAccess("get", "", "v1", "pods", "", "ns", "a")),
        ("GET", PODS, ResourceAccess("list", "", "v1", "pods", "", "ns")),
        ("GET", "/api/v1/pods", ResourceAccess("list", "", "v1", "pods")),
        ("POST", PODS, ResourceAccess("create", "", "v1", "pods", "", "ns")),
        ("DELETE", PODS, ResourceAccess("deletecollection", "", "v1", "pods", "", "ns")),
        (
            "GET",
            f"{PODS}/{{name}}/explain",
            ResourceAccess("get", "", "v1", "pods", "explain", "ns", "a"),
        ),
        (
            "PATCH",
            JOBS,
            ResourceAccess("patch", "batch.volcano.sh", "v1alpha1", "jobs", "", "ns", "a"),
        ),
        (
            "GET",
            "/api/v1/namespaces/{name}",
            ResourceAccess("get", "", "v1", "namespaces", "", "a", "a"),
        ),
        ("GET", "/api/v1/namespaces", ResourceAccess("list", "", "v1", "namespaces")),
        ("POST", PLANS, ResourceAccess("create", "quadrant.dev", "v1alpha1", "plans")),
        (
            "PUT",
            "/apis/quadrant.dev/v1alpha1/debug/{role}/loglevel",
            ResourceAccess("update", "quadrant.dev", "v1alpha1", "debug", "loglevel", "", "own"),
        ),
        ("GET", "/metrics", PathAccess("get", "/metrics")),
        ("GET", "/apis", PathAccess("get", "/apis")),
        ("GET", "/apis/quadrant.dev/v1alpha1", PathAccess("get", "/apis/quadrant.dev/v1alpha1")),
        ("GET", "/api/v1", PathAccess("get", "/api/v1")),
        ("GET", "/livez", None),
        ("GET", "/readyz/{check}", None),
    ],
)
def test_paths_are_read_as_an_api_server_reads_them(
    method: str, route: str, expected: object
) -> None:
    assert access_of(method, route, NAMED) == expected


def test_a_watch_is_no_list() -> None:
    access = access_of("GET", PODS, NAMED, watch=True)
    assert isinstance(access, ResourceAccess)
    assert access.verb == "watch"


def test_a_value_with_a_slash_stays_one_part() -> None:
    """``..%2Fa`` in a path: what stands for a name is a name, whatever it has in it."""
    access = access_of("GET", f"{PODS}/{{name}}", {"namespace": "ns", "name": "../secrets/x"})
    assert access == ResourceAccess("get", "", "v1", "pods", "", "ns", "../secrets/x")
