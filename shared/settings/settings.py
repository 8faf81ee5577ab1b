"""The settings of every process: ``QUADRANT_*`` in the environment, and what each of them means.

Order: what a command's flags say (:func:`load_settings`'s arguments), then the environment, then
the file that ``QUADRANT_SETTINGS_FILE`` names, then the default. A name that is not known is
refused, with the nearest that is. A nested value would be written with two underscores
(``QUADRANT_GROUP__NAME``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from shared.ledger.redis.access import Access, check_files, check_url
from shared.policy.file import read_text, unwrap
from shared.policy.model import PolicyError
from shared.settings.addresses import parse_names, parse_networks
from shared.settings.cluster import (
    check_cluster,
    check_listener,
    reviews_access,
    scheduler_names,
)
from shared.settings.file import read_secret, read_settings_file, variable_of
from shared.settings.mistakes import VARIABLE_PREFIX, explain, near, unknown_variables
from shared.settings.places import DATA, default_history, default_run_dir, durable_dir

PREFIX = VARIABLE_PREFIX

Mode = Literal["none", "soft", "hard"]
Count = Annotated[int, Field(ge=1)]
Port = Annotated[int, Field(ge=0, le=65535)]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]

_TLS_FILES = ("redis_ca_file", "redis_cert_file", "redis_key_file")

_SERVER_FILES = ("redis_password", "ray_token")
"""Secrets that may also come from a file, named by ``QUADRANT_<NAME>_FILE``."""


class SettingsError(ValueError):
    """One line for each setting that is wrong: the variable, what is wrong, the remedy."""


class Settings(BaseSettings):
    """Read-only. Build it with :func:`load_settings`, whose errors name the variables."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
        validate_default=False,
    )

    # --- where --------------------------------------------------------------------------------
    settings_file: Path | None = Field(
        None, description="YAML file with settings (shards: 8), for what no variable sets"
    )
    run_dir: Path = Field(
        default_factory=default_run_dir,
        description="directory of sockets, logs and tokens; keep its path short",
    )
    data_dir: Path = Field(
        default_factory=lambda data: durable_dir(data["run_dir"]) / DATA,
        description="directory of the embedded ledger's files, and of what is known of any ledger",
    )
    history: Path = Field(
        default_factory=lambda data: default_history(data["run_dir"], data["data_dir"]),
        description="file the history is appended to",
    )
    policy: Path | None = Field(None, description="configuration file of Volcano or KAI")

    # --- the parts ----------------------------------------------------------------------------
    redis_url: str | None = Field(
        None,
        pattern=r"^(redis|rediss|unix)://.+",
        description="redis://HOST:PORT, rediss://HOST:PORT or unix://PATH; unset = embedded ledger",
    )
    fsync: Literal["always", "everysec", "no"] = Field(
        "always", description="when the ledger is synced to disk: always, everysec or no"
    )
    cluster_id: str = Field(
        "", pattern=r"^[\w.-]{0,64}$", description="id the ledger must have; unset = as remembered"
    )
    redis_username: str | None = Field(
        None, description="user of the ledger's server; unset = its default user"
    )
    redis_password: SecretStr | None = Field(None, description="password of the ledger's server")
    redis_password_file: Path | None = Field(None, description="file with that password")
    redis_ca_file: Path | None = Field(
        None, description="certificates believed for rediss://; unset = those the system believes"
    )
    redis_cert_file: Path | None = Field(
        None, description="certificate to show to the ledger's server, where it asks for one"
    )
    redis_key_file: Path | None = Field(None, description="key of that certificate")
    ray_address: str | None = Field(None, description="HOST:PORT of a Ray head; unset = start one")
    ray_token: SecretStr | None = Field(None, description="token of the Ray cluster")
    ray_token_file: Path | None = Field(None, description="file with that token")
    ray_object_store_bytes: int = Field(
        100 * 2**20, ge=80 * 2**20, description="memory of Ray's object store, at least 80 MiB"
    )
    worker_cpus: float = Field(
        0.0, ge=0, allow_inf_nan=False, description="CPUs of Ray for each shard worker, e.g. 1"
    )
    """Above 0, none is started on a Ray node that offers no CPU: the head, the coordinator's."""
    cluster_socket: str | None = Field(
        None, description="socket of a running cluster process; unset = start one"
    )
    kubeconfig: Path | None = Field(
        None, description="kubeconfig of a Kubernetes cluster to schedule; unset = a simulated one"
    )
    kube_context: str | None = Field(
        None, description="context of that kubeconfig; unset = its current one"
    )
    in_cluster: bool = Field(
        False, description="schedule the Kubernetes cluster that this runs in, as a pod"
    )
    shadow: bool = Field(
        False,
        description="with a Kubernetes cluster: decide beside its scheduler, and write nothing",
    )
    binder: Literal["quadrant", "kai"] = Field(
        "quadrant",
        description="who binds pods of a Kubernetes cluster: quadrant, or kai = KAI's binder, by "
        "BindRequests, under a policy of KAI's",
    )
    group_wait: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=False,
        description="seconds that a pod of a Kubernetes cluster without a PodGroup waits for a "
        "controller to name one, then it counts as a job of its own; unset = 10 once a PodGroup "
        "with an owner shows such a controller, before that 0",
    )
    cluster_faults: str = Field(
        "", description="faults of the simulated cluster, e.g. refuse=0.01,duplicate=0.1"
    )
    listen_host: str = Field("127.0.0.1", description="address the coordinator listens on")
    listen_port: Port = Field(0, description="its port; 0 = any that is free")
    allowed_hosts: str = Field(
        "",
        description="names under which clients may ask, separated by commas, beside addresses and "
        "localhost; .example.com = all below it",
    )
    proxies: str = Field(
        "",
        description="addresses or networks of proxies, separated by commas: connections from one "
        "of them are not counted as those of one client",
    )
    tls_cert_file: Path | None = Field(
        None, description="certificate of the listener, followed when it is renewed; unset = HTTP"
    )
    tls_key_file: Path | None = Field(None, description="key of that certificate")
    tokens_file: Path | None = Field(
        None, description="file of tokens, made by quadrant token new; unset = only on loopback"
    )
    access_reviews: bool = Field(
        default_factory=reviews_access,
        description="ask the Kubernetes cluster who a bearer token is and what they may do "
        "(TokenReview, SubjectAccessReview), beside the file of tokens; unset = true in a pod "
        "(in_cluster) that is no shadow, false otherwise",
    )
    token_audiences: str = Field(
        "quadrant",
        pattern=r"[^,\s]",
        description="audiences, separated by commas, of which a token that is reviewed must have "
        "one: those of whoever else's tokens would be good here too",
    )
    max_pending_jobs: Count = Field(
        200_000, description="jobs of one queue that may wait; those beyond it are refused"
    )
    standby: bool = Field(
        False, description="a second coordinator, which takes over when the first is lost"
    )

    # --- scheduling ---------------------------------------------------------------------------
    shards: int = Field(4, ge=1, le=1024, description="number of shard workers")
    mode: Mode = Field("soft", description="none, soft or hard: what a shard's border means")
    window: Count = Field(
        default_factory=lambda data: 256 * data.get("shards", 1),
        description="turns open at once; unset = 256 for each shard",
    )
    seed: int = Field(0, ge=0, lt=2**63, description="seed of every random choice")
    # A call of Ray costs a millisecond and a commit one fsync, whatever they carry. With 256 turns
    # a call, and as many open for each shard, a bench placed 6,071 tasks/s in the place of 3,202
    # (decision 0012).
    turns_per_call: Count = Field(256, description="turns in one call to a worker")
    tasks_per_call: Count = Field(512, description="tasks in one call to a worker")
    # Two: one is placed while the other is on its way.
    calls_in_flight: Count = Field(2, description="calls to one worker without an answer yet")
    # The bounds of docs/failures.md rest on these three: a lost worker is noticed within 3 s, the
    # leadership has moved within 5 s.
    worker_deadline_seconds: Seconds = Field(2.5, description="silence after which one is dead")
    shard_lease_seconds: Seconds = Field(
        3.0, description="how long a worker may commit without renewing its right to"
    )
    coordinator_lease_seconds: Seconds = Field(
        2.0, description="how long a coordinator leads without renewing; a standby waits as long"
    )
    nomination_seconds: Seconds = Field(
        10.0, description="how long a nomination holds, beside twice what its turn took"
    )
    rebalance_moves_per_minute: int = Field(
        1000, ge=0, description="nodes that may change shards for balance; 0 = none"
    )

    reconcile_seconds: Seconds = Field(
        30.0, description="how often what the cluster has is compared with what the ledger says"
    )
    ledger_audit_seconds: Annotated[float, Field(ge=0)] = Field(
        60.0,
        description="pause between two looks for totals of the ledger that its tasks contradict; "
        "more where a look costs more than a hundredth of it, and while the leader is busy",
    )
    aging_bound_seconds: Annotated[float, Field(ge=0)] = Field(
        0.0,
        description="a job that is first in its queue for longer gets nodes kept for it; 0 = off",
    )
    gang_repair_seconds: Seconds = Field(
        30.0, description="how long a gang may stay below its minimum before its rest is stopped"
    )
    attempts: Count = Field(
        20, description="binds refused or turns lost in a row before a job is parked"
    )
    node_refusals: Count = Field(
        5, description="binds that a node refuses in a row before it is quarantined"
    )
    node_quarantine_seconds: Seconds = Field(
        60.0, description="how long such a node gets nothing the first time; doubles, up to 900"
    )

    scheduler_names: str = Field(
        default_factory=scheduler_names,
        description="values of schedulerName that are ours, separated by commas, beside none at "
        "all: pods of others use their nodes and are never bound or evicted; unset = quadrant for "
        "a Kubernetes cluster, all (*) in its shadow, default-scheduler,quadrant,volcano otherwise",
    )

    # --- the simulated cluster ----------------------------------------------------------------
    speedup: Seconds = Field(1.0, description="durations of pods are divided by this")
    grace: float = Field(
        0.05, ge=0, allow_inf_nan=False, description="seconds a pod takes to end, never divided"
    )

    # --- logs ---------------------------------------------------------------------------------
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="debug, info, warning or error"
    )
    log_format: Literal["auto", "json", "console"] = Field(
        "auto", description="auto, json or console; auto = json unless on a terminal"
    )

    @model_validator(mode="after")
    def _read_secret_files(self) -> Self:
        for name in _SERVER_FILES:
            path: Path | None = getattr(self, f"{name}_file")
            if path is None or getattr(self, name) is not None:
                continue
            secret = SecretStr(read_secret(path, _variable(f"{name}_file")))
            object.__setattr__(self, name, secret)  # frozen for everyone else
        return self

    @field_validator("redis_url")
    @classmethod
    def _without_secrets(cls, url: str | None) -> str | None:
        if url is not None:
            check_url(url)
        return url

    @field_validator("allowed_hosts")
    @classmethod
    def _check_names(cls, text: str) -> str:
        parse_names(text)
        return text

    @field_validator("proxies")
    @classmethod
    def _check_networks(cls, text: str) -> str:
        parse_networks(text)
        return text

    @model_validator(mode="after")
    def _check_cluster(self) -> Self:
        check_cluster(self)
        check_listener(
            self.tls_cert_file,
            self.tls_key_file,
            reviews=self.access_reviews and not self.kubernetes,
        )
        return self

    @model_validator(mode="after")
    def _check_files(self) -> Self:
        try:
            check_files(self.access())
        except ValueError as error:
            names = ", ".join(map(_variable, _TLS_FILES))
            raise ValueError(f"{names}: {error}") from None
        return self

    def access(self) -> Access:
        """How to reach the ledger's server."""
        files = [getattr(self, name) for name in _TLS_FILES]
        ca, certificate, key = ("" if file is None else str(file.absolute()) for file in files)
        return Access(
            self.redis_url or "",
            username=self.redis_username or "",
            password=self.redis_secret,
            ca=ca,
            certificate=certificate,
            key=key,
        )

    @property
    def redis_secret(self) -> str | None:
        """The password of the ledger's server in clear; None = it asks for none."""
        return None if self.redis_password is None else self.redis_password.get_secret_value()

    @property
    def kubernetes(self) -> bool:
        """Whether a Kubernetes cluster is scheduled, and not a simulated one."""
        return self.kubeconfig is not None or self.in_cluster

    @property
    def scheme(self) -> str:
        """Scheme of the listener: http or https."""
        return "http" if self.tls_cert_file is None else "https"

    @property
    def our_scheduler_names(self) -> frozenset[str]:
        """The values of schedulerName that are ours."""
        return frozenset(filter(None, map(str.strip, self.scheduler_names.split(","))))

    def read_policy(self) -> dict[str, Any] | None:
        """Content of the file named by ``policy``, checked; None = the default policy.

        Raises SettingsError.
        """
        if self.policy is None:
            return None
        try:
            file = unwrap(read_text(self.policy))
            file.parse()
        except OSError as error:
            raise SettingsError(
                f"{_variable('policy')}: cannot read {self.policy}: {error.strerror}; "
                "name a readable file or unset it for the default policy"
            ) from None
        except PolicyError as error:
            lines = [f"{self.policy}: {problem}" for problem in error.problems]
            raise SettingsError("\n".join(lines)) from None
        return file.document

    def environment(self) -> dict[str, str]:
        """The same settings as variables for a child process; secrets in files stay there."""
        variables: dict[str, str] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if value is None or (name in _SERVER_FILES and getattr(self, f"{name}_file")):
                continue
            plain = value.get_secret_value() if isinstance(value, SecretStr) else value
            variables[_variable(name)] = str(plain)
        return variables

    def replace(self, **changes: Any) -> Settings:
        """A copy with other values, checked. What was derived from a changed value stays as it is.

        Raises SettingsError."""
        return _checked({**dict(self), **changes})


