"""Reasons why a node does not take a task, worded as in events and explanations."""

from __future__ import annotations

FOREIGN = "node isn't in scheduler node shard"
STALE_SPEC = "node's specification is being read again"
QUARANTINED = "node is quarantined: it refused bind after bind"
PARTLY = "node(s) had room for a part of the gang only"
OVER_QUEUE = "node(s) where the share of a GPU was more than its queue may have"
NO_DEVICE = "Insufficient room on the devices of their GPUs"
