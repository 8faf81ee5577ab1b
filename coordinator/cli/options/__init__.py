"""Shared parts of all commands: option types, errors with an exit code, loading when called."""
