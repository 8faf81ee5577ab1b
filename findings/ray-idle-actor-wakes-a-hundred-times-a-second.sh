#!/usr/bin/env bash
# Ray: an actor that nobody calls wakes some hundred times a second, for ever.
#
# The main thread of an actor's process has nothing to do between calls, and yet looks for a signal every
# hundredth of a second; other threads add half as much again. Measured on two cores, one idle actor took 7 ms of
# processor time a second, which makes most of a core for 100 actors that only wait, also with `num_cpus=0`.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
RAY=2.60.0
python3 -m venv "$work/venv"
"$work/venv/bin/pip" --disable-pip-version-check install --quiet "ray==$RAY"
cd "$work"

seen=$(HOME=$work venv/bin/python - <<'PYTHON'
import os
import time
from pathlib import Path

import ray

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")


@ray.remote(num_cpus=0)
class Idle:
    def pid(self) -> int:
        return os.getpid()


def waits(pid: int) -> int:
    """How often the main thread has gone to sleep by itself."""
    lines = Path(f"/proc/{pid}/task/{pid}/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("voluntary_ctxt_switches")))


actor = Idle.remote()
pid = ray.get(actor.pid.remote())
time.sleep(5)  # until it has started whatever it starts
before = waits(pid)
time.sleep(20)
a_second = (waits(pid) - before) / 20
print(f"SEEN main thread of an idle actor: {a_second:.0f} sleeps a second")
PYTHON
)
echo "Ray $RAY: $seen"
number=$(sed -n 's/^SEEN .*: \([0-9]*\) sleeps.*/\1/p' <<<"$seen")
[ "${number:-0}" -gt 50 ] || { echo "This has changed." && exit 1; }
