"""The plugin API: session, statement, extension points and the types of rules.

Our own plugins import these files; others' import :mod:`shard_worker.framework.plugin` alone.
"""