DEFAULT = object()
"""A flag's value: the default of the setting, whatever environment and file say."""


def load_settings(**flags: Any) -> Settings:
    """Settings from flags (None = not given), environment, file and defaults.

    Raises SettingsError."""
    if wrong := unknown_variables(os.environ, Settings.model_fields):
        raise SettingsError("\n".join(wrong))
    flag_values = {
        name: Settings.model_fields[name].default if value is DEFAULT else value
        for name, value in flags.items()
        if value is not None
    }
    path, from_file = _from_file(flag_values)
    return _checked(from_file | flag_values, {name: f"{path}: {name}" for name in from_file})


def origins(**flags: Any) -> dict[str, str]:
    """Where the value of each setting is from, for the same flags as :func:`load_settings` got.

    Values: ``flag``, ``env QUADRANT_X``, ``file PATH`` or ``default``. Raises SettingsError."""
    flag_values = {name: value for name, value in flags.items() if value is not None}
    path, from_file = _from_file(flag_values)
    origin_of = dict.fromkeys(Settings.model_fields, "default")
    origin_of |= dict.fromkeys(from_file, f"file {path}")
    origin_of |= {n: f"env {v}" for n in origin_of if (v := variable_of(n, PREFIX))}
    origin_of |= dict.fromkeys(flag_values, "flag")
    for name in _SERVER_FILES:
        secret = _given(f"{name}_file", flag_values, from_file)
        if origin_of[name] == "default" and secret is not None:
            origin_of[name] = f"file {secret}"
    return origin_of


