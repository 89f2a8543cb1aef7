"""Settings of runs that are not those of paper.yaml: what a page has to say first of all."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.records.experiment import resolve
from shared.reporting.inputs import Inputs
from shared.reporting.scaled import flat


@dataclass(frozen=True)
class Override:
    """One setting that has another value than in paper.yaml.

    Attributes:
        name: as in `--config overrides={NAME: VALUE}`, e.g. tent.streams.settings.lr.
        runs: how many runs have it.
        everywhere: whether every run of the experiment has this value, as after an override.
    """

    name: str
    value: Any
    runs: int
    everywhere: bool

    @property
    def text(self) -> str:
        """As it is written in an override."""
        return f"{self.name}: {json.dumps(self.value)}"


def overrides(inputs: Inputs) -> list[Override]:
    """What the runs of a page were computed with in place of the settings of paper.yaml."""
    found: list[Override] = []
    for experiment in inputs.paper.experiments:
        pairs = [
            (flat(run.settings), flat(resolve(inputs.paper.experiments, run.key)))
            for run in inputs.runs
            if run.settings and run.key.experiment == experiment
        ]
        changed = [
            (name, here.get(name))
            for here, planned in pairs
            for name in {**planned, **here}
            if here.get(name) != planned.get(name)
        ]
        for index, (name, value) in enumerate(changed):
            if (name, value) not in changed[:index]:
                everywhere = all(here.get(name) == value for here, _ in pairs)
                address = f"{inputs.name}.{experiment}.{name}"
                found.append(Override(address, value, changed.count((name, value)), everywhere))
    return found


def config_argument(found: Sequence[Override]) -> str:
    """For `--config` of the same page again, without runs that were made one by one.

    Example:
        >>> config_argument([Override("tent.streams.norm", "group", 12, True)])
        '\\'overrides={tent.streams.norm: "group"}\\''
    """
    common = [item.text for item in found if item.everywhere]
    return shlex.quote(f"overrides={{{', '.join(common)}}}") if common else ""
