"""What a benchmark of the norms measured, and on what."""

from __future__ import annotations

from pydantic import Field

from shared.records.base import Record

PASSED = "passed"
OURS = "ours:auto"
MARGIN = 1.05
"""A peer wins a line where it is faster by more than this factor: less is noise."""


class Line(Record):
    """One phase of one operator on one shape: medians of candidates that took turns."""

    operator: str
    shape: str = Field(description="shape, type and memory layout")
    phase: str = Field(description="forward, backward, double_backward or step")
    gate: str = Field(description=f"{PASSED!r}, or how the result differs from float64")
    milliseconds: dict[str, float] = Field(
        description="candidate -> time on the device; ours are named ours:IMPLEMENTATION, and "
        "ours:auto is what a user gets"
    )
    wall_milliseconds: dict[str, float] = Field(
        default={}, description="the same with the launches; empty on a CPU, where it is the same"
    )
    kept_mib: dict[str, float] = Field(
        default={}, description="memory that a forward keeps for its backward, inputs excepted"
    )
    floor_ms: float | None = Field(description="a copy of the least bytes that the phase must move")

    @property
    def ours(self) -> float:
        """What a user gets: `auto`, whichever implementation it chose."""
        return self.milliseconds[OURS]

    @property
    def ratio(self) -> float:
        """Our time as a share of torch's."""
        return self.ours / self.milliseconds["torch"]

    @property
    def lost_to(self) -> list[str]:
        """Peers that were faster than ours."""
        peers = {n: ms for n, ms in self.milliseconds.items() if not is_ours(n)}
        return [name for name, ms in peers.items() if ms * MARGIN < self.ours]


class Benchmark(Record):
    """Everything that the benchmark's page shows."""

    machine: dict[str, str] = Field(description="device, driver and versions")
    command: str
    peers: dict[str, str] = Field(description="peer -> version, or why it did not take part")
    lines: tuple[Line, ...]
    not_run: tuple[str, ...] = Field(description="lines of a device that this machine lacks")


def is_ours(candidate: str) -> bool:
    """Whether a candidate is an implementation of this repository."""
    return candidate.startswith("ours:")
