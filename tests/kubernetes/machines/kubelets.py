"""``python -m tests.kubernetes.machines.kubelets IDENTITY... NODES``: the nodes of the machine that
it runs on, with hollow kubelets. Runs until it is killed.

``NODES`` are names, with commas between them; each begins with the machine's own, up to a dash.
"""

from __future__ import annotations

import asyncio
import sys

from laboratory.local_kubernetes.client import client_of
from laboratory.local_kubernetes.identity import Identity
from laboratory.local_kubernetes.kubelets import HollowKubelets
from tests.kubernetes.machines.identity import identity_of

CORES = 8
MACHINE = "example.com/machine"
"""Label of a node."""


async def main(identity: Identity, nodes: list[str]) -> None:
    labels = {MACHINE: nodes[0].partition("-")[0]}
    async with client_of(identity) as client:
        kubelets = HollowKubelets(client)
        await kubelets.join(nodes, {"cpu": str(CORES), "memory": "64Gi"}, labels=labels)
        await kubelets.run()


if __name__ == "__main__":
    *who, names = sys.argv[1:]
    asyncio.run(main(identity_of(who), names.split(",")))
