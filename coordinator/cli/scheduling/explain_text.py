"""An explanation as text: the same words in a terminal and in the answer's fields."""

from __future__ import annotations

from typing import Any

from coordinator.cli.output.paragraphs import TIED, block
from shared.messages.reason import Reason
from shared.units.amount_text import plural, some
from shared.units.times import moment, span

Answer = dict[str, Any]
ROLES = 8
"""Roles of a gang that are named."""


def explanation(answer: Answer, *, columns: int, now: float) -> list[str]:
    """Lines of at most ``columns`` characters, but for words that are longer alone."""
    parts = (
        (_subject(answer), _head(answer)),
        ("POD", _pod(answer)),
        ("WHY", _why(answer, now)),
        ("SILENT", [_without(each) for each in answer.get("withoutAnswers") or ()]),
        ("ROOM", [answer["room"]] if answer.get("room") else []),
        ("EVICTED", _evicted(answer)),
        ("GANG", _gang(answer)),
        ("QUOTA", [_quota(row) for row in answer.get("quota") or () if _tells(row)]),
        ("NODES", _nodes(answer)),
        ("NEAR", [_near(near) for near in answer.get("near") or ()]),
        ("VICTIMS", _victims(answer)),
        ("DELAY", _delay(answer)),
        ("IF", [_if(entry, answer) for entry in answer.get("if") or ()]),
        ("AHEAD", _ahead(answer)),
        ("TRIED", _tried(answer)),
        ("PLACED", _places(answer)),
        ("HERE", here_table(answer)),
        ("NEXT", _next(answer)),
    )
    return [line for word, text in parts for line in block(word, text, columns=columns)]


def _subject(answer: Answer) -> str:
    return "JOB" if answer.get("job") or answer["of"]["kind"] != "Pod" else "POD"


def _head(answer: Answer) -> list[str]:
    of = answer.get("job") or answer["of"]
    phase, since = answer["phase"], span(answer["ageSeconds"])
    words = [f"{of['namespace']}/{of['name']}", f"queue {answer['queue']}", f"{phase} {since}"]
    if answer.get("position"):
        words.append(f"position {answer['position']} of {answer['waiting']}")
    return ["  ".join(words)]


def _pod(answer: Answer) -> list[str]:
    pod = answer.get("pod")
    if not pod or not answer.get("job"):
        return []
    node = f" on {pod['node']}" if pod["node"] else ""
    role = f"  role {pod['role']}" if pod["role"] else ""
    return [f"{pod['name']}{role}  {pod['state']}{node}"]


def _why(answer: Answer, now: float) -> list[str]:
    if answer.get("reason") is None:
        return [answer["message"]]
    lines = [f"{answer['reason']}: {answer['message']}"]
    if answer.get("shard") is not None:
        since = max(0.0, now - moment(answer["evaluatedAt"]))
        by = [f"evaluated {since:.1f}s ago by shard-{answer['shard']}"]
        by += [f"session {answer['session']}"] if answer.get("session") else []
        by += [f"epoch {answer['epoch']}"] if answer.get("epoch") else []
        lines.append(", ".join(by))
    if answer.get("incomplete"):
        lines.append(f"incomplete: {answer['incomplete']}")
    return lines


def _without(row: Answer) -> str:
    """Describe a decision that was made without the answer of another server."""
    times = f" ({plural(row['questions'], 'question')})" if row.get("questions") else ""
    return f"{row['message']}{times}"


def _gang(answer: Answer) -> list[str]:
    """Roles, where there are several, or some of their tasks run already."""
    rows = answer.get("gang") or []
    if len(rows) == 1 and not rows[0]["running"]:
        return []
    return [some(map(_role, rows), ROLES)] if answer.get("reason") else []


def _role(row: Answer) -> str:
    least = f" (at least {row['minimum']})" if row["minimum"] else ""
    leaving = f", {row['leaving']} leaving" if row["leaving"] else ""
    return f"{row['role']} {row['running']} of {row['tasks']} run{least}{leaving}"


