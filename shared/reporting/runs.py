"""The runs table: one row a run; what all runs share is shown once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from shared.reporting.inputs import Inputs, Run
from shared.reporting.numbers import count, duration

LOG_LINES = 60
LOG_CHARACTERS = 1_200_000
"""Of all logs on a page together. With 200 runs that is 6,000 characters, about 60 lines, a run."""

_ABSENT = object()


@dataclass(frozen=True)
class RunView:
    """One row and what it expands to. Settings and provenance are JSON without the shared parts."""

    arm: str
    seed: int
    outcome: str
    detail: str
    steps: str
    wall: str
    device: str
    settings: str
    provenance: str
    log: str
    log_note: str
    directory: str
    command: str


@dataclass(frozen=True)
class RunGroup:
    """The runs of one experiment and the settings that they share."""

    experiment: str
    title: str
    tuning: str
    size: str
    finished: int
    diverged: int
    missing: int
    kernels: tuple[str, ...]
    shared_settings: str
    runs: tuple[RunView, ...]


def shared_parts(records: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Splits records into what is equal in all of them and what is left of each.

    Example:
        >>> shared_parts([{"a": 1, "b": {"c": 2, "d": 3}}, {"a": 1, "b": {"c": 2, "d": 4}}])
        ({'a': 1, 'b': {'c': 2}}, [{'b': {'d': 3}}, {'b': {'d': 4}}])
    """
    common: dict[str, Any] = {}
    rests: list[dict[str, Any]] = [{} for _ in records]
    for key in dict.fromkeys(key for record in records for key in record):
        parts = [record.get(key, _ABSENT) for record in records]
        if all(part == parts[0] for part in parts):
            common[key] = parts[0]
            continue
        if all(isinstance(part, dict) for part in parts):
            same, parts = shared_parts(parts)
            if same:
                common[key] = same
                parts = [part or _ABSENT for part in parts]
        for rest, part in zip(rests, parts, strict=True):
            if part is not _ABSENT:
                rest[key] = part
    return common, rests


def run_groups(inputs: Inputs) -> tuple[list[RunGroup], str]:
    """The runs by experiment, and as JSON the provenance that all runs share."""
    written = [run for run in inputs.runs if run.provenance]
    dumps = [
        run.provenance.model_dump(mode="json", exclude={"key"}) for run in written if run.provenance
    ]
    common, rests = shared_parts(dumps)
    provenance = {run.key: rest for run, rest in zip(written, rests, strict=True)}
    budget = LOG_CHARACTERS // max(1, len(inputs.runs))
    groups = []
    for name, experiment in inputs.paper.experiments.items():
        runs = [run for run in inputs.runs if run.key.experiment == name]
        if not runs:
            continue
        with_settings = [run for run in runs if run.settings]
        shared, own = shared_parts(
            [
                run.settings.model_dump(mode="json", exclude={"key"})
                for run in with_settings
                if run.settings
            ]
        )
        settings = {run.key: rest for run, rest in zip(with_settings, own, strict=True)}
        outcomes = [run.outcome for run in runs]
        groups.append(
            RunGroup(
                experiment=name,
                title=experiment.title,
                tuning=experiment.configurations_tried,
                size=count(len(runs), "run"),
                finished=outcomes.count("finished"),
                diverged=outcomes.count("diverged"),
                missing=outcomes.count("missing"),
                kernels=mixed_kernels(runs),
                shared_settings=_json(shared),
                runs=tuple(
                    _view(run, settings.get(run.key), provenance.get(run.key), budget)
                    for run in runs
                ),
            )
        )
    return groups, _json(common)


def mixed_kernels(runs: Sequence[Run]) -> tuple[str, ...]:
    """What some runs computed with other implementations than others, which may differ in rounding.

    One line for each operator, phase and type, e.g. `norm forward float32: cpp on cpu in 3 runs,
    native on cpu in 1 run`. A run that did not need an operator does not count.
    """
    found: dict[str, Counter[str]] = {}
    for run in runs:
        ran: dict[str, list[str]] = {}
        for name in run.provenance.kernels if run.provenance else ():
            operator, phase, implementation, dtype, device = name.split()
            way = f"{implementation} on {device}"
            ran.setdefault(f"{operator} {phase} {dtype}", []).append(way)
        for name, ways in ran.items():
            found.setdefault(name, Counter())[" and ".join(sorted(ways))] += 1
    return tuple(
        f"{name}: " + ", ".join(f"{way} in {count(n, 'run')}" for way, n in ways.most_common())
        for name, ways in found.items()
        if len(ways) > 1
    )


def _view(
    run: Run, settings: dict[str, Any] | None, provenance: dict[str, Any] | None, budget: int
) -> RunView:
    log, note = log_tail(run.log, budget)
    key, made = run.key, run.provenance
    return RunView(
        arm=key.arm,
        seed=key.seed,
        outcome=run.outcome,
        detail=made.outcome.detail if made else "no provenance.json: the run did not end",
        steps=f"{made.outcome.step:,}" if made else "–",
        wall=duration(made.wall_seconds) if made else "–",
        device=made.device if made else "–",
        settings=_json(settings or {}),
        provenance=_json(provenance or {}),
        log=log,
        log_note=note,
        directory=str(key.directory()),
        command=(
            f"python -m shared.training.run {key.paper} {key.experiment} {key.arm} "
            f"--seed {key.seed} --scale {key.scale}"
        ),
    )


def log_tail(lines: Sequence[str], budget: int) -> tuple[str, str]:
    """The end of a log within `LOG_LINES` lines and `budget` characters, and what was left out."""
    kept: list[str] = []
    for line in reversed(lines[-LOG_LINES:]):
        budget -= len(line) + 1
        if budget < 0:
            break
        kept.append(line)
    text = "\n".join(reversed(kept))
    if not lines:
        return "", "no run.log"
    whole = len(kept) == len(lines)
    return text, "the whole log" if whole else f"last {len(kept)} of {len(lines)} lines"


def _json(content: dict[str, Any]) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False) if content else ""
