"""What was scaled down: the settings that the runs recorded against full scale in paper.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.records.claim import Claim
from shared.records.experiment import RunKey, RunSettings, Scale, resolve
from shared.records.paper import Paper
from shared.reporting.inputs import Inputs

SCALE_NAMES = {"smoke": "smoke scale", "laptop": "laptop scale", "full": "full scale"}
MOST_CHANGES_IN_A_NOTE = 4
NOTED_SECTIONS = ("data", "trainer")


def stamp(paper: Paper, scale: Scale) -> str:
    """What the scale means, to stand beside numbers and figures."""
    if scale == "laptop":
        return f"Laptop scale: {paper.here}"
    if scale == "smoke":
        return (
            "Smoke scale: a few optimiser steps that prove that every wire works. These numbers "
            "say nothing about the paper."
        )
    return "Full scale: the paper's own data and budget, but for the deviations listed here."


@dataclass(frozen=True)
class Change:
    """One setting, number of seeds or list of arms that differs from full scale."""

    name: str
    here: str
    full: str


@dataclass(frozen=True)
class ScaledExperiment:
    """How an experiment differs from full scale. `reason` stands where nothing can be compared."""

    name: str
    title: str
    changes: tuple[Change, ...]
    reason: str = ""


def scaled_down(inputs: Inputs) -> list[ScaledExperiment]:
    """The differences between this scale and full scale, for each experiment."""
    result = []
    for name, experiment in inputs.paper.experiments.items():
        if not experiment.arms_at(inputs.scale):
            reason = f"Not run at {inputs.scale} scale."
        elif "full" not in experiment.scales:
            reason = "Not defined at full scale, so there is nothing to compare with."
        else:
            reason = ""
        found = () if reason else changes(inputs, name, experiment.arms_at(inputs.scale))
        result.append(ScaledExperiment(name, experiment.title, found, reason))
    return result


def changes(inputs: Inputs, name: str, arms: Sequence[str]) -> tuple[Change, ...]:
    """What differs from full scale: settings of the first of `arms` that is there, arms, seeds.

    The settings here are those that the runs recorded, so overrides of a command line count.
    """
    experiment = inputs.paper.experiments[name]
    arms_here, arms_full = experiment.arms_at(inputs.scale), experiment.arms_at("full")
    found = []
    if common := [arm for arm in arms if arm in arms_here and arm in arms_full]:
        here = flat(inputs.settings(name, common[0]))
        key = RunKey(scale="full", paper=inputs.name, experiment=name, arm=common[0], seed=0)
        full = flat(resolve(inputs.paper.experiments, key))
        found = [
            Change(key, _text(here.get(key)), _text(full.get(key)))
            for key in {**here, **full}
            if here.get(key) != full.get(key)
        ]
    if set(arms_here) != set(arms_full):
        found.append(Change("arms", ", ".join(arms_here), ", ".join(arms_full)))
    seeds_here = len({run.key.seed for run in inputs.runs if run.key.experiment == name})
    seeds_full = len(experiment.seeds_at("full"))
    if seeds_here != seeds_full:
        found.append(Change("seeds", str(seeds_here), str(seeds_full)))
    return tuple(found)


def scale_note(inputs: Inputs, claim: Claim) -> str:
    """The main differences behind a claim in a few words, to stand beside its number."""
    if claim.experiment is None or inputs.scale == "full":
        return ""
    experiment = inputs.paper.experiments[claim.experiment]
    if "full" not in experiment.scales or not experiment.arms_at(inputs.scale):
        return ""
    found = changes(inputs, claim.experiment, claim.arms)
    if not found:
        return "same settings as full scale"
    noted = [c for c in found if c.name.partition(".")[0] in NOTED_SECTIONS] or list(found)
    words = [
        f"{change.name.rpartition('.')[2].replace('_', ' ')} {change.here} (full: {change.full})"
        for change in noted[:MOST_CHANGES_IN_A_NOTE]
    ]
    rest = len(found) - len(words)
    return ", ".join(words) + (f", and {rest} more" if rest else "")


def flat(settings: RunSettings) -> dict[str, Any]:
    """The settings by the names that an override has: `{"trainer.max_steps": 10, "norm": None}`."""
    content = settings.model_dump(mode="json", include={"data", "trainer", "settings"})
    values = {
        f"{section}.{name}": value
        for section, part in content.items()
        for name, value in (part or {}).items()
    }
    return {**values, "norm": settings.norm}


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)
