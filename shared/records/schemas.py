"""The JSON schemas of the records: `python -m shared.records.schemas` writes workflow/schemas/."""

from __future__ import annotations

import json
from pathlib import Path

from shared.records.base import Record, write_text
from shared.records.benchmark import Benchmark
from shared.records.dataset import Manifest, Receipt
from shared.records.experiment import RunSettings
from shared.records.paper import Paper
from shared.records.run import Provenance
from shared.records.verdict import PaperVerdicts

FOLDER = Path("workflow/schemas")
SCHEMAS: dict[str, type[Record]] = {
    "paper": Paper,
    "receipt": Receipt,
    "manifest": Manifest,
    "settings": RunSettings,
    "provenance": Provenance,
    "verdicts": PaperVerdicts,
    "benchmark": Benchmark,
}


def schema_text(name: str) -> str:
    """The schema of one record as it stands in the file."""
    return json.dumps(SCHEMAS[name].model_json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    for name in SCHEMAS:
        write_text(FOLDER / f"{name}.schema.json", schema_text(name))
