"""Secrets on disk and in addresses: files and directories of this user alone, nothing shown."""
