"""A tenant stays in its place: namespaces, priorities and tolerations, on every way in."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from coordinator.api.auth.privileges import not_permitted
from coordinator.api.auth.tokens import new_token
from coordinator.intake.admission.registry import Registry
from coordinator.intake.documents.kinds import ATTACHED, Kind
from coordinator.intake.principal import Principal, TokenRole
from shared.model.model import PriorityClass
from tests.builders.objects import a_list, node, priority_class, queue, workload
from tests.coordinator.api.auth.files import entry, write_tokens
from tests.coordinator.api.auth.objects import group, job, pod
from tests.coordinator.api.auth.test_service import GROUPS, JOBS, LISTS, PODS, QUEUES, TokenClient
from tests.end_to_end.one_process.harness import running

ADMIN, OPS, TEAM, GOLD, LOOK, PEEK = (new_token() for _ in range(6))
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PLANS = "/apis/quadrant.dev/v1alpha1/plans"
REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RECORD = "/apis/quadrant.dev/v1alpha1/record"

Json = dict[str, Any]


@pytest.fixture
async def ask(redis_url: str, short_dir: Path) -> AsyncIterator[TokenClient]:
    tokens = write_tokens(
        short_dir / "tokens",
        entry("root", "admin", ADMIN),
        entry("ops", "submit", OPS),
        entry("team", "submit", TEAM, namespaces=["team-a"]),
        entry("gold", "submit", GOLD, priorityClasses=["gold"]),
        entry("look", "view", LOOK),
        entry("peek", "view", PEEK, namespaces=["team-a"]),
    )
    async with (
        running(redis_url, short_dir, tokens_file=tokens) as service,
        ClientSession() as session,
    ):
        asking = TokenClient(service, session)
        things = [
            queue("ops"),
            priority_class("vip", 2_000_000_000),
            priority_class("gold", 1000),
            priority_class("silver", 10),
        ]
        status, body = await asking(ADMIN, "POST", LISTS, a_list(*things))
        assert (status, body["refused"]) == (200, []), body
        yield asking


def with_spec(obj: Json, **fields: Any) -> Json:
    """The object with these fields in its specification, or in that of its Job's pods."""
    body: Json = json.loads(json.dumps(obj))
    spec = body["spec"]["tasks"][0]["template"]["spec"] if obj["kind"] == "Job" else body["spec"]
    spec.update(fields)
    return body


def with_class(name: str) -> Json:
    """A Job that names the class itself, not in its template."""
    job_item = job("x", "ops")
    job_item["spec"]["priorityClassName"] = name
    return job_item


TOLERATED = {
    "control-plane": {"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"},
    "master": {"key": "node-role.kubernetes.io/master", "effect": "NoSchedule"},
    "everything": {"operator": "Exists"},
    "every-no-schedule": {"key": "", "operator": "Exists", "effect": "NoSchedule"},
}
ASKED: dict[str, Json] = {
    "pod-system": with_spec(pod("x", queue="ops"), priorityClassName="system-node-critical"),
    "pod-value": with_spec(pod("x", queue="ops"), priorityClassName="vip"),
    "pod-bare": with_spec(pod("x", queue="ops"), priority=1_000_000_001),
    "group": with_spec(group("x", "ops"), priorityClassName="system-cluster-critical"),
    "group-value": with_spec(group("x", "ops"), priorityClassName="vip"),
    "job": with_class("system-cluster-critical"),
    "job-value": with_class("vip"),
    "template-system": with_spec(job("x", "ops"), priorityClassName="system-x"),
    "template-bare": with_spec(job("x", "ops"), priority=2_000_000_000),
    **{f"pod-{k}": with_spec(pod("x", queue="ops"), tolerations=[v]) for k, v in TOLERATED.items()},
    **{f"job-{k}": with_spec(job("x", "ops"), tolerations=[v]) for k, v in TOLERATED.items()},
}
PATHS = {"Pod": PODS, "PodGroup": GROUPS, "Job": JOBS}
PLAIN = {"Pod": pod("x", queue="ops"), "PodGroup": group("x", "ops"), "Job": job("x", "ops")}


