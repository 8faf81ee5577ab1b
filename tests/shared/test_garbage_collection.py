"""Settings of the garbage collector in a process."""

from __future__ import annotations

import gc
import weakref
from dataclasses import dataclass

from shared.garbage_collection import leave_loaded_objects_alone


@dataclass(eq=False)
class Loaded:
    """Something large that refers to itself."""

    itself: Loaded | None = None


def loaded() -> Loaded:
    view = Loaded()
    view.itself = view
    return view


def test_loaded_objects_are_frozen_out_of_collection() -> None:
    view = loaded()
    leave_loaded_objects_alone()
    assert not any(one is view for one in gc.get_objects())


def test_unused_frozen_objects_are_collected_at_the_next_freeze() -> None:
    view = loaded()
    leave_loaded_objects_alone()
    before, view = weakref.ref(view), loaded()
    gc.collect()
    assert before() is not None, "nobody looks, so that it costs nothing"
    leave_loaded_objects_alone()
    assert before() is None
    assert view.itself is view
