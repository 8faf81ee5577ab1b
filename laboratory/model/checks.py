"""The checks that can be disabled in the model, with their counterpart in the product."""

from __future__ import annotations

from enum import StrEnum


class ModelCheck(StrEnum):
    EPOCH = "epoch"
    RUN = "run-id"
    READ = "read-version"
    FIT = "fit"
    TASK = "task-state"
    IDEMPOTENCY = "idempotency"
    LEASE = "lease"
    LEADERSHIP = "seat"
    LEADER = "leader"
    BEHIND = "behind"
    UNTOLD = "untold-claims"
    TURN = "turn-epoch"
    DRAIN = "drain"


MEANING = {
    ModelCheck.EPOCH: "a batch of another epoch is refused",
    ModelCheck.RUN: "a batch is refused until the leader has blessed this run of the server",
    ModelCheck.READ: "a statement is refused where its job or a node's specification moved",
    ModelCheck.FIT: "a statement is refused where a node has no room for it",
    ModelCheck.TASK: "a statement is refused where a task of it is not pending",
    ModelCheck.IDEMPOTENCY: "a batch that comes again gets its first answer",
    ModelCheck.LEASE: "a batch is refused when the writer's lease has run out",
    ModelCheck.LEADERSHIP: "the leadership is not given away while its lease lasts",
    ModelCheck.LEADER: "only the leader claims shards and blesses",
    ModelCheck.BEHIND: "a leader that has seen more than the log holds does not bless",
    ModelCheck.UNTOLD: "the log of a run that nobody has accepted does not grow by claims",
    ModelCheck.TURN: "a worker leaves turns alone that were sent under another epoch than its own",
    ModelCheck.DRAIN: "nodes change hands only when all older calls have returned",
}


class Promise(StrEnum):
    """The ledger's promises, and guarantees to coordinators, as stated in the model."""

    ONE_PLACE = "1: a task has at most one live binding"
    ROOM = "2: no node holds more than it can"
    FENCE = "4: nothing is accepted from who was replaced or whose lease ran out, nor unblessed"
    REPLAY = "5: a request that comes again gets its first answer"
    NOTHING_LOST = "6: what a leader believes of a job is what the ledger says"
    OLD_COPY = "6: an old copy gets no service until somebody says that it counts"
    READ_SET = "9: nothing is placed on what its worker did not read"
    OWNERSHIP = "hand-over: a node is used by one shard at a time"
