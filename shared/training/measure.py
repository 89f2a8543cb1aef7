"""A measurement: rows from a plain function, without training."""

from __future__ import annotations

import time
from collections.abc import Iterable

from shared.records.metrics import Row
from shared.records.run import Outcome
from shared.training.arguments import named_in_errors
from shared.training.run_context import Computed, Run


def measure(run: Run, rows: Iterable[Row]) -> Computed:
    """Records the rows that the paper's function returns or yields.

    A function that raises FloatingPointError has diverged; the rows before stay.

    Raises:
        RecordError: in place of a ValueError of the function, which may be a generator that looks
            at its settings only now.
    """
    start, outcome = time.time(), Outcome(status="finished", step=0)
    try:
        with named_in_errors(run.settings):
            for row in rows:
                run.recorder.add(row.metric, row.value, row.unit, split=row.split, step=row.step)
    except FloatingPointError as error:
        outcome = Outcome(status="diverged", step=0, detail=str(error))
    return Computed(
        outcome,
        wall_seconds=time.time() - start,
        processor_seconds=time.process_time(),
        first_step_at=start,
    )
