"""Plugins that rank the devices of a node, and nodes by the devices in use there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from shard_worker.dialects.kai.devices import device_columns, parts, request_of
from shard_worker.dialects.kai.session import KaiSession
from shard_worker.framework.rules import Mask, Scores
from shard_worker.session_model.job import TaskInfo
from shared.model.gpu_request import WHOLE

if TYPE_CHECKING:
    from shard_worker.session_model.world import World

SHARING = 1e4


def gpu_pack(ssn: KaiSession) -> None:
    """gpupack: the fullest device that still has room."""
    ssn.add_gpu_order_fn(lambda used: (used or 0) / WHOLE)


def gpu_spread(ssn: KaiSession) -> None:
    """gpuspread: the emptiest device."""
    ssn.add_gpu_order_fn(lambda used: 1 - (used or 0) / WHOLE)


def gpu_sharing_order(ssn: KaiSession) -> None:
    """gpusharingorder: nodes with a device in use that has room for the share."""
    ssn.add_batch_node_order_fn(_shareable)


def _shareable(task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
    request = request_of(task, world.view.slot_names)
    if request is None or request.is_whole:
        return np.zeros(len(rows), np.float64)
    columns = device_columns(world)
    open_devices = _in_use(parts(request, world), columns.there, columns.future)
    return np.where(open_devices[rows] > 0, SHARING, 0.0)


def _in_use(part: NDArray[np.int64], there: Mask, future: NDArray[np.int64]) -> NDArray[np.int64]:
    """Devices of each row that somebody is on, with room for the share."""
    count: NDArray[np.int64] = (there & (future < WHOLE) & (future >= part)).sum(axis=0)
    return count