def _given(name: str, flags: Mapping[str, Any], from_file: Mapping[str, Any]) -> Any:
    """A value as written, before it is checked; None if only the default applies."""
    variable = variable_of(name, PREFIX)
    return flags.get(name, os.environ[variable] if variable else from_file.get(name))


def _from_file(flags: Mapping[str, Any]) -> tuple[Path, dict[str, Any]]:
    """The settings file, and its values that no variable overrides."""
    named = _given("settings_file", flags, {})
    if named is None:
        return Path(), {}
    path = Path(named)
    try:
        content = read_settings_file(path)
    except ValueError as error:
        raise SettingsError(f"{_variable('settings_file')}: {path}: {error}") from None
    fields = Settings.model_fields
    wrong = [name for name in content if name not in fields]
    if wrong:
        raise SettingsError("\n".join(f"{path}: {n}: not known{near(n, fields)}" for n in wrong))
    return path, {n: v for n, v in content.items() if variable_of(n, PREFIX) is None}


def _checked(values: dict[str, Any], places: Mapping[str, str] | None = None) -> Settings:
    """Validate the values. ``places``: how to name a setting that does not come from its
    variable."""
    try:
        return Settings(**values)
    except ValidationError as error:
        lines = [
            explain(detail["loc"], detail["msg"], places or {}, Settings.model_fields)
            for detail in error.errors()
            if detail["type"] != "default_factory_not_called"  # follows from another error
        ]
        raise SettingsError("\n".join(lines)) from None


def _variable(name: str) -> str:
    return PREFIX + name.upper()
