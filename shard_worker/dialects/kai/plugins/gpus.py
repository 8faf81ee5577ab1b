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
from shared.policy.model import PluginOption

if TYPE_CHECKING:
    from shard_worker.session_model.world import World

SHARING = 1e4


class GpuPack:
    """gpupack: the fullest device that still has room."""

    name = "gpupack"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_gpu_order_fn(lambda used: (used or 0) / WHOLE)


class GpuSpread:
    """gpuspread: the emptiest device."""

    name = "gpuspread"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_gpu_order_fn(lambda used: 1 - (used or 0) / WHOLE)


class GpuSharingOrder:
    """gpusharingorder: nodes with a device in use that has room for the share."""

    name = "gpusharingorder"

    def __init__(self, option: PluginOption) -> None:
        del option

    def on_session_open(self, ssn: KaiSession) -> None:
        ssn.add_batch_node_order_fn(_shareable)


def _shareable(task: TaskInfo, rows: NDArray[np.intp], world: World) -> Scores:
    request = request_of(task, world.view.slot_names)
    if request is None or request.part == WHOLE:
        return np.zeros(len(rows), np.float64)
    columns = device_columns(world)
    shared = columns.there & (columns.future < WHOLE)
    fits: Mask = (shared & (columns.future >= parts(request, world))).sum(axis=0) > 0
    return np.where(fits[rows], SHARING, 0.0)
