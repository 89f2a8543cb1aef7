"""Simulated tables that show how often the judge errs: `python -m shared.claims.simulate`.

Every simulated table goes through `judge`, as an experiment of its own of one synthetic paper.
The spread between seeds is stated relative to the bound; a wider one costs power, never errors.
"""

from __future__ import annotations

import argparse
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from shared.claims.effects import Array
from shared.claims.judge import judge
from shared.records.claim import Claim, Source
from shared.records.experiment import Experiment, Overrides
from shared.records.metrics import SCHEMA
from shared.records.paper import Paper
from shared.records.verdict import Look

ALPHA = 0.05
TABLES = 2000
POWER_TABLES = 1000  # enough for a share near 95 %: its standard error is 0.7 %
T_SEEDS = 5
RATE_SEEDS = 8
BATCH = 1000  # tables that are judged as one paper

BOTH = ("reproduced", "not_reproduced")

# (random numbers, tables, seeds) -> numbers of shape (tables, arms, seeds); NaN = diverged
Draw = Callable[[np.random.Generator, int, int], Array]


class Scenario(NamedTuple):
    """A claim and a truth: the verdicts that would be false there, or the one that is right."""

    kind: str
    effect: str
    spread: str
    claim: dict[str, Any]
    draw: Draw
    seeds: tuple[int, ...]
    never: tuple[str, ...] = ()
    right: str = ""


class Outcome(NamedTuple):
    """Per look, the shares of the tables that got a verdict at that look or an earlier one."""

    scenario: Scenario
    tables: int
    reproduced: tuple[float, ...]
    not_reproduced: tuple[float, ...]

    @property
    def limit(self) -> float:
        """Alpha plus three standard errors of a simulated share; 0 where no chance is involved."""
        if self.scenario.kind == "exact":
            return 0.0
        return ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / self.tables)


def scenarios() -> Iterator[Scenario]:
    """For each kind of claim: the effect at the bound (over three looks), and far from it."""
    for kind, spread, claim, draw, (at_bound, twice, below) in _kinds():
        first = RATE_SEEDS if kind == "rate" else T_SEEDS
        yield Scenario(kind, "at the bound", spread, claim, draw(at_bound), _looks(first), BOTH)
        for effect, text, right in [
            (twice, "twice the bound", "reproduced"),
            (below, "as far on the other side", "not_reproduced"),
        ]:
            yield Scenario(kind, text, spread, claim, draw(effect), (first,), right=right)
    yield from _orderings()
    yield from _equivalences()
    yield from _exacts()


def simulate(scenario: Scenario, tables: int | None = None, seed: int = 0) -> Outcome:
    """Judges simulated tables, look after look.

    Args:
        tables: how many; by default `TABLES`, or `POWER_TABLES` where no verdict is false.
        seed: of the random numbers.
    """
    size = tables or (TABLES if scenario.never else POWER_TABLES)
    random = np.random.default_rng(seed)
    counts = [Counter[str]() for _ in scenario.seeds]
    for start in range(0, size, BATCH):
        numbers = scenario.draw(random, min(BATCH, size - start), max(scenario.seeds))
        for count, batch in zip(counts, _judge_batch(scenario, numbers), strict=True):
            count.update(batch)
    return Outcome(
        scenario,
        size,
        reproduced=tuple(count["reproduced"] / size for count in counts),
        not_reproduced=tuple(count["not_reproduced"] / size for count in counts),
    )


def markdown(outcomes: Sequence[Outcome]) -> str:
    """The outcomes as a Markdown table, one row for the first look and one for all looks.

    A false verdict is marked with the limit that it must keep.
    """
    lines = [
        "| kind | true effect | spread between seeds | tables | seeds | reproduced "
        "| not_reproduced |",
        "|---|---|---|---|---|---|---|",
    ]
    for outcome in outcomes:
        case = outcome.scenario
        for look in sorted({1, len(case.seeds)}):
            cells = [
                f"{100 * shares[look - 1]:.2f} %"
                + (f" (false, limit {100 * outcome.limit:.2f} %)" if verdict in case.never else "")
                for verdict, shares in [
                    ("reproduced", outcome.reproduced),
                    ("not_reproduced", outcome.not_reproduced),
                ]
            ]
            seeds = ", then ".join(map(str, case.seeds[:look]))
            lines.append(
                f"| {case.kind} | {case.effect} | {case.spread} | {outcome.tables} | {seeds} "
                f"| {cells[0]} | {cells[1]} |"
            )
    return "\n".join(lines)


