"""The subcommands of the service, with their line of help; a test compares it with theirs."""

from __future__ import annotations

from coordinator.cli.options.lazy import CommandEntry

RUN = "Run"
OBJECTS = "Objects"
ANSWERS = "Answers"
LOOK_AFTER = "Look after it"


ENTRIES = (
    CommandEntry(
        "up",
        "coordinator.cli.run.up",
        "Start the ledger, Ray, the coordinator and a simulated cluster, and keep them running",
        RUN,
    ),
    CommandEntry(
        "get",
        "coordinator.cli.objects.get",
        "Show objects: pods, nodes, jobs, podgroups, queues, shards, events",
        OBJECTS,
    ),
    CommandEntry(
        "describe",
        "coordinator.cli.objects.describe",
        "Show objects in full, with conditions and events",
        OBJECTS,
    ),
    CommandEntry(
        "apply", "coordinator.cli.objects.apply", "Create or change objects from files", OBJECTS
    ),
    CommandEntry("diff", "coordinator.cli.objects.diff", "Show what apply would change", OBJECTS),
    CommandEntry(
        "delete",
        "coordinator.cli.objects.delete",
        "Delete objects by name, by label or from files",
        OBJECTS,
    ),
    CommandEntry(
        "wait", "coordinator.cli.objects.wait", "Wait until objects are in a state", OBJECTS
    ),
    CommandEntry("events", "coordinator.cli.objects.events", "Show events, oldest first", OBJECTS),
    CommandEntry(
        "explain",
        "coordinator.cli.scheduling.explain",
        "Explain why a job or pod waits, or why it is where it is",
        ANSWERS,
    ),
    CommandEntry(
        "story",
        "coordinator.cli.scheduling.story",
        "Show the history of a job or pod, from its submission on",
        ANSWERS,
    ),
    CommandEntry(
        "receipt",
        "coordinator.cli.scheduling.receipt",
        "Show what a job waited for: parts that sum exactly to its wait",
        ANSWERS,
    ),
    CommandEntry(
        "trace",
        "coordinator.cli.scheduling.trace",
        "Follow a job's next turns, step by step: queue, nodes, levels, scores, commit",
        ANSWERS,
    ),
    CommandEntry(
        "plan",
        "coordinator.cli.scheduling.plan",
        "Show where jobs would go, without submitting them",
        ANSWERS,
    ),
    CommandEntry(
        "top",
        "coordinator.cli.scheduling.top",
        "Watch the cluster: shards, queues, and why jobs wait",
        ANSWERS,
    ),
    CommandEntry(
        "queue",
        "coordinator.cli.scheduling.queue",
        "List, describe, close and open queues; divide among them",
        ANSWERS,
        "app",
    ),
    CommandEntry(
        "shard", "coordinator.cli.scheduling.shard", "List and describe shards", ANSWERS, "app"
    ),
    CommandEntry(
        "shadow",
        "coordinator.cli.scheduling.shadow",
        "Compare with the scheduler of a Kubernetes cluster",
        ANSWERS,
        "app",
    ),
    CommandEntry(
        "ledger",
        "coordinator.cli.admin.ledger",
        "See which ledger a server holds, and accept one that was not expected",
        LOOK_AFTER,
        "app",
    ),
    CommandEntry(
        "token",
        "coordinator.cli.admin.token",
        "Make and list access tokens",
        LOOK_AFTER,
        "app",
    ),
    CommandEntry(
        "config",
        "coordinator.cli.admin.config",
        "Check a policy file; show the settings that count",
        LOOK_AFTER,
        "app",
    ),
    CommandEntry(
        "doctor",
        "coordinator.cli.admin.doctor_command",
        "Check this machine and its settings, with a remedy for each problem",
        LOOK_AFTER,
    ),
    CommandEntry(
        "debug",
        "coordinator.cli.admin.debug",
        "Look into a process: its stacks, its view, another log level",
        LOOK_AFTER,
        "app",
    ),
    CommandEntry(
        "version",
        "coordinator.cli.admin.version",
        "Print the version of this command and of the server",
        LOOK_AFTER,
    ),
    CommandEntry(
        "completion",
        "coordinator.cli.completion",
        "Print the completion script of a shell",
        LOOK_AFTER,
    ),
)
