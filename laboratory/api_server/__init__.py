"""A double of the Kubernetes API server, in memory: what our driver and hollow kubelets ask of one.

It answers as the real one does (``tests/kubernetes/api_server`` sends random requests to both), and
refuses loudly what it does not know: a request that it has no rule for raises :class:`NotServed`
and never gets an answer that looks right.

=================  =============================================================================
``server``         a request in, an answer or a watch out; no I/O, the clock and uids are given
``store``          objects by version: lists, changes since a version, compaction
``metadata``       what holds for objects of every kind: versions, generation, deletion
``patches``        merge patches and strategic merge patches
``kinds``          which kinds are served; ``defaults``: what the server adds to their objects
``pods``           pods, their bindings and their deletion; ``evictions``: with budgets
``effects``        faults that a request meets; ``selectors``: fields and labels
``discovery``      what clients ask first
``http_edge``      the same over HTTP, on any transport of an event loop
=================  =============================================================================
"""
