"""Which runs a paper plans, and where the tables made of them lie (relative to the repository)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from shared.records.experiment import Experiment, RunKey, Scale

RESULTS = Path("results")


def planned_runs(
    name: str, experiments: Mapping[str, Experiment], scale: Scale, wanted_seeds: int | None = None
) -> Iterator[RunKey]:
    """Every judged run of a paper at a scale, in the order of paper.yaml.

    Args:
        wanted_seeds: see `Experiment.seeds_at`.
    """
    for experiment_name, experiment in experiments.items():
        for arm in experiment.arms_at(scale):
            for seed in experiment.seeds_at(scale, wanted_seeds):
                yield RunKey(
                    scale=scale, paper=name, experiment=experiment_name, arm=arm, seed=seed
                )


def metrics_file(name: str, scale: Scale) -> Path:
    """The tidy table of all planned runs of a paper."""
    return RESULTS / scale / "metrics" / f"{name}.parquet"


def verdicts_file(name: str, scale: Scale) -> Path:
    """What the judge found."""
    return RESULTS / scale / "verdicts" / f"{name}.json"


def looks_file(name: str, scale: Scale) -> Path:
    """The judge's memory of how often the data of each claim were looked at."""
    return RESULTS / scale / "looks" / f"{name}.jsonl"
