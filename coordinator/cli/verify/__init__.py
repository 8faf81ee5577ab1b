"""Commands that verify: chaos, replay, snapshot, scaling."""