def _looks(first: int) -> tuple[int, ...]:
    return (first, first + 3, first + 7)


def _judge_batch(scenario: Scenario, numbers: Array) -> list[Counter[str]]:
    """Per look, counts the tables that have got each verdict so far."""
    arms = [f"arm-{i}" for i in range(numbers.shape[1])]
    ledger: tuple[Look, ...] = ()
    found: set[tuple[str, str]] = set()
    counts = []
    for seeds in scenario.seeds:
        paper = _paper(scenario, arms, len(numbers), seeds)
        table = _table(numbers[:, :, :seeds], list(paper.experiments), arms)
        verdicts, new = judge("simulated", paper, table, "laptop", None, ledger)
        ledger = (*ledger, *new)
        found |= {(claim.id, claim.verdict) for claim in verdicts.claims}
        counts.append(Counter(verdict for _, verdict in found))
    return counts


def _paper(scenario: Scenario, arms: list[str], tables: int, seeds: int) -> Paper:
    experiment = Experiment(
        title="simulated",
        kind="measurement",
        entry="simulate:draw",
        arms=dict.fromkeys(arms, Overrides()),
        seeds=seeds,
        scales={"laptop": None},
    )
    claims = tuple(
        Claim(
            id=f"t{i}",
            statement="simulated",
            source=Source(where="simulated", verified=True),
            experiment=f"t{i}",
            arms=tuple(arms),
            metric="metric",
            split="none",
            unit="unit",
            bound_reason="simulated",
            alpha=ALPHA,
            **scenario.claim,
        )
        for i in range(tables)
    )
    return Paper(
        title="simulated",
        authors=("nobody",),
        year=2000,
        venue="none",
        arxiv="0000.00000v1",
        summary="simulated",
        main_claims=(),
        here="simulated",
        experiments={claim.id: experiment for claim in claims},
        claims=claims,
        deviations=(),
    )


def _table(numbers: Array, experiments: list[str], arms: list[str]) -> pl.DataFrame:
    """The tidy table: a `diverged` row for each run, and a row of the metric unless it diverged."""
    experiment, arm, seed = (index.ravel() for index in np.indices(numbers.shape))
    value = numbers.ravel()
    lost = np.isnan(value)
    runs = pl.DataFrame(
        {
            "experiment": pl.Series(experiments).gather(experiment),
            "arm": pl.Series(arms).gather(arm),
            "seed": seed,
            "split": "none",
            "step": 0,
            "metric": "metric",
            "value": value,
            "unit": "unit",
        }
    )
    flags = runs.with_columns(
        split=pl.lit("run"),
        metric=pl.lit("diverged"),
        value=pl.Series(lost.astype(np.float64)),
        unit=pl.lit("flag"),
    )
    return pl.concat([runs.filter(~pl.Series(lost)), flags]).cast(SCHEMA)


def _kinds() -> Iterator[tuple[str, str, dict[str, Any], Callable[[float], Draw], tuple[Any, ...]]]:
    """kind, spread, claim, draw for an effect, and effects at, at twice and below the bound."""
    yield (
        "value", "sd 0.5 bound", {"kind": "value", "bound": {"at_least": 1.0}},
        lambda effect: lambda random, tables, seeds: (
            effect + 0.5 * random.standard_normal((tables, 1, seeds))
        ),
        (1.0, 2.0, 0.0),
    )  # fmt: skip
    yield (
        "gap", "sd of the gap 0.5 bound", {"kind": "gap", "bound": {"at_least": 1.0}},
        lambda effect: _arms([effect, 0.0], spread=0.5),
        (1.0, 2.0, 0.0),
    )  # fmt: skip
    yield (
        "ratio", "sd of the log ratio 0.5 log 2", {"kind": "ratio", "bound": {"at_least": 2.0}},
        lambda effect: _exp(_arms([math.log(effect), 0.0], spread=0.5 * math.log(2))),
        (2.0, 4.0, 1.0),
    )  # fmt: skip
    x = (0.0, 1.0, 2.0, 3.0)
    yield (
        "trend", "sd of the slope 0.5 bound", {"kind": "trend", "x": x, "bound": {"at_least": 1.0}},
        # The sum of squares of centred x is 5; `spread` is that of a difference of two arms.
        lambda effect: _arms([effect * at for at in x], spread=0.5 * math.sqrt(2 * 5)),
        (1.0, 2.0, 0.0),
    )  # fmt: skip
    yield (
        "rate", "bound 0.475; half of the failed runs diverge",
        {"kind": "rate", "success": {"at_most": 1.0}, "bound": {"at_least": 0.475}},
        _rate,
        (0.475, 0.95, 0.0),
    )  # fmt: skip


