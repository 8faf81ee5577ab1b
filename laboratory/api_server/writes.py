"""Writes of objects, each as the server's registry does them."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus

from laboratory.api_server import evictions, pods
from laboratory.api_server.answers import (
    Answer,
    Json,
    NotServed,
    Refused,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    not_found,
    succeeded,
)
from laboratory.api_server.defaults import with_defaults
from laboratory.api_server.kinds import BUDGET, NAMESPACE, POD, PRIORITY_CLASS
from laboratory.api_server.metadata import (
    DeleteOptions,
    Target,
    changed_metadata,
    copied,
    marked_for_deletion,
    new_metadata,
)
from laboratory.api_server.store import Store

Clock = Callable[[], float]


class Writes:
    def __init__(self, store: Store, *, clock: Clock, new_uid: Callable[[], str]) -> None:
        self._store, self._clock, self._new_uid = store, clock, new_uid

    def object_of(self, target: Target) -> Json:
        """Raises Refused (404)."""
        item = self._store.get(target.served.resource, target.path)
        if item is None:
            raise not_found(target.about)
        return item

    def _put(self, target: Target, item: Json) -> Json:
        return self._store.put(target.served.resource, target.path, item)

    # --- made -----------------------------------------------------------------------------------

    def create(self, target: Target, given: Json) -> Answer:
        served, name = target.served, (given.get("metadata") or {}).get("name", "")
        target = Target(served, target.namespace, name)
        if not served.native and not given.get("kind"):
            raise bad_request("Object 'Kind' is missing")
        if target.namespace:
            self.object_of(Target(NAMESPACE, name=target.namespace))
        item = copied(given)
        item["metadata"] = new_metadata(target, item, now=self._clock(), uid=self._new_uid())
        kind = served.kind
        item |= {"apiVersion": kind.api_version, "kind": kind.written}
        if served.status and not served.posted_status:
            item.pop("status", None)
        item = with_defaults(served, item)
        if served is POD:
            item = pods.new_pod(item, self._priority_class(target, item))
        if (before := self._store.get(served.resource, target.path)) is not None:
            leaving = "deletionTimestamp" in before["metadata"]
            raise already_exists(target.about, leaving=leaving)
        return Answer(HTTPStatus.CREATED, self._put(target, item))

    def _priority_class(self, target: Target, pod: Json) -> Json | None:
        name = pod["spec"].get("priorityClassName")
        if not name:
            return None
        found = self._store.get(PRIORITY_CLASS.resource, name)
        if found is None:
            raise forbidden(target.about, f"no PriorityClass with name {name} was found")
        return found

    # --- changed --------------------------------------------------------------------------------

    def update(self, target: Target, old: Json, given: Json) -> Answer:
        """``given``: the whole object as it is to be, or a part of it by a sub resource."""
        if target.sub == "status" and not target.served.status:
            raise AssertionError("a path that is not served")
        new = self._changed(target, old, given)
        if new == old:
            return Answer(HTTPStatus.OK, old)  # its version does not move
        metadata = new["metadata"]
        waits = metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds")
        if "deletionTimestamp" in metadata and not waits:
            self._store.remove(target.served.resource, target.path)
            return Answer(HTTPStatus.OK, new)
        return Answer(HTTPStatus.OK, self._put(target, new))

    def _changed(self, target: Target, old: Json, given: Json) -> Json:
        served, of_status = target.served, target.sub == "status"
        metadata = changed_metadata(target, old, given)
        new = {**given, "metadata": metadata}
        if of_status:
            status = new.get("status")
            new = {**old, "metadata": metadata if served.native else old["metadata"]}
            new |= {} if status is None else {"status": status}
        elif served.status:
            new.pop("status", None)
            new |= {"status": old["status"]} if "status" in old else {}
        new |= {"apiVersion": old["apiVersion"], "kind": old["kind"]}
        new = with_defaults(served, new)
        if served in (POD, PRIORITY_CLASS) and _asked(new, target) != _asked(old, target):
            raise NotServed("a change of a pod's spec, or of a priority class")
        if served is POD:
            pods.check_nomination(target, old, new)
        if served.generation and _asked(new, target) != _asked(old, target):
            generation = old["metadata"]["generation"] + 1
            new["metadata"] = new["metadata"] | {"generation": generation}
        return new

    def replace(self, target: Target, given: Json) -> Answer:
        served = target.served
        if served.created_by_put and self._store.get(served.resource, target.path) is None:
            item = copied(given)
            item["metadata"].pop("resourceVersion", None)
            return self.create(target, item)
        old = self.object_of(target)
        metadata = given.get("metadata") or {}
        if metadata.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise conflict(
                target.about, f"Precondition failed: UID in precondition: {metadata['uid']}"
            )
        if not metadata.get("resourceVersion") and not target.served.unconditional:
            raise NotServed("an update without a version of a kind that takes none such")
        return self.update(target, old, copied(given))

    # --- pods -----------------------------------------------------------------------------------

    def bind(self, target: Target, binding: Json) -> Answer:
        pods.check_binding(target, binding)
        pod = self.object_of(Target(POD, target.namespace, target.name))
        self._put(target, pods.with_node(target, pod, binding, now=self._clock()))
        return Answer(HTTPStatus.CREATED, succeeded(HTTPStatus.CREATED))

    def evict(self, target: Target, eviction: Json, options: DeleteOptions) -> Answer:
        name = (eviction.get("metadata") or {}).get("name", target.name)
        if name != target.name:
            raise bad_request("name in URL does not match name in Eviction object")
        pod = self.object_of(target)
        budget = self._count(target, pod) if evictions.needs_budget(pod) else None
        try:
            options.check(target, pod)
        except Refused:
            if budget is None:
                raise
            # The pod was let go as it was read, without its budget.
            raise evictions.still_counting(budget) from None
        told = copied(pod)
        pods.set_condition(told, evictions.EVICTED, now=self._clock())
        if told != pod:
            self._put(target, told)
        # Its version has moved by that.
        self.delete(target, DeleteOptions(options.grace, options.uid))
        return Answer(HTTPStatus.CREATED, succeeded(HTTPStatus.CREATED))

    def _count(self, target: Target, pod: Json) -> str | None:
        """Count the pod in its budget; the name of one that lets it go without that."""
        every = self._store.at(BUDGET.resource, self._store.version).values()
        here = (item for item in every if item["metadata"]["namespace"] == target.namespace)
        budget = evictions.budget_of(pod, here)
        if budget is None:
            return None
        name = str(budget["metadata"]["name"])
        if evictions.is_exempt(budget, pod):
            return name
        change = evictions.budget_after_eviction(budget, pod, now=self._clock())
        self._put(Target(BUDGET, target.namespace, name), change)
        return None

    # --- deleted --------------------------------------------------------------------------------

    def delete(self, target: Target, options: DeleteOptions) -> Answer:
        item = self.object_of(target)
        options.check(target, item)
        if target.served is POD:
            return self._delete_pod(target, item, options)
        if item["metadata"].get("finalizers"):
            if "deletionTimestamp" not in item["metadata"]:
                item = self._put(target, marked_for_deletion(item, now=self._clock(), grace=0))
            return Answer(HTTPStatus.OK, item)
        self._store.remove(target.served.resource, target.path)
        details = target.about.details() | {"uid": item["metadata"]["uid"]}
        return Answer(HTTPStatus.OK, succeeded(details=details))

    def _delete_pod(self, target: Target, pod: Json, options: DeleteOptions) -> Answer:
        left = pods.being_deleted(pod, options, now=self._clock())
        if left != pod:
            left = self._put(target, left)
        metadata = left["metadata"]
        if not metadata["deletionGracePeriodSeconds"] and not metadata.get("finalizers"):
            left = self._store.remove(target.served.resource, target.path)
        return Answer(HTTPStatus.OK, left)


def _asked(item: Json, target: Target) -> Json:
    """What a generation counts the changes of."""
    by_others = ("metadata", "status") if target.served.status else ("metadata",)
    return {key: value for key, value in item.items() if key not in by_others}
