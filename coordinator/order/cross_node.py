"""Keys of constraints that span nodes: pod (anti-)affinity terms, topology spread, volumes, claims,
disruption budgets.

Each such constraint has a *key*. The jobs that it constrains or counts are the key's members. A
statement that places or evicts tasks of a member increments the key's version in the ledger. It is
accepted only while the version equals the one that its worker got together with the placements of
all members. So no two shards decide on one key without seeing each other's latest change.

At most one turn that touches a key is open at a time: a second one would only be refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2s

from coordinator.jobs.state import JobState
from shard_worker.kube_scheduler.filters.volumes import bound
from shard_worker.session_model.selector_index import LabelIndex, LabelTerm, TermIndex
from shared.messages.messages import NOBODY
from shared.model.constraints import Selector
from shared.model.model import Job, Pairs, Role, TaskClass, WorldObject
from shared.model.storage import Budget, Volume, VolumeClaim

ASKED_FOR = -2
"""Stands in for a job's number where a turn would be open: no turn that touches the same budgets is
sent while an eviction that somebody asked for is on its way to the ledger."""

TERM, VOLUME, CLAIM, BUDGET = "term/", "volume/", "claim/", "budget/"
FREE = f"{VOLUME}free"
"""Members are all jobs with unbound claims, while there are free volumes to choose from."""
DEVICES = f"{CLAIM}devices"
"""Members are all jobs with device claims: any two may want the same device."""
OF_PLACING = (TERM, VOLUME, CLAIM)
"""Prefixes of the keys that matter for placing a member; a budget only matters for evictions."""


@dataclass(slots=True)
class Term:
    """A set of tasks that the rules of some jobs select."""

    asks: LabelTerm
    members: set[int] = field(default_factory=set)
    """jids of the selected jobs and of those with such a rule."""
    bound: set[int] = field(default_factory=set)
    """jids of the jobs that have such a rule."""


PodLabels = tuple[str, Pairs]
"""(namespace, labels) of tasks."""


class Spanning:
    """The members of each key, and the jobs that wait for an open turn on it."""

    def __init__(self, is_out: Callable[[int], bool] = lambda _: False) -> None:
        """``is_out``: whether a turn of this job is out."""
        self._is_out = is_out
        self.versions: dict[str, int] = {}
        """Key -> its version, as far as returned turns have reported."""
        self._terms: dict[str, Term] = {}
        """Budgets among them."""
        self._selecting = TermIndex[str]()
        """The terms, indexed by what they select."""
        self._alike: dict[PodLabels, dict[int, None]] = {}
        """Labels -> the jobs with tasks that have them: most jobs are like many others."""
        self._labels = LabelIndex[PodLabels]()
        """The keys of that by label: a term finds its members without asking every job."""
        self._keys: dict[int, set[str]] = {}
        self._shared: dict[str, set[int]] = {}
        """Volumes and claims: key -> members."""
        self._free: set[str] = set()
        """Volumes that no claim has yet."""
        self._bound: set[str] = set()
        """Keys of the claims that have their volumes."""
        self._jobs: dict[int, Job] = {}
        self._busy: dict[str, set[int]] = {}
        """Key -> the job whose turn is out. More than one only where turns were out already when
        the rule came that their jobs are members of."""
        self._taken: dict[int, dict[str, None]] = {}
        """The same by job: every outcome asks what its job had, of however many turns are out."""
        self._touched_later: dict[int, set[str]] = {}
        """Job -> keys beside those: of trees of queues that came to be touched by its open turn."""
        self.out_now: set[int] = set()
        """Jobs with a turn out that is more than a flat one, or that others wait for."""
        self._waiting: dict[str, list[tuple[int, int]]] = {}
        """Key -> (jid, stamp) of jobs that wait for that turn."""
        self._reported: dict[int, set[int]] = {}
        """Outstanding owner -> jobs of whose evictions the bind stream has reported since. The
        owner of a turn is its job; a shuffle, or an eviction on request, evicts in the name of
        any."""

    # --- members ------------------------------------------------------------------------------

    def put_job(self, job: Job, classes: dict[int, TaskClass]) -> None:
        """Add or update a job."""
        jid = job.jid
        if jid in self._jobs:
            self.drop_job(jid)
        self._jobs[jid] = job
        kinds = [(job.namespace, role.labels) for role in job.roles]
        for kind in kinds:
            if (alike := self._alike.get(kind)) is None:
                alike = self._alike[kind] = {}
                self._labels.add(kind, *kind)
            alike[jid] = None
        for role in job.roles:
            if classes[role.cid].constraints is not None:
                self._put_role(job, role, classes[role.cid])
        if self._terms:
            for namespace, labels in dict.fromkeys(kinds):
                for key in self._selecting.selecting(namespace, dict(labels)):
                    self._enter(key, self._terms[key], jid)
        # A job may become a member while its turn is open: its statement will move the key, so
        # others have to wait for it.
        if jid in self._keys and self._is_out(jid):
            self.take(jid, self.keys(jid))

    def _put_role(self, job: Job, role: Role, cls: TaskClass) -> None:
        rules = cls.constraints
        if rules is None:
            return
        for name in rules.volumes:
            self._share(f"{VOLUME}{job.namespace}/{name}", job.jid)
        if rules.volumes:
            self._share(FREE, job.jid)
        if rules.claims or rules.claim_templates:
            self._share(DEVICES, job.jid)
        for name in rules.claims:
            self._share(f"{CLAIM}{job.namespace}/{name}", job.jid)
        for pod_term in rules.pod_terms:
            spaces = pod_term.namespaces or (job.namespace,)
            self._bind(job.jid, pod_term.selector, spaces, pod_term.all_namespaces)
        for spread in rules.spreads:
            self._bind(job.jid, spread.selector, (job.namespace,), False)

    def _share(self, key: str, jid: int) -> None:
        self._shared.setdefault(key, set()).add(jid)
        self._keys.setdefault(jid, set()).add(key)

    def _bind(
        self, jid: int, selector: Selector | None, namespaces: tuple[str, ...], everywhere: bool
    ) -> None:
        """Make the job a member of its rule's term."""
        spaces = () if everywhere else tuple(sorted(namespaces))
        # By what the term selects, not by who has it: jobs with the same rule share one key, and
        # the name is the same for every leader, as the ledger has the key's version under it.
        description = repr((selector, spaces, everywhere)).encode()
        key = TERM + blake2s(description, digest_size=12).hexdigest()
        term = self._terms.get(key)
        if term is None:
            term = self._new(key, LabelTerm(None if everywhere else spaces, selector))
        term.members.add(jid)
        term.bound.add(jid)
        self._keys.setdefault(jid, set()).add(key)

    def _new(self, key: str, asks: LabelTerm) -> Term:
        term = self._terms[key] = Term(asks)
        self._selecting.add(key, asks)
        # By label and not job by job: 3,000 jobs that each keep away from their own label made 9
        # million questions (decision 0041).
        for kind in self._labels.selected(asks):
            for jid in self._alike[kind]:
                self._enter(key, term, jid)
        return term

    def _enter(self, key: str, term: Term, jid: int) -> None:
        """Add a member. A turn of the job that is already open counts for the key, too: others wait
        for it."""
        term.members.add(jid)
        self._keys.setdefault(jid, set()).add(key)
        if self._is_out(jid):
            self.take(jid, (key,))

    def drop_job(self, jid: int) -> None:
        """Remove a job that holds no node any more."""
        job = self._jobs.pop(jid, None)
        for kind in () if job is None else {(job.namespace, role.labels) for role in job.roles}:
            alike = self._alike[kind]
            del alike[jid]
            if not alike:
                del self._alike[kind]
                self._labels.discard(kind)
        for key in self._keys.pop(jid, ()):
            members = self._shared.get(key)
            if members is not None:
                members.discard(jid)
                if not members:
                    del self._shared[key]
            elif (term := self._terms.get(key)) is not None:
                term.members.discard(jid)
                term.bound.discard(jid)
                if not term.bound and key.startswith(TERM):
                    self._forget(key)

    def put_object(self, value: WorldObject) -> None:
        if isinstance(value, Budget):
            key = f"{BUDGET}{value.namespace}/{value.name}"
            self._forget(key)
            self._new(key, LabelTerm((value.namespace,), value.selector))
        else:
            self._put_storage(value, present=True)

    def drop_object(self, value: WorldObject) -> None:
        if isinstance(value, Budget):
            self._forget(f"{BUDGET}{value.namespace}/{value.name}")
        else:
            self._put_storage(value, present=False)

    def _put_storage(self, value: WorldObject, *, present: bool) -> None:
        """Update which jobs choose among free volumes, after a change of volumes or claims."""
        before = bool(self._free)
        if isinstance(value, Volume):
            free = present and not value.claim
            (self._free.add if free else self._free.discard)(value.name)
        elif isinstance(value, VolumeClaim):
            key = f"{VOLUME}{value.namespace}/{value.name}"
            (self._bound.add if present and bound(value) else self._bound.discard)(key)
        else:
            return
        if bool(self._free) > before:
            for jid in self._shared.get(FREE, ()):
                if self._is_out(jid):
                    self.take(jid, (FREE,))

    def _forget(self, key: str) -> None:
        term = self._terms.pop(key, None)
        self._selecting.discard(key)
        for jid in () if term is None else term.members:
            keys = self._keys.get(jid, set())
            keys.discard(key)
            if not keys:
                self._keys.pop(jid, None)

    # --- what turns ask -----------------------------------------------------------------------

    @property
    def any(self) -> bool:
        """Whether any constraint spans nodes."""
        return bool(self._keys)

    def touches(self, jid: int) -> bool:
        """Whether placing tasks of this job depends on the placements of other jobs."""
        keys = self._keys.get(jid) if self._keys else None
        # Not its budgets: those matter to whoever evicts.
        return bool(keys) and any(key.startswith(OF_PLACING) for key in keys or ())

    def likeness(self, job: Job) -> Hashable:
        """Inputs by which the placing of a job differs from that of others of the same classes: its
        namespace, volumes and claims, the terms that it is a member of, and those that select each
        of its roles. None where its placing depends on no other job."""
        if not self.touches(job.jid):
            return None
        keys = tuple(key for key in self.keys(job.jid) if key.startswith(OF_PLACING))
        selecting = (
            self._selecting.selecting(job.namespace, dict(role.labels)) for role in job.roles
        )
        # Not the budgets among them, here as above.
        selected = (sorted(key for key in term if key in keys) for term in selecting)
        return job.namespace, keys, tuple(map(tuple, selected))

    def keys(self, jid: int) -> list[str]:
        """The keys that the job is a member of."""
        return sorted(k for k in self._keys.get(jid, ()) if k != FREE or self._chooses(jid))

    def keyed(self) -> set[int]:
        """All jobs that are members of any key."""
        free = {FREE}
        return {jid for jid, keys in self._keys.items() if keys != free or self._chooses(jid)}

    def _chooses(self, jid: int) -> bool:
        """Whether placing the job's tasks may bind a free volume."""
        claims = (key for key in self._keys[jid] if key.startswith(VOLUME) and key != FREE)
        return bool(self._free) and any(key not in self._bound for key in claims)

    def members(self, keys: Iterable[str]) -> set[int]:
        """All jobs that are members of any of these."""
        members: set[int] = set()
        for key in keys:
            term = self._terms.get(key)
            members |= self._shared.get(key, set()) if term is None else term.members
        return members

    # --- one turn at a time -------------------------------------------------------------------

    def busy(self, keys: Iterable[str], state: JobState) -> bool:
        """Whether a turn that touches one of these keys is open; if so, the job waits until it
        returns."""
        for key in keys:
            # At most one turn that touches a key is out; a second one would be planned on the old
            # count and refused by the ledger (decision 0029).
            if self._busy.get(key, set()) - {state.job.jid}:
                self._waiting.setdefault(key, []).append((state.job.jid, state.stamp))
                return True
        return False

    def touched(self, keys: Iterable[str]) -> bool:
        """Whether a turn that touches one of these keys is open."""
        return any(key in self._busy for key in keys)

    def take(self, jid: int, keys: Collection[str]) -> None:
        """Note that a turn of the job which touches these keys was opened."""
        self.out_now.add(jid)
        self._reported.pop(jid, None)
        self._hold(jid, keys)

    def touch(self, jid: int, keys: Collection[str]) -> None:
        """Note that the job's open turn touches these keys as well, until it returns. Its statement
        does not move them: after it was lost they are not read again."""
        if jid in self._taken:
            further = [key for key in keys if key not in self._taken[jid]]
            self._touched_later.setdefault(jid, set()).update(further)
            for key in further:
                self._busy.setdefault(key, set()).add(jid)

    def _hold(self, by: int, keys: Collection[str]) -> None:
        if keys:
            self._taken.setdefault(by, {}).update(dict.fromkeys(keys))
        for key in keys:
            self._busy.setdefault(key, set()).add(by)

    def give_back(self, jid: int) -> list[tuple[int, int]]:
        """Note that the job's turn returned, or was reread. Returns the jobs that waited: (jid,
        stamp)."""
        self._reported.pop(jid, None)
        return self._let_go(jid)

    def _let_go(self, jid: int) -> list[tuple[int, int]]:
        woken: list[tuple[int, int]] = []
        for key in dict.fromkeys((*self._taken.pop(jid, ()), *self._touched_later.pop(jid, ()))):
            self._busy[key].discard(jid)
            if not self._busy[key]:
                del self._busy[key]
                woken += self._waiting.pop(key, [])
        return woken

    # --- word of evictions --------------------------------------------------------------------

    # The books have a victim as leaving once the bind stream tells of it, which may be before the
    # outcome of the turn and after it. In between, the outcome has moved the keys' versions: a
    # turn context would vouch with them for books that count the victims as healthy, and a budget
    # would let others go as well (seed 131676). So the keys stay busy until both have come.

    def accepted(
        self, by: int, keys: Mapping[str, int], *, evicts: bool, out_as: int | None = None
    ) -> None:
        """A statement of this job moved the keys (by how much). ``evicts``: and evicted tasks.
        ``out_as``: NOBODY where a shuffle made it and ASKED_FOR where somebody asked; None: the
        job's own turn."""
        self.moved(keys)
        reported = self._reported.get(by if out_as is None else out_as, ())
        if evicts and keys and by not in reported:
            self._hold(_awaiting_word(by), {*keys, *self._touched_later.get(by, ())})

    def evictions_reported(self, by: int) -> list[tuple[int, int]]:
        """The bind stream told of what a statement of this job evicts. Returns the jobs that
        waited for that: (jid, stamp)."""
        if _awaiting_word(by) in self._taken:
            return self._let_go(_awaiting_word(by))
        # Where both are on their way the word may be of either. Rather none is waited for than one
        # for which no word comes any more: its keys would be busy for ever (seed 223).
        for out in (by, NOBODY, ASKED_FOR):
            if out in self.out_now:
                self._reported.setdefault(out, set()).add(by)
        return []

    def out(self, jids: Collection[int]) -> list[str]:
        """Keys that the open turns of these jobs touch."""
        return list(dict.fromkeys(key for jid in jids for key in self._taken.get(jid, ())))

    def counted_by_budgets(self, jids: Collection[int]) -> list[int]:
        """The members of the budgets that open turns of these jobs touch."""
        return sorted(self.members(key for key in self.out(jids) if key.startswith(BUDGET)))

    def know(
        self, jids: Collection[int], versions: Mapping[str, int], *, unheard: Collection[int]
    ) -> None:
        """Take the ledger's versions of the keys of jobs whose turns were lost. No other open turn
        touches these keys. ``unheard``: the jobs for whom the ledger has evictions of which the
        bind stream has not told yet."""
        for key in self.out(jids):
            # Read from the ledger: whether the lost statement moved the key, nobody else can say.
            self.versions[key] = versions.get(key, 0)
        for jid in unheard:
            # By its own lost turn or by a lost shuffle: the records do not say which.
            for lost in {jid, NOBODY}.intersection(jids):
                self._hold(_awaiting_word(jid), self._taken.get(lost, {}))

    def moved(self, by: Mapping[str, int]) -> None:
        """Count an accepted statement: key -> increments of its version."""
        for key, times in by.items():
            self.versions[key] = self.versions.get(key, 0) + times


def _awaiting_word(by: int) -> int:
    """Owner id of a statement's keys until the bind stream reports its evictions: -10 or less,
    because -1 to -9 stand for requests without a job."""
    return -10 - by
