"""Write how each object that placement reads is stored: ``python -m
tests.shared.records.record_world_objects``.

Only where a change of what is stored is wanted: it is another schema then
(``tests/shared/ledger/migration``).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from shared.records import specs
from tests.coordinator.intake.world_objects import WORLD

FILE = Path(__file__).with_name("world_objects.json")


def main() -> None:
    stored = {name: specs.encode_object(value).hex() for name, (_, value) in WORLD.items()}
    FILE.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    sys.stdout.write(f"{FILE}\n")


if __name__ == "__main__":
    main()
