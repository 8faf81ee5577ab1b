"""One request on the API server: read again, or deleted as it was when that was decided."""

from __future__ import annotations

from enum import Enum, auto
from http import HTTPStatus

import msgspec
import structlog

from coordinator.cluster.kubernetes.api.client import ApiError
from coordinator.cluster.kubernetes.api.objects import status_of
from coordinator.cluster.kubernetes.api.pool import JSON
from coordinator.cluster.kubernetes.bind_requests.book import BindRequestBook
from coordinator.cluster.kubernetes.bind_requests.objects import BindRequest, path_of
from coordinator.cluster.kubernetes.state.pods import PodKey
from coordinator.cluster.kubernetes.writes.patch import ObjectServer

log = structlog.get_logger(__name__)


class DeletionResult(Enum):
    DONE = auto()
    GONE = auto()
    """It was not there any more."""
    CHANGED = auto()
    """It is another one now, which was read."""
    UNKNOWN = auto()


class RequestServer:
    """Reads and deletes BindRequests at the API server and keeps the book current."""

    def __init__(self, server: ObjectServer, book: BindRequestBook) -> None:
        self.looks = 0
        self._server = server
        self._book = book

    async def reread(self, key: PodKey) -> bool:
        """Read the request; False where that is not possible."""
        self.looks += 1
        try:
            body = await self._server.read(path_of(key))
        except ApiError as error:
            log.warning("Cannot look at a BindRequest", name="/".join(key), why=str(error))
            return False
        if body is not None:
            self._book.take(msgspec.convert(body, BindRequest))
        elif (current := self._book.of(key)) is not None:
            self._book.drop(key, current.request.metadata.uid)
        return True

    async def delete(self, request: BindRequest) -> DeletionResult:
        """Delete the request as it was when this was decided."""
        meta = request.metadata
        conditions = {"uid": meta.uid, "resourceVersion": meta.resource_version}
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": conditions}
        body = msgspec.json.encode(options)
        answer = await self._server.report("DELETE", request.path, body, JSON)
        match None if answer is None else answer.code:
            case HTTPStatus.OK | HTTPStatus.ACCEPTED:
                self._book.drop(request.key, meta.uid)
                return DeletionResult.DONE
            case HTTPStatus.NOT_FOUND:
                self._book.drop(request.key, meta.uid)
                return DeletionResult.GONE
            case HTTPStatus.CONFLICT | None:
                was_read = await self.reread(request.key)
                return DeletionResult.CHANGED if was_read else DeletionResult.UNKNOWN
            case _:
                assert answer is not None
                why = status_of(answer.body, answer.code).message
        log.warning("A BindRequest cannot be deleted", name="/".join(request.key), why=why)
        return DeletionResult.UNKNOWN
