"""Where a request comes from: pages of other sites are turned away, before anything is looked at.

A browser sends what any page asks it to, from inside the network that it is in. Two ways are closed
(decision 0043):

- *Rebinding*: a page makes a name of its own resolve to this server's address, and is then the same
  site. So the names under which this server answers are listed; an address in digits cannot be
  rebound and is always good.
- *Cross-site writes*: a page sends a request whose answer it may not read. Browsers say where a
  request is from, in ``Sec-Fetch-Site`` or ``Origin``; the rule is that of Go's
  ``http.CrossOriginProtection``. A body without ``Content-Type`` is what a page may send to
  anywhere without asking, so a type is demanded.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from http import HTTPStatus

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from coordinator.api.auth.middleware import FORWARDED
from coordinator.errors import Problem
from shared.byte_cache import MIB, byte_cache
from shared.errors import shown
from shared.settings.addresses import parse_names
from shared.settings.settings import PREFIX, Settings

LOOPBACK_NAMES = (".localhost", "ip6-localhost", "ip6-loopback")
"""Names of this machine: RFC 6761 reserves all names below ``localhost``; the other two are in
Debian's /etc/hosts."""

_AUTHORITY = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::[0-9]{0,5})?"
)
_SAFE = ("GET", "HEAD", "OPTIONS")
_SAME = ("same-origin", "none")
"""Values of ``Sec-Fetch-Site``: the server's own page, or the browser's user."""


class AllowedHosts:
    """Names under which this server answers; ``.example.com`` includes the domain itself and all
    below."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        everything = (*LOOPBACK_NAMES, *names)
        self._names = frozenset(name.removeprefix(".") for name in everything)
        self._suffixes = tuple(name for name in everything if name.startswith("."))
        # Asked for each request, nearly always with the same few values.
        self.include = byte_cache("host-names", MIB)(self._include)
        """Whether ``HOST[:PORT]`` is an address or one of the names."""

    def _include(self, authority: str) -> bool:
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            return False
        host = match["six"] or match["name"].lower().removesuffix(".")
        return _is_address(host) or host in self._names or host.endswith(self._suffixes)


def allowed_hosts(settings: Settings) -> AllowedHosts:
    """The names that the operator configured, and the listener's own."""
    host = settings.listen_host.lower()
    return AllowedHosts(
        (*parse_names(settings.allowed_hosts), *([] if _is_address(host) else [host]))
    )


def provenance(hosts: AllowedHosts, *, authenticated: bool = False) -> Middleware:
    """A middleware that raises Problem for requests that a page of another site sent or may have
    sent. ``authenticated``: who asks has to show a token."""

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        # An API server's proxy names itself in Host, by whatever name its client knows. A page
        # that had its own name point here would have no token to send (decision 0093).
        if not (authenticated and FORWARDED in request.headers):
            _check_host(request, hosts)
        if request.method not in _SAFE:
            _check_site(request)
            _check_type(request)
        return await handler(request)

    return checked


def _check_host(request: web.Request, hosts: AllowedHosts) -> None:
    named = request.headers.getall("Host", [])
    if len(named) != 1:
        if not named and request.version < (1, 1):
            return  # HTTP/1.0 has no Host; every browser sends one
        message = f"the request has {len(named)} Host headers; send exactly one"
        raise Problem(HTTPStatus.BAD_REQUEST, message)
    # request.host differs where the request line names a whole URL: then that counts as well
    for authority in {named[0], request.host}:
        if not hosts.include(authority):
            raise _forbidden(
                f"Host is {shown(authority)}, which is no name of this server; ask for it by its "
                f"address, or have {PREFIX}ALLOWED_HOSTS name it"
            )


def _check_site(request: web.Request) -> None:
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        wrong = "" if site in _SAME else f"Sec-Fetch-Site is {shown(site)}"
    else:
        # Browsers from before Sec-Fetch-Site. Without either header it is from no browser, or from
        # the server's own page (Go's rule).
        origin = request.headers.get("Origin")
        same = origin is None or origin.partition("://")[2] == request.headers.get("Host")
        wrong = "" if same else f"Origin is {shown(origin)}"
    if wrong:
        raise _forbidden(
            f"{wrong}: a page of another site sent this; nothing is written for it, send it with "
            "quadrant, kubectl or a program of your own"
        )


def _check_type(request: web.Request) -> None:
    if request.can_read_body and "Content-Type" not in request.headers:
        raise Problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "Content-Type is missing; say what the body is, e.g. Content-Type: application/json",
        )


def _forbidden(message: str) -> Problem:
    return Problem(HTTPStatus.FORBIDDEN, message)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
