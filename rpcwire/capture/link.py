"""Link layers: from the first byte of a packet to its network header.

Numbers and layouts are those of the link-layer header types at tcpdump.org.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rpcwire.capture.packets import Bytes, Index, rows

ETHERTYPE_IPV4, ETHERTYPE_IPV6 = 0x0800, 0x86DD
VLAN_TAGS = (0x8100, 0x88A8, 0x9100)
MAX_VLAN_TAGS = 4

# Not ethertypes (those below 0x600 are lengths of 802.3 frames): what a walk ended in.
CUT, LLC, NO_FAMILY, NO_LINK = 1, 2, 3, 4

LINK_NAMES = {
    0: "NULL",
    1: "ETHERNET",
    12: "RAW",
    14: "RAW",
    101: "RAW",
    108: "LOOP",
    113: "LINUX_SLL",
    149: "PKTAP",
    228: "IPV4",
    229: "IPV6",
    258: "PKTAP",
    276: "LINUX_SLL2",
}

Types = NDArray[np.uint16]
Walk = Callable[[Bytes, Index, Index], tuple[Index, Types]]

_U16 = np.dtype([("v", ">u2")])
_U32 = np.dtype([("v", "<u4")])
_BYTE = np.dtype([("v", "u1")])
_PKTAP = np.dtype([("size", "<u4"), ("record", "<u4"), ("dlt", "<u4")])
_IS_TAG = np.zeros(1 << 16, np.bool_)
_IS_TAG[list(VLAN_TAGS)] = True
_VERSIONS = np.full(16, NO_FAMILY, np.uint16)
_VERSIONS[4], _VERSIONS[6] = ETHERTYPE_IPV4, ETHERTYPE_IPV6
# Address families: AF_INET everywhere; AF_INET6 of Linux, Windows, the BSDs and macOS.
_FAMILIES = {2: ETHERTYPE_IPV4} | dict.fromkeys((10, 23, 24, 28, 30), ETHERTYPE_IPV6)
_FAMILY_TYPES = np.full(64, NO_FAMILY, np.uint16)
_FAMILY_TYPES[list(_FAMILIES)] = list(_FAMILIES.values())


def link_name(link: int) -> str:
    """Name of a LINKTYPE number, as tcpdump.org spells it where known."""
    return LINK_NAMES.get(link, f"link type {link}")


def network_headers(
    data: Bytes, link: NDArray[np.int32], offset: Index, end: Index
) -> tuple[Index, Types]:
    """Find the network header of each packet.

    Args:
        data: uint8[*] with SLACK bytes behind the last packet.
        link: int32[n], LINKTYPE numbers.
        offset: int64[n], first byte.
        end: int64[n], the byte behind the last captured one.

    Returns:
        int64[n] index of the network header, uint16[n] ethertype or one of CUT, LLC, NO_FAMILY,
        NO_LINK.
    """
    return _by_link(data, link, offset, end, _WALKS)


def _by_link(
    data: Bytes, link: NDArray[np.int32], offset: Index, end: Index, walks: dict[int, Walk]
) -> tuple[Index, Types]:
    if len(link) and (link == link[0]).all():
        return walks.get(int(link[0]), _unknown)(data, offset, end)
    where = np.array(offset)
    kind = np.full(len(offset), NO_LINK, np.uint16)
    for number in np.intersect1d(link, list(walks)):
        chosen = np.flatnonzero(link == number)
        where[chosen], kind[chosen] = walks[int(number)](data, offset[chosen], end[chosen])
    return where, kind


def _unknown(data: Bytes, offset: Index, end: Index) -> tuple[Index, Types]:
    return offset, np.full(len(offset), NO_LINK, np.uint16)


def _tagged(type_at: int, header: int) -> Walk:
    """A link header of fixed size with an ethertype in it, VLAN tags behind it."""

    def walk(data: Bytes, offset: Index, end: Index) -> tuple[Index, Types]:
        where = offset + header
        kind = rows(data, offset + type_at, _U16)["v"].astype(np.uint16)
        kind[where > end] = CUT
        for _ in range(MAX_VLAN_TAGS):
            tagged = np.flatnonzero(_IS_TAG[kind])
            if not len(tagged):
                break
            tag = where[tagged]
            inner = np.full(len(tagged), CUT, np.uint16)
            whole = tag + 4 <= end[tagged]
            inner[whole] = rows(data, tag[whole] + 2, _U16)["v"]
            where[tagged], kind[tagged] = tag + 4, inner
        # 0 to 4 would collide with the marks above; all below 0x600 are 802.3 lengths.
        kind[(kind < 0x600) & (where <= end)] = LLC
        return where, kind

    return walk


def _family(data: Bytes, offset: Index, end: Index) -> tuple[Index, Types]:
    """NULL and LOOP: a 32-bit address family in the byte order of the host that captured."""
    family = rows(data, offset, _U32)["v"].astype(np.uint32)
    family = np.where(family > 0xFFFF, family.byteswap(), family)
    kind = _FAMILY_TYPES[np.minimum(family, len(_FAMILY_TYPES) - 1)]
    kind[offset + 4 > end] = CUT
    return offset + 4, kind


def _raw(data: Bytes, offset: Index, end: Index) -> tuple[Index, Types]:
    kind = _VERSIONS[rows(data, offset, _BYTE)["v"] >> 4]
    kind[offset >= end] = CUT
    return offset, kind


def _pktap(data: Bytes, offset: Index, end: Index) -> tuple[Index, Types]:
    """Apple's PKTAP: a header that names its own size and the link type of what follows."""
    head = rows(data, offset, _PKTAP)
    size = head["size"].astype(np.int64)
    fits = (offset + 12 <= end) & (size >= 12) & (offset + size <= end)
    link = np.where(fits, head["dlt"], 0xFFFF).astype(np.int32)
    where, kind = _by_link(data, link, np.where(fits, offset + size, offset), end, _PLAIN_WALKS)
    kind[~fits] = CUT
    return where, kind


_PLAIN_WALKS: dict[int, Walk] = {
    0: _family,
    1: _tagged(12, 14),
    12: _raw,
    14: _raw,
    101: _raw,
    108: _family,
    113: _tagged(14, 16),
    228: _raw,
    229: _raw,
    276: _tagged(0, 20),
}
_WALKS: dict[int, Walk] = _PLAIN_WALKS | {149: _pktap, 258: _pktap}
