"""Breaks every backward by a sign or a missing term and sees the contract suite fail.

A suite that passes a broken kernel proves nothing: each line below is one such break.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
import torch

import shared.kernels
from shared.kernels import OPERATORS, build
from shared.kernels.registry import Implementation, Operator
from tests.kernels.contract import CASES, IMPLEMENTATIONS
from tests.kernels.test_contract import check

KERNELS = Path(shared.kernels.__file__).parent


class Mutation(NamedTuple):
    """A file of an implementation, what is replaced in it and by what."""

    file: str
    implementation: str
    old: str
    new: str


NORM_REFERENCE = "norm/reference.py", "reference"
NORM_NATIVE = "norm/native.py", "native"
NORM_TRITON = "norm/kernels.py", "triton"
NORM_CPP = "norm/source/norm.h", "cpp"
COLUMNS_CPP = "norm/source/columns.h", "cpp"
POINTWISE = "pointwise/formula.py", "reference"
POINTWISE_CPP = "pointwise/source/pointwise.cpp", "cpp"
FUNCTIONS_CPP = "pointwise/source/functions.h", "cpp"
POINTWISE_TRITON = "pointwise/kernels.py", "triton"
MUTATIONS = [
    Mutation(*NORM_REFERENCE, "return t - along - (", "return t + along - ("),
    Mutation(*NORM_REFERENCE, "spread(group_mean(t, groups), t, groups) if centre else 0", "0"),
    Mutation(*NORM_REFERENCE, "sum_to(g * xhat, weight.shape)", "sum_to(g, weight.shape)"),
    Mutation(*NORM_REFERENCE, "- r * xhat * m(u * a)", ""),
    Mutation(*NORM_REFERENCE, "h = p * g - r *", "h = p * g + r *"),
    Mutation(*NORM_REFERENCE, "v * m(a * xhat) + a", "a"),
    Mutation(*NORM_REFERENCE, "return w * u + p * xhat + q", "return w * u + q"),
    Mutation(*NORM_REFERENCE, "return w * u + p * xhat + q", "return w * u + p * xhat"),
    Mutation(*NORM_REFERENCE, "sum_to(g * u, weight.shape)", "sum_to(-g * u, weight.shape)"),
    Mutation(*NORM_NATIVE, "dx.add_(spread(total", "dx.sub_(spread(total"),
    Mutation(*NORM_NATIVE, "r = -spread(safe", "r = spread(safe"),
    Mutation(*NORM_NATIVE, ".add_(torch.mul(xhat, scaled[1], out=work))", ""),
    Mutation(*NORM_NATIVE, "gx.add_(torch.mul(u, scaled[0], out=work))", "gx"),
    Mutation(*NORM_NATIVE, "h.add_(a.mul_(t))", "h"),
    Mutation(*NORM_NATIVE, "gg.add_(torch.mul(xhat, p, out=work))", "pass"),
    Mutation(*NORM_NATIVE, "gg.add_(q)", "gg.sub_(q)"),
    Mutation(*NORM_NATIVE, "gw.add_(sum_to(", "gw.sub_(sum_to("),
    Mutation(*NORM_NATIVE, "sum_to(wide * safe.xhat(), ", "sum_to(wide, "),
    Mutation(*NORM_NATIVE, "MAX_RATIO = 16.0", "MAX_RATIO = 1e30"),
    Mutation(*NORM_TRITON, "out = r * (a - mean_a - xhat * along)", "out = r * (a - mean_a)"),
    Mutation(*NORM_TRITON, "out = r * (a - mean_a - xhat", "out = r * (a + mean_a - xhat"),
    Mutation(*NORM_TRITON, "total_w += tl.sum(g * xhat, 1)", "total_w -= tl.sum(g * xhat, 1)"),
    Mutation(*NORM_TRITON, "total_b += tl.sum(g, 1)", "total_b += tl.sum(a, 1)"),
    Mutation(*NORM_TRITON, "h = -r * (v_pq * s + a * t)", "h = r * (v_pq * s + a * t)"),
    Mutation(*NORM_TRITON, "(mean_h_xhat + mean_ua)", "mean_h_xhat"),
    Mutation(*NORM_TRITON, "- 2.0 * r * s * t", "- r * s * t"),
    Mutation(*NORM_TRITON, "h += p_pq * g", "h -= p_pq * g"),
    Mutation(*NORM_TRITON, "out += p_pq * xhat", "out += p_pq"),
    Mutation(*NORM_TRITON, "out += _load(q_", "out -= _load(q_"),
    Mutation(*NORM_TRITON, "total += tl.sum(g * u, 1)", "total += tl.sum(g, 1)"),
    Mutation(*NORM_TRITON, "tl.store(each + at, g * u, mask=mask)", "pass"),
    Mutation(*NORM_TRITON, "off, mean_a = tl.sum(sum_xhat) / size,", "off, mean_a = 0.0,"),
    Mutation(*NORM_CPP, "k.off = centre ? xhat / size : 0;", "k.off = 0;"),
    Mutation(*NORM_CPP, "k.mean_a = centre ? a / size : 0;", "k.mean_a = 0;"),
    Mutation(*NORM_CPP, "k.mean_a - xhat * k.s)", "k.mean_a + xhat * k.s)"),
    Mutation(*NORM_CPP, "gx = s[GX * stride] - k.off * g;", "gx = g;"),
    Mutation(*NORM_CPP, "*to_db += g;", "*to_db -= g;"),
    Mutation(*NORM_CPP, "return g * xhat;", "return g;"),
    Mutation(*NORM_CPP, "- 2 * r * k.s * k.t", "- r * k.s * k.t"),
    Mutation(*NORM_CPP, "* k.s * k.t + mean_ua;", "* k.s * k.t;"),
    Mutation(*NORM_CPP, "h = p * g - r *", "h = p * g + r *"),
    Mutation(*NORM_CPP, "u * w + p * xhat + q", "u * w + q"),
    Mutation(*NORM_CPP, "k.mean_v * g - k.t * gx", "k.mean_v * g"),
    Mutation(*NORM_CPP, "return g * u;", "return g;"),
    Mutation(*NORM_CPP, ": p * sums[GX * stride]", ": 0"),
    Mutation(*NORM_CPP, "(const T*)w + slot + q", "(const T*)w + slot"),
    Mutation(*NORM_CPP, "(T*)gradient + at_w, share", "(T*)gradient + at_w, -share"),
    Mutation(*NORM_CPP, "load<A, N>(gradient + at_w) + share", "share"),
    Mutation(*NORM_CPP, "this->to + numel, (A)0", "this->to + numel, (A)1"),
    Mutation(*NORM_CPP, "sum += own[at]", "sum = own[at]"),
    Mutation(*COLUMNS_CPP, "s[PG] += pg;", ""),
    Mutation(*POINTWISE, "return f, first, -2 * f * first", "return f, first, 2 * f * first"),
    Mutation(*POINTWISE, "return torch.erf(z), first, -2", "return torch.erf(z), first, -1"),
    Mutation(*POINTWISE, "w * second + p * g * first", "w * second"),
    Mutation(*POINTWISE, "i.slope * dz + v_slope * a,", "i.slope * dz,"),
    Mutation(*POINTWISE, "(dz * i.x + vx * a).sum()", "(dz * i.x).sum()"),
    Mutation(*POINTWISE, "else sum_to(g * f, ", "else sum_to(-g * f, "),
    Mutation(*POINTWISE, "+ p * f + q,", "+ q,"),
    Mutation(*POINTWISE_CPP, "along = g * w * f1", "along = g * f1"),
    Mutation(*POINTWISE_CPP, "at, slope * along)", "at, along)"),
    Mutation(*POINTWISE_CPP, "own.slope.add(along * x)", "own.slope.add(along)"),
    Mutation(*POINTWISE_CPP, "own.shift.add(along)", "own.shift.add(-along)"),
    Mutation(*POINTWISE_CPP, "own.weight, g * f)", "own.weight, g)"),
    Mutation(*POINTWISE_CPP, "own.bias, g)", "own.bias, -g)"),
    Mutation(*POINTWISE_CPP, "v = slope * vx +", "v = vx +"),
    Mutation(*POINTWISE_CPP, " + v_slope * x + v_shift", " + v_shift"),
    Mutation(*POINTWISE_CPP, " + v_shift +", " +"),
    Mutation(*POINTWISE_CPP, " + like_x<N>(a.v_residual, at)", ""),
    Mutation(
        *POINTWISE_CPP,
        "v * g * w * function.second() + p * g * f1",
        "v * g * w * function.second()",
    ),
    Mutation(*POINTWISE_CPP, "v * g * w * function.second() + p * g * f1", "p * g * f1"),
    Mutation(*POINTWISE_CPP, "v * w * f1 + p * f", "v * w * f1"),
    Mutation(*POINTWISE_CPP, " + of_channel<N>(a.q, run, i, 0)", ""),
    Mutation(*POINTWISE_CPP, "slope * dz + v_slope * along", "slope * dz"),
    Mutation(*POINTWISE_CPP, "dz * x + vx * along", "dz * x"),
    Mutation(*POINTWISE_CPP, "own.shift.add(dz)", ""),
    Mutation(*POINTWISE_CPP, "own.weight, v * g * f1)", "own.weight, v * f1)"),
    Mutation(*POINTWISE_CPP, "all.weight[c] += ", "all.weight[c] -= "),
    Mutation(*POINTWISE_CPP, "all.slope += blocks[block].slope;", ""),
    Mutation(*FUNCTIONS_CPP, "to_one * (2 - to_one)", "to_one * 2"),
    Mutation(*FUNCTIONS_CPP, "value > 0 ? Vec<A, N>{} + 1", "value > 0 ? value"),
    Mutation(*FUNCTIONS_CPP, "return 1 - value * value;", "return 1 + value * value;"),
    Mutation(*FUNCTIONS_CPP, "return -2 * value * first();", "return 2 * value * first();"),
    Mutation(*FUNCTIONS_CPP, "return -2 * z * first();", "return -z * first();"),
    Mutation(*POINTWISE_TRITON, "first = 1.0 - f * f", "first = 1.0 + f * f"),
    Mutation(*POINTWISE_TRITON, "tl.store(gf + at, g * f, ", "tl.store(gf + at, g, "),
    Mutation(*POINTWISE_TRITON, "inside *= _load(weight", "inside += 0 * _load(weight"),
]


def load(source: str, folder: Path, name: str) -> ModuleType:
    """A module from its text; Triton reads its functions' text from a file."""
    path = folder / f"{name}.py"
    path.write_text(source)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def suite_fails(implementation: str, operator: str) -> bool:
    """Whether the contract fails in float64, at a common offset, on channels-last input (or, for
    the C++, which reads and writes it by itself, in bfloat16)."""
    cases = [c for c in CASES if c.operator == operator]
    # The widest are slow under the interpreter, and add no kind of case.
    for case in [c for c in cases if c.shapes[0][-1] < 100]:
        inputs = case.inputs(torch.float64, "cpu")
        trials = [inputs]
        if operator == "norm":
            trials.append([(inputs[0] + 1e6).float(), *(t.float() for t in inputs[1:])])
        if implementation == "cpp":
            trials.append([t.bfloat16() for t in inputs])
        if inputs[0].dim() > 2:
            last = inputs[0].transpose(1, -1).contiguous().transpose(1, -1)
            trials.append([last, *inputs[1:]])
        for trial in trials:
            try:
                check(case, implementation, trial)
            except AssertionError:
                return True
    return False


