"""Experiments of a paper: what is run, in which arms, at which scale, with which seeds.

`resolve` is the only place where the layers of settings are put together, so the workflow (which
decides what to rerun) and the run itself (which computes) cannot disagree.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, field_validator, model_validator

from shared.records.base import Record, RecordError, read_yaml, validate

Scale = Literal["smoke", "laptop", "full"]
SCALES: tuple[Scale, ...] = get_args(Scale)
NAME_PATTERN = r"^[a-z0-9][a-z0-9_.-]*$"
Name = Annotated[str, Field(pattern=NAME_PATTERN)]


# Swaps norms; a run depends on it only where it swaps any. The kinds are under test against it.
SWAP = "shared.norms.replace"
Norm = Literal["layer", "rms", "batch", "group", "instance", "dyt", "derf", "none"]


class DataSettings(Record):
    """What a training reads, and in which batches."""

    dataset: Name
    batch_size: int = Field(128, ge=1)
    eval_batch_size: int = Field(1000, ge=1)
    train_size: int | None = Field(None, ge=1, description="first N training examples, else all")
    test_size: int | None = Field(None, ge=1, description="first N test examples, else all")
    augment: tuple[Literal["crop", "flip"], ...] = ()


class TrainerSettings(Record):
    """How long and how a training runs. At least one of `max_epochs` and `max_steps` is set."""

    max_epochs: int | None = Field(None, ge=0)
    max_steps: int | None = Field(None, ge=0)
    eval_every_epochs: int = Field(1, ge=1)
    eval_every_steps: int | None = Field(
        None, ge=1, description="test every N training batches in place of every N epochs"
    )
    log_every_steps: int = Field(50, ge=1)
    steps_at_once: int = Field(
        1, ge=1, description="steps in one call of Lightning, for networks of a millisecond a step"
    )
    checkpoint_every_seconds: float = Field(30.0, gt=0)
    gradient_clip_norm: float | None = Field(None, gt=0)
    precision: Literal["32-true", "16-mixed", "bf16-mixed", "64-true"] = "32-true"
    channels_last: bool = False

    @model_validator(mode="after")
    def _has_an_end(self) -> TrainerSettings:
        if self.max_epochs is None and self.max_steps is None:
            raise ValueError("a training needs an end: set trainer.max_epochs or trainer.max_steps")
        return self

    @model_validator(mode="after")
    def _groups_fit(self) -> TrainerSettings:
        if self.steps_at_once == 1:
            return self
        for name in ("max_steps", "eval_every_steps"):
            if (getattr(self, name) or 0) % self.steps_at_once:
                raise ValueError(
                    f"{name}: got {getattr(self, name)}, expected a multiple of steps_at_once, "
                    f"{self.steps_at_once}"
                )
        if self.gradient_clip_norm is not None or self.precision.endswith("mixed"):
            raise ValueError(
                "steps_at_once works without gradient_clip_norm and mixed precision: set it to 1"
            )
        return self


class RunRef(Record):
    """Another run of the same paper whose weights a run starts from (an artefact)."""

    experiment: Name
    arm: Name
    seed: int = Field(0, ge=0)


class Overrides(Record):
    """What a scale or an arm changes. Nested values are merged key by key."""

    data: dict[str, Any] = {}
    trainer: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    norm: Norm | None = None


class ScaleSettings(Overrides):
    """An experiment exists at a scale only if that scale is listed, even if it changes nothing."""

    seeds: int | None = Field(None, ge=1)
    arms: tuple[Name, ...] | None = Field(None, description="only these arms at this scale")


class Experiment(Record):
    """One experiment: arms x seeds of a training or of a measurement.

    `entry` names the code as `module:Name` inside the paper's package: for a training a subclass
    of `shared.training.module.PaperModule`, for a measurement a function of a run. Its keyword
    arguments are `settings`.
    """

    title: str
    kind: Literal["training", "measurement"]
    entry: str = Field(pattern=r"^[a-z_][a-z0-9_]*:[A-Za-z_][A-Za-z0-9_]*$")
    data: dict[str, Any] = {}
    trainer: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    norm: Norm | None = Field(
        None, description="a training: swap all norms of the module for this kind before it starts"
    )
    arms: dict[Name, Overrides | None] = {}
    grid: dict[str, tuple[str | int | float, ...]] = Field(
        {}, description="setting -> values; every combination is an arm named by its values"
    )
    seeds: int = Field(3, ge=1, le=1000)
    scales: dict[Scale, ScaleSettings | None]
    needs: dict[Name, RunRef] = {}
    threads: int = Field(1, ge=1)
    configurations_tried: str = Field(
        "", description="the tuning effort behind each arm, in words and numbers"
    )

    @field_validator("scales", "arms", mode="before")
    @classmethod
    def _empty_means_no_change(cls, value: Any) -> Any:
        return value if value is not None else {}

    @model_validator(mode="after")
    def _arms_or_grid(self) -> Experiment:
        if bool(self.arms) == bool(self.grid):
            raise ValueError("give either `arms` or `grid`, one of them and not both")
        if self.kind == "measurement" and (self.trainer or self.data.keys() - {"dataset"}):
            raise ValueError("a measurement takes `settings` and at most `data.dataset`")
        if wrong := [arm for arm in self.all_arms() if not re.fullmatch(NAME_PATTERN, arm)]:
            raise ValueError(
                f"the grid gives the arm {wrong[0]!r}; an arm is a folder, so the values of a grid "
                "are written in small letters, digits and _ . -"
            )
        num_arms = math.prod(len(values) for values in self.grid.values())
        if self.grid and len(self.all_arms()) != num_arms:
            raise ValueError(
                f"the grid has {num_arms} combinations of values, but some share a name; the arms "
                f"are {', '.join(self.all_arms())}"
            )
        unknown = {
            arm
            for scale in self.scales.values()
            if scale and scale.arms
            for arm in scale.arms
            if arm not in self.all_arms()
        }
        if unknown:
            raise ValueError(
                f"scales name unknown arms {sorted(unknown)}; the arms are "
                f"{', '.join(self.all_arms())}"
            )
        return self

    def all_arms(self) -> dict[str, Overrides]:
        """Arm name -> what it changes, in the order of the file."""
        if self.arms:
            return {name: change or Overrides() for name, change in self.arms.items()}
        result = {}
        for values in itertools.product(*self.grid.values()):
            name = "-".join(str(value) for value in values)
            result[name] = Overrides(settings=dict(zip(self.grid, values, strict=True)))
        return result

    def arms_at(self, scale: Scale) -> tuple[str, ...]:
        """The arms that are run at a scale; none where the scale is not listed."""
        if scale not in self.scales:
            return ()
        chosen = self.scales[scale]
        return (chosen.arms if chosen and chosen.arms else None) or tuple(self.all_arms())

    def seeds_at(self, scale: Scale, wanted: int | None = None) -> range:
        """The judged seeds 0, 1, ...: at smoke scale only seed 0; `wanted` can only add to them."""
        if scale == "smoke":
            return range(1)
        chosen = self.scales.get(scale)
        planned = (chosen.seeds if chosen else None) or self.seeds
        return range(max(planned, wanted or 0))


class RunKey(Record):
    """Names one run: the unit that is trained, stored, resumed and counted."""

    scale: Scale
    paper: Name
    experiment: Name
    arm: Name
    seed: int = Field(ge=0, lt=2**32)

    def __str__(self) -> str:
        return f"{self.paper}/{self.experiment}/{self.arm}/seed-{self.seed}"

    def directory(self, results: Path = Path("results")) -> Path:
        return results / self.scale / "runs" / str(self)


class RunSettings(Record):
    """Everything that decides what a run computes, besides the code and the bytes of the data."""

    key: RunKey
    kind: Literal["training", "measurement"]
    entry: str
    data: DataSettings | None
    dataset: Name | None
    trainer: TrainerSettings | None
    settings: dict[str, Any]
    norm: Norm | None = None
    needs: dict[str, RunKey]
    threads: int

    @property
    def module(self) -> str:
        """The dotted module that holds the paper's code of this run."""
        return f"papers.{self.key.paper}.{self.entry.partition(':')[0]}"

    def code(self) -> tuple[str, ...]:
        """The modules whose imports are all the code of this run."""
        swap = () if self.norm is None else (SWAP,)
        return ("shared.training.run", self.module, *swap)


