"""Encoding: sealed bytes with strict checks, and dataclasses as msgpack arrays."""
