"""SSRF guard: connects to web ports of public IP addresses only, whatever a host name resolves to.

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

from clerk.config import Network
from clerk.errors import AddressForbidden

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NOT_PUBLIC = tuple(
    map(
        ipaddress.ip_network,
        (
            "168.63.129.16/32",  # Azure's host: metadata and credentials of the machine
            "192.0.0.0/24",  # IETF protocols; Oracle Cloud's metadata
            "192.88.99.0/24",  # 6to4 relays
            "64:ff9b:1::/48",  # NAT64 within a site
            "fec0::/10",  # site-local
            "3fff::/20",  # documentation
        ),
    )
)
"""What the ipaddress module of some Python versions calls global."""
_WEB_PORTS = frozenset({80, 443, *range(8000, 9000)})


def is_public(address: IPAddress) -> bool:
    """False for private, loopback, link-local, multicast and reserved addresses, also embedded in an IPv6 address."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and (address in _NAT64 or int(address) >> 32 == 0):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
    is_listed = any(address in network for network in _NOT_PUBLIC)
    return address.is_global and not (address.is_multicast or address.is_reserved or is_listed)


class PublicOnlyBackend(httpcore.AsyncNetworkBackend):
    """Network backend of httpcore that resolves, checks and then connects."""

    def __init__(self, allow_loopback: bool, allow_networks: tuple[Network, ...] = ()) -> None:
        self.allow_loopback = allow_loopback
        self.allow_networks = allow_networks
        self.network = httpcore.AnyIOBackend()

    def check(self, host: str, address: IPAddress, port: int) -> None:
        """Raise unless the address is public and the port one of web servers, or a setting allows the address."""
        if (self.allow_loopback and address.is_loopback) or any(address in network for network in self.allow_networks):
            return
        subject = f"{host} resolves to {address}, which" if host != str(address) else host
        if not is_public(address):
            setting = "CLERK_ALLOW_LOOPBACK=yes" if address.is_loopback else f"CLERK_ALLOW_NETWORKS={address}"
            raise AddressForbidden(f"{subject} is not a public address ({setting} would allow it)")
        if port not in _WEB_PORTS:
            raise AddressForbidden(
                f"{host}: port {port} is not one of web servers (80, 443, 8000 to 8999;"
                f" CLERK_ALLOW_NETWORKS={address} would allow it)"
            )

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        addresses = await self._resolve(host, port, timeout)
        for address in addresses:
            self.check(host, ipaddress.ip_address(address.partition("%")[0]), port)
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
