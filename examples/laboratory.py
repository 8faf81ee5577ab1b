"""A recorded week under two numbers of shards, with the laboratory's Python API.

Run it with the Python that quadrant is installed in: ``python examples/laboratory.py``.
"""

import numpy as np

from laboratory import Cluster, Week, run

# 1. A week: columns of the jobs. Week.read("week.csv") reads a file.
rng = np.random.default_rng(1)
jobs = 40
week = Week.of(
    submit=np.sort(rng.uniform(0, 20_000, jobs)),
    duration=rng.choice([600, 1800, 3600], jobs),
    gpus=rng.choice([1, 2, 4, 8], jobs),
    queue=rng.choice(["prod", "dev"], jobs),
)

# 2. A cluster: equal nodes, or Cluster.read("nodes.csv").
cluster = Cluster.equal(2, gpus=8)

# 3. Play it. The same seed gives the same digits.
for shards in (1, 2):
    played = run(week, cluster, shards=shards, seed=7)
    late = int(np.argmax(played.wait))
    print(  # noqa: T201
        f"{shards} shards: mean wait {played.wait.mean():,.0f} s, "
        f"longest job {played.week.name[late]} with {played.wait[late]:,.0f} s, "
        f"end after {played.end.max():,.0f} s"
    )
