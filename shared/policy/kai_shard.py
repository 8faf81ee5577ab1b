"""A ``SchedulingShard`` as KAI's operator renders it: a configuration and command line options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from shared.policy.kai_names import ACTIONS, PLUGINS, REFUSED_PLUGINS, SHARD_ACTIONS, SHARD_PLUGINS
from shared.policy.model import PolicyError, PolicyProblem
from shared.policy.reading import ProblemReport, mapping, one_of, only_known, typed, wrong
from shared.policy.third_party import third_party_plugins

_FIELDS = {
    "actions",
    "args",
    "goMemLimit",
    "goMemLimitRatio",
    "kValue",
    "minRuntime",
    "partitionLabelValue",
    "placementStrategy",
    "plugins",
    "queueDepthPerAction",
    "scenarioSearchBudgets",
    "usageDBConfig",
}
_KEPT = ("queueDepthPerAction", "scenarioSearchBudgets", "usageDBConfig")
"""Fields that the configuration has under the same name."""
_STRATEGIES = ("binpack", "spread")
_RUNTIMES = {
    "preemptMinRuntime": "defaultPreemptMinRuntime",
    "reclaimMinRuntime": "defaultReclaimMinRuntime",
}
_PLUGIN_PATH = re.compile(r"tiers\[0\]\.plugins\[(\d+)\]")


def render_shard(shard: Mapping[str, object]) -> dict[str, object]:
    """The policy of a SchedulingShard. Raises PolicyError with all mistakes of its form; what its
    values mean is judged with the policy."""
    report = ProblemReport()
    spec: dict[str, object] = {}
    with report.part():
        spec = mapping(shard.get("spec") or {}, "spec")
    only_known(report, spec, _FIELDS, "spec.", "field")
    gpu, cpu = _strategy(report, spec, "gpu"), _strategy(report, spec, "cpu")
    plugins = _plugins(report, spec, gpu=gpu, cpu=cpu)
    consolidates = "spread" not in (gpu, cpu)
    actions = _actions(report, spec, consolidates=consolidates)
    options: dict[str, object] = {}
    with report.part():
        options = mapping(spec.get("args") or {}, "spec.args")
    if spec.get("partitionLabelValue"):
        options = {"partition-label-value": spec["partitionLabelValue"], **options}
    if report.problems:
        raise PolicyError(*report.problems)
    document: dict[str, object] = {"dialect": "kai", "actions": ", ".join(actions)}
    document["tiers"] = [{"plugins": plugins}]
    document |= {name: spec[name] for name in _KEPT if spec.get(name)}
    return document | ({"options": options} if options else {})


def of_shard(problem: PolicyProblem, document: Mapping[str, object]) -> PolicyProblem:
    """A problem of the rendered policy, at the field of the shard that it came from."""
    field = problem.field
    if match := _PLUGIN_PATH.match(field):
        tiers: list[dict[str, list[dict[str, object]]]] = typed(document["tiers"], list, "tiers")
        name = tiers[0]["plugins"][int(match[1])]["name"]
        field = f"plugins.{name}{field[match.end() :]}"
    field = re.sub(r"^options\.", "args.", field)
    return PolicyProblem(f"spec.{field}", problem.message, problem.value, problem.nearest)


def _strategy(report: ProblemReport, spec: Mapping[str, object], kind: str) -> str:
    at = f"spec.placementStrategy.{kind}"
    value: object = _STRATEGIES[0]
    with report.part():
        strategy = mapping(spec.get("placementStrategy") or {}, "spec.placementStrategy")
        if kind == "gpu":
            only_known(report, strategy, {"gpu", "cpu"}, "spec.placementStrategy.", "field")
        value = strategy.get(kind) or _STRATEGIES[0]
        if value not in _STRATEGIES:
            raise wrong(at, value, f"is not one of {', '.join(_STRATEGIES)}")
    return str(value)


def _plugins(
    report: ProblemReport, spec: Mapping[str, object], *, gpu: str, cpu: str
) -> list[dict[str, object]]:
    """The plugins that are on, with their arguments."""
    packs = gpu == _STRATEGIES[0]
    on = dict.fromkeys(SHARD_PLUGINS, True)
    on |= {"gpupack": packs, "gpusharingorder": packs, "gpuspread": not packs}
    switches = _Switches("plugins", on, dict(SHARD_PLUGINS))
    arguments: dict[str, dict[str, object]] = {"nodeplacement": {"gpu": gpu, "cpu": cpu}}
    if spec.get("kValue") is not None:
        arguments["proportion"] = {"kValue": spec["kValue"]}
    with report.part():
        runtimes = mapping(spec.get("minRuntime") or {}, "spec.minRuntime")
        only_known(report, runtimes, _RUNTIMES, "spec.minRuntime.", "field")
        durations = {ours: runtimes[name] for name, ours in _RUNTIMES.items() if runtimes.get(name)}
        arguments |= {"minruntime": durations} if durations else {}
    plugin_names = {*PLUGINS, *REFUSED_PLUGINS, *third_party_plugins()}
    for name, override in _overrides(report, spec, "plugins", plugin_names):
        switches.take(report, name, override)
        with report.part():
            if override.get("arguments") is not None:
                at = f"spec.plugins.{name}.arguments"
                arguments[name] = mapping(override["arguments"], at)
    return [
        {"name": name} | ({"arguments": arguments[name]} if arguments.get(name) else {})
        for name in switches.names()
    ]


def _actions(report: ProblemReport, spec: Mapping[str, object], *, consolidates: bool) -> list[str]:
    on = {name: name != "consolidation" or consolidates for name in SHARD_ACTIONS}
    switches = _Switches("actions", on, dict(SHARD_ACTIONS))
    for name, override in _overrides(report, spec, "actions", set(ACTIONS)):
        switches.take(report, name, override)
    return switches.names()


def _overrides(
    report: ProblemReport, spec: Mapping[str, object], field: str, known: set[str]
) -> list[tuple[str, dict[str, object]]]:
    """(name, what the shard says of it) of plugins or actions."""
    overrides: list[tuple[str, dict[str, object]]] = []
    of_both = {"enabled", "priority"}
    fields = of_both | {"arguments"} if field == "plugins" else of_both
    with report.part():
        for name, value in mapping(spec.get(field) or {}, f"spec.{field}").items():
            at = f"spec.{field}.{name}"
            with report.part():
                one_of(name, known, at, field[:-1])
                override = mapping(value or {}, at)
                only_known(report, override, fields, f"{at}.", "field")
                overrides.append((name, override))
    return overrides


@dataclass(slots=True)
class _Switches:
    """Which plugins, or actions, are on, and in which order."""

    field: str
    on: dict[str, bool]
    priorities: dict[str, int]

    def take(self, report: ProblemReport, name: str, override: Mapping[str, object]) -> None:
        """Take what the shard says of one; one that the operator does not know is on, and last."""
        at = f"spec.{self.field}.{name}"
        self.on.setdefault(name, True)
        self.priorities.setdefault(name, 0)
        with report.part():
            if override.get("enabled") is not None:
                self.on[name] = typed(override["enabled"], bool, f"{at}.enabled")
        with report.part():
            if override.get("priority") is not None:
                self.priorities[name] = typed(override["priority"], int, f"{at}.priority")

    def names(self) -> list[str]:
        """Names of the enabled entries: the highest priority first, then by name."""
        names = (name for name, is_on in self.on.items() if is_on)
        return sorted(names, key=lambda name: (-self.priorities[name], name))
