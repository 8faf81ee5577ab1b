"""``quadrant bench``. The run itself is in bench_run."""

from __future__ import annotations

import typer

from coordinator.cli.options.policy_file import check_policy_early
from laboratory.cli.bench.bench_options import BenchOptions, BenchSize


def bench(*, options: BenchOptions) -> None:
    """Measure tasks per second, and the cost of a task in each process

    A shape is a cluster, what runs on it before (not counted), and one or two loads that are
    submitted and timed. The time runs from the first submission until the ledger has durably
    recorded the answer to the last bind; with reclaim until the cluster was told of the last
    eviction, with consolidate until the last place is promised. The load comes from this process,
    on the same cores, and its CPU is shown. Afterwards the checker reads the history. Figures can
    be compared where the policy is the same: it is printed with them.

    basic and wide have two loads: every pod an object of its own, sent in Lists of 500 over HTTP;
    then one Job with as many tasks. All others but reclaim run under KAI's default policy. idle
    places nothing, and tells what a minute of that costs.

    kubernetes starts an API server and etcd of its own from the programs in --servers, and has
    their pods bound: by Quadrant, then by each scheduler of --against, on a fresh server each. The
    time is from the first bind to the last. Nodes are objects alone; with --kubelets pods are
    created meanwhile, and started by hollow kubelets in this process, on the same cores.

    scale is basic with each number of shards in each mode, and tells what each process costs a
    task, conflicts, which process would be the limit if each had a core, and the rate then.

      quadrant bench scale --shards 1,2,4,8,16 --mode none,soft,hard -o html > scale.html
    """
    check_policy_early(policy=None if options.policy is None else options.policy.absolute())
    if options.size is BenchSize.KUBERNETES:
        from laboratory.cli.bench.bench_kubernetes import run_on_kubernetes

        code = run_on_kubernetes(options)
    elif options.size is BenchSize.SCALE:
        from laboratory.cli.bench.bench_scale import run_scale

        code = run_scale(options)
    else:
        from laboratory.cli.bench.bench_run import run_bench

        code = run_bench(options)
    if code:
        raise typer.Exit(code)
