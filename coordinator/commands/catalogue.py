"""All subcommands, with their one line of help; a test holds the lines to the commands' own."""

from __future__ import annotations

from coordinator.commands.lazy import Entry

RUN = "Run"
OBJECTS = "Objects"
ANSWERS = "Answers"
LOOK_AFTER = "Look after it"

_HERE = "coordinator.commands"

ENTRIES = (
    Entry(
        "demo",
        f"{_HERE}.demo",
        "Run a workload on a simulated cluster, with real shards, a real ledger and real processes",
        RUN,
    ),
    Entry(
        "up",
        f"{_HERE}.up",
        "Start the ledger, Ray, the coordinator and a simulated cluster, and keep them running",
        RUN,
    ),
    Entry(
        "get",
        f"{_HERE}.get",
        "Show objects: pods, nodes, jobs, podgroups, queues, shards, events",
        OBJECTS,
    ),
    Entry(
        "describe", f"{_HERE}.describe", "Show objects in full, with what happened to them", OBJECTS
    ),
    Entry("apply", f"{_HERE}.apply", "Create or change objects as files say", OBJECTS),
    Entry("diff", f"{_HERE}.diff", "Show what apply would change", OBJECTS),
    Entry(
        "delete", f"{_HERE}.delete", "Delete objects, by name, by label or as files say", OBJECTS
    ),
    Entry("wait", f"{_HERE}.wait", "Wait until objects are in a state", OBJECTS),
    Entry("events", f"{_HERE}.events", "Show what happened, oldest first", OBJECTS),
    Entry(
        "explain",
        f"{_HERE}.explain",
        "Tell why a job or pod waits, or why it is where it is",
        ANSWERS,
    ),
    Entry(
        "story",
        f"{_HERE}.story",
        "Tell what happened to a job or pod, in order, from its submission on",
        ANSWERS,
    ),
    Entry("plan", f"{_HERE}.plan", "Tell where jobs would go, without submitting them", ANSWERS),
    Entry(
        "top", f"{_HERE}.top", "Watch the cluster: shards, queues, and what waits for what", ANSWERS
    ),
    Entry("queue", f"{_HERE}.queue", "List, describe, close and open queues", ANSWERS, "app"),
    Entry("shard", f"{_HERE}.shard", "List and describe shards", ANSWERS, "app"),
    Entry(
        "replay",
        f"{_HERE}.replay",
        "Decide recorded cluster states: what would be bound, evicted and promised, and why not",
        ANSWERS,
        "app",
    ),
    Entry(
        "snapshot",
        f"{_HERE}.snapshot",
        "Write a dump of a running service: everything that decides, as objects",
        ANSWERS,
    ),
    Entry(
        "bench",
        f"{_HERE}.bench",
        "Measure tasks per second, and what each task costs every process",
        RUN,
    ),
    Entry(
        "scaling",
        f"{_HERE}.scaling",
        "Run the same backlog with more and more shards, on virtual time, and compare",
        RUN,
    ),
    Entry("chaos", f"{_HERE}.chaos", "Break things on purpose, and check histories", RUN, "app"),
    Entry(
        "ledger",
        f"{_HERE}.ledger",
        "See which ledger a server holds, and accept one that was not expected",
        LOOK_AFTER,
        "app",
    ),
    Entry(
        "token",
        f"{_HERE}.token",
        "Make and list the tokens of those who may ask",
        LOOK_AFTER,
        "app",
    ),
    Entry(
        "config",
        f"{_HERE}.config",
        "Check a policy file; show the settings that count",
        LOOK_AFTER,
        "app",
    ),
    Entry(
        "doctor",
        f"{_HERE}.doctor",
        "Check this machine and its settings, and say the remedy for what is wrong",
        LOOK_AFTER,
    ),
    Entry(
        "version",
        f"{_HERE}.version",
        "Print the version of this command and of the server",
        LOOK_AFTER,
    ),
    Entry(
        "completion", f"{_HERE}.completion", "Print the completion script of a shell", LOOK_AFTER
    ),
)
