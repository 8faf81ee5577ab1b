"""Mutations of gangs that are whole (promise 3)."""

from __future__ import annotations

from laboratory.checker.report.rules import Rule
from tests.laboratory.checker.mutating import History
from tests.laboratory.checker.mutations.table import breaks


@breaks(Rule.GANG_WHOLE)
def a_gang_starts_in_part(history: History) -> None:
    _, statement = history.placing("next")
    statement["alloc"].pop()


@breaks(Rule.VICTIM_GANG)
def an_eviction_breaks_a_gang_that_the_statement_does_not_guard(history: History) -> None:
    _, statement = history.evicting("preempt")
    jid = history.jid("spare")
    victims = next(run for run in statement["evict"] if run[0] == jid)
    rows: dict[int, int] = {}
    for _, placed in history.statements("spare"):
        for tix, row, _, _ in placed["alloc"]:
            rows.setdefault(tix, row)
    tix = min(set(rows) - set(victims[4]))
    victims[4].append(tix)
    victims[5].append(rows[tix])
    victims[6] = 0  # those of the other runs stay


@breaks(Rule.VICTIM_GANG)
def a_drain_leaves_a_gang_in_part(history: History) -> None:
    jid = history.jid("whole")
    statement = next(s for _, s in history.statements("whole") if s.get("evict"))
    (victims,) = statement["evict"]
    assert victims[0] == jid
    victims[4].pop()
    victims[5].pop()
    victims[6] = 0  # what the statement guards is not what is owed


@breaks(Rule.GANG_REPAIRED)
def a_member_is_lost_and_the_others_stay(history: History) -> None:
    started = history.status("urgent", "RUNNING")
    jid, (_, statement) = history.jid("urgent"), history.placing("urgent")
    tix, row = statement["alloc"][-1][:2]
    after = history.events[history.at(started) + 1]
    lost = history.entry(started, "status", items=[["LOST", jid, [tix], [row]]])
    lost["id"] += "1"
    uids = next(
        dict(zip(e["tasks"], e["uids"], strict=True))[f"{jid}.{tix}"]
        for e in history.all("bind")
        if f"{jid}.{tix}" in e["tasks"]
    )
    vanished = {
        "t": started["t"],
        "src": "cluster",
        "n": 0,
        "ev": "lost",
        "tasks": [f"{jid}.{tix}"],
        "nodes": [f"n{row}"],
        "uids": [uids],
        "answers": [],
    }
    history.untold(f"{jid}.{tix}", after=started)
    history.insert(vanished, before=after)
    history.insert(lost, before=after)
    history.wait(200.0, before=after)


@breaks(Rule.GANG_REPAIRED)
def a_bind_is_refused_and_the_gang_stays_in_part(history: History) -> None:
    event, statement = history.placing("next")
    jid, (tix, row, *_) = statement["jid"], statement["alloc"][0]
    history.untold(f"{jid}.{tix}", after=event)
    after = history.status("next", "RUNNING")
    refused = history.entry(after, "status", items=[["PENDING", jid, [tix], [row]]])
    refused["id"] += "1"
    history.insert(refused, before=history.events[history.at(after) + 1])
    history.wait(200.0, before=history.events[history.at(refused) + 1])
