"""The C++ kernels in many small blocks: right, and the same bits for any number of threads."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from shared.kernels.norm import cpp
from shared.kernels.pointwise import cpp as pointwise_cpp
from tests.kernels.contract import CASES, NORM_CASES, Case, to_second_order
from tests.kernels.test_contract import check

pytestmark = pytest.mark.skipif(cpp.obstacle("cpu") is not None, reason="the kernels cannot run")


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The cases are far smaller than a block of real work, which one thread would do alone."""
    for module in (cpp, pointwise_cpp):
        monkeypatch.setattr(module, "BLOCK", 8)
        module._plan.cache_clear()
    yield
    for module in (cpp, pointwise_cpp):
        module._plan.cache_clear()
    torch.set_num_threads(1)


@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_any_number_of_threads_gives_the_same_bits(case: Case, layout: str) -> None:
    x, *rest = case.inputs(torch.float32, "cpu")
    if layout == "channels-last":
        if x.dim() < 3:
            pytest.skip("rows have one layout")
        x = x.movedim(1, -1).contiguous().movedim(-1, 1)
    found = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        check(case, "cpp", [x, *rest])
        found.append(to_second_order(case.op("cpp"), [x, *rest]))
    for other in found[1:]:
        for orders in zip(found[0], other, strict=True):
            for expected, got in zip(*orders, strict=True):
                assert torch.equal(expected, got)


def test_the_cases_reach_several_blocks_with_and_without_shared_sums(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, plans = cpp._plan.__wrapped__, []
    with monkeypatch.context() as patched:
        patched.setattr(cpp, "_plan", lambda *args: plans.append(plan(*args)) or plans[-1])
        for case in NORM_CASES:
            x, *rest = case.inputs(torch.float32, "cpu")
            for laid_out in (x, x.movedim(1, -1).contiguous().movedim(-1, 1)):
                to_second_order(case.op("cpp"), [laid_out, *rest])
    several = {(plan.columns, plan.shared) for plan in plans if plan.blocks > 1}
    assert several == {(False, False), (False, True), (True, False), (True, True)}
    assert not any(plan.serial for plan in plans if plan.blocks > 1)
