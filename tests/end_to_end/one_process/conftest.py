from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def kai(tmp_path: Path) -> str:
    """A policy file of KAI's with all defaults."""
    file = tmp_path / "kai.yaml"
    file.write_text("dialect: kai\n")
    return str(file)
