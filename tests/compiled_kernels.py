"""Compile the fused kernels for GPUs; no GPU is needed.

Run ``python tests/compiled_kernels.py`` in its own process, without ``TRITON_INTERPRET``.
"""

import itertools

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from domaincal.kernels import triton_batches, triton_features, triton_kernels

SUMS = {
    "labels": "*i64", "beta": "*fp64", "weight": "*fp64", "order": "*i64", "runs": "*i64",
    "parts": "*fp64", "step": "i32",
}  # fmt: skip
SOFTMAX = {"beta": "*fp64", "out": "*fp32", "bad": "*i32", "n": "i32"}
TOP = {"beta": "*fp64", "confidences": "*fp64", "classes": "*i64", "bad": "*i32", "n": "i32"}
RUNS = {"parts": "*fp64", "first_run": "*i64", "totals": "*fp64"}
BATCHES = {"beta": "fp32", "order": "*i64", "runs": "*i64", "parts": "*fp64"}
FEATURES = {"weight": "*fp64", "order": "*i64", "runs": "*i64", "parts": "*fp64",
            "n_features": "i32", "stride": "i32"}  # fmt: skip
PRODUCTS = {"coef": "*fp64", "out": "*fp64", "n": "i32", "n_features": "i32", "stride": "i32"}
ADDED = {"parts": "*fp64", "first_run": "*i64", "totals": "*fp64", "n_features": "i32"}
TILE = {"n_classes": 200, "stride": 200, "block": 256, "height": 4}
BLOCK = {"height": 8, "width": 256}


def compile_for(architecture, kernel, signature, **constants):
    types = {**signature, **dict.fromkeys(constants, "constexpr")}
    target = GPUTarget("cuda", architecture, 32)
    assert triton.compile(ASTSource(kernel, types, constants), target=target).asm["cubin"]


if __name__ == "__main__":
    for architecture, logits in itertools.product((80, 90), ("*fp16", "*bf16", "*fp32")):
        half = logits == "*fp16"
        compile_for(
            architecture, triton_kernels.run_terms, {"logits": logits, **SUMS},
            per_row=half, weighted=half, ordered=half, **TILE,
        )  # fmt: skip
        for kernel, signature in (
            (triton_kernels.softmax_rows, SOFTMAX), (triton_kernels.top_rows, TOP)
        ):  # fmt: skip
            compile_for(
                architecture, kernel, {"logits": logits, **signature}, one_beta=half, **TILE
            )
        types = {"logits": logits, **BATCHES}
        compile_for(
            architecture, triton_batches.run_statistics, types,
            ordered=half, n_bins=100, bin_block=128, **TILE,
        )  # fmt: skip
        types = {"features": logits, **FEATURES}
        compile_for(
            architecture, triton_features.run_sums, types, weighted=half, ordered=half, **BLOCK
        )
        types = {"features": logits, **PRODUCTS}
        compile_for(architecture, triton_features.row_products, types, **BLOCK)
    for architecture in (80, 90):
        compile_for(architecture, triton_kernels.add_runs, RUNS, width=256)
        compile_for(architecture, triton_features.add_run_rows, ADDED, **BLOCK)
    print("the fused kernels compile")
