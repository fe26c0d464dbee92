"""The page of what large data take: tables, a figure, and the calculation for ImageNet-C."""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

Results = dict[str, list[dict[str, Any]]]

# ImageNet-C at full size: 76 domains of 50,000 images.
_IMAGENET_ROWS, _IMAGENET_CLASSES, _IMAGENET_FEATURES = 76 * 50_000, 1000, 2048
_WORKERS = 32
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#666666")


def write_page(results: Results, path: Path) -> None:
    """Write the page, and its figure into a folder beside it."""
    frames = {name: pd.DataFrame(rows) for name, rows in results.items()}
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    _draw(frames["rows"], frames["domains"], folder / "growth.png")
    path.write_text(
        "\n\n".join(
            [
                _opening(frames), _large(frames["large"]),
                _rows(frames["rows"], folder.name), _domains(frames["domains"]),
                _imagenet(frames["wide"]),
            ]
        )
        + "\n"
    )  # fmt: skip


def _at(frame: pd.DataFrame, **values: Any) -> pd.Series:
    """The only row with these values."""
    for name, value in values.items():
        frame = frame[frame[name] == value]
    return frame.iloc[0]


def _opening(frames: dict[str, pd.DataFrame]) -> str:
    large, rows = frames["large"], frames["rows"]
    peak = large[large["step"].isin(["fit MD-TS", "score"])]["peak"].max()
    plain = {cold: _at(large, step="plain", cold=cold) for cold in (True, False)}
    rate = {
        cold: _at(large, step="T_k", cold=cold, threads=2) for cold in (True, False)
    }  # fmt: skip
    share = {
        cold: (rate[cold]["bytes"] / rate[cold]["seconds"])
        / (plain[cold]["bytes"] / plain[cold]["seconds"])
        for cold in (True, False)
    }
    longest = rows[rows["rows"] == rows["rows"].max()]
    return f"""# Data that fit no memory

Rows of a store are read in blocks, so that memory does not grow with them. MD-TS fitted to, and
scored on, a store of {_size(large)} GB took at most {peak / 1e9:.2f} GB of memory; the scores of
{longest["rows"].max():,} rows took {longest[longest["step"] == "score"]["peak"].item() / 1e6:.0f}
MB. With two threads, the logits of the T_k were read at {100 * share[True]:.0f}% of the rate of a
plain loop over a file that is not in the cache (only the first of the passes reads from the disk),
and at {100 * share[False]:.0f}% of the rate of one that is. Time grows linearly with the rows and
with the domains. What a second thread gains stands below the first table.

All numbers are of `python -m benchmarks.scale OUT --page docs/results/scale.md` on a machine with
2 cores and 24 GB of memory; each step runs in a process of its own, whose memory includes about 350
MB of Python, its packages and compiled code, as with 10,000 rows. MD-TS has its default parameters;
"T_k" is the first of its steps, "score" is `score_table`, and "fit batch" fits
`BatchTemperatureScaling`."""


def _size(large: pd.DataFrame) -> str:
    n_rows = large["rows"].iloc[0]
    return f"{n_rows * (1000 + 512) * 2 / 1e9:.1f}"


def _large(large: pd.DataFrame) -> str:
    lines = [
        "| step | threads | cache | seconds | GB read | GB/s | peak MB |",
        "| --- | ---: | --- | ---: | ---: | ---: | ---: |",
    ]
    for _, row in large.iterrows():
        gigabytes = row["bytes"] / 1e9
        lines.append(
            f"| {row['step']} | {row['threads']} | {'cold' if row['cold'] else 'cached'} | "
            f"{row['seconds']:.2f} | {gigabytes:.2f} | {gigabytes / row['seconds']:.2f} | "
            f"{row['peak'] / 1e6:.0f} |"
        )
    scaling = {
        step: _at(large, step=step, threads=1, cold=False)["seconds"]
        / _at(large, step=step, threads=2, cold=False)["seconds"]
        for step in ("T_k", "fit MD-TS", "score")
    }
    table = "\n".join(lines)
    times = ", ".join(f"{step} {value:.2f}" for step, value in scaling.items())
    return f"""## One store of {_size(large)} GB

{large["rows"].iloc[0]:,} rows of 64 domains: float16 logits of 1000 classes, 512 float16 features.
"plain" reads all logits into one buffer. "Cold": the pages of the store were dropped from the cache
of the system before the step (`POSIX_FADV_DONTNEED`), which reads them once; later passes find them
in the cache.

{table}

Two threads against one, cached, times as fast: {times}."""


