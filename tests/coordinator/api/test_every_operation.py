"""Every operation that the OpenAPI documents name, asked with whatever fits them and whatever does
not: no answer is an error of the server, none takes long, and each is what the documents say."""

from __future__ import annotations

import asyncio
import functools
import json
import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from coordinator.api.discovery.openapi import document
from coordinator.api.read import trace, watch
from coordinator.intake.documents.kinds import KINDS, Kind
from shared.ledger.redis.server import EmbeddedServer
from shared.telemetry import profiler
from tests.builders.objects import a_list
from tests.conftest import flush
from tests.coordinator.api.conftest import ITEMS
from tests.end_to_end.one_process.harness import running, submit
from tests.examples import THOROUGH, examples

if TYPE_CHECKING:
    from schemathesis import Case

# schemathesis is imported by the tests that use it: it takes 4 s of processor time with its view of
# the documents, and each process that shares the tests collects this file.

SECONDS = 60.0
"""An answer that takes longer is a hang."""
MINUTE = 60.0
EXAMPLES = examples(5, least=2 if THOROUGH else 1)
"""Nearly all of the time goes into drawing them, for some 400 operations."""
THERE = sorted({item["metadata"]["name"] for item in ITEMS} | {"train-w-0", "shard-0", "default"})


def exploring(number: int = EXAMPLES) -> settings:
    """The same examples in every run of CI, others elsewhere; see tests/conftest.py."""
    return settings(
        max_examples=number,
        phases=[Phase.reuse, Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


@pytest.fixture(scope="module")
def url(embedded_server: EmbeddedServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service in a thread of its own, so that clients that wait may ask it."""
    flush(embedded_server)
    began, result = threading.Event(), list[str]()
    loop, ending = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with running(embedded_server.url, Path(tmp_path_factory.mktemp("s"))) as service:
            await submit(service, *ITEMS)
            await service.until(lambda status: status["tasks"]["running"] == 5)
            result.append(service.url)
            began.set()
            await ending.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "LONGEST_SECONDS", 0.05)
        patch.setattr(trace, "LONGEST_SECONDS", 0.05)
        patch.setattr(profiler, "LONGEST_SECONDS", 0.05)
        level = logging.getLogger().level
        thread.start()
        try:
            assert began.wait(MINUTE)
            yield result[0]
        finally:
            loop.call_soon_threadsafe(ending.set)
            thread.join(MINUTE)
            loop.close()
            logging.getLogger().setLevel(level)
    assert not thread.is_alive()


@pytest.fixture(autouse=True)
def again(url: str) -> None:
    """Restore the objects that the test before may have deleted."""
    answer = requests.post(
        f"{url}/apis/quadrant.dev/v1alpha1/lists", json=a_list(*ITEMS), timeout=SECONDS
    )
    assert answer.status_code == 200, answer.text


Named = dict[str, Any]


def documents() -> Iterator[Named]:
    for version in dict.fromkeys(kind.api_version for kind in KINDS):
        yield document(version, tuple(kind for kind in KINDS if kind.api_version == version))


@functools.cache
def operations() -> Named:
    """Operations by name: those of each kind, and those without an object."""
    import schemathesis
    from schemathesis.core.result import Ok

    results = {}
    for each in documents():
        for result in schemathesis.openapi.from_dict(each).get_all_operations():
            assert isinstance(result, Ok), result
            operation = result.ok()
            results[operation.definition.raw["operationId"]] = operation
    return results


@functools.cache
def checks(*, watched: bool = False) -> list[Any]:
    """Checks for an answer; lines of a watch are no document."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    of_a_status = [not_a_server_error, checks.status_code_conformance]
    of_a_body = [checks.content_type_conformance, checks.response_schema_conformance]
    return of_a_status if watched else of_a_status + of_a_body


WRITTEN = [kind for kind in KINDS if "patch" in kind.verbs]
LANGUAGES = [
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
]
TYPES = [*LANGUAGES, "application/json", "application/yaml", "text/plain", ""]
WORDS = st.text(max_size=30) | st.sampled_from(["true", "false", "1", "-1", "All", "a=b", "a in ("])
PARAMETERS = st.sampled_from(
    [
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "watch",
        "allowWatchBookmarks",
        "sendInitialEvents",
        "timeoutSeconds",
        "includeObject",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "force",
        "pretty",
        "atomic",
        "propagationPolicy",
        "gracePeriodSeconds",
        "other",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3)
    ),
    max_leaves=8,
)
POINTERS = st.sampled_from(
    [
        "/metadata/labels",
        "/metadata/labels/a",
        "/metadata/finalizers/-",
        "/metadata/name",
        "/spec",
        "/spec/-",
        "/spec/containers/0",
        "/spec/containers/0/resources/requests/cpu",
        "/spec/tasks/0/replicas",
        "/spec/members/-",
        "/spec/taints",
        "/status/allocatable/cpu",
        "/kind",
        "/~1",
        "/~2",
    ]
) | st.text(max_size=10)
STEPS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "spoil"])},
        optional={"path": POINTERS, "from": POINTERS, "value": JSON},
    ),
    max_size=4,
)


