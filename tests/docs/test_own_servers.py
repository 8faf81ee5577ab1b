"""Pages that start a server with a policy or nodes of their own.

In a file for themselves, since the tests of one file run one after the other.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.pages import name
from tests.docs.reader import RUN_PAGES, read, starts_its_own

pytestmark = pytest.mark.all


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("page", [p for p in RUN_PAGES if starts_its_own(p)], ids=name)
def test_every_command_block_does_what_the_page_says(page: Path, tmp_path: Path) -> None:
    read(page, None, tmp_path)