_BOUNDS = ("deserved", "guarantee", "capability", "quota", "fairShare")


def _tells(row: Answer) -> bool:
    """Whether the queue has a share, a guarantee or a limit to compare its usage with."""
    return any(row.get(name) for name in _BOUNDS)


def _quota(row: Answer) -> str:
    words = [f"{row['queue']}: has {_amounts(row['allocated'])}"]
    words += [f"asks {_amounts(row['asks'])}"] if row.get("asks") else []
    words += [
        f"{word} {_amounts(row[name])}"
        for name, word in (
            ("deserved", "deserves"),
            ("guarantee", "is guaranteed"),
            ("nonPreemptible", "that must not be evicted"),
            ("quota", "has a quota of"),
            ("fairShare", "a fair share of"),
            ("capability", "may have"),
        )
        if row.get(name)
    ]
    used = [f"{part}{TIED}{name}" for name, part in row.get("usage", {}).items()]
    words += [f"used over time, as a part of the cluster, {' + '.join(used)}"] if used else []
    return ", ".join(words)


def _amounts(amounts: dict[str, str]) -> str:
    shown = {name: amount for name, amount in amounts.items() if name != "pods"} or amounts
    return " + ".join(f"{amount}{TIED}{name}" for name, amount in shown.items()) or "nothing"


def _next(answer: Answer) -> list[str]:
    if not answer.get("next"):
        return []
    eta = answer.get("eta")
    if not eta:
        return [answer["next"]]
    span = f"{_span(eta['p50'])} to {_span(eta['p90'])}"
    line = f"{answer['next']}; estimate {span} (p50 to p90 of {eta['basis']})"
    if record := eta.get("record"):
        line += (
            f"; of the last {record['estimates']} estimates in the queue {record['cameTrue']} came "
            f"true and {record['sooner']} were too long, "
            f"median error {_span(record['medianError'])}"
        )
    return [line]


def _span(seconds: float) -> str:
    return f"{seconds:.0f}s" if seconds < 120 else f"{seconds / 60:.0f}min"


def _nodes(answer: Answer) -> list[str]:
    nodes = answer.get("nodes")
    if not nodes:
        return []
    terms = [f"{check['count']} {check['check']}" for check in nodes["first"]]
    terms = [term.replace(" ", TIED) for term in (*terms, f"{nodes['fits']} fit")]
    role = f" (role{TIED}{answer['role']})" if answer.get("roles") else ""
    return [f"{nodes['total']}{TIED}= {' + '.join(terms)}{role}"]


def _near(near: Answer) -> str:
    shard = f" (shard-{near['shard']})" if near.get("shard") is not None else ""
    lacks = "; ".join(_lack(lack) for lack in near["lacks"])
    holders = ""
    if near.get("leaving"):
        holders = f" when {', '.join(near['leaving'])} has left"
    elif near.get("heldBy"):
        holders = f", held by {', '.join(near['heldBy'])}"
    return f"{near['node']}{shard} needs {lacks}{holders}"


def _lack(lack: Answer) -> str:
    future = f", future idle {lack['futureIdle']}" if lack["futureIdle"] != lack["idle"] else ""
    return f"{lack['needs']} {lack['resource']}: idle {lack['idle']}{future}"


def _evicted(answer: Answer) -> list[str]:
    """Describe the last eviction of the waiting tasks: who evicted them, and by which rule."""
    evictions = [entry for entry in answer.get("story") or () if entry["reason"] == "Evicted"]
    if not evictions or answer.get("reason") is None:
        return []
    last, at = evictions[-1], evictions[-1]["lastTime"]
    tasks = plural(last["tasks"], "task")
    return [f"{tasks} {last['message'].removeprefix('evicted ')}, at {at[11:19]}"]


def _victims(answer: Answer) -> list[str]:
    victims = answer.get("victims")
    return (
        [_spared(attempt) for attempt in (victims, *victims.get("others", ()))] if victims else []
    )


