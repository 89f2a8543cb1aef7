"""The kernels for a GPU compile where there is none, and compiled code gives right numbers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from shared.kernels import norm
from tests.kernels.contract import error, plain_norm

# Run in a process of its own: under the interpreter Triton's functions cannot be compiled.
COMPILE = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from shared.kernels.norm import kernels as norm_kernels
from shared.kernels.pointwise import kernels as pointwise_kernels

REAL = {"x", "y", "grad", "dx", "v", "gg", "gx", "residual"}
ONES = {"num_outer", "num_inner", "num_p", "num_q", "workers", "numel", "num_channels", "inner"}

def compile(function, **constants):
    signature = {}
    for p in function.params:
        if p.is_constexpr:
            signature[p.name] = "constexpr"
        elif p.name == "eps":
            signature[p.name] = "fp64"
        elif p.name in ONES or p.name[-6:] in ("_outer", "_inner") or p.name in STRIDES:
            signature[p.name] = "i32"
        else:
            signature[p.name] = "*bf16" if p.name in REAL else "*fp32"
    at = {(function.arg_names.index(n),): v for n, v in constants.items()}
    source = ASTSource(function, signature, constexprs=at)
    compiled = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 8})
    assert "cubin" in compiled.asm, function.__name__

STRIDES = {f"{t}_{d}" for t in "xwpq" for d in "pq"}
TILE = {"WIDE": False, "BLOCK_P": 1024, "BLOCK_Q": 4}
norm = {"CENTRE": True, "HAS_WEIGHT": True}
compile(norm_kernels.forward_kernel, **norm, HAS_BIAS=True, **TILE)
compile(norm_kernels.backward_kernel, **norm, WANTS_WEIGHT=True, **TILE)
compile(norm_kernels.double_backward_kernel, **norm, HAS_P=True, HAS_Q=True, WANTS_SUMS=True,
        WANTS_EACH=False, **TILE)
for f in ("tanh", "erf", "relu"):
    flags = dict(FUNCTION=f, HAS_SHIFT=True, HAS_RESIDUAL=True, HAS_WEIGHT=True, HAS_BIAS=True)
    for kernel in (pointwise_kernels.forward_kernel, pointwise_kernels.backward_kernel):
        compile(kernel, **flags, WIDE=False, BLOCK=4096)
"""


def test_triton_kernels_compile_for_an_h100() -> None:
    pytest.importorskip("triton")
    env = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run([sys.executable, "-c", COMPILE], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_inductor_gives_the_numbers_of_eager_mode(device: str) -> None:
    """A peer's compiled output was all zeros."""
    torch._dynamo.reset()
    x = torch.randn(6, 8, device=device, requires_grad=True)
    weight, bias = torch.randn(2, 8, device=device)
    compiled = torch.compile(lambda t: norm(t * 2, weight, bias, groups=1).relu(), fullgraph=True)
    y = compiled(x)
    (grad,) = torch.autograd.grad(y, x, torch.ones_like(y))
    exact = x.detach().double().requires_grad_()
    truth = plain_norm(exact * 2, weight.double(), bias.double(), groups=1).relu()
    (expected,) = torch.autograd.grad(truth, exact, torch.ones_like(truth))
    assert error(y, truth) < 1e-5 and error(grad, expected) < 1e-4
