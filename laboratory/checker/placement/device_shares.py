"""Shares of devices: a task gets as many devices as it asks for, and no less of each.

Volcano's plugin deviceshare counts tasks, memory and percent of the cores of each device. Under a
KAI policy a GPU has 10^10 parts, and a share is a whole number of MiB of it, by the label of the
node that says how many it has.
"""

from __future__ import annotations

from typing import NamedTuple

from laboratory.checker.report.rules import Rule
from laboratory.checker.state.books import CheckerBooks, Facts
from laboratory.checker.state.device_use import Taken
from laboratory.checker.state.job import CheckedJob
from laboratory.checker.state.policy import CheckedPolicy

_MEMORY, _CORES = 1, 2
"""Dimensions of a device of Volcano."""
_ALL_CORES = 100
_UNIT = 1000

_KAI_DEVICE = "kai-gpu/"
_WHOLE = 10**10
"""Parts of a GPU in the ledger."""
_MEMORY_LABEL = "nvidia.com/gpu.memory"
_MIB, _STEP = 1 << 20, 100
"""Labels in bytes count too; MiB are cut to hundreds, and are no fewer than that."""


class _Share(NamedTuple):
    """A request for a number of devices: least amounts of each by dimension, None for all."""

    devices: int
    least: dict[int, int | None]

    def lacking(self, got: Taken, capacity: dict[str, list[int]]) -> str:
        """Explain what is missing of the share; "" if nothing is."""
        if len(got) != self.devices:
            return f"it asks for shares of {self.devices} devices and got {len(got)}"
        for name, amounts in got:
            for dimension, least in self.least.items():
                wanted = capacity.get(name, amounts)[dimension] if least is None else least
                if amounts[dimension] < wanted:
                    return f"it asks for {wanted} of {name}[{dimension}], got {amounts[dimension]}"
        return ""


class DeviceShares:
    def __init__(self, books: CheckerBooks) -> None:
        self._books = books

    def wrong(self, job: CheckedJob, tix: int, policies: list[CheckedPolicy]) -> str:
        """Why the devices that the task got are not those that it asks for; "" if they are."""
        row, got = job.rows[tix], job.devices.get(tix, [])
        if policies and all(policy.kai for policy in policies):
            share = self._of_kai(job.cids[tix], row)
            shares = [] if share is None else [share]
            got = [part for part in got if part[0].startswith(_KAI_DEVICE)]
        else:
            shares = self._of_volcano(job.cids[tix], policies)
        if not shares:
            return ""
        self._books.findings.checked[Rule.DEVICES] += 1
        capacity = self._books.devices.declared(row)
        reasons = [share.lacking(got, capacity) for share in shares]
        return reasons[-1] if all(reasons) else ""

    def _of_volcano(self, cid: int, policies: list[CheckedPolicy]) -> list[_Share]:
        """The request as each policy reads it; none unless all of them serve it."""
        names = self._books.objects.get("slots", {}).get("names", [])
        requests = self._books.nodes.requests(cid)
        if len(requests) <= 2 or not names:
            return []
        shares = [_volcano_share(names, requests, p.plugin("deviceshare")) for p in policies]
        served = [share for share in shares if share is not None]
        return served if len(served) == len(shares) else []

    def _of_kai(self, cid: int, row: int) -> _Share | None:
        rules = self._books.rules.get(cid, {})
        memory = _device_memory(self._books.labels_of(row).get(_MEMORY_LABEL, ""))
        if (share := rules.get("gpu_share")) is not None:
            mebibytes = share.get("memory") or max(int(share.get("portion", 0.0) * memory), 1)
            whole = share.get("part") == _UNIT and not share.get("portion")
            parts = _WHOLE if whole else mebibytes * _WHOLE // memory
            return _Share(share["devices"], {0: parts})
        if not self._books.devices.most_of(row, _KAI_DEVICE):
            return None
        names = self._books.objects.get("slots", {}).get("names", [])
        requests = self._books.nodes.requests(cid)
        gpus = sum(n for slot, n in requests if slot < len(names) and names[slot].endswith("gpu"))
        return _Share(gpus // _UNIT, {0: _WHOLE}) if gpus else None


def _volcano_share(
    names: list[str], requests: list[tuple[int, int]], plugin: Facts | None
) -> _Share | None:
    """The share that a class asks for, as the plugin serves it; None if it asks for none."""
    arguments = {} if plugin is None else plugin.get("arguments", {})
    asked = {names[slot]: amount // _UNIT for slot, amount in requests if slot < len(names)}

    def on(way: str) -> bool:
        return bool(arguments.get(f"deviceshare.{way}Enable", False))

    if on("VGPU") and (number := asked.get("volcano.sh/vgpu-number", 0)):
        cores = asked.get("volcano.sh/vgpu-cores", 0)
        return _Share(number, {_MEMORY: asked.get("volcano.sh/vgpu-memory"), _CORES: cores})
    if on("GPUNumber") and (number := asked.get("volcano.sh/gpu-number", 0)):
        return _Share(number, {_MEMORY: None, _CORES: _ALL_CORES})
    if on("GPUSharing") and (memory := asked.get("volcano.sh/gpu-memory", 0)):
        return _Share(1, {_MEMORY: memory})
    return None


def _device_memory(label: str) -> int:
    """MiB of each GPU of a node whose label says this."""
    memory = int(label) if label.isdecimal() else 0
    if memory >= _MIB:
        memory //= _MIB
    return max(memory // _STEP * _STEP, _STEP)
