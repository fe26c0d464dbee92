"""Compile the fused kernels for GPUs; no GPU is needed.

Run ``python tests/compiled_kernels.py`` in its own process, without ``TRITON_INTERPRET``.
No kernel may use a stack: numbers for which there are no registers are in slow memory.
"""

import itertools
import re
import subprocess
import tempfile
from pathlib import Path

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
N_BINS = 100
BLOCK = {"height": triton_features._HEIGHT, "width": triton_features._WIDTH}
CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"


class Logits:
    """What the choice of a tile looks at."""

    def __init__(self, n_classes):
        self.shape = (1000, n_classes)


def tile(n_classes):
    height, block, n_warps = triton_kernels.tile(Logits(n_classes))
    sizes = {"n_classes": n_classes, "stride": n_classes, "block": block, "height": height}
    return sizes, n_warps


def compile_for(architecture, kernel, signature, n_warps=4, **constants):
    types = {**signature, **dict.fromkeys(constants, "constexpr")}
    # Tensors are aligned.
    pointers = [i for i, name in enumerate(kernel.arg_names) if types[name].startswith("*")]
    aligned = {(i,): [["tt.divisibility", 16]] for i in pointers}
    compiled = triton.compile(
        ASTSource(kernel, types, constants, aligned),
        target=GPUTarget("cuda", architecture, 32), options={"num_warps": n_warps},
    )  # fmt: skip
    stack = stack_bytes(compiled.asm["cubin"])
    assert stack == 0, (kernel.__name__, architecture, types, constants, stack)


def stack_bytes(cubin):
    """Bytes of local memory of a thread."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [CUOBJDUMP, "--dump-resource-usage", file.name]
        found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return sum(int(n) for n in re.search(r"STACK:(\d+).*LOCAL:(\d+)", found).groups())


def compile_kernels_of_logits(architecture, logits, n_classes):
    sizes, n_warps = tile(n_classes)
    half = logits == "*fp16"
    compile_for(
        architecture, triton_kernels.run_terms, {"logits": logits, **SUMS}, n_warps,
        per_row=half, weighted=half, ordered=half, **sizes,
    )  # fmt: skip
    for kernel, signature in (
        (triton_kernels.softmax_rows, SOFTMAX), (triton_kernels.top_rows, TOP)
    ):  # fmt: skip
        types = {"logits": logits, **signature}
        compile_for(architecture, kernel, types, n_warps, one_beta=half, **sizes)
    height, _, bin_block, n_warps = triton_batches.tile_with_bins(Logits(n_classes), N_BINS)
    compile_for(
        architecture, triton_batches.run_statistics, {"logits": logits, **BATCHES}, n_warps,
        ordered=half, n_bins=N_BINS, bin_block=bin_block, **{**sizes, "height": height},
    )  # fmt: skip


if __name__ == "__main__":
    for architecture, logits in itertools.product((80, 90), ("*fp16", "*bf16", "*fp32")):
        compile_kernels_of_logits(architecture, logits, 200)
        types = {"features": logits, **FEATURES}
        half = logits == "*fp16"
        compile_for(
            architecture, triton_features.run_sums, types, weighted=half, ordered=half, **BLOCK
        )
        types = {"features": logits, **PRODUCTS}
        compile_for(architecture, triton_features.row_products, types, **BLOCK)
    for logits, n_classes in itertools.product(("*fp16", "*fp32"), (2, 10, 1000, 8192)):
        compile_kernels_of_logits(90, logits, n_classes)
    for architecture in (80, 90):
        compile_for(architecture, triton_kernels.add_runs, RUNS, width=256)
        compile_for(architecture, triton_features.add_run_rows, ADDED, **BLOCK)
    print("the fused kernels compile")
