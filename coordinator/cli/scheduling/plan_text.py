"""A plan as text: a sentence for each job, what it comes to, and what to type next."""

from __future__ import annotations

import textwrap
from typing import Any

from coordinator.cli.output.terminal import GREEN, RED, YELLOW
from shared.units.amount_text import plural

Answer = dict[str, Any]

COLOURS = {"now": GREEN, "later": YELLOW, "waits": YELLOW, "never": RED, "refused": RED}
SIGNS = {"now": "+", "later": "~", "waits": "~", "never": "!", "refused": "!"}
NODES = 3
JOBS = 3


def plan_lines(answer: Answer, *, columns: int) -> list[tuple[str, str]]:
    """(verdict, line): the verdict says how to colour it."""
    lines: list[tuple[str, str]] = []
    for job in answer["jobs"]:
        lines += _wrapped(job["verdict"], _job(job), columns)
    for refused in answer["refused"]:
        lines += _wrapped("refused", _refused(refused), columns)
    for notice in answer["notices"]:
        text = f"note: {notice['kind']} {notice['name']}: {notice['message']}"
        lines += _wrapped("", text, columns)
    for remark in answer["others"]:
        lines += _wrapped("", f"note: {remark}", columns)
    return lines


def totals(answer: Answer, *, columns: int) -> list[str]:
    t = answer["totals"]
    words = [
        f"{t[word]} {sentences}"
        for word, sentences in (
            ("now", "now"),
            ("later", "after what is leaving"),
            ("waits", "not now"),
            ("never", "never"),
            ("refused", "refused"),
            ("unchanged", "unchanged"),
        )
        if t[word]
    ]
    sentences = [f"{plural(t['jobs'], 'job')}: {', '.join(words) or 'nothing to place'}"]
    if t["tasks"]:
        sentences[0] += f"; {t['tasksNow']} of {plural(t['tasks'], 'task')} could start now"
    if answer.get("revision"):
        sentences.append(f"At revision {answer['revision']}: {answer['note']}")
    return [line for text in sentences for line in textwrap.wrap(text, columns)]


def _job(job: Answer) -> str:
    name = f"{job['kind']} {job['namespace']}/{job['name']}"
    tasks = job["tasks"]
    match job["verdict"]:
        case "now":
            if not tasks["now"]:
                return f"{name}: nothing left to place"
            rest = tasks["total"] - tasks["now"]
            some = f", {rest} more when there is room" if rest else ""
            return f"{name}: {plural(tasks['now'], 'task')} now on {_nodes(job)}{some}{_ahead(job)}"
        case "later":
            after = _evicts(job) or ", ".join(job.get("after") or ()) or "what is leaving"
            placement = f"{plural(tasks['later'], 'task')} after {after} on {_nodes(job)}"
            return f"{name}: {placement}{_displaces(job)}"
        case "waits":
            return f"{name}: not now, {job['reason']}: {job['message']}"
        case _:
            return f"{name}: never, {job['reason']}: {job['message']}"


def _nodes(job: Answer) -> str:
    named = [
        node["node"] + (f" ({node['tasks']})" if node["tasks"] > 1 else "")
        for node in job["nodes"][:NODES]
    ]
    more = job["nodesInAll"] - len(named)
    node_text = ", ".join(named) + (f" and {more} more nodes" if more > 0 else "")
    levels = ", ".join(
        f"{level}: {count}" if len(job["levels"]) > 1 else level
        for level, count in job["levels"].items()
    )
    shard = f" of shard-{job['shard']}" if job.get("shard") is not None else ""
    return f"{node_text} [{levels}{shard}]"


def _ahead(job: Answer) -> str:
    waiting = job["waitingInQueue"]
    if not waiting:
        return ""
    return f"; {plural(waiting, 'job')} already in queue {job['queue']} may come first"


def _evicts(job: Answer) -> str:
    """Describe the jobs that would be evicted for this one; "" for none."""
    victims = [f"{plural(v['tasks'], 'task')} of {v['job']}" for v in job.get("evicts") or ()]
    if not victims:
        return ""
    more = len(victims) - JOBS
    text = ", ".join(victims[:JOBS]) + (f" and {plural(more, 'more job')}" if more > 0 else "")
    all_moved = all(v["moved"] == v["tasks"] for v in job["evicts"])
    return f"{text} {'moved' if all_moved else 'evicted'} ({job['evictedBy']})"


def _displaces(job: Answer) -> str:
    displaced = job.get("displaces")
    return f"; takes the nominations of {', '.join(displaced)}" if displaced else ""


def _refused(refused: Answer) -> str:
    at = f": {refused['field']}" if refused["field"] else ""
    got = f" (got {refused['value']})" if refused["value"] else ""
    name = f"{refused['kind']} {refused['name']}".strip()
    more = "".join(f"; {m['field']}: {m['message']}" for m in refused.get("more") or ())
    return f"{name}{at}{got}: refused, {refused['message']}{more}"


def _wrapped(verdict: str, text: str, columns: int) -> list[tuple[str, str]]:
    lines = textwrap.wrap(
        text,
        columns,
        initial_indent=f"{SIGNS.get(verdict, ' ')} ",
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [(verdict, line) for line in lines]
