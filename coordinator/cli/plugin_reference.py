"""The page of all plugins: what each does, where it speaks, what its arguments mean.

What a plugin does is told by its own module, its points and defaults by the code that reads them;
what an argument means stands here, and a test holds that none is missing.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

from coordinator.cli.admin.policy_report import Argument, PluginReport, report
from shard_worker.dialects.volcano.registry import PLUGINS
from shard_worker.framework.extension_points import EXTENSION_POINTS
from shard_worker.session_model.demands import DEMANDS, PREFERENCES, DemandEntry
from shared.policy.model import PluginOption, Policy
from shared.policy.volcano_names import ARGUMENT_PREFIXES

MEANING: dict[str, dict[str, str]] = {
    "binpack": {
        "binpack.weight": "weight of the whole score",
        "binpack.cpu": "weight of cpu in it",
        "binpack.memory": "weight of memory in it",
        "binpack.resources": "further resources that count, by comma",
        "binpack.resources.<name>": "weight of one of them",
    },
    "capacity": {
        "ancestorReclaimLevel": "so many parents of a victim's queue must have more than they "
        "deserve, too, where they are not the reclaimer's as well",
        "capacity.DynamicResourceAllocationEnable": "devices of resource claims count against "
        "what a queue may have, by device class",
        "capacity.DRAConsumableCapacityEnable": "parts of shared devices count, too",
        "overwriteRootQueueRealCapability": "the root may have what it says, also beyond what "
        "the nodes have",
    },
    "deviceshare": {
        "deviceshare.GPUNumberEnable": "tasks may ask for whole GPUs (`volcano.sh/gpu-number`)",
        "deviceshare.GPUSharingEnable": "tasks may ask for memory of one GPU "
        "(`volcano.sh/gpu-memory`)",
        "deviceshare.NodeLockEnable": "taken; there is nothing to lock: the ledger decides who "
        "has a share",
        "deviceshare.SchedulePolicy": "`binpack` prefers devices in use, `spread` unused ones; "
        "binpack where nothing is said",
        "deviceshare.ScheduleWeight": "weight of that preference among nodes",
        "deviceshare.VGPUEnable": "tasks may ask for virtual GPUs (`volcano.sh/vgpu-number`)",
    },
    "extender": {
        "extender.urlPrefix": "address of the extender; without it the plugin does nothing",
        "extender.httpTimeout": "how long to wait for an answer; 1s where nothing is said",
        "extender.ignorable": "an extender that does not answer has nothing against anything; "
        "else it refuses",
        "extender.managedResources": "only tasks that ask for one of these are asked about",
        "extender.predicateVerb": "path that is asked whether a node may take a task",
        "extender.prioritizeVerb": "path that is asked for scores of nodes",
        "extender.preemptableVerb": "path that is asked for victims in the same queue",
        "extender.reclaimableVerb": "path that is asked for victims of other queues",
        "extender.queueOverusedVerb": "path that is asked whether a queue has its share; by "
        "sessions alone",
        "extender.jobEnqueueableVerb": "path that is asked whether a job is admitted; in a replay "
        "alone: the service admits jobs without waiting for an extender",
        "extender.jobReadyVerb": "taken without effect",
        "extender.onSessionOpenVerb": "taken without effect: sessions are too many to tell of",
        "extender.onSessionCloseVerb": "taken without effect: sessions are too many to tell of",
    },
    "network-topology-aware": {
        "weight": "weight of its scores of domains and nodes",
        "hypernode.binpack.cpu": "weight of cpu in how full a domain gets",
        "hypernode.binpack.memory": "weight of memory in it",
        "hypernode.binpack.resources": "further resources that count, by comma",
        "hypernode.binpack.resources.<name>": "weight of one of them",
        "hypernode.binpack.normal-pod.enable": "tasks without a topology go where they break up "
        "the fewest empty domains",
        "hypernode.binpack.normal-pod.fading": "how much less each higher tier counts in that",
        "gradient.evict.max-hypernodes": "domains that gangpreempt and gangreclaim look at",
    },
    "nodegroup": {
        "strict": "nodes of no group are for no queue's tasks",
        "enablePreferredOrder": "of the groups that tasks should go to, the first is liked best",
    },
    "nodeorder": {
        "leastrequested.weight": "weight of: the emptier the better",
        "mostrequested.weight": "weight of: the fuller the better",
        "balancedresource.weight": "weight of: cpu, memory and GPUs equally full",
        "nodeaffinity.weight": "weight of preferred node affinity",
        "podaffinity.weight": "weight of preferred affinity and anti-affinity between pods",
        "tainttoleration.weight": "weight of: few untolerated PreferNoSchedule taints",
        "imagelocality.weight": "weight of: has the images",
        "podtopologyspread.weight": "weight of spreading over domains (ScheduleAnyway)",
    },
    "numa-aware": {"weight": "weight of: few NUMA domains"},
    "overcommit": {"overcommit-factor": "so many times what the nodes have may be waited for"},
    "predicates": {
        "predicate.NodeAffinityEnable": "node selectors and required node affinity",
        "predicate.NodePortsEnable": "host ports; they are always checked",
        "predicate.TaintTolerationEnable": "taints",
        "predicate.PodAffinityEnable": "required affinity and anti-affinity between pods",
        "predicate.NodeVolumeLimitsEnable": "how many volumes of a driver a node takes",
        "predicate.VolumeZoneEnable": "zones of bound volumes",
        "predicate.PodTopologySpreadEnable": "spreading over domains (DoNotSchedule)",
        "predicate.VolumeBindingEnable": "persistent volumes that can be bound, or are",
        "predicate.DynamicResourceAllocationEnable": "resource claims",
        "predicate.CacheEnable": "taken without effect: what can be kept always is",
    },
    "rescheduling": {
        "interval": "time between two looks; 5m where nothing is said",
        "metricsPeriod": "no effect: the metrics source reports means of five minutes",
        "strategies": "a list of names and params; `lowNodeUtilization` is the one there is",
        "queueSelector": "only tasks of these queues move",
        "labelSelector": "only pods with these labels move",
    },
    "resource-strategy-fit": {
        "resourceStrategyFitWeight": "weight of the whole score",
        "resources": "`{name: {type: MostAllocated or LeastAllocated, weight}}`; a name may end "
        "in `*`",
        "sra.policy": "`retention` (by score) or `proportional` (by a check)",
        "sra.resources": "resources that are scarce, by comma",
        "sra.retention.weight": "weight of keeping off nodes with scarce resources",
        "sra.retention.<name>": "weight of one of them in it; 1 where nothing is said",
        "sra.proportional.<name>.<other>": "so much of another resource stays idle for each "
        "idle one of the scarce",
    },
    "sla": {"sla-waiting-time": "how long a job may wait that does not say so itself"},
    "task-topology": {"task-topology.weight": "weight of: on the nodes of its bucket"},
    "tdm": {
        "tdm.revocable-zone.<zone>": "hours of a zone, such as `10:00-21:00`, in UTC",
        "tdm.evict.period": "time between two rounds of evictions; 1m where nothing is said",
        "tdm.evict.max-num": "tasks of a job evicted in one round, a number or a percentage",
    },
    "usage": {
        "usage.weight": "weight of the whole score",
        "cpu.weight": "weight of cpu in it",
        "memory.weight": "weight of memory in it",
        "thresholds": "`{cpu: 80, mem: 80}`, percent: a node that uses more takes nothing",
        "estimator": "`{request_ratio: 0.7}`: what a task that was just placed is taken to use",
    },
}
"""Plugin -> argument -> what it does. ``<...>`` stands for a name of the user's."""

