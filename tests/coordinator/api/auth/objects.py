"""Objects whose namespace is that of the request's path."""

from __future__ import annotations

from tests.builders import objects
from tests.builders.objects import Item


def group(name: str, queue: str | None = None) -> Item:
    spec = {} if queue is None else {"queue": queue}
    return objects.pod_group(name, namespace="", minMember=1, **spec)


def job(name: str, queue: str) -> Item:
    return objects.simple_job(name, 1, namespace="", queue=queue)


def pod(name: str, *, queue: str = "", group: str = "") -> Item:
    item = objects.pod(name, namespace="", group=group)
    item["spec"]["containers"] = [{"name": "c", "image": "i"}]
    if queue:
        item["metadata"]["annotations"]["scheduling.volcano.sh/queue-name"] = queue
    return item
