"""The configuration of the workflow: config/config.yaml and `--config` of the command line.

`python -m shared.plan.config` writes its JSON schema to workflow/schemas/.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator

from shared.records.base import Record, RecordError, write_text
from shared.records.experiment import Scale

SCHEMA = Path("workflow/schemas/config.schema.json")
Setting = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_-]*\.[a-z0-9][a-z0-9_-]*\.((data|trainer|settings)\.\w+|norm)$"
    ),
]


class WorkflowConfig(Record):
    """What a user may choose. Everything else stands in the paper.yaml of each paper."""

    scale: Scale = Field(
        "laptop",
        description="smoke: seconds, only proves the wiring; laptop: minutes; full: as the paper",
    )
    seeds: int | None = Field(
        None,
        ge=1,
        le=1000,
        description="at least this many seeds per arm; it can only add to those of paper.yaml",
    )
    overrides: dict[Setting, Any] = Field(
        {},
        description="PAPER.EXPERIMENT.SECTION.NAME: value or PAPER.EXPERIMENT.norm: kind, in all "
        "arms; for trying things out",
    )

    @field_validator("overrides")
    @classmethod
    def _read_text(cls, overrides: dict[str, Any]) -> dict[str, Any]:
        return {name: _value(value) for name, value in overrides.items()}

    def overrides_of(self, paper: str, experiment: str) -> dict[str, Any]:
        """`{"trainer.max_steps": 10}` for each override of that experiment."""
        start = f"{paper}.{experiment}."
        return {
            name.removeprefix(start): value
            for name, value in self.overrides.items()
            if name.startswith(start)
        }


def read_config(config: Mapping[str, Any]) -> WorkflowConfig:
    """Validates what Snakemake has read.

    Raises:
        RecordError: all faults at once, each with the key, what was got and what was expected.
    """
    try:
        return WorkflowConfig.model_validate(dict(config))
    except ValidationError as error:
        faults = [_describe(fault) for fault in error.errors()]
        raise RecordError("\n".join(faults)) from None


def _value(value: Any) -> Any:
    """Inside a mapping Snakemake's `--config` reads every value as text, numbers too."""
    if isinstance(value, list):
        return [_value(item) for item in value]
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def _describe(fault: Any) -> str:
    key = fault["loc"][0]
    where = f"configuration (config/config.yaml or --config): {key}"
    if fault["type"] == "extra_forbidden":
        known = ", ".join(WorkflowConfig.model_fields)
        return f"{where}: unknown key, expected one of {known}"
    if key == "overrides" and len(fault["loc"]) > 1:
        return (
            f"{where}: got {fault['input']!r}, expected PAPER.EXPERIMENT.SECTION.NAME "
            "(SECTION: data, trainer or settings), e.g. fixup.depth_sweep.trainer.max_steps, or "
            "PAPER.EXPERIMENT.norm"
        )
    return f"{where}: got {fault['input']!r}. {fault['msg']}"


def schema_text() -> str:
    """The JSON schema of config/config.yaml, for editors and the workflow catalog."""
    return json.dumps(WorkflowConfig.model_json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    write_text(SCHEMA, schema_text())
