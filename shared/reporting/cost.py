"""What the runs cost: time, energy and memory, per experiment and in total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.records.run import Provenance
from shared.reporting.inputs import Inputs
from shared.reporting.numbers import duration, energy, memory


@dataclass(frozen=True)
class CostRow:
    """One row of the cost table, as text with units."""

    name: str
    runs: int
    wall: str
    slowest: str
    processor: str
    energy: str
    memory: str
    gpu_memory: str


def cost_rows(inputs: Inputs) -> list[CostRow]:
    """One row per experiment that ran, then the total."""
    made = [run.provenance for run in inputs.runs if run.provenance]
    rows = []
    for name in inputs.paper.experiments:
        of_experiment = [item for item in made if item.key.experiment == name]
        if of_experiment:
            rows.append(_row(name, of_experiment))
    return [*rows, _row("total", made)] if made else []


def energy_notes(inputs: Inputs) -> list[str]:
    """Where the energy was read, or why not; each source once, with the number of runs."""
    made = [run.provenance for run in inputs.runs if run.provenance]
    sources = dict.fromkeys(item.energy.source for item in made)
    return [
        f"{source} ({sum(item.energy.source == source for item in made)} runs)"
        for source in sources
    ]


def _row(name: str, made: Sequence[Provenance]) -> CostRow:
    joules = [item.energy.joules for item in made if item.energy.joules is not None]
    gpu = [item.peak_gpu_memory_mib for item in made if item.peak_gpu_memory_mib is not None]
    read = "" if len(joules) == len(made) else f" ({len(joules)} of {len(made)} runs)"
    return CostRow(
        name=name,
        runs=len(made),
        wall=duration(sum(item.wall_seconds for item in made)),
        slowest=duration(max(item.wall_seconds for item in made)),
        processor=duration(sum(item.processor_seconds for item in made)),
        energy=f"{energy(sum(joules))}{read}" if joules else "not measured",
        memory=memory(max(item.peak_memory_mib for item in made)),
        gpu_memory=memory(max(gpu)) if gpu else "–",
    )
