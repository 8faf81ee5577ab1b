"""``quadrant bench``. The run itself is in bench_run."""

from __future__ import annotations

import typer

from coordinator.cli.options.policy_file import check_policy_early
from laboratory.cli.bench.bench_options import SESSION_ONLY, BenchOptions, BenchSize

KAI_SHAPES = (BenchSize.RECLAIM_MANY, BenchSize.CONSOLIDATE, BenchSize.TOPOLOGY)


def bench(*, options: BenchOptions) -> None:
    """Measure tasks per second, and what each task costs every process

    Twice: first every pod is an object of its own, sent in Lists of 500 over HTTP; then one Job has
    as many tasks. The time runs from the first submission until the ledger has durably recorded the
    answer to the last bind; loading the nodes is not counted. The load comes from this process, on
    the same cores, and its CPU is shown. Afterwards the checker reads the history. Figures can be
    compared where the policy is the same: it is printed with them.

    reclaim is another one: a queue has every GPU of the cluster with jobs of one task, and a gang
    of whole nodes from a queue of the same weight takes half of them back. The time runs from the
    gang's submission until the cluster was told of the last eviction.

    fill runs under KAI's default policy: as many jobs of one GPU as an empty cluster has GPUs, each
    a pod of its own. fractions has two jobs for each GPU, of half of it each. The time runs from
    the first submission until the last bind.

    kubernetes starts an API server and etcd of its own from the programs in --servers, and has
    their pods bound: by Quadrant, then by each scheduler of --against, on a fresh server each. The
    time is from the first bind to the last. Nodes are objects alone; with --kubelets pods are
    created meanwhile, and started by hollow kubelets in this process, on the same cores.

    reclaim-many, consolidate and topology run under KAI's default policy as well: single jobs take
    back half of a full cluster; gangs of whole nodes get them where one GPU of each is taken; gangs
    are placed in a rack each. idle has nothing to place, and tells what that costs.

    With --session the core decides alone, in this process: reclaim, reclaim-many, reclaim-never and
    consolidate search victims under KAI's policy, fractions gives shares of GPUs. The time is that
    of the action; building the cluster is not counted.
    """
    check_policy_early(policy=None if options.policy is None else options.policy.absolute())
    if options.session or options.size in SESSION_ONLY:
        from laboratory.cli.bench.bench_session import run_session_bench

        code = run_session_bench(options)
    elif options.size is BenchSize.RECLAIM:
        from laboratory.cli.bench.bench_reclaim import run_reclaim

        code = run_reclaim(options)
    elif options.size in (BenchSize.FILL, BenchSize.FRACTIONS):
        from laboratory.cli.bench.bench_fill import run_fill

        code = run_fill(options)
    elif options.size is BenchSize.IDLE:
        from laboratory.cli.bench.bench_idle import run_idle

        code = run_idle(options)
    elif options.size in KAI_SHAPES:
        from laboratory.cli.bench.bench_kai import run_kai_shape

        code = run_kai_shape(options)
    elif options.size is BenchSize.KUBERNETES:
        from laboratory.cli.bench.bench_kubernetes import run_on_kubernetes

        code = run_on_kubernetes(options)
    else:
        from laboratory.cli.bench.bench_run import run_bench

        code = run_bench(options)
    if code:
        raise typer.Exit(code)
