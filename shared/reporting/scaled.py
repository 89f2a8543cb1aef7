"""What was scaled down, computed from the settings of both scales in paper.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from shared.records.experiment import Experiment, RunKey, RunSettings, Scale, resolve

MOST_CHANGES_IN_A_NOTE = 4
NOTED_SECTIONS = ("data", "trainer")


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


def scaled_down(experiments: Mapping[str, Experiment], scale: Scale) -> list[ScaledExperiment]:
    """The differences between this scale and full scale, for each experiment of this scale."""
    result = []
    for name, experiment in experiments.items():
        if not experiment.arms_at(scale):
            reason = f"Not run at {scale} scale."
        elif "full" not in experiment.scales:
            reason = "Not defined at full scale, so there is nothing to compare with."
        else:
            reason = ""
        here = () if reason else changes(experiment, scale)
        result.append(ScaledExperiment(name, experiment.title, here, reason))
    return result


def changes(experiment: Experiment, scale: Scale) -> tuple[Change, ...]:
    """What differs from full scale: settings of the first common arm, arms and seeds."""
    arms_here, arms_full = experiment.arms_at(scale), experiment.arms_at("full")
    common = [arm for arm in arms_here if arm in arms_full]
    found = []
    if common:
        here = _flat(_settings(experiment, scale, common[0]))
        full = _flat(_settings(experiment, "full", common[0]))
        found = [
            Change(key, _text(here.get(key)), _text(full.get(key)))
            for key in {**here, **full}
            if here.get(key) != full.get(key)
        ]
    if set(arms_here) != set(arms_full):
        found.append(Change("arms", ", ".join(arms_here), ", ".join(arms_full)))
    seeds_here, seeds_full = len(experiment.seeds_at(scale)), len(experiment.seeds_at("full"))
    if seeds_here != seeds_full:
        found.append(Change("seeds", str(seeds_here), str(seeds_full)))
    return tuple(found)


def scale_note(experiment: Experiment, scale: Scale) -> str:
    """The main differences in a few words, to stand beside a number."""
    if "full" not in experiment.scales or not experiment.arms_at(scale):
        return ""
    found = changes(experiment, scale)
    if not found:
        return "same settings as full scale"
    noted = [c for c in found if c.name.partition(".")[0] in NOTED_SECTIONS] or list(found)
    words = [
        f"{change.name.rpartition('.')[2].replace('_', ' ')} {change.here} (full: {change.full})"
        for change in noted[:MOST_CHANGES_IN_A_NOTE]
    ]
    rest = len(found) - len(words)
    return ", ".join(words) + (f", and {rest} more" if rest else "")


def _settings(experiment: Experiment, scale: Scale, arm: str) -> RunSettings:
    key = RunKey(scale=scale, paper="paper", experiment="experiment", arm=arm, seed=0)
    return resolve({"experiment": experiment}, key)


def _flat(settings: RunSettings) -> dict[str, Any]:
    content = settings.model_dump(mode="json", include={"data", "trainer", "settings"})
    return {
        f"{section}.{name}": value
        for section, values in content.items()
        for name, value in (values or {}).items()
    }


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, (list, tuple)):
        return ", ".join(str(item) for item in value) or "none"
    return str(value)