class Experiments(Record):
    """The `experiments` section of paper.yaml, read without the claims."""

    experiments: dict[Name, Experiment]


def read_experiments(path: Path) -> dict[str, Experiment]:
    """The experiments of a paper.yaml. Claims are not looked at: they cannot change a run."""
    content = read_yaml(path)
    if not isinstance(content, dict) or "experiments" not in content:
        raise RecordError(f"{path}:1: no `experiments`. See docs/adding-a-paper.md.")
    return validate({"experiments": content["experiments"]}, Experiments, path).experiments


def resolve(
    experiments: Mapping[str, Experiment],
    key: RunKey,
    overrides: Mapping[str, Any] | None = None,
) -> RunSettings:
    """Puts the layers together: experiment < scale < arm < overrides of the command line.

    Args:
        overrides: dotted names of settings, e.g. `{"trainer.max_epochs": 2, "settings.lr": 0.1}`.

    Raises:
        RecordError: an unknown experiment, arm, scale or key, with the known ones.
    """
    experiment = experiments.get(key.experiment)
    if experiment is None:
        raise RecordError(
            f"{key.paper}: got experiment {key.experiment!r}, expected one of "
            f"{', '.join(experiments)}"
        )
    arms = experiment.all_arms()
    if key.arm not in arms:
        raise RecordError(
            f"{key.paper}/{key.experiment}: got arm {key.arm!r}, expected one of {', '.join(arms)}"
        )
    if key.scale not in experiment.scales:
        raise RecordError(
            f"{key.paper}/{key.experiment}: is not defined at scale {key.scale!r}, only at "
            f"{', '.join(experiment.scales)}. Add the scale to its `scales` in paper.yaml."
        )
    layers = [
        Overrides(
            data=experiment.data,
            trainer=experiment.trainer,
            settings=experiment.settings,
            norm=experiment.norm,
        ),
        experiment.scales[key.scale] or ScaleSettings(),
        arms[key.arm],
        _from_dotted(overrides or {}),
    ]
    data: dict[str, Any] = {}
    trainer: dict[str, Any] = {}
    settings: dict[str, Any] = {}
    norm: Norm | None = None
    for layer in layers:
        data |= layer.data
        trainer |= layer.trainer
        settings |= layer.settings
        if "norm" in layer.model_fields_set:  # `null` undoes a swap
            norm = layer.norm
    where = Path("papers") / key.paper / "paper.yaml"
    training = experiment.kind == "training"
    if not training and (trainer or norm or data.keys() - {"dataset"}):
        raise RecordError(
            f"{key.paper}/{key.experiment}: is a measurement: got `norm` or settings of `trainer` "
            "or `data`, expected only `settings`"
        )
    return validate(
        {
            "key": key,
            "kind": experiment.kind,
            "entry": experiment.entry,
            "data": data if training and data else None,
            "dataset": data.get("dataset"),
            "trainer": trainer if training else None,
            "settings": settings,
            "norm": norm,
            "needs": {
                name: RunKey(scale=key.scale, paper=key.paper, **ref.model_dump())
                for name, ref in experiment.needs.items()
            },
            "threads": experiment.threads,
        },
        RunSettings,
        where,
    )


def _from_dotted(values: Mapping[str, Any]) -> Overrides:
    sections: dict[str, dict[str, Any]] = {"data": {}, "trainer": {}, "settings": {}}
    swap: dict[str, Any] = {}
    for dotted, value in values.items():
        section, _, name = dotted.partition(".")
        if dotted == "norm":
            swap = {"norm": value}
        elif section in sections and name:
            sections[section][name] = value
        else:
            raise RecordError(
                f"override {dotted!r}: expected norm, data.NAME, trainer.NAME or settings.NAME"
            )
    # Not validated here: `resolve` validates the whole.
    fields: dict[str, Any] = {**sections, **swap}
    return Overrides.model_construct(set(fields), **fields)