async def test_admin_only_fields_are_refused_in_every_request(
    ask: TokenClient, subtests: pytest.Subtests
) -> None:
    for name, obj in ASKED.items():
        with subtests.test(name):
            await check_every_request(ask, obj)


async def check_every_request(ask: TokenClient, obj: Json) -> None:
    path = PATHS[obj["kind"]]

    def check(status: int, body: Json) -> None:
        assert (status, body["reason"]) == (403, "Forbidden"), body
        assert "role admin alone" in body["message"], body
        assert "the token ops has role submit" in body["message"], body

    async def apply(query: str = "") -> None:
        url = f"{path}/x?fieldManager=test{query}"
        check(*await ask(OPS, "PATCH", url, obj, form="apply-patch+yaml"))

    check(*await ask(OPS, "POST", path, obj))
    check(*await ask(OPS, "POST", f"{path}?dryRun=All", obj))
    check(*await ask(OPS, "POST", LISTS, a_list(obj)))
    both = a_list(pod("other", queue="ops"), obj)
    check(*await ask(OPS, "POST", f"{LISTS}?atomic=true", both))
    check(*await ask(OPS, "POST", PLANS, a_list(obj)))
    await apply()
    await apply("&dryRun=All")
    assert (await ask(OPS, "GET", f"{path}/x"))[0] == 404
    # one that is there does not become such a one
    status, body = await ask(OPS, "POST", path, PLAIN[obj["kind"]])
    assert status == 201, body
    check(*await ask(OPS, "PUT", f"{path}/x", obj))
    await apply("&force=true")
    check(*await ask(OPS, "PATCH", f"{path}/x", {"spec": obj["spec"]}, form="merge-patch+json"))
    assert (await ask(OPS, "DELETE", f"{path}/x"))[0] == 200
    await _until_gone(ask, f"{path}/x")
    # in a list with others it alone is refused
    status, body = await ask(OPS, "POST", LISTS, a_list(obj, pod("beside", queue="ops")))
    assert (status, body["accepted"], len(body["refused"])) == (200, 1, 1), body
    # an admin may
    status, body = await ask(ADMIN, "POST", f"{path}?dryRun=All", obj)
    assert status == 201, body


async def _until_gone(ask: TokenClient, path: str) -> None:
    """A pod may have been placed meanwhile, so that its node has to stop it."""
    for _ in range(3000):
        if (await ask(ADMIN, "GET", path))[0] == 404:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path} is still there")


async def test_a_tenant_may_delete_an_admins_job_but_not_patch_it(ask: TokenClient) -> None:
    obj = ASKED["job-value"]
    assert (await ask(ADMIN, "POST", JOBS, obj))[0] == 201
    labels = {"metadata": {"labels": {"a": "b"}}}
    status, body = await ask(OPS, "PATCH", f"{JOBS}/x", labels, form="merge-patch+json")
    assert status == 403, body
    assert (await ask(OPS, "DELETE", f"{JOBS}/x"))[0] == 200


async def test_a_view_token_cannot_plan_with_admin_only_fields(ask: TokenClient) -> None:
    assert (await ask(LOOK, "POST", PLANS, a_list(PLAIN["Job"])))[0] == 200
    status, body = await ask(LOOK, "POST", PLANS, a_list(PLAIN["Job"], ASKED["job"]))
    assert (status, len(body["details"]["refused"])) == (403, 1), body
    assert (await ask(ADMIN, "POST", PLANS, a_list(ASKED["job"])))[0] == 200


