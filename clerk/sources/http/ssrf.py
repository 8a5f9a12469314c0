"""Only public addresses are connected to, whatever a name resolves to and wherever a redirect points.

The check sits where the connection is made: the name is resolved once, every address is checked, and the connection
goes to a checked one. So a name cannot resolve to something else between check and use.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any

import httpcore

from clerk.errors import AddressForbidden

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: IPAddress) -> bool:
    """Not private, loopback, link-local, multicast, reserved, nor an IPv6 form of such an IPv4 address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and (address in _NAT64 or int(address) >> 32 == 0):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def require_allowed(host: str, addresses: Iterable[str], allow_loopback: bool) -> None:
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        if not is_public(address) and not (allow_loopback and address.is_loopback):
            meant = f"{host} is at {address}, which" if host != str(address) else f"{host}"
            raise AddressForbidden(f"{meant} is not a public address")


class PublicOnlyBackend(httpcore.AsyncNetworkBackend):
    """Resolves, checks, connects."""

    def __init__(self, allow_loopback: bool) -> None:
        self.allow_loopback = allow_loopback
        self.network = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._resolve(host, port, timeout)
        require_allowed(host, addresses, self.allow_loopback)
        for address in addresses[:-1]:
            try:
                return await self.network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self.network.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def _resolve(self, host: str, port: int, timeout: float | None) -> list[str]:
        try:
            async with asyncio.timeout(timeout):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"{host} could not be looked up in time") from error
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} could not be looked up ({error})") from error
        return list(dict.fromkeys(str(address[0]) for *_, address in found))

    async def connect_unix_socket(self, *arguments: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        raise AddressForbidden("a local socket is not a public address")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
