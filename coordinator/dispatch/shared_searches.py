"""Searches for victims that several workers do together (decision 0112).

The worker whose turn it is tries the policy's first generator of scenarios, idle workers try the
others at the same time. The first valid scenario in the order of generators counts: if none comes
of the first, the worker that found one is given the turn and commits what it has prepared. Where an
answer fails, or is of another position of the log, the turn's own worker does it again alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from coordinator.dispatch.dispatcher import Dispatcher, ShardState, weight
from shard_worker.dialects.kai.service.divided import DividedKaiSearch
from shard_worker.dialects.open_session import divided_search
from shard_worker.session_model.workload import Amounts
from shared.codec.packed import replace
from shared.messages.messages import Epoch, Outcome, Turn
from shared.messages.search_part import SearchPart
from shared.policy.evicting_actions import EVICTING
from shared.policy.model import Policy

FIRST = 0, 1
"""The generators that a turn's own worker tries."""


@dataclass(frozen=True, slots=True)
class AskHelp:
    """Instruction: have a shard's worker try some generators for the turn of another shard, then
    call :meth:`SharedSearches.helped`, whatever comes of it."""

    shard: int
    epoch: Epoch
    number: int
    home: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class StopHelp:
    """Instruction: tell a shard's worker that nobody waits for its help any more."""

    shard: int
    number: int


class HelpResult(StrEnum):
    """Result of a helper's part in a search."""

    COMMITTED = "committed"
    """Its scenario is the one that was sent to the ledger."""
    NOTHING = "nothing"
    """It found nothing either."""
    UNNEEDED = "unneeded"
    """The search had ended without it."""
    FAILED = "failed"
    """It gave no answer, or one of another position of the log."""


@dataclass(slots=True)
class Help:
    """One worker's part of a search."""

    number: int
    shard: int
    epoch: Epoch
    answered: bool = False
    part: SearchPart | None = None
    """None where it failed."""


@dataclass(slots=True)
class SharedSearch:
    """A turn whose generators several workers try."""

    turn: Turn
    home: int
    divided: DividedKaiSearch
    helps: list[Help]
    """In the order of generators."""
    own: Outcome | None = None
    """Outcome of its own worker, which found nothing; None before it came."""