def _spared(victims: Answer) -> str:
    if not victims["considered"]:
        why = victims["kept"][0]["why"] if victims["kept"] else "there are no tasks to evict"
        return f"{victims['action']}: {why}"
    tasks = plural(victims["considered"], "task")
    reasons = ", ".join(f"{row['tasks']} {row['why']}" for row in victims["kept"])
    return f"{victims['action']} looked at {tasks}: {reasons or 'too few to make room'}"


def _delay(answer: Answer) -> list[str]:
    delay = answer.get("delay")
    return [f"{delay['until']}: {delay['message']}"] if delay else []


def _if(entry: Answer, answer: Answer) -> str:
    more = f" +{entry['nodes']} nodes," if entry["nodes"] else ""
    if entry["fits"]:
        return f"{entry['change']}:{more} fits now"
    if answer.get("reason") == Reason.WAITING_FOR_QUOTA:
        return f"{entry['change']}: no change"
    return f"{entry['change']}:{more} {plural(entry['starts'], 'task')} could start"


def _ahead(answer: Answer) -> list[str]:
    ahead, position = answer.get("ahead") or [], answer.get("position") or 1
    more = position - 1 - len(ahead)
    return [", ".join(ahead) + (f" and {more} more" if more > 0 else "")] if ahead else []


def _tried(answer: Answer) -> list[str]:
    tries = answer.get("attempts")
    if tries is None:
        return []
    turns = tries["placed"] + tries["nominated"] + tries["infeasible"]
    conflicts = tries["trueConflicts"] + tries["readConflicts"]
    if not turns and not conflicts:
        return []
    words = [
        f"{tries[name]} {name}" for name in ("placed", "nominated", "infeasible") if tries[name]
    ]
    lost = [
        f"{tries[f'{name}Conflicts']} {name}"
        for name in ("read", "true")
        if tries[f"{name}Conflicts"]
    ]
    if lost:
        words.append(f"{' and '.join(lost)} conflict{'' if conflicts == 1 else 's'}")
    shards = plural(tries["shards"], "shard")
    return [f"{plural(turns, 'turn')} on {shards}: {', '.join(words)}"]


def _places(answer: Answer) -> list[str]:
    return [_place(place) for place in answer.get("places") or ()]


def _place(place: Answer) -> str:
    words = [f"{place['node']}: {plural(place['tasks'], 'task')}"]
    words += [f"shard-{place['shard']}"] if place.get("shard") is not None else []
    words += [f"{place['level']} ({place['because']})"] if place.get("level") else []
    return ", ".join(words)


def here_table(answer: dict[str, Any]) -> list[str]:
    """Lines that are not to be broken: their columns stand below each other."""
    explanation = answer.get("here")
    if not explanation:
        return []
    head = f"{explanation['pod']}, {explanation['note']}: "
    takes = [f"{count} at {level}" for level, count in explanation["nodes"].items() if count]
    lines = [head + (f"nodes that take it {', '.join(takes)}" if takes else "no node takes it")]
    if not explanation["candidates"]:
        return lines
    rows = [["", "node", "level", *explanation["plugins"], "final"]]
    rows += [_row(candidate, explanation["plugins"]) for candidate in explanation["candidates"]]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return lines + [_line(row, widths) for row in rows]


def _row(candidate: dict[str, Any], plugins: list[str]) -> list[str]:
    scores = [f"{candidate['scores'][plugin]:.1f}" for plugin in plugins]
    mark = "*" if candidate["chosen"] else ""
    return [
        mark,
        candidate["node"],
        candidate["level"] or "none",
        *scores,
        f"{candidate['final']:.1f}",
    ]


def _line(row: list[str], widths: list[int]) -> str:
    """Names to the left, figures to the right."""
    cells = [
        cell.ljust(width) if i < 3 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]
    return "  ".join(cells).rstrip().replace(" ", TIED)