def _rows(rows: pd.DataFrame, folder: str) -> str:
    return f"""## From 10,000 to 100,000,000 rows

10 classes, 16 features, 64 domains, all float16, two threads, cached. Seconds, and peak memory.

{_growth(rows, "rows", "peak")}

![Time and memory against rows and domains](./{folder}/growth.png)

Above, data in a store; below, calls on rows in memory. Left: ten times the rows or domains, ten
times the time. Right: memory does not grow with the rows of a store."""


def _growth(frame: pd.DataFrame, by: str, memory: str) -> str:
    steps = frame["step"].unique()
    lines = [f"| {by} | {' | '.join(steps)} |", f"| ---: |{' ---: |' * len(steps)}"]
    for value, own in frame.groupby(by):
        cells = []
        for step in steps:
            found = own[own["step"] == step]
            if len(found):
                row = found.iloc[0]
                cells.append(f"{row['seconds']:.2f} s, {row[memory] / 1e6:.0f} MB")
            else:
                cells.append("not run")
        lines.append(f"| {value:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _domains(domains: pd.DataFrame) -> str:
    return f"""## From 10 to 100,000 domains

Rows in memory: 20 rows of each domain, 10 classes, 16 features. Seconds of one call, and the memory
that it takes beyond the data. `compare_domains` computes an interval of its own for each domain.

{_growth(domains, "domains", "extra_bytes")}"""


def _imagenet(wide: pd.DataFrame) -> str:
    n_rows = int(wide["rows"].iloc[0])
    scale = _IMAGENET_ROWS / n_rows
    row_bytes = 2 * (_IMAGENET_CLASSES + _IMAGENET_FEATURES)
    total = _IMAGENET_ROWS * row_bytes / 1e9
    lines = [
        "| step | passes | GB read | one machine, 2 cores | 32 workers of one core | peak |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for step in ("T_k", "fit MD-TS", "score"):
        two, one = (_at(wide, step=step, threads=n) for n in (2, 1))
        gigabytes = two["bytes"] * scale / 1e9
        stored = total if step != "T_k" else _IMAGENET_ROWS * 2 * _IMAGENET_CLASSES / 1e9
        lines.append(
            f"| {step} | {gigabytes / stored:.1f} | {gigabytes:.0f} | "
            f"{_duration(two['seconds'] * scale)} | "
            f"{one['seconds'] * scale / _WORKERS:.0f} s | {two['peak'] / 1e9:.2f} GB |"
        )
    table = "\n".join(lines)
    return f"""## By calculation: ImageNet-C at full size

{_IMAGENET_ROWS:,} rows (76 domains of 50,000 images), 1000 classes, 2048 features, float16:
{total:.1f} GB. Measured on a store of {n_rows:,} such rows ({n_rows * row_bytes / 1e9:.1f} GB,
cached) and multiplied by {scale:.1f}: time and bytes are proportional to the rows, and memory does
not grow with them (above). {_WORKERS} workers each do 1/{_WORKERS} of the work of one core; what
they send each other is not in the numbers: sums of {8 * 2048**2 / 1e6:.0f} MB for each fold of
domains, once.

{table}"""


def _draw(rows: pd.DataFrame, domains: pd.DataFrame, path: Path) -> None:
    figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.4), layout="constrained")
    panels = [
        (axes[0, 0], rows, "rows", "seconds", 1.0, "seconds"),
        (axes[0, 1], rows, "rows", "peak", 1e6, "peak memory, MB"),
        (axes[1, 0], domains, "domains", "seconds", 1.0, "seconds"),
        (axes[1, 1], domains, "domains", "extra_bytes", 1e6, "extra memory, MB"),
    ]
    for axis, frame, by, column, unit, label in panels:
        for colour, (step, own) in zip(_COLOURS, frame.groupby("step", sort=False), strict=False):
            shown = own[own[column] > 0]
            axis.plot(shown[by], shown[column] / unit, "o-", color=colour, label=step, ms=4)
        axis.set(xscale="log", xlabel=by, ylabel=label)
        if column == "peak":
            axis.set_ylim(0, 1.1 * frame[column].max() / unit)
        else:
            axis.set_yscale("log")
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:, 0]:
        axis.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.1f} minutes" if seconds >= 60 else f"{seconds:.0f} s"