def operation_modes() -> Iterator[tuple[str, str]]:
    """Operations, each with what fits it and, where anything of it could be wrong, what does not:
    paths are all texts."""
    for each in documents():
        for item in each["paths"].values():
            shared = item.get("parameters", [])
            for operation in (item[method] for method in item if method != "parameters"):
                yield operation["operationId"], "positive"
                parameters = shared + operation.get("parameters", [])
                if "requestBody" in operation or any(one["in"] == "query" for one in parameters):
                    yield operation["operationId"], "negative"


@pytest.mark.parametrize(
    ("name", "mode"),
    [
        pytest.param(name, mode, marks=pytest.mark.all if mode == "negative" else ())
        for name, mode in operation_modes()
    ],
)
def test_every_operation_answers_by_its_schema(url: str, name: str, mode: str) -> None:
    from schemathesis import GenerationMode

    @exploring()
    @given(
        case=operations()[name].as_strategy(generation_mode=GenerationMode(mode)),
        known=st.sampled_from([*THERE, ""]),
    )
    def ask(case: Case[Any], known: str) -> None:
        if known:
            _about(case, known)
        answer = case.call(base_url=url, timeout=SECONDS)
        watched = "watch" in (case.query or {}) or case.path.endswith("/trace")
        case.validate_response(answer, checks=checks(watched=watched))

    ask()


def _about(case: Case[Any], name: str) -> None:
    """The same, of an object that is there or could be."""
    if case.path_parameters:
        at = {"name": name, "namespace": "ns"}
        case.path_parameters |= {key: at[key] for key in case.path_parameters if key in at}
    if isinstance(case.body, dict) and case.method in ("POST", "PUT") and "spec" in case.body:
        own = {key: value for key, value in case.body.items() if key not in ("apiVersion", "kind")}
        case.body = own | {"metadata": {"name": name}}


@pytest.mark.parametrize("kind", WRITTEN, ids=lambda kind: kind.plural)
def test_any_patch_is_answered_without_a_server_error(url: str, kind: Kind) -> None:
    create = operations()[f"create{kind.kind}"].as_strategy()

    @exploring()
    @given(
        language=st.sampled_from(LANGUAGES),
        steps=STEPS,
        like=create.map(lambda case: case.body),
        name=st.sampled_from(THERE),
        dry=st.booleans(),
    )
    def patch(language: str, steps: Any, like: Any, name: str, dry: bool) -> None:
        body: Any = steps
        if language != LANGUAGES[0] and isinstance(like, dict):
            body = {key: like[key] for key in like if key in ("spec", "status", "value")}
        query = {"fieldManager": "f", "force": "true"} | ({"dryRun": "All"} if dry else {})
        answer = requests.patch(
            f"{url}{path_of(kind)}/{name}",
            params=query,
            data=json.dumps(body),
            headers={"Content-Type": language},
            timeout=SECONDS,
        )
        fine(answer)

    patch()


