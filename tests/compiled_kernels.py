"""Compile the fused kernels for GPUs; no GPU is needed.

Run ``python tests/compiled_kernels.py`` in its own process, without ``TRITON_INTERPRET``.
"""

import itertools

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from domaincal.kernels import triton_kernels

ROW_TERMS = {
    "labels": "*i64", "beta": "*fp64", "terms": "*fp64", "n": "i32", "n_classes": "i32",
    "stride": "i32",
}  # fmt: skip
DOMAIN_SUMS = {"terms": "*fp64", "domain": "*i64", "parts": "*fp64", "n": "i32", "n_domains": "i32"}


def compile_for(architecture, kernel, signature, **constants):
    types = {**signature, **dict.fromkeys(constants, "constexpr")}
    target = GPUTarget("cuda", architecture, 32)
    assert triton.compile(ASTSource(kernel, types, constants), target=target).asm["cubin"]


if __name__ == "__main__":
    for architecture, logits in itertools.product((80, 90), ("*fp16", "*bf16", "*fp32")):
        compile_for(
            architecture, triton_kernels.row_terms, {"logits": logits, **ROW_TERMS},
            one_beta=logits == "*fp16", block=256, height=8,
        )  # fmt: skip
    for architecture in (80, 90):
        compile_for(
            architecture, triton_kernels.domain_sums, DOMAIN_SUMS,
            slab_rows=4096, height=64, width=128, n_terms=6,
        )  # fmt: skip
    print("the fused kernels compile")
