"""What a probe found, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcwire.output.units import bytes_text

if TYPE_CHECKING:
    from rpcwire.record.probe import Probe


def probe_text(found: Probe) -> str:
    """A few lines, the last one for `rpcwire predict`."""
    lines = [f"{found.endpoint}: ggml RPC {found.protocol}, connected in {found.connect_ms:.3g} ms"]
    for device in found.devices:
        memory = f"{bytes_text(device.free_bytes)} free of {bytes_text(device.total_bytes)}"
        lines.append(f"device {device.device}     {memory}")
    flags = []
    if (rtt := found.rtt_ms) is not None:
        lines.append(
            f"round trip   min {rtt.min:.3g}  median {rtt.median:.3g}  p95 {rtt.p95:.3g}  "
            f"max {rtt.max:.3g}  jitter {rtt.jitter:.3g} ms  ({rtt.count} times)"
        )
        flags.append(f"--rtt {rtt.median:.3g}ms")
    if (speed := found.throughput) is not None:
        lines.append(
            f"throughput   {speed.up_mbit_s:,.0f} Mbit/s up  {speed.down_mbit_s:,.0f} Mbit/s down"
        )
        flags.append(f"--bandwidth {min(speed.up_mbit_s, speed.down_mbit_s):.0f}mbit")
    if found.client is not None:
        lines.append(f"client       {found.client.reason}")
    if flags:
        lines.append(f"predict      rpcwire predict {' '.join(flags)} …")
    return "\n".join(lines)
