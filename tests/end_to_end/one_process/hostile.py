"""Bodies at the size limit that cost as much as bodies can."""

from __future__ import annotations

from itertools import chain, count

MEGABYTE = 1 << 20


def filled(head: str, line: str, *, size: int = MEGABYTE, tail: str = "") -> bytes:
    """``head``, then ``line`` as often as it fits; ``{}`` in it is a number."""
    left = size - len(head) - len(tail)
    if "{}" not in line:
        return (head + line * (left // len(line)) + tail).encode()
    parts = [head]
    for number in count():
        part = line.replace("{}", str(number))
        left -= len(part)
        if left < 0:
            break
        parts.append(part)
    return "".join(chain(parts, [tail])).encode()


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n"

YAML = {
    "nested": filled(POD + "  x:\n", "  - " + "[" * 50 + "]" * 50 + "\n"),
    "long list": filled(POD + "  x:\n", "  - 1\n"),
    "flow list": filled(POD + "  x: [", "[],", tail="]"),
    "anchors": filled(POD + "  x:\n", "  - &a{} [*a{}]\n".replace("*a{}", "")),
    "aliases": filled(POD + "  y: &a [" + "1," * 50 + "]\n  x:\n", "  - *a\n"),
    "documents": filled("", "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p{}}\n"),
    "containers": filled(
        POD + "  containers:\n", "  - {name: c{}, resources: {requests: {cpu: 1m}}}\n"
    ),
}

JSON_POD = (
    '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p{}"},"spec":{"containers":[{"name":"c"'
)
_JOB = '{"apiVersion":"batch.volcano.sh/v1alpha1","kind":"Job","metadata":{"name":"p"},"spec":'
_TASK = '{"name":"t{}","replicas":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}'
LIST = '{"apiVersion":"v1","kind":"List","items":['
ONE = JSON_POD.replace("p{}", "big")

JSON = {
    "env": filled(ONE + ',"env":[{"name":"a"}', ',{"name":"c{}"}', tail="]}]}}"),
    "containers": filled(
        ONE + "}", ',{"name":"c{}","resources":{"requests":{"cpu":"1m"}}}', tail="]}}"
    ),
    "unknown": filled(ONE + '}],"x":{"a":1', ',"k{}":1', tail="}}}"),
    "empty lists": filled(ONE + '}],"x":[1', ",[]", tail="]}}"),
    "nested": filled(ONE + '}],"x":[1', "," + "[" * 50 + "]" * 50, tail="]}}"),
    "labels": filled(
        '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"big","labels":{"a":"b"',
        ',"k{}":""',
        tail='}},"spec":{"containers":[{"name":"c","image":"i"}]}}',
    ),
}
"""Pods."""

JOBS = {
    "roles": filled(_JOB + '{"tasks":[' + _TASK, "," + _TASK, tail="]}}"),
    "most roles": filled(_JOB + '{"tasks":[' + _TASK, "," + _TASK, size=98_000, tail="]}}"),
}

LISTS = {
    "pods": filled(
        LIST + JSON_POD.replace("{}", "-first") + "}]}}",
        "," + JSON_POD + ',"resources":{"requests":{"cpu":"1"}}}]}}',
        size=2450 * 132,
        tail="]}",
    ),
    "too many": filled(LIST + "1", ",{}".replace("{}", "[]"), size=8 * MEGABYTE, tail="]}"),
    "too large": filled(LIST, "[" * 50 + "]" * 50 + ",", size=8 * MEGABYTE, tail="1]}"),
    "gang": filled(
        LIST + JSON_POD.replace("{}", "-first") + "}]}}",
        ',{"apiVersion":"v1","kind":"Pod","metadata":{"name":"g{}","annotations":'
        '{"scheduling.k8s.io/group-name":"g"}},"spec":{"containers":[{"name":"c"}]}}',
        size=2400 * 150,
        tail="]}",
    ),
}
PATCHES = {
    "application/merge-patch+json": filled(
        '{"metadata":{"annotations":{"a":"b"', ',"k{}":"v"', tail="}}}"
    ),
    "application/strategic-merge-patch+json": filled(
        '{"spec":{"containers":[{"name":"c"}', ',{"name":"c{}"}', tail="]}}"
    ),
    "application/json-patch+json": filled(
        '[{"op":"test","path":"/kind","value":"Pod"}',
        ',{"op":"add","path":"/metadata/labels","value":{"a":"{}"}}',
        tail="]",
    ),
    "application/apply-patch+yaml": YAML["containers"],
}

SMALL_PATCHES = {
    "application/merge-patch+json": b'{"metadata":{"annotations":{"a":"1"}}}',
    "application/strategic-merge-patch+json": b'{"metadata":{"annotations":{"a":"2"}}}',
    "application/json-patch+json": (
        b'[{"op":"add","path":"/metadata/annotations","value":{"a":"3"}}]'
    ),
    "application/apply-patch+yaml": (
        b"apiVersion: v1\nkind: Pod\nmetadata: {annotations: {b: x}}\n"
    ),
}
LARGE_POD = filled(
    ONE.replace("big", "large") + ',"env":[{"name":"a"}',
    ',{"name":"c{}"}',
    size=90_000,
    tail="]}]}}",
)
"""5,000 environment variables: as large as a pod may be and still be taken."""

PLAN = filled(
    "",
    "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p{}}\nspec: {containers: [{name: c}]}\n",
    size=190 * 82,
)


def small_pod(name: str) -> bytes:
    return (JSON_POD.replace("p{}", name) + ',"image":"i"}]}}').encode()


PODS = filled(
    LIST + JSON_POD.replace("{}", "-first") + "}]}}",
    "," + JSON_POD + ',"resources":{"requests":{"cpu":"1"}}}]}}',
    size=2000 * 132,
    tail="]}",
)
"""Two thousand that are taken."""