def break_compiled(file: Path, text: str, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Has `cpp` use a library in which one file has another text, compiled in a hurry.

    Its blocks are small, so that the cases have several.
    """
    cpp = importlib.import_module(f"shared.kernels.{file.parent.parent.name}.cpp")
    sources = shutil.copytree(file.parent, folder / "source")
    (sources / file.name).write_text(text)
    patch.setenv("XDG_CACHE_HOME", str(folder))
    patch.setattr(build, "FLAGS", [f if f != "-O3" else "-O0" for f in build.FLAGS])
    library = build.load(sources / cpp.SOURCE.name, build.digest(sources))
    patch.setattr(cpp, "_function", lambda phase: getattr(library, phase))
    patch.setattr(cpp, "BLOCK", 8)
    patch.setattr(cpp, "_plan", cpp._plan.__wrapped__)


@pytest.mark.parametrize(
    "mutation", MUTATIONS, ids=lambda m: f"{m.file}:{m.implementation}:{m.old[:30]}->{m.new[:20]}"
)
def test_a_broken_backward_is_seen(
    mutation: Mutation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (KERNELS / mutation.file).read_text()
    assert mutation.old in source, "the mutation no longer applies: follow the kernel's text"
    broken = source.replace(mutation.old, mutation.new)
    operator = mutation.file.partition("/")[0]
    if mutation.implementation == "cpp":
        break_compiled(KERNELS / mutation.file, broken, tmp_path, monkeypatch)
        assert suite_fails("cpp", operator)
        return
    module = load(broken, tmp_path, "mutated")
    if mutation.file.endswith("kernels.py"):
        package = importlib.import_module(f"shared.kernels.{operator}")
        monkeypatch.setattr(package, "kernels", module, raising=False)
    else:
        functions = [module.forward, module.backward, module.double_backward]
        if operator == "pointwise":  # there the reference is the formula in float64
            functions = [lambda *a, f=f: f(*a[:-1], torch.float64) for f in functions]
        old = OPERATORS[operator]
        changed = dict(old.implementations) | {mutation.implementation: Implementation(*functions)}
        new = Operator(old.name, old.equation, old.source, changed)
        monkeypatch.setitem(OPERATORS, operator, new)
    assert suite_fails(mutation.implementation, operator)


@pytest.mark.parametrize(
    ("operator", "implementation"), [(o, i) for o, many in IMPLEMENTATIONS.items() for i in many]
)
def test_the_unbroken_ones_pass(operator: str, implementation: str) -> None:
    assert not suite_fails(implementation, operator)