_ROLE = re.compile(r":\w+:`[~.]*(?:[\w.]*\.)?(\w+)`")


def served_fields_page(origin_note: str) -> str:
    """The page of fields that only some policies serve. ``origin_note`` as above."""
    lines = [
        "# What each field needs",
        "",
        origin_note,
        "",
        "A required field is never ignored in silence. If no plugin of the",
        "[policy](../from-volcano.md) in force serves it, the job waits with reason `NotServed`,",
        "which names the field and the plugin, and starts as soon as a policy serves it. Its",
        "author is sent a Warning, which kubectl prints; `quadrant config check` lists the",
        "fields that a policy does not serve, and `quadrant replay` notes the jobs that have them",
        "(it places them as Volcano does). Pods that run already stay. The same holds for a",
        "`highestTierName` of a hard topology that no hyper node has. A plugin of your own may",
        "serve a field, too: [Write a plugin](../plugins.md).",
        "",
        "| field | of | served by | without it |",
        "|---|---|---|---|",
        *map(_field_row, DEMANDS.values()),
        "",
        "These ask for nothing hard, or not of the job that has them. Without the plugin they have",
        "no effect, and the answer to their author has a warning:",
        "",
        "| field | of | served by | without it |",
        "|---|---|---|---|",
        *map(_field_row, PREFERENCES.values()),
    ]
    return "\n".join(lines) + "\n"


