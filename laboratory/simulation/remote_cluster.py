"""The cluster of a seeded run: a process of its own in virtual time, and how a coordinator reaches
it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from coordinator.cluster.protocol import (
    BindAnswer,
    BindAnswers,
    BindRequests,
    ClusterTimeout,
    Foreign,
    Listed,
    Reports,
    StopAnswers,
)
from coordinator.cluster.simulated.kubelets import Kubelets
from laboratory.simulation.long_poll import LongPolls
from laboratory.simulation.process import Alarm, Process, Reply
from laboratory.simulation.virtual_time import (
    ECHO_SECONDS,
    Event,
    Place,
    Timeline,
)

T = TypeVar("T")


class ClusterProcess:
    """The cluster's process. Its tasks start and end at their times whoever leads, and it outlives
    every coordinator."""

    def __init__(self, timeline: Timeline, kubelets: Kubelets) -> None:
        self.kubelets = kubelets
        self._timeline = timeline
        self._alarm = Alarm(Process(timeline), self._advance)
        self._readers: list[Event] = []
        self._requests = 0
        self._refused: dict[tuple[str, str], int] = {}
        """(task, uid) -> number of the newest bind request for it that was refused."""

    def next_request(self) -> int:
        """The number of a new bind request."""
        self._requests += 1
        return self._requests

    def bind(self, requests: BindRequests, number: int, now: float) -> BindAnswers:
        """A refused task stays refused in every copy of the request, and of earlier ones that are
        still under way: as its node counts what it has, it would refuse them for their size."""
        keys = list(zip(requests.tasks, requests.uids, strict=True))
        refused = self._refused
        pending = [i for i, key in enumerate(keys) if refused.get(key, 0) < number]
        reached = self.kubelets.bind(requests.select(pending), now)
        answers, where = [int(BindAnswer.REFUSED)] * len(keys), [""] * len(keys)
        reasons = [""] * len(keys)
        for at, i in enumerate(pending):
            answers[i], where[i] = reached.answers[at], reached.where[at]
            reasons[i] = reached.reasons[at] if reached.reasons else ""
            if answers[i] == BindAnswer.REFUSED:
                refused[keys[i]] = number
        return BindAnswers(answers, where, reasons if any(reasons) else [])

    def subscribe(self, reader: Event) -> None:
        """Call it whenever there may be new reports."""
        self._readers.append(reader)

    def asked(self) -> None:
        """Something may be due earlier than before."""
        self._alarm.set(self.kubelets.next_due())

    def _advance(self) -> None:
        self.kubelets.advance(self._timeline.now)
        for reader in self._readers:
            reader()
        self.asked()


class RemoteCluster:
    """Calls of one coordinator. Those that are lost, on the way or back, raise ClusterTimeout;
    sometimes a request arrives again much later."""

    def __init__(self, process: Process, cluster: ClusterProcess) -> None:
        self._process = process
        self._cluster = cluster
        self._kubelets = cluster.kubelets
        self._mean = process.network.mean(Place.CLUSTER)
        self._polls = LongPolls(process, Place.CLUSTER, what="report", lost=ClusterTimeout)
        cluster.subscribe(self._polls.wake)

    async def bind(self, requests: BindRequests) -> BindAnswers:
        number = self._cluster.next_request()
        return await self._ask(
            "bind", lambda: self._cluster.bind(requests, number, self._process.now)
        )

    async def delete(self, tasks: list[str], uids: list[str] | None = None) -> StopAnswers:
        never = await self._ask(
            "stop", lambda: self._kubelets.delete(tasks, self._process.now, uids)
        )
        return StopAnswers(never)

    async def listing(self, token: str) -> Listed:
        return await self._ask("list", lambda: self._kubelets.listing(token))

    async def look(self, tasks: list[str]) -> Listed:
        return await self._ask("look at missing", lambda: self._kubelets.look(tasks))

    async def foreign(self) -> Foreign:
        return await self._ask("foreign use", self._kubelets.foreign)

    async def reports(self, *, after: int, wait: float) -> Reports:
        def look() -> Reports:
            self._kubelets.advance(self._process.now)
            return self._kubelets.reports(after)

        return await self._polls.ask(look, empty=lambda reports: not reports.tasks, seconds=wait)

    async def _ask(self, what: str, call: Callable[[], T]) -> T:
        process, timeline = self._process, self._process.timeline
        network = timeline.network
        reply: Reply[T] = Reply()

        def silent(why: str) -> None:
            process.after(0.0, lambda: reply.fail(ClusterTimeout(why)))

        def once_more() -> None:
            if timeline.reaches(Place.CLUSTER):
                with suppress(ClusterTimeout):
                    call()
                self._cluster.asked()

        def arrive() -> None:
            lost = timeline.strikes(network.request_lost, "request lost")
            if lost or not timeline.reaches(Place.CLUSTER):
                silent("the request was lost on its way")
                return
            if timeline.strikes(network.echo, "request twice"):
                timeline.send(ECHO_SECONDS, once_more, f"{what} asked twice")
            try:
                answer = call()
            except ClusterTimeout as error:
                silent(str(error))
                return
            finally:
                self._cluster.asked()
            if timeline.strikes(network.answer_lost, "answer lost"):
                silent("the answer was lost on its way")
            else:
                process.hear(self._mean, lambda: reply.give(answer), f"{what} answered")

        process.say(self._mean, arrive, f"{what} asked")
        return await reply