def _orderings() -> Iterator[Scenario]:
    """A false `reproduced` is likeliest with one gap at the bound and the others far inside."""
    spread = "sd of each gap 0.4 bound"
    claim = {"kind": "ordering", "bound": {"at_least": 1.0}}
    for gaps, text, never, right in [
        ((1.0, 20.0), "one gap at the bound, one far inside", BOTH, ""),
        ((1.0, 1.0), "both gaps at the bound", BOTH, ""),
        ((2.0, 2.0), "both gaps twice the bound", (), "reproduced"),
        ((20.0, 0.0), "one gap as far on the other side", (), "not_reproduced"),
    ]:
        draw = _arms([gaps[0] + gaps[1], gaps[1], 0.0], spread=0.4)
        looks = _looks(T_SEEDS) if never else (T_SEEDS,)
        yield Scenario("ordering", text, spread, claim, draw, looks, never, right)


def _equivalences() -> Iterator[Scenario]:
    """With a wide spread the region is small beside the interval, so both its sides can err."""
    claim = {"kind": "gap", "bound": {"at_least": -1.0, "at_most": 1.0}}
    for effect, text, spread, never, right in [
        (1.0, "at the upper bound", 0.4, BOTH, ""),
        (1.0, "at the upper bound", 1000.0, BOTH, ""),
        (0.0, "in the middle", 0.4, (), "reproduced"),
        (2.0, "twice the bound", 0.4, (), "not_reproduced"),
    ]:
        draw = _arms([effect, 0.0], spread)
        looks = _looks(T_SEEDS) if never else (T_SEEDS,)
        told = f"sd of the gap {spread:g} bound"
        yield Scenario("gap, two sides", text, told, claim, draw, looks, never, right)


def _exacts() -> Iterator[Scenario]:
    """Errors are uniform up to the largest, which one run of each table has."""
    claim = {"kind": "exact", "bound": {"at_most": 1.0}}

    def draw(largest: float) -> Draw:
        def numbers(random: np.random.Generator, tables: int, seeds: int) -> Array:
            errors = largest * random.random((tables, 2, seeds))
            errors[np.arange(tables), 0, random.integers(seeds, size=tables)] = largest
            return errors

        return numbers

    for largest, text, never in [
        (1.0, "largest at the bound", ("reproduced",)),
        (0.5, "largest half the bound", ("not_reproduced",)),
        (2.0, "largest twice the bound", ("reproduced",)),
    ]:
        yield Scenario("exact", text, "none needed", claim, draw(largest), (T_SEEDS,), never)


def _arms(means: Sequence[float], spread: float) -> Draw:
    """Arms that share a part of each seed; `spread` is the sd of a difference of two arms."""

    def numbers(random: np.random.Generator, tables: int, seeds: int) -> Array:
        shared = random.standard_normal((tables, 1, seeds))
        own = spread / math.sqrt(2) * random.standard_normal((tables, len(means), seeds))
        return np.asarray(np.array(means)[:, None] + shared + own)

    return numbers


def _exp(draw: Draw) -> Draw:
    return lambda random, tables, seeds: np.exp(draw(random, tables, seeds))


def _rate(share: float) -> Draw:
    """Runs whose metric is below 1 with this probability; else it is above, or they diverge."""

    def numbers(random: np.random.Generator, tables: int, seeds: int) -> Array:
        value = random.random((tables, 1, seeds))
        failed = random.random(value.shape) >= share
        return np.where(failed, np.where(value < 0.5, np.nan, 1 + value), value)

    return numbers


if __name__ == "__main__":
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", type=int, help="of each scenario")
    chosen = options.parse_args()
    print(markdown([simulate(case, chosen.tables, i) for i, case in enumerate(scenarios())]))
