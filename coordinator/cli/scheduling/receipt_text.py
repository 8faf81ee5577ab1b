"""A receipt for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from shared.units.amount_text import plural

Json = dict[str, Any]

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"))


def receipt_lines(body: Json) -> list[str]:
    """The total as a sum of reasons, each wait with its parts, what was tried, what would help."""
    of, receipt = body["of"], body["receipt"]
    name = f"{of['kind']} {'/'.join(filter(None, (of.get('namespace'), of['name'])))}"
    if run := body.get("run"):
        name += f" ({run['policy']}, {plural(run['shards'], 'shard')}, seed {run['seed']})"
    total = f"{name} waited {exact(receipt['milliseconds'])}"
    sums = [f"{exact(length)} {reason}" for reason, length in receipt["sums"].items()]
    earlier = receipt["earlier"]
    if earlier["waits"]:
        sums.append(
            f"{exact(earlier['milliseconds'])} in {plural(earlier['waits'], 'wait')} before"
        )
    lines = [f"{total} = {' + '.join(sums)}" if sums else total]
    for wait in receipt["waits"]:
        lines += ["", _head(wait), *_parts(wait)]
    lines += ["", f"tried: {_tried(body['attempts'])}"]
    lines += [f"would help: {change['change']}" for change in body["if"] if change["fits"]]
    return [*lines, f"next: {body['next']}"] if body["next"] else lines


def exact(milliseconds: int) -> str:
    """``3 h 12 min 4.040 s``: to the millisecond, so that shown parts sum to their shown total."""
    words: list[str] = []
    rest = milliseconds
    for unit, name in _UNITS:
        count, rest = divmod(rest, unit)
        if count or words:
            words.append(f"{count} {name}")
    return " ".join([*words, f"{rest // 1000}.{rest % 1000:03} s"])


def _head(wait: Json) -> str:
    begin = wait["begin"]
    if isinstance(begin, str):
        begin = begin.replace("T", " ").removesuffix("Z")
    else:
        begin = f"after {exact(round(begin * 1000))}"
    end = "" if wait["end"] else ", and waits still"
    return f"{begin}  {wait['cause']}: waited {exact(wait['milliseconds'])}{end}"


def _parts(wait: Json) -> Iterator[str]:
    lengths = [exact(part["milliseconds"]) for part in wait["parts"]]
    width = max(map(len, lengths), default=0)
    for part, length in zip(wait["parts"], lengths, strict=True):
        yield f"  {length:>{width}}  {part['reason']}{_why(part)}"
        indent = " " * (width + 4)
        if part["behind"]:
            holders = ", ".join(_holder(holder, part) for holder in part["behind"])
            yield f"{indent}behind {holders}{_more(part)}"
        if part["borrowers"]:
            yield f"{indent}because of {', '.join(part['borrowers'])}"


def _why(part: Json) -> str:
    return f": {part['message']}" if part["message"] else ""


def _holder(holder: Json, part: Json) -> str:
    amounts = ", ".join(f"{amount} {name}" for name, amount in holder["held"].items())
    length = holder["milliseconds"]
    time = f" for {exact(length)}" if length < part["milliseconds"] else ""
    return f"{holder['job']} ({amounts}{time}, queue {holder['queue']})"


def _more(part: Json) -> str:
    return f" and {part['others']} more" if part["others"] else ""


def _tried(attempts: Json) -> str:
    placed, nominated = attempts["placed"], attempts["nominated"]
    refused = attempts["trueConflicts"] + attempts["readConflicts"]
    return (
        f"{plural(placed + nominated + attempts['infeasible'], 'turn')} ({placed} placed tasks, "
        f"{nominated} got a promise of room, {attempts['infeasible']} found no place); the ledger "
        f"refused {plural(refused, 'statement')}"
    )
