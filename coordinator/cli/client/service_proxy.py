"""Quadrant's service in a cluster, reached through the proxy of the cluster's API server.

Where a kubeconfig's server is a Kubernetes API server and not Quadrant itself, every request goes
to ``/api/v1/namespaces/NS/services/https:NAME:PORT/proxy/...`` there. The proxy passes on nothing
of who asks it: no certificate, and no ``Authorization``. So Quadrant gets a token in a header of
its own, over TLS alone: one of a service account, made for Quadrant and for ten minutes. The user's
own token is shown to the API server and to nobody else (decision 0093).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from http import HTTPStatus

SERVICE = "quadrant/quadrant"
ACCOUNT = "quadrant/quadrant-client"
"""Where ``k8s/`` puts both."""
PORT = "https"
AUDIENCE = "quadrant"
FORWARDED = "X-Quadrant-Authorization"
SERVER = "quadrant"
"""Header ``Server`` of each answer of ours."""
_OF_KUBERNETES = ("X-Kubernetes-Pf-Flowschema-Uid", "Audit-Id")
"""Headers of an API server's answers; its proxy and its refusals of unknown users lack the first.
None of ours has them."""


@dataclass(frozen=True, slots=True)
class ProxiedService:
    namespace: str
    name: str
    port: str = PORT

    @property
    def root(self) -> str:
        """The path that stands before Quadrant's own."""
        return f"/api/v1/namespaces/{self.namespace}/services/{self.resource_name}/proxy"

    @property
    def resource_name(self) -> str:
        """Resource name of the service's proxy in rules of RBAC."""
        return f"https:{self.name}:{self.port}"


@dataclass(frozen=True, slots=True)
class Account:
    """A service account whose tokens are shown to Quadrant."""

    namespace: str
    name: str

    @property
    def tokens(self) -> str:
        """The path where one is asked for."""
        return f"/api/v1/namespaces/{self.namespace}/serviceaccounts/{self.name}/token"


TOKEN_REQUEST = {
    "apiVersion": "authentication.k8s.io/v1",
    "kind": "TokenRequest",
    # The shortest that Kubernetes gives.
    "spec": {"audiences": [AUDIENCE], "expirationSeconds": 600},
}


def parse_service(text: str) -> ProxiedService | None:
    """NAMESPACE/NAME, with :PORT where its port is not named https; None if it is not of that
    form."""
    rest, colon, port = text.partition(":")
    account = parse_account(rest)
    if account is None or (colon and not _is_word(port)):
        return None
    return ProxiedService(account.namespace, account.name, port or PORT)


def parse_account(text: str) -> Account | None:
    """NAMESPACE/NAME; None if it is not of that form."""
    namespace, _, name = text.partition("/")
    return Account(namespace, name) if _is_word(namespace) and _is_word(name) else None


def _is_word(text: str) -> bool:
    """Whether it may stand in a path as it is."""
    return text.isascii() and text.replace("-", "").replace(".", "").isalnum()


def is_ours(headers: Message) -> bool:
    """Whether an answer is Quadrant's, and not that of an API server on the way to it."""
    return headers.get("Server") == SERVER


def is_api_server(headers: Message) -> bool:
    """Whether an answer is a Kubernetes API server's own."""
    return any(name in headers for name in _OF_KUBERNETES) and not is_ours(headers)


def why_no_token(account: Account, origin: str, code: int, message: str) -> str:
    """Why the API server made no token, and the remedy."""
    name = f"service account {account.namespace}/{account.name} ({origin})"
    own = "or name one of your own with --service-account, or set QUADRANT_TOKEN"
    match code:
        case HTTPStatus.UNAUTHORIZED:
            return f"{origin}: the API server does not know this user; log in to the cluster anew"
        case HTTPStatus.FORBIDDEN:
            return (
                f"{message}; a token of {name} to show to Quadrant takes create on "
                f"serviceaccounts/token, resourceNames [{account.name}]: have the Role "
                f"quadrant-client bound to you, {own}"
            )
        case HTTPStatus.NOT_FOUND:
            return (
                f"{origin} is a Kubernetes API server, and has no {name} whose token could be "
                f"shown to Quadrant: install it (k8s/components/reviews), {own}; where Quadrant "
                "is elsewhere, name its address with --server or QUADRANT_SERVER"
            )
        case _:
            return f"no token of {name}: {message}"


def why_not_reached(service: ProxiedService, origin: str, code: int, message: str) -> str:
    """Explain an error that the API server, not Quadrant, answered, with its remedy."""
    name = f"service {service.namespace}/{service.name} ({origin})"
    match code:
        case HTTPStatus.UNAUTHORIZED:
            return f"{origin}: the API server does not know this user; log in to the cluster anew"
        case HTTPStatus.FORBIDDEN:
            return (
                f"{message}; to reach {name} through the API server's proxy takes get and create "
                f"on services/proxy, resourceNames [{service.resource_name}]: have the Role "
                "quadrant-client bound to you"
            )
        case HTTPStatus.NOT_FOUND:
            return (
                f"{origin} is a Kubernetes API server, and has no {name}; name it with --service "
                "NAMESPACE/NAME or QUADRANT_SERVICE, or Quadrant's address with --server or "
                "QUADRANT_SERVER"
            )
        case _ if "no endpoints" in message:  # from 1.37 on of a service that is missing, too
            return (
                f"{name} is missing, or has no pod that is ready behind a port {service.port}; "
                "name it with --service NAMESPACE/NAME or QUADRANT_SERVICE, and see kubectl "
                f"--namespace {service.namespace} get pods,services: its port for TLS has to have "
                "that name, or --service NAMESPACE/NAME:PORT says another"
            )
        case _:
            return (
                f"{name} does not answer the API server ({code}: {message}); see whether it speaks "
                "TLS (QUADRANT_TLS_CERT_FILE) and whether a NetworkPolicy keeps the API server out"
            )


def token_of(answer: Mapping[str, object]) -> str:
    """Token of a successful TokenRequest; "" without one."""
    status = answer.get("status")
    return str(status.get("token") or "") if isinstance(status, Mapping) else ""