def _field_row(entry: DemandEntry) -> str:
    return f"| {entry.field} | {entry.kinds} | {_server(entry)} | {entry.without} |"


def _server(entry: DemandEntry) -> str:
    if not entry.plugin:
        return (
            "no plugin of Volcano's; every policy in KAI's dialect"
            if entry.elsewhere
            else "no policy"
        )
    if not entry.switch:
        return f"`{entry.plugin}`"
    condition = (
        f"if `{entry.switch}: true`" if entry.off_by_default else f"unless `{entry.switch}: false`"
    )
    return f"`{entry.plugin}`, {condition}"


def plugins_page(origin_note: str) -> str:
    """The page. ``origin_note``: the sentence that tells that it is made from code."""
    lines = ["# The plugins", "", origin_note, ""]
    lines.append(
        "What each plugin of a [policy](../from-volcano.md) does, the extension points at which it "
        "speaks, and its arguments. How answers of several become one is told in "
        "[Write a plugin](../plugins.md)."
    )
    for name in sorted(PLUGINS):
        lines += ["", *_section(name)]
    return "\n".join(lines) + "\n"


def _section(name: str) -> Iterator[str]:
    (plugin,) = report(Policy(("allocate",), ((PluginOption(name),),))).tiers[0]
    yield f"## {name}"
    yield ""
    yield _about(name)
    if plugin.points:
        yield ""
        yield f"Speaks at {', '.join(f'`{point}`' for point in _points(plugin))}."
    rows = list(_arguments(name, plugin))
    if rows:
        yield ""
        yield "| argument | default | |"
        yield "|---|---|---|"
        yield from rows


def _points(plugin: PluginReport) -> list[str]:
    return [point for point in EXTENSION_POINTS if point in plugin.points]


def _about(name: str) -> str:
    """Description in the plugin module's docstring, without its arguments."""
    module = importlib.import_module(PLUGINS[name].__module__)
    text = (module.__doc__ or "").strip().removeprefix(f"{name}: ")
    parts = [part for part in text.split("\n\n") if not part.startswith("Argument")]
    text = _ROLE.sub(r"\1", "\n\n".join(parts)).replace("``", "`")
    return text[:1].upper() + text[1:]


def _arguments(name: str, plugin: PluginReport) -> Iterator[str]:
    defaults = {argument.name: argument for argument in plugin.arguments}
    for argument, meaning in MEANING.get(name, {}).items():
        yield f"| `{argument}` | {_default(defaults.get(argument))} | {meaning} |"


def _default(argument: Argument | None) -> str:
    if argument is None or argument.default in (None, "", [], {}):
        return ""
    value = argument.default
    return f"`{str(value).lower() if isinstance(value, bool) else f'{value:g}'}`"


def unexplained() -> list[str]:
    """Arguments that are taken and not told here, and those told that none takes."""
    wrong = []
    for name in PLUGINS:
        (plugin,) = report(Policy(("allocate",), ((PluginOption(name),),))).tiers[0]
        starts = tuple(ARGUMENT_PREFIXES.get(name, {}))
        exact = {key for key in MEANING.get(name, {}) if "<" not in key}
        open_ended = {key.partition("<")[0] for key in MEANING.get(name, {}) if "<" in key}
        wrong += [f"{name}: {arg.name}" for arg in plugin.arguments if arg.name not in exact]
        wrong += [f"{name}: {start}" for start in starts if start not in open_ended]
    return wrong
