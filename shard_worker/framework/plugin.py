"""The public interface for plugins outside this repository: one stable module.

A plugin needs none of it to run (docs/plugins.md writes one without an import); these are the types
of the rules' arguments and results, and the session that they register with.
"""

from shard_worker.framework.registration import Registration
from shard_worker.framework.rules import (
    ABSTAIN,
    PERMIT,
    REJECT,
    Check,
    EventHandler,
    NodeColumns,
    Purpose,
    Scope,
    Scorer,
)
from shard_worker.framework.session import Plugin, Session
from shard_worker.session_model.demands import Demand, Preference
from shard_worker.session_model.job import SessionJob, SubJob, TaskInfo
from shard_worker.session_model.workload import ClusterInfo, JobInfo, Progress, QueueInfo
from shard_worker.session_model.world import World
from shared.model.model import Node, Requests, Role, TaskClass
from shared.policy.model import PluginOption

__all__ = [
    "ABSTAIN",
    "PERMIT",
    "REJECT",
    "Check",
    "ClusterInfo",
    "Demand",
    "EventHandler",
    "JobInfo",
    "Node",
    "NodeColumns",
    "Plugin",
    "PluginOption",
    "Preference",
    "Progress",
    "Purpose",
    "QueueInfo",
    "Registration",
    "Requests",
    "Role",
    "Scope",
    "Scorer",
    "Session",
    "SessionJob",
    "SubJob",
    "TaskClass",
    "TaskInfo",
    "World",
]
