"""The policy file at run time: read every second, adopted where it is valid.

A change takes effect once two reads found the same content, so that a partly written file is not
used. An invalid file only changes the reported status.

The last valid policy is also kept in the run directory. A coordinator that starts while the file is
invalid uses that, as its predecessor did; without one it refuses to start.
"""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import orjson
import structlog

from coordinator.intake.intake import Intake
from shard_worker.dialects.open_session import open_session
from shard_worker.framework.plugin_errors import Contain
from shard_worker.framework.session import Session
from shared.model.node_pool import node_pool_of
from shared.policy.dialect import parse_policy
from shared.policy.file import ACCEPTED_FILE, read_text, unwrap
from shared.policy.kai_model import flattens_queues
from shared.policy.model import Policy, PolicyError, PolicyProblem
from shared.policy.volcano import DEFAULT_POLICY
from shared.secrets.credentials import hide_credentials
from shared.settings.settings import PREFIX, Settings, SettingsError

log = structlog.get_logger(__name__)


class PolicyFollower:
    """``content``: the policy in force, None = the default. ``generation``: rises with each
    change."""

    def __init__(self, settings: Settings, *, contain: Contain | None = None) -> None:
        """Reads the file. Raises SettingsError where it is invalid and no earlier policy is
        kept. ``contain``: takes what rules of the sessions raise."""
        self._contain = contain
        self._named_ours = settings.our_scheduler_names
        self.ours = self._named_ours
        """The values of schedulerName that are ours, that of the policy in force included."""
        self._group_wait = settings.group_wait
        self.file = settings.policy
        self.content: dict[str, Any] | None = None
        self.generation = 0
        self.error: str | None = None
        self._kept = settings.run_dir / ACCEPTED_FILE
        self._loaded = time.time()
        self._text: str | None = None
        """The text of the last read; None where it failed."""
        self._settled = True
        if self.file is not None:
            self._begin(settings)

    def _begin(self, settings: Settings) -> None:
        try:
            self.content = _plain(settings.read_policy() or {})
            open_session(parse_policy(self.content))
        except (SettingsError, PolicyError) as error:
            self.content = self._recall()
            if self.content is None:
                raise SettingsError(_told(self.file, error)) from None
            self._refuse(_told(self.file, error))
        else:
            self._keep()
        self._text, _ = self._read()

    def session(self) -> Session:
        """A session of the policy in force."""
        policy = DEFAULT_POLICY if self.content is None else parse_policy(self.content)
        return self._in_service(open_session(policy))

    def _in_service(self, session: Session) -> Session:
        session.contain = self._contain
        self.ours = self._named_ours | session.policy.scheduler_names
        session.eligibility.ours = self.ours
        return session

    def look(self) -> Session | None:
        """Read the file; returns a session where the policy changed, else None. May block."""
        if self.file is None:
            return None
        text, error = self._read()
        if error is not None:
            self._refuse(error)
        if text != self._text:
            self._text, self._settled = text, False
            return None
        if self._settled or text is None:
            return None
        self._settled = True
        return self._take(text)

    def _take(self, text: str) -> Session | None:
        try:
            content = _plain(unwrap(text).document)
            policy = parse_policy(content)
            self._check_dialect(policy)
            session = open_session(policy)
        except PolicyError as error:
            self._refuse(_told(self.file, error))
            return None
        self.error, self._loaded = None, time.time()
        if content == self.content:
            log.info("Read the policy again: it says the same", file=str(self.file))
            return None
        self.content = content
        self.generation += 1
        self._keep()
        log.info(
            "Took up a new policy",
            file=str(self.file),
            actions=", ".join(session.policy.actions),
            plugins=", ".join(option.name for tier in session.policy.tiers for option in tier),
            warnings=session.warnings,
        )
        return self._in_service(session)

    def open_intake(self, policy: Policy, *, observed: bool = False) -> Intake:
        """Create the intake that admits objects under a policy. ``observed``: of a watched cluster,
        which passes on only pods for this scheduler, with their creation times."""
        return Intake(
            ours=None if observed else self.ours,
            dialect=policy.dialect,
            flat=flattens_queues(policy.kai),
            dated=observed,
            group_wait=self._group_wait if observed else 0.0,
        )

    def _check_dialect(self, policy: Policy) -> None:
        """Refuse another dialect: queues and groups of the one in force would stop to count. So
        would the bounds of queues above others with another shape of the tree."""
        present = DEFAULT_POLICY if self.content is None else parse_policy(self.content)
        if policy.dialect is not present.dialect:
            message = (
                f"the policy is {policy.dialect.scheduler}'s now ({policy.dialect_because}), and "
                f"{present.dialect.scheduler}'s is in force; a change of dialect takes a restart"
            )
            raise PolicyError(PolicyProblem("dialect", message))
        if flattens_queues(policy.kai) is not flattens_queues(present.kai):
            message = "it changes which queues have bounds, which takes a restart"
            raise PolicyError(PolicyProblem("options.full-hierarchy-fairness", message))
        if node_pool_of(policy) != node_pool_of(present):
            message = "it changes which nodes, queues and PodGroups exist, which takes a restart"
            raise PolicyError(PolicyProblem("options.partition-label-value", message))

    def status(self) -> dict[str, Any]:
        """``error``: why the file's present content is not in force, None where it is."""
        return {
            "file": None if self.file is None else str(self.file),
            "loaded_at": round(self._loaded, 3),
            "error": self.error,
        }

    # --- files --------------------------------------------------------------------------------

    def _read(self) -> tuple[str | None, str | None]:
        """(text, None), or (None, the error) where the file cannot be read."""
        assert self.file is not None
        try:
            return read_text(self.file), None
        except OSError as error:
            return None, f"{self.file}: cannot read it: {error.strerror}; put it back"
        except PolicyError as error:
            return None, _told(self.file, error)

    def _refuse(self, error: str) -> None:
        """Report the error once; the policy in force stays."""
        if error != self.error:
            log.error("Kept the old policy: the file cannot be used", error=error)
        self.error = error

    def _keep(self) -> None:
        """Keep the policy in force for a later start."""
        record = {"file": str(self.file), "policy": self.content}
        draft = self._kept.with_suffix(".new")
        try:
            draft.touch(mode=0o600)  # an argument of a plugin may be an address with a password
            draft.write_bytes(orjson.dumps(record))
            # A rename: a start in between reads the old policy or the new one, never half of one.
            draft.replace(self._kept)
        except OSError as error:
            log.warning(
                "Could not keep the policy for a restart",
                error=f"{draft}: {error.strerror}; make {PREFIX}RUN_DIR writable",
            )

    def _recall(self) -> dict[str, Any] | None:
        """The kept policy of this very file; None where there is none, or it is invalid too."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            record = orjson.loads(self._kept.read_bytes())
            if record["file"] == str(self.file):
                content: dict[str, Any] = record["policy"]
                open_session(parse_policy(content))
                return content
        return None


def _plain(document: dict[str, Any]) -> dict[str, Any]:
    """The document as plain values, which every message can carry. YAML also has dates; they have
    no effect in a policy."""
    plain: dict[str, Any] = orjson.loads(
        orjson.dumps(document, default=str, option=orjson.OPT_NON_STR_KEYS)
    )
    return plain


def _told(file: Path | None, error: ValueError) -> str:
    text = hide_credentials("; ".join(str(error).splitlines()))
    return text if str(file) in text else f"{file}: {text}"
