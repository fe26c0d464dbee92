"""The Triton kernels: compiled for a GPU, and run in the interpreter without a GPU."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import domaincal as dc

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("triton", reason="triton is not installed")


def run_script(name, *, interpret):
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parents[1] / name)],
        env={**os.environ, "TRITON_INTERPRET": "1" if interpret else "0"},
        capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_fused_kernels_agree_with_numpy_kernels():
    on_gpu = torch.cuda.is_available()
    printed = run_script("fused_kernels.py", interpret=not on_gpu)
    assert "the fused kernels agree on " + ("cuda" if on_gpu else "cpu") in printed


def test_fused_kernels_compile():
    assert "the fused kernels compile" in run_script("compiled_kernels.py", interpret=False)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_a_failed_compilation_is_a_warning():
    from domaincal.kernels.torch_kernels import fused_kernels

    fused_kernels.cache_clear()
    with pytest.warns(dc.DomaincalWarning, match="fused kernels cannot be compiled"):
        assert fused_kernels(torch.device("cuda")) is None
    fused_kernels.cache_clear()