class SharedSearches:
    def __init__(
        self, dispatcher: Dispatcher, *, failed: Callable[[int, Outcome], None], apart: bool
    ) -> None:
        """``failed`` takes the outcome of a search in which nobody found anything, and the shard of
        its turn. ``apart``: workers see other nodes each, so that nobody can help."""
        self._dispatcher = dispatcher
        self._failed = failed
        self._apart = apart
        self._number = 0
        self._searches: dict[int, SharedSearch] = {}
        """By job."""
        self._of_help: dict[int, int] = {}
        """Number of a help that has no answer -> its job."""
        self._candidates: list[tuple[Turn, int]] = []
        self._policy: Policy | None = None
        self._divided: DividedKaiSearch | None = None
        """How searches of that policy are divided."""
        self._unwanted: list[StopHelp] = []
        self._stopped: dict[int, int] = {}
        """Shard -> number of the last help that it was told to end."""
        self.results: Counter[HelpResult] = Counter()

    def waiting(self) -> Iterator[int]:
        """Jobs whose turn is at no worker: its own found nothing, and others have not answered."""
        return (jid for jid, search in self._searches.items() if search.own is not None)

    # --- a turn goes out ----------------------------------------------------------------------

    def opened(self, turn: Turn, need: Amounts, home: int) -> None:
        """Note a turn that was queued for its home shard: others may help with it.

        Only what needs more than any node has: victims of one node are what the first generator
        looks for, and what the others find meanwhile would hardly ever be used."""
        if turn.action not in EVICTING or not turn.world or turn.traced or self._apart:
            return
        if weight(turn) > 1 and self._dispatcher.exceeds_a_node(need):
            self._candidates.append((turn, home))

    def share(self, policy: Policy) -> list[AskHelp | StopHelp]:
        """Ask idle workers for help with the turns that were noted, once each turn has its home;
        stop those that have turns of their own by now."""
        out: list[AskHelp | StopHelp] = []
        candidates, self._candidates = self._candidates, []
        if candidates and self._policy is not policy:
            self._policy, self._divided = policy, divided_search(policy)
        if (divided := self._divided) is not None:
            for turn, home in candidates:
                out += self._ask(divided, turn, self._dispatcher.shards[home])
        for state in self._dispatcher.shards.values():
            if state.helping in self._of_help and (state.waiting or state.calls):
                self._stop(state.shard, state.helping)
        stopped, self._unwanted = self._unwanted, []
        return out + stopped

    def _ask(self, divided: DividedKaiSearch, turn: Turn, home: ShardState) -> list[AskHelp]:
        # Beside other turns of its worker it would be planned on what nobody else sees.
        if home.open_turns or home.helping or home.waiting[0] is not turn:
            return []
        idle = [state for state in self._dispatcher.shards.values() if state.is_idle]
        idle = idle[: divided.generators - 1]
        if not idle:
            return []
        asked, helps = list[AskHelp](), list[Help]()
        for first, state in enumerate(idle, start=1):
            assert state.epoch is not None
            self._number += 1
            last = divided.generators if state is idle[-1] else first + 1
            part = replace(turn, part=(first, last))
            asked.append(AskHelp(state.shard, state.epoch, self._number, home.shard, part))
            helps.append(Help(self._number, state.shard, state.epoch))
            self._of_help[self._number] = turn.jid
            state.helping = self._number
        home.waiting[0] = replace(turn, part=FIRST)
        self._searches[turn.jid] = SharedSearch(turn, home.shard, divided, helps)
        return asked

    # --- what came of it ----------------------------------------------------------------------

    def returned(self, shard: int, outcomes: Sequence[Outcome]) -> list[Outcome]:
        """Take the outcomes of a shard's turns. Returns those that are final: where a part of a
        search found nothing, the others are waited for."""
        final: list[Outcome] = []
        for outcome in outcomes:
            search = self._searches.get(outcome.jid)
            if search is not None and outcome.part is not None:
                search.own = outcome
                self._go_on(search)
                continue
            self.forget([outcome.jid])
            final.append(outcome)
        return final

    def helped(self, number: int, part: SearchPart | None) -> None:
        """Take a worker's answer; None where there was none."""
        for state in self._dispatcher.shards.values():
            if state.helping == number:
                state.helping = 0
        search = self._searches.get(self._of_help.pop(number, -1))
        for help in () if search is None else search.helps:
            if search is not None and help.number == number:
                help.answered, help.part = True, part
                self._go_on(search)

    def _go_on(self, search: SharedSearch) -> None:
        """End the search once enough is known: what comes first in the order of generators
        counts."""
        own = search.own
        if own is None or own.part is None:
            return
        parts = [own.part]
        for help in search.helps:
            if not help.answered:
                return
            if help.part is None or help.part.position != own.part.position:
                self.results[HelpResult.FAILED] += 1
                self._end(search)
                self._dispatcher.send_to(search.home, search.turn)
                return
            parts.append(help.part)
            if search.divided.joined(parts).solved:
                self._commit(search, help)
                return
        self.results[HelpResult.NOTHING] += len(search.helps)
        self._end(search)
        word = search.divided.described(search.divided.joined(parts), search.turn.action)
        self._failed(search.home, replace(own, part=None, reasons={word: 0}))

    def _commit(self, search: SharedSearch, help: Help) -> None:
        """Give the turn to the worker that has a statement for it."""
        self.results[HelpResult.COMMITTED] += 1
        self._end(search)
        self._dispatcher.send_to(help.shard, replace(search.turn, prepared=help.number))

    def forget(self, jids: Iterable[int]) -> None:
        """Note that these jobs' turns have ended otherwise, or are lost."""
        for jid in jids:
            if (search := self._searches.get(jid)) is not None:
                self.results[HelpResult.UNNEEDED] += len(search.helps)
                self._end(search)

    def lost(self, shard: int, *, turns: Sequence[Turn]) -> None:
        """Note that the worker of a shard is gone, with these turns: it answers nothing any
        more."""
        self.forget(turn.jid for turn in turns)
        for search in list(self._searches.values()):
            for help in search.helps:
                if help.shard == shard and not help.answered:
                    self.helped(help.number, None)

    def _end(self, search: SharedSearch) -> None:
        del self._searches[search.turn.jid]
        for help in search.helps:
            if self._of_help.pop(help.number, None) is not None:
                self._stop(help.shard, help.number)

    def _stop(self, shard: int, number: int) -> None:
        if number > self._stopped.get(shard, 0):
            self._stopped[shard] = number
            self._unwanted.append(StopHelp(shard, number))