def path_of(kind: Kind) -> str:
    root = f"/{'apis' if kind.group else 'api'}/{kind.api_version}"
    return f"{root}{'/namespaces/ns' if kind.namespaced else ''}/{kind.plural}"


OURS = "/apis/quadrant.dev/v1alpha1"
DOORS = [
    ("POST", f"{OURS}/lists"),
    ("POST", f"{OURS}/plans"),
    ("POST", "/api/v1/namespaces/ns/pods"),
    ("PUT", "/api/v1/namespaces/ns/pods/p1"),
    ("PATCH", "/api/v1/namespaces/ns/pods/p1"),
    ("DELETE", "/api/v1/namespaces/ns/pods/p2"),
    ("POST", "/apis/batch.volcano.sh/v1alpha1/namespaces/ns/jobs/train/explain"),
]
BODIES = st.one_of(
    st.binary(max_size=60),
    JSON.map(lambda value: json.dumps(value).encode()),
    st.lists(JSON, max_size=3).map(
        lambda items: json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode()
    ),
    st.sampled_from(
        [b"[" * 500, b'{"a":' * 500, b"- &a [*a]", b"a: b: c", b"NaN", b'{"a":1,"a":2}']
    ),
)


@pytest.mark.parametrize(("method", "path"), DOORS)
def test_any_body_is_answered_without_a_server_error(url: str, method: str, path: str) -> None:
    @exploring(3 * EXAMPLES)
    @given(body=BODIES, sent_as=st.sampled_from(TYPES))
    def send(body: bytes, sent_as: str) -> None:
        headers = {"Content-Type": sent_as}
        fine(requests.request(method, url + path, data=body, headers=headers, timeout=SECONDS))

    send()


@pytest.mark.parametrize("path", ["/api/v1/pods", "/api/v1/namespaces/ns/events", "/stream"])
def test_any_query_is_answered_without_a_server_error(url: str, path: str) -> None:
    @exploring(5 * EXAMPLES)
    @given(query=st.dictionaries(PARAMETERS, WORDS, max_size=4))
    def look(query: dict[str, str]) -> None:
        with requests.get(url + path, params=query, timeout=SECONDS, stream=True) as answer:
            assert answer.status_code < 500, answer.text

    look()


def test_null_stands_for_nothing(url: str) -> None:
    """Found by asking: it is kept as it was sent, which the documents must say."""
    obj: Any = {"metadata": {"name": "nulls"}, "spec": {"minResources": None, "queue": None}}
    path = path_of(next(kind for kind in WRITTEN if kind.kind == "PodGroup"))
    answer = requests.post(f"{url}{path}", json=obj, timeout=SECONDS)
    assert (answer.status_code, answer.json()["spec"]) == (201, obj["spec"])
    operation = operations()["readPodGroup"]
    case = operation.Case(path_parameters={"namespace": "ns", "name": "nulls"})
    case.validate_response(case.call(base_url=url, timeout=SECONDS), checks=checks())


def test_a_watch_without_a_value_is_one(url: str) -> None:
    """Found by asking: as in Kubernetes, the name alone is enough."""
    answer = requests.get(f"{url}/api/v1/nodes", params={"watch": ""}, timeout=SECONDS)
    assert {json.loads(line)["type"] for line in answer.text.splitlines()} == {"ADDED"}


def fine(answer: requests.Response) -> None:
    """No error of the server; what is refused is told as a Status."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        body = answer.json()
        assert (body["kind"], body["code"]) == ("Status", answer.status_code)
        assert body["message"]
        assert "Traceback" not in body["message"]
