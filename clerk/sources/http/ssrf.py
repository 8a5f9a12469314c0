"""SSRF guard: connects to public IP addresses only, whatever a host name resolves to.

The check is part of opening a connection: the name is resolved once, all its addresses are checked, and the connection
goes to one of them. So a name cannot resolve to another address between check and use (DNS rebinding).
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
    """False for private, loopback, link-local, multicast and reserved addresses, also embedded in an IPv6 address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and (address in _NAT64 or int(address) >> 32 == 0):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def require_public(host: str, addresses: Iterable[str], allow_loopback: bool) -> None:
    for text in addresses:
        address = ipaddress.ip_address(text.partition("%")[0])
        if not is_public(address) and not (allow_loopback and address.is_loopback):
            subject = f"{host} resolves to {address}, which" if host != str(address) else host
            raise AddressForbidden(f"{subject} is not a public address")


class PublicOnlyBackend(httpcore.AsyncNetworkBackend):
    """Network backend of httpcore that resolves, checks and then connects."""

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
        require_public(host, addresses, self.allow_loopback)
        for address in addresses[:-1]:
            try:
                return await self.network.connect_tcp(address, port, timeout, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                continue
        return await self.network.connect_tcp(addresses[-1], port, timeout, local_address, socket_options)

    async def _resolve(self, host: str, port: int, timeout: float | None) -> list[str]:
        try:
            async with asyncio.timeout(timeout):
                records = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(f"{host} could not be resolved within {timeout:g} s") from error
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(f"{host} could not be resolved ({error})") from error
        return list(dict.fromkeys(str(address[0]) for *_, address in records))

    async def connect_unix_socket(self, *arguments: Any, **options: Any) -> httpcore.AsyncNetworkStream:
        raise AddressForbidden("a Unix socket is not a public address")

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
