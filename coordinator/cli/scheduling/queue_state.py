"""Closing and opening queues where they live: in Quadrant, or on the API server of its cluster.

On a Kubernetes cluster a queue's truth is the API server. Where the command reaches Quadrant
through it, the write goes there, with the rights of the kubeconfig's user. Beside Volcano's
controllers, who close queues themselves, it is a ``Command``, as ``vcctl queue operate`` writes
one; without them it is the queue's status.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from coordinator.cli.client.client import MERGE, KubeClient, RequestRefused
from coordinator.cli.client.kinds import Resource
from coordinator.cli.client.options import DryRunChoice

COMMANDS_VERSION = "/apis/bus.volcano.sh/v1alpha1"
COMMAND_NAMESPACE = "default"
"""Queues have no namespace; Volcano's own client puts their commands here."""
ACTIONS = {"Closed": "CloseQueue", "Open": "OpenQueue"}
NOT_FOUND = 404


@dataclass(frozen=True, slots=True)
class QueueStates:
    """Writes the states of queues."""

    client: KubeClient
    resource: Resource
    manager: str
    """Author of a change."""
    on_api_server: bool

    def write(self, name: str, state: str, dry_run: DryRunChoice) -> None:
        """Raises RequestRefused, KubeError."""
        path = self.resource.path(None, name)
        if dry_run is DryRunChoice.CLIENT:
            self.client.get(path)
            return
        query = {
            "fieldManager": self.manager,
            "dryRun": "All" if dry_run is DryRunChoice.SERVER else "",
        }
        if self.on_api_server and self._has_commands():
            command = _command(self.client.get(path), ACTIONS[state])
            place = f"{COMMANDS_VERSION}/namespaces/{COMMAND_NAMESPACE}/commands"
            self.client.ask("POST", place, query, body=orjson.dumps(command))
            return
        body = orjson.dumps({"status": {"state": state}})
        part = "/status" if self.on_api_server else ""
        self.client.ask("PATCH", path + part, query, body=body, content=MERGE)

    def _has_commands(self) -> bool:
        """Whether Volcano's commands are served."""
        try:
            kinds = self.client.get(COMMANDS_VERSION).get("resources") or ()
        except RequestRefused as error:
            if error.code != NOT_FOUND:
                raise
            return False
        return any(kind.get("name") == "commands" for kind in kinds)


def _command(queue: dict[str, Any], action: str) -> dict[str, Any]:
    meta = queue["metadata"]
    target = {
        "apiVersion": queue["apiVersion"],
        "kind": queue["kind"],
        "name": meta["name"],
        "uid": meta["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {
            "generateName": f"{meta['name']}-{action.lower()}-",
            "namespace": COMMAND_NAMESPACE,
            "ownerReferences": [target],
        },
        "action": action,
        "target": target,
    }


@contextmanager
def queue_states(client: KubeClient, resource: Resource, *, manager: str) -> Iterator[QueueStates]:
    """``client``: of the session. Where it reaches Quadrant through an API server, another one
    writes there, as the kubeconfig's user."""
    if client.access.service is None:
        yield QueueStates(client, resource, manager, on_api_server=False)
        return
    with closing(client.at_api_server()) as direct:
        yield QueueStates(direct, resource, manager, on_api_server=True)
