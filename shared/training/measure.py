"""A measurement: rows from a plain function, without training."""

from __future__ import annotations

import time
from collections.abc import Iterable

from shared.records.metrics import Row
from shared.records.run import Outcome
from shared.training.run_context import Computed, Run


def measure(run: Run, rows: Iterable[Row]) -> Computed:
    """Records the rows that the paper's function returns or yields."""
    start = time.time()
    for row in rows:
        run.recorder.add(row.metric, row.value, row.unit, split=row.split, step=row.step)
    return Computed(Outcome(status="finished", step=0), time.time() - start, start)
