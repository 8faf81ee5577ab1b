"""Reviews by an API server: requests, their number, and the effect of its silence."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field

import pytest

from coordinator.api.auth import reviews as bounds
from coordinator.api.auth.access import Access, PathAccess
from coordinator.api.auth.rechecks import GRACE_SECONDS, Rechecks
from coordinator.api.auth.reviews import (
    CACHE_SECONDS,
    AccessRefused,
    AccessVerdict,
    ClusterUser,
    ReviewAnswer,
    ReviewFailed,
    ReviewKind,
    Reviews,
    TokenUnknown,
    TooManyBadTokens,
)

METRICS = PathAccess("get", "/metrics")
STATUS = PathAccess("get", "/status")


@dataclass
class ReviewServerDouble:
    """An API server that knows some tokens and rights, and may be away."""

    users: dict[str, ClusterUser] = field(default_factory=lambda: {"good": ClusterUser("ada")})
    allowed: set[tuple[str, Access]] = field(default_factory=lambda: {("ada", METRICS)})
    away: bool = False
    asked: Counter[str] = field(default_factory=Counter)
    under_way: int = 0
    most_under_way: int = 0
    hold: asyncio.Event | None = None

    async def user_of(self, token: str) -> ClusterUser | None:
        await self._answer(token)
        return self.users.get(token)

    async def verdict(self, user: ClusterUser, access: Access) -> AccessVerdict:
        await self._answer(f"{user.name} {access}")
        return AccessVerdict((user.name, access) in self.allowed, "so it is written")

    async def close(self) -> None:
        pass

    async def _answer(self, question: str) -> None:
        self.asked[question] += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.hold is not None:
                await self.hold.wait()
            if self.away:
                raise ReviewFailed("nobody is there")
        finally:
            self.under_way -= 1


@dataclass
class ReviewClock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> ReviewClock:
    return ReviewClock()


@pytest.fixture
def server() -> ReviewServerDouble:
    return ReviewServerDouble()


@pytest.fixture
def reviews(server: ReviewServerDouble, clock: ReviewClock) -> Reviews:
    return Reviews(server, clock=clock)


async def test_an_answer_counts_for_its_time_and_no_longer(
    reviews: Reviews, server: ReviewServerDouble, clock: ReviewClock
) -> None:
    for _ in range(100):
        assert (await reviews.judge("good", METRICS)).user.name == "ada"
    assert server.asked.total() == 2
    server.users.clear()
    clock.now = CACHE_SECONDS - 0.01
    await reviews.judge("good", METRICS)
    clock.now = CACHE_SECONDS
    with pytest.raises(TokenUnknown):
        await reviews.judge("good", METRICS)


async def test_a_right_that_is_taken_back_ends_with_its_time(
    reviews: Reviews, server: ReviewServerDouble, clock: ReviewClock
) -> None:
    await reviews.judge("good", METRICS)
    server.allowed.clear()
    clock.now = CACHE_SECONDS
    with pytest.raises(AccessRefused, match="so it is written"):
        await reviews.judge("good", METRICS)


async def test_access_is_reviewed_for_each_path(reviews: Reviews) -> None:
    await reviews.judge("good", METRICS)
    with pytest.raises(AccessRefused):
        await reviews.judge("good", STATUS)
    assert (await reviews.judge("good", None)).user.name == "ada"


async def test_concurrent_requests_share_one_review(
    reviews: Reviews, server: ReviewServerDouble
) -> None:
    server.hold = asyncio.Event()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reviews.judge("good", METRICS)) for _ in range(50)]
        await asyncio.sleep(0)
        tasks[0].cancel()  # whose client left, while the others wait for its answer
        server.hold.set()
    assert sum(not task.cancelled() for task in tasks) == 49
    assert server.asked["good"] <= 2
    assert not reviews._flights


async def test_silence_is_a_refusal_and_is_not_asked_about_by_everybody(
    reviews: Reviews, server: ReviewServerDouble, clock: ReviewClock
) -> None:
    server.away = True
    for i in range(50):
        with pytest.raises(ReviewFailed, match="nobody is there"):
            await reviews.judge(f"token {i}", METRICS)
    assert server.asked.total() == 1
    assert reviews.error == "nobody is there"
    server.away = False
    clock.now += bounds.SILENT_SECONDS
    await reviews.judge("good", METRICS)
    assert reviews.error == ""


async def test_silence_does_not_make_an_old_answer_good(
    reviews: Reviews, server: ReviewServerDouble, clock: ReviewClock
) -> None:
    await reviews.judge("good", METRICS)
    server.away = True
    await reviews.judge("good", METRICS)  # it still counts
    clock.now = CACHE_SECONDS
    with pytest.raises(ReviewFailed):
        await reviews.judge("good", METRICS)


async def test_bad_tokens_are_asked_about_within_a_bound_and_push_no_good_one_out(
    reviews: Reviews, server: ReviewServerDouble, clock: ReviewClock
) -> None:
    await reviews.judge("good", METRICS, source="a")
    seconds, each = 60, 200
    for _ in range(seconds):
        for i in range(each):
            with pytest.raises((TokenUnknown, TooManyBadTokens)):
                await reviews.judge(f"bad {clock.now} {i}", METRICS, source="b")
        clock.now += 1.0
        await reviews.judge("good", METRICS, source="a")
    bad = sum(count for question, count in server.asked.items() if question.startswith("bad"))
    assert bad <= bounds.FAILURES_AT_ONCE + seconds * bounds.FAILURES_PER_SECOND
    assert len(reviews._bad) <= bounds.MOST_BAD_TOKENS


async def test_from_many_addresses_all_together_have_a_bound(
    reviews: Reviews, server: ReviewServerDouble
) -> None:
    turned_away = 0
    for i in range(1000):
        try:
            await reviews.judge(f"bad {i}", METRICS, source=f"address {i}")
        except TooManyBadTokens as error:
            turned_away += 1
            assert 0 < error.seconds <= 1
        except TokenUnknown:
            pass
    assert server.asked.total() == bounds.ALL_FAILURES_AT_ONCE
    assert turned_away == 1000 - bounds.ALL_FAILURES_AT_ONCE


async def test_the_same_bad_token_again_and_again_is_asked_about_once(
    reviews: Reviews, server: ReviewServerDouble
) -> None:
    for _ in range(100):
        with pytest.raises(TokenUnknown):
            await reviews.judge("bad", METRICS, source="b")
    assert server.asked["bad"] == 1


async def test_memory_has_a_bound(
    server: ReviewServerDouble, clock: ReviewClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "MOST_VERDICTS", 64)
    reviews = Reviews(server, clock=clock)
    size = bounds.MOST_VERDICTS + 100
    server.allowed = {("ada", PathAccess("get", f"/{i}")) for i in range(size)}
    for i in range(size):
        await reviews.judge("good", PathAccess("get", f"/{i}"))
    assert len(reviews._verdicts) == bounds.MOST_VERDICTS


async def test_few_questions_are_open_at_once_and_few_wait(
    reviews: Reviews, server: ReviewServerDouble
) -> None:
    server.hold = asyncio.Event()
    everybody = bounds.AT_ONCE + bounds.MOST_WAITING + 50
    tasks = [
        asyncio.create_task(reviews.judge(f"t {i}", None, source=f"{i}")) for i in range(everybody)
    ]
    result, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    while len(result) < 50:
        result, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert all("wait for the API server" in str(task.exception()) for task in result)
    assert len(result) == 50
    server.hold.set()
    await asyncio.wait(tasks)
    assert server.most_under_way == bounds.AT_ONCE


async def test_the_open_questions_of_one_user_refuse_and_delay_nobody_elses(
    reviews: Reviews, server: ReviewServerDouble
) -> None:
    server.users["other"] = ClusterUser("bob")
    server.allowed = {("bob", METRICS)}
    await reviews.judge("good", None)
    await reviews.judge("other", None)
    server.hold, before = asyncio.Event(), len(server.asked)
    paths = [PathAccess("get", f"/{i}") for i in range(400)]
    flood = [asyncio.create_task(reviews.judge("good", path)) for path in paths]
    refused, _ = await asyncio.wait(flood, timeout=0.1)
    assert {type(task.exception()) for task in refused} == {ReviewFailed}
    others = [asyncio.create_task(reviews.judge("other", METRICS)) for _ in range(19)]
    await asyncio.sleep(0)
    server.hold.set()
    await asyncio.wait(others)
    assert [task.exception() for task in others] == [None] * 19
    order = [*server.asked]
    assert order.index(f"bob {METRICS}") - before <= 2 * bounds.AT_ONCE, "its turn came next"
    await asyncio.gather(*flood, return_exceptions=True)


# --- requests that last -----------------------------------------------------------------------


async def test_a_stream_ends_when_its_token_is_revoked(
    reviews: Reviews, server: ReviewServerDouble, clock: ReviewClock
) -> None:
    rechecks = Rechecks(reviews)
    judged = await reviews.judge("good", METRICS)
    with rechecks.opened("good", METRICS, judged) as stands:
        server.users.clear()
        await rechecks.look()
        assert stands(), "the answer still counts"
        clock.now = CACHE_SECONDS
        await rechecks.look()
        assert not stands()
    assert not rechecks._open


async def test_a_stream_ends_when_its_right_is_taken_back(
    reviews: Reviews, server: ReviewServerDouble, clock: ReviewClock
) -> None:
    rechecks = Rechecks(reviews)
    judged = await reviews.judge("good", METRICS)
    with rechecks.opened("good", METRICS, judged) as stands:
        for _ in range(5):
            clock.now += CACHE_SECONDS
            await rechecks.look()
            assert stands()
        server.allowed.clear()
        clock.now += CACHE_SECONDS
        await rechecks.look()
        assert not stands()


async def test_a_stream_outlives_a_short_silence_and_no_long_one(
    reviews: Reviews, server: ReviewServerDouble, clock: ReviewClock
) -> None:
    rechecks = Rechecks(reviews)
    judged = await reviews.judge("good", METRICS)
    with rechecks.opened("good", METRICS, judged) as stands:
        server.away = True
        clock.now = CACHE_SECONDS + GRACE_SECONDS - 1
        await rechecks.look()
        assert stands()
        clock.now = CACHE_SECONDS + GRACE_SECONDS
        assert not stands()
        server.away = False
        await rechecks.look()
        assert stands(), "the API server says yes again before the stream was ended"


async def test_review_answers_are_counted_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    server = ReviewServerDouble()
    reviews = Reviews(server)
    for _ in range(2):
        await reviews.judge("good", METRICS)
        with pytest.raises(TokenUnknown):
            await reviews.judge("bad", METRICS)
    with pytest.raises(AccessRefused):
        await reviews.judge("good", STATUS)
    monkeypatch.setattr(reviews._of_all, "wait", lambda _: 1.0)
    with pytest.raises(TooManyBadTokens):
        await reviews.judge("worse", METRICS)
    monkeypatch.undo()
    server.away = True
    with pytest.raises(ReviewFailed):
        await reviews.judge("unheard", METRICS)
    answered = {
        (ReviewKind.TOKEN, ReviewAnswer.YES): 1,
        (ReviewKind.TOKEN, ReviewAnswer.NO): 1,
        (ReviewKind.ACCESS, ReviewAnswer.YES): 1,
        (ReviewKind.ACCESS, ReviewAnswer.NO): 1,
    }
    assert reviews.counts.answers == answered | {
        (ReviewKind.TOKEN, ReviewAnswer.REMEMBERED): 3,
        (ReviewKind.ACCESS, ReviewAnswer.REMEMBERED): 1,
        (ReviewKind.TOKEN, ReviewAnswer.TURNED_AWAY): 1,
        (ReviewKind.TOKEN, ReviewAnswer.NONE): 1,
    }
    assert reviews.counts.seconds.count == sum(answered.values())