ORDINARY: tuple[Json, ...] = (
    {"priority": 1_000_000_000},
    {"priorityClassName": "gold"},
    {"priorityClassName": "not-there-yet"},
    {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
    {"tolerations": [{"operator": "Exists", "effect": "NoExecute"}]},
    {"tolerations": [{"operator": "Exists", "effect": "PreferNoSchedule"}]},
    {"tolerations": [{"key": "node-role.kubernetes.io/worker", "operator": "Exists"}]},
    {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
)


async def test_ordinary_work_is_taken(ask: TokenClient) -> None:
    for number, fields in enumerate(ORDINARY):
        for obj in (pod(f"p{number}", queue="ops"), job(f"j{number}", "ops")):
            status, body = await ask(OPS, "POST", PATHS[obj["kind"]], with_spec(obj, **fields))
            assert status == 201, (fields, body)


# --- classes of a token -----------------------------------------------------------------------


async def test_a_token_with_classes_may_name_no_other(ask: TokenClient) -> None:
    for obj in (
        with_spec(PLAIN["Pod"], priorityClassName="silver"),
        with_spec(PLAIN["PodGroup"], priorityClassName="silver"),
        with_spec(PLAIN["Job"], priorityClassName="not-there-yet"),
        with_class("silver"),
        with_spec(PLAIN["Pod"], priority=1001),  # a bare number is no way around
    ):
        status, body = await ask(GOLD, "POST", PATHS[obj["kind"]], obj)
        assert status == 403, body
        assert "the token gold may use gold" in body["message"]
    permitted = [
        with_spec(pod("a", queue="ops"), priorityClassName="gold", priority=1000),
        with_spec(group("b", "ops"), priorityClassName="gold"),
        pod("c", queue="ops"),
    ]
    status, body = await ask(GOLD, "POST", LISTS, a_list(*permitted))
    assert (status, body["accepted"]) == (200, 3), body


def test_the_default_class_counts_for_bare_priorities() -> None:
    registry = Registry()
    registry.priority_classes["usual"] = PriorityClass("usual", 500, True)
    mine = Principal("t", TokenRole.SUBMIT, priority_classes=frozenset(("low",)))
    assert not not_permitted(mine, with_spec(PLAIN["Pod"], priority=500), registry)
    assert "up to 500" in not_permitted(mine, with_spec(PLAIN["Pod"], priority=501), registry)


@pytest.mark.parametrize("broken", [None, 1, "x", [], [1], {"a": 1}, [{"key": 1}], [None]])
def test_malformed_fields_are_left_to_intake(broken: Any) -> None:
    mine = Principal("t", TokenRole.SUBMIT)
    for obj in PLAIN.values():
        for field in ("priorityClassName", "priority", "tolerations", "tasks", "template"):
            assert not not_permitted(mine, with_spec(obj, **{field: broken}), Registry())
        assert not not_permitted(mine, {**obj, "spec": broken}, Registry())


# --- namespaces -------------------------------------------------------------------------------


def in_namespace(obj: Json, namespace: str) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def path_in(kind: str, namespace: str) -> str:
    return PATHS[kind].replace("/default/", f"/{namespace}/")


async def _fill(ask: TokenClient) -> None:
    items = [
        in_namespace(o, ns)
        for ns in ("team-a", "team-b")
        for o in (pod("p"), job("j", "ops"), group("g", "ops"))
    ]
    status, body = await ask(ADMIN, "POST", LISTS, a_list(*items))
    assert (status, body["accepted"]) == (200, 6), body


@pytest.mark.parametrize("token", [TEAM, PEEK], ids=["submit", "view"])
async def test_a_token_for_namespaces_sees_these_alone(ask: TokenClient, token: str) -> None:
    await _fill(ask)
    for kind, name in (("Pod", "p"), ("PodGroup", "g"), ("Job", "j")):
        own, others = path_in(kind, "team-a"), path_in(kind, "team-b")
        everywhere = own.replace("/namespaces/team-a", "")
        assert (await ask(token, "GET", f"{own}/{name}"))[0] == 200
        assert (await ask(token, "GET", f"{own}/{name}/explain"))[0] == 200
        status, body = await ask(token, "GET", own)
        assert status == 200, body
        assert {o["metadata"]["namespace"] for o in body["items"]} == {"team-a"}
        for path in (
            others,
            f"{others}?watch=true",
            f"{others}/{name}",
            f"{others}/nothing",
            f"{others}/{name}/explain",
            everywhere,
            f"{everywhere}?watch=true",
            f"{everywhere}?fieldSelector=metadata.namespace%3Dteam-a",
        ):
            status, body = await ask(token, "GET", path)
            assert (status, body["reason"]) == (403, "Forbidden"), path
            assert "it is for team-a only" in body["message"]
        assert (await ask(token, "POST", f"{others}/{name}/explain"))[0] == 403
    assert (await ask(token, "GET", RECORD))[0] == 403
    assert (await ask(LOOK, "GET", RECORD))[0] == 200
    for path in (QUEUES, "/api/v1/nodes", CLASSES, "/api/v1/namespaces", "/metrics"):
        assert (await ask(token, "GET", path))[0] == 200, path
    status, body = await ask(token, "POST", PLANS, a_list(in_namespace(job("n", "ops"), "team-b")))
    assert status == 403, body
    status, body = await ask(token, "POST", PLANS, a_list(in_namespace(job("n", "ops"), "team-a")))
    assert status == 200, body


async def test_a_token_for_namespaces_writes_there_alone(ask: TokenClient) -> None:
    await _fill(ask)
    for kind, name in (("Pod", "p"), ("PodGroup", "g"), ("Job", "j")):
        others = path_in(kind, "team-b")
        obj = PLAIN[kind]
        label = {"metadata": {"labels": {"a": "b"}}}
        form = "merge-patch+json"
        writes: list[tuple[str, str, Json | None, str]] = [
            ("POST", others, obj, "json"),
            ("POST", f"{others}?dryRun=All", obj, "json"),
            ("PUT", f"{others}/{name}", {**obj, "metadata": {"name": name}}, "json"),
            ("PATCH", f"{others}/{name}", label, form),
            (
                "PATCH",
                f"{others}/new?fieldManager=x",
                {**obj, "metadata": {"name": "new"}},
                "apply-patch+yaml",
            ),
            ("DELETE", f"{others}/{name}", None, "json"),
        ]
        for method, path, body, how in writes:
            status, answer = await ask(TEAM, method, path, body, form=how)
            assert (status, answer["reason"]) == (403, "Forbidden"), (method, path)
        own = f"{path_in(kind, 'team-a')}/{name}"
        assert (await ask(TEAM, "PATCH", own, label, form=form))[0] == 200
        assert (await ask(ADMIN, "GET", f"{others}/{name}"))[0] == 200
    # in lists each object is judged; without a namespace it is in default
    items = [in_namespace(pod("l"), "team-a"), in_namespace(pod("l"), "team-b"), pod("l")]
    status, body = await ask(TEAM, "POST", LISTS, a_list(*items, node("n")))
    assert (status, body["accepted"]) == (200, 1), body
    assert [r["name"] for r in body["refused"]] == ["team-b/l", "default/l", "n"]
    assert "the token team is for team-a only" in body["refused"][0]["message"]


@pytest.mark.parametrize("kind", ATTACHED, ids=lambda kind: kind.kind)
async def test_inert_objects_are_written_only_in_the_tokens_namespaces(
    ask: TokenClient, kind: Kind
) -> None:
    spec = {
        "Service": {"spec": {"ports": [{"port": 80}]}},
        "Workload": {"spec": workload()["spec"]},
    }
    obj = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": "x"}}
    obj |= spec.get(kind.kind, {})
    own, others = (f"{kind.root}/namespaces/{name}/{kind.plural}" for name in ("team-a", "team-b"))
    status, body = await ask(TEAM, "POST", own, obj)
    assert status == 201, body
    status, body = await ask(TEAM, "POST", others, obj)
    assert (status, body["reason"]) == (403, "Forbidden"), body
    assert "it is for team-a only" in body["message"]
    status, body = await ask(PEEK, "POST", own, obj)
    assert status == 403, body
    assert (await ask(TEAM, "DELETE", f"{own}/x"))[0] == 200


async def test_a_namespace_is_an_admins(ask: TokenClient) -> None:
    obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    for token in (TEAM, OPS):
        status, body = await ask(token, "POST", "/api/v1/namespaces", obj)
        assert (status, body["reason"]) == (403, "Forbidden"), body
        assert "needs role admin" in body["message"]
    status, body = await ask(ADMIN, "POST", "/api/v1/namespaces", obj)
    assert status == 201, body


async def test_a_stream_leaves_out_other_namespaces(ask: TokenClient) -> None:
    headers = {"Authorization": f"Bearer {PEEK}"}
    url = f"{ask.running.url}/stream?kind=Pod&kind=Queue"
    async with ask.session.get(url, headers=headers) as stream:
        assert stream.status == 200
        await stream.content.readuntil(b"ready")
        await _fill(ask)
        report = b""
        # of an object that changes again the last change alone is told, so the order is open
        while b"team-a" not in report:
            report += await stream.content.readuntil(b"\r\n\r\n")
        assert (await ask(ADMIN, "POST", QUEUES, queue("last")))[0] == 201
        report += await stream.content.readuntil(b'"last"')
    assert b"team-b" not in report


def _review(verb: str, resource: str, group: str = "", namespace: str = "") -> Json:
    attributes = {"verb": verb, "group": group, "resource": resource, "namespace": namespace}
    return {"spec": {"resourceAttributes": attributes}}


VOLCANO = "scheduling.volcano.sh"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"


async def test_an_access_review_agrees_with_the_rights_of_the_token(ask: TokenClient) -> None:
    for token, review, allowed in (
        (ADMIN, _review("*", "*", "*"), True),
        (ADMIN, _review("create", "queues", VOLCANO), True),
        (OPS, _review("create", "queues", VOLCANO), False),
        (OPS, _review("create", "pods", "", "team-b"), True),
        (TEAM, _review("create", "pods", "", "team-a"), True),
        (TEAM, _review("create", "pods", "", "team-b"), False),
        (TEAM, _review("list", "pods"), False),
        (TEAM, _review("list", "nodes"), True),
        (LOOK, _review("delete", "podgroups", VOLCANO, "team-a"), False),
        (LOOK, _review("watch", "podgroups", VOLCANO, "team-a"), True),
    ):
        status, answer = await ask(token, "POST", REVIEWS, review)
        assert (status, answer["status"]["allowed"]) == (201, allowed), (review, answer)


async def test_a_rules_review_lists_what_access_reviews_allow(ask: TokenClient) -> None:
    for token in (ADMIN, OPS, TEAM, LOOK):
        for namespace in ("team-a", "team-b"):
            spec = {"spec": {"namespace": namespace}}
            status, answer = await ask(token, "POST", RULES, spec)
            assert (status, answer["kind"]) == (201, "SelfSubjectRulesReview")
            assert answer["status"]["incomplete"] is False
            listed = {
                (api_group, resource, verb)
                for rule in answer["status"]["resourceRules"]
                for api_group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
            for api_group, resource in (("", "pods"), (VOLCANO, "queues"), ("", "nodes")):
                for verb in ("create", "delete", "list"):
                    review = _review(verb, resource, api_group, namespace)
                    _, single = await ask(token, "POST", REVIEWS, review)
                    allowed = single["status"]["allowed"]
                    assert ((api_group, resource, verb) in listed) is allowed, (token, review)
    status, answer = await ask(ADMIN, "POST", RULES, {"spec": {}})
    assert status == 400
    assert "spec.namespace" in answer["message"]
