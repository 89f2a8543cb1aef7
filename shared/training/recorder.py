"""Collects the rows of a run in memory: no file, no device synchronisation per step."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from shared.records.metrics import Row

if TYPE_CHECKING:
    import torch


class Recorder:
    """Rows of one run, and running means of which every n-th step becomes a row.

    Values may be 0-d tensors: they are read (and a device synchronised) only when the rows are.
    In the table a number that is not finite is a missing row; `first_non_finite` tells of it, and
    the envelope then records the run as diverged.
    """

    def __init__(self) -> None:
        self._rows: list[tuple[str, float | torch.Tensor, str, str, int]] = []
        self._seen: set[tuple[str, str, int]] = set()
        self._sums: dict[tuple[str, str, str], tuple[float | torch.Tensor, int]] = {}

    def add(
        self, metric: str, value: float | torch.Tensor, unit: str, *, split: str, step: int
    ) -> None:
        """Adds one row.

        Raises:
            ValueError: the metric was recorded before at this split and step.
        """
        identity = (metric, split, step)
        if identity in self._seen:
            raise ValueError(
                f"{metric!r} (split {split!r}) was recorded twice at step {step}; "
                "record it once, or pass another step"
            )
        self._seen.add(identity)
        self._rows.append((metric, _detached(value), unit, split, step))

    def has(self, metric: str, *, split: str, step: int) -> bool:
        """Whether a row is there."""
        return (metric, split, step) in self._seen

    def add_mean(
        self,
        metric: str,
        value: float | torch.Tensor,
        unit: str,
        *,
        split: str,
        step: int,
        every: int,
    ) -> None:
        """Adds `value` to a running mean, which becomes a row at each `every`-th step."""
        name = (metric, unit, split)
        total, count = self._sums.get(name, (0.0, 0))
        self._sums[name] = (total + _detached(value), count + 1)
        if step % every == 0:
            self._close_mean(name, step)

    def close_means(self, step: int) -> None:
        """Turns what is left of the running means into rows."""
        for name in list(self._sums):
            self._close_mean(name, step)

    def _close_mean(self, name: tuple[str, str, str], step: int) -> None:
        metric, unit, split = name
        total, count = self._sums.pop(name)
        self.add(metric, total / count, unit, split=split, step=step)

    def rows(self) -> list[Row]:
        """The finite rows so far, in the order in which they were recorded."""
        return [row for row in self._all_rows() if math.isfinite(row.value)]

    def first_non_finite(self) -> Row | None:
        """The earliest row that is NaN or infinite, if there is one."""
        broken = [row for row in self._all_rows() if not math.isfinite(row.value)]
        return min(broken, key=lambda row: row.step, default=None)

    def _all_rows(self) -> list[Row]:
        return [
            Row(metric, float(v), unit, split, step) for metric, v, unit, split, step in self._rows
        ]

    def state_dict(self) -> dict[str, Any]:
        """All that a resumed run needs to end with the same rows."""
        return {
            "rows": [(m, float(v), u, sp, st) for m, v, u, sp, st in self._rows],
            "sums": [(key, float(total), count) for key, (total, count) in self._sums.items()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._rows = [tuple(row) for row in state["rows"]]
        self._seen = {(metric, split, step) for metric, _, _, split, step in self._rows}
        self._sums = {tuple(key): (total, count) for key, total, count in state["sums"]}


def _detached(value: float | torch.Tensor) -> float | torch.Tensor:
    return value if isinstance(value, (int, float)) else value.detach().clone()
