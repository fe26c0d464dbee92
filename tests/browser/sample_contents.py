"""Made-up contents of a page, of any size: drawn rows, scored by short formulas of their own.

``python tests/browser/sample_contents.py page.html`` writes such a page, to look at it.
"""

import sys
from pathlib import Path

import numpy as np

#: Names that would show if they were ever taken for anything but text.
HOSTILE_NAMES = (
    "<script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    '"><svg onload="window.hacked = 1">',
    "</script><script>window.hacked = 1</script>",
    "<b>bold</b><a href='https://example.org'>link</a><extra>%{x}</extra>",
    "&lt;i&gt; &amp; $x^2$ %{customdata}",
    'it\'s "quoted" `${window.hacked = 1}` {{ 7 * 7 }}',
    "🏥 clinic 👩🏽‍⚕️",
    "مستشفى القاهرة (٢)",
    "\u202eevil\u202c name",
    "long " + "name " * 39,
    "unbroken" * 25,
    "a\u2028b\x00c\nd",
    "",
)
_CITIES = (
    "Aarhus", "Basel", "Coimbra", "Dresden", "Eindhoven", "Florence", "Ghent", "Helsinki",
    "Innsbruck", "Jena", "Kraków", "Leuven", "Málaga", "Nantes", "Oslo", "Porto",
)  # fmt: skip


def sample_contents(
    n_domains: int = 12,
    *,
    n_unlabelled: int = 4,
    n_bins: int = 15,
    names: tuple[str, ...] | None = None,
    seed: int = 0,
) -> dict:
    """Contents of a page about ``n_domains`` domains, the last quarter of them known."""
    rng = np.random.default_rng(seed)
    named = names or tuple(
        f"Site {_CITIES[k % 16]}" + (f" {k // 16 + 1}" if k >= 16 else "") for k in range(n_domains)
    )
    n_unseen = n_domains - n_domains // 4
    kind = ["unseen"] * n_unseen + ["known"] * (n_domains - n_unseen)
    n = rng.integers(60, 900, n_domains)
    edges = np.linspace(0, 1, n_bins + 1)
    learned = np.exp(rng.normal(0.45, 0.25, n_domains))
    predicted = learned * np.exp(rng.normal(0, 0.08, n_domains))
    bins = {"before": [], "after": []}
    for k in range(n_domains):
        logit = rng.normal(rng.normal(1.6, 0.5), 1.3, n[k])
        correct = rng.random(n[k]) < 0.1 + 0.9 / (1 + np.exp(-logit / learned[k]))
        for when, temperature in (("before", 1.0), ("after", predicted[k])):
            confidence = 0.1 + 0.9 / (1 + np.exp(-logit / temperature))
            bins[when].append(_bins(confidence, correct, edges))
    scores = {when: _scores(rng, bins[when], n) for when in bins}
    accuracy = [_number(_mean(b, "accuracy")) for b in bins["before"]]
    worst = sorted(range(n_domains), key=lambda k: -scores["before"]["ece"][k])[:500]
    unseen = slice(0, n_unseen)
    gaps = {when: abs(np.subtract(scores[when]["confidence"], accuracy)) for when in scores}
    means = {
        when: {
            key: _number(np.mean(scores[when][key][unseen]))
            for key in ("confidence", "ece", "excess", "nll")
        }
        | {"gap": _number(np.mean(gaps[when][unseen]))}
        for when in scores
    }
    before, after = (100 * means[when]["gap"] for when in ("before", "after"))
    worst_name = named[int(np.argmax(gaps["after"][unseen]))]
    return {
        "format": "domaincal report",
        "version": 1,
        "title": "scores.npz",
        "verdict": {
            "state": "good",
            "headline": f"Confidence is off by {before:.1f} points on the average unseen domain; "
            f"calibration brings it to {after:.1f}.",
            "sentences": [
                "Before calibration, confidence is too high in most domains.",
                f"The worst unseen domain after calibration is {worst_name}.",
                "On the new site, expect 81 to 88% of the answers to be right.",
            ],
        },
        "names": {
            "before": "no calibration",
            "after": "BatchTemperatureScaling, chosen by left-out domains",
        },
        "protocol": "Half of the rows of the known domains were fitted; all other rows are scored, "
        "and no row of an unseen domain was fitted.",
        "missing": {},
        "domains": {
            "name": list(named),
            "kind": kind,
            "n": n.tolist(),
            "accuracy": accuracy,
            **scores,
            "temperature": {
                "learned": _numbers(learned),
                "error": _numbers(rng.uniform(0.03, 0.12, n_domains)),
                "predicted": _numbers(predicted),
                "low": _numbers(predicted * 0.93),
                "high": _numbers(predicted * 1.08),
            },
        },
        "means": {
            "unseen": {
                "n_domains": n_unseen,
                "n": int(n[unseen].sum()),
                "accuracy": _number(np.mean(accuracy[unseen])),
                **means,
            },
            "known": None,
        },
        "reliability": {
            "edges": _numbers(edges),
            "all": {when: _together(bins[when][unseen], edges) for when in bins},
            "domain": worst,
            "before": [_shown(bins["before"][k]) for k in worst],
            "after": [_shown(bins["after"][k]) for k in worst],
        },
        "methods": {
            "sentence": "BatchTemperatureScaling was chosen: its excess is surely smaller.",
            "rows": [
                _method("no calibration", 0.071, (0.031, 0.026, 0.037)),
                _method("TemperatureScaling", 0.040, (0.0, 0.0, 0.0)),
                _method("MultiDomainTemperatureScaling", 0.036, (-0.004, -0.011, 0.004)),
                _method("BatchTemperatureScaling", 0.021, (-0.019, -0.024, -0.013), chosen=True),
            ],
        },
        "unlabelled": _unlabelled(rng, n_unlabelled),
        "risk": _risk(),
        "change": None,
        "run": {
            "made": "2026-11-18 22:05",
            "data": [
                ["scores", "scores.npz, 4,812 rows, 10 classes"],
                ["new", "new.npz, 800 rows"],
            ],
            "fingerprint": "sha256:3f7a9c2e51b04d88",
            "versions": {"domaincal": "0.1.0", "python": "3.11.2", "numpy": "2.4.6"},
            "seed": 0,
            "command": "domaincal report scores.npz --unlabelled new.npz -o report.html",
            "cite": "Yu, Bates, Ma, Jordan: Robust Calibration with Multi-domain Temperature "
            "Scaling. NeurIPS 2022.",
        },
    }


def with_change(contents: dict) -> dict:
    """The contents, with a comparison to a made-up earlier page."""
    domains = contents["domains"]
    ece, accuracy = domains["after"]["ece"], domains["accuracy"]
    rows = [
        {
            "name": domains["name"][k],
            "n_before": 300,
            "n_after": domains["n"][k],
            "ece_before": _number(ece[k] + 0.01 * (k % 3)),
            "ece_after": ece[k],
            "accuracy_before": accuracy[k],
            "accuracy_after": accuracy[k],
        }
        for k in range(min(8, len(ece)))
    ]
    sentences = ["The error of the confidence fell by 1.0 point on 8 domains of both pages."]
    change = {"since": "2026-11-01 12:00", "title": "scores.npz", "sentences": sentences}
    return contents | {"change": change | {"rows": rows}}


def without_labels(contents: dict) -> dict:
    """The contents of data without labels: only the unlabelled domains can be shown."""
    reason = "These data have no labels. Add labelled rows to see this."
    sections = ("domains", "overview", "reliability", "methods", "temperatures", "risk")
    nothing = dict.fromkeys(("domains", "reliability", "methods", "risk", "change"))
    verdict = {
        "state": "unknown",
        "headline": "Nothing can be said about calibration without labels.",
        "sentences": [],
    }
    missing = {"missing": dict.fromkeys(sections, reason)}
    means = {"means": {"unseen": None, "known": None}}
    return contents | nothing | missing | means | {"verdict": verdict}


def _bins(confidence, correct, edges):
    """Counts, mean confidences and accuracies of the bins that have rows."""
    of_row = np.clip(np.searchsorted(edges, confidence, side="left") - 1, 0, len(edges) - 2)
    n = np.bincount(of_row, minlength=len(edges) - 1)
    used = np.flatnonzero(n)
    mean = np.bincount(of_row, confidence, len(n))[used] / n[used]
    right = np.bincount(of_row, correct, len(n))[used] / n[used]
    return {"bin": used, "n": n[used], "confidence": mean, "accuracy": right}


def _together(parts, edges):
    total = {key: np.zeros(len(edges) - 1) for key in ("n", "confidence", "accuracy")}
    for part in parts:
        total["n"][part["bin"]] += part["n"]
        for key in ("confidence", "accuracy"):
            total[key][part["bin"]] += part["n"] * part[key]
    used = np.flatnonzero(total["n"])
    n = total["n"][used]
    means = {key: total[key][used] / n for key in ("confidence", "accuracy")}
    return _shown({"bin": used, "n": n, **means})


def _shown(bins):
    """The bins with Wilson intervals, as lists of rounded numbers."""
    n, p, z = bins["n"], bins["accuracy"], 1.96
    centre = (p + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return {
        "bin": bins["bin"].tolist(),
        "n": np.asarray(n, int).tolist(),
        "confidence": _numbers(bins["confidence"]),
        "accuracy": _numbers(p),
        "low": _numbers(centre - half),
        "high": _numbers(centre + half),
    }


def _mean(bins, key):
    return float(np.average(bins[key], weights=bins["n"]))


def _scores(rng, bins, n):
    ece = np.array([np.average(abs(b["confidence"] - b["accuracy"]), weights=b["n"]) for b in bins])
    floor = 0.45 / np.sqrt(n)
    return {
        "confidence": _numbers([_mean(b, "confidence") for b in bins]),
        "ece": _numbers(ece),
        "low": _numbers(np.maximum(0, ece - 1.2 * floor)),
        "high": _numbers(ece + 0.8 * floor),
        "floor": _numbers(floor),
        "excess": _numbers(ece - floor),
        "nll": _numbers(0.5 + ece + rng.uniform(0, 0.1, len(n))),
        "brier": _numbers(0.2 + ece / 2),
    }


def _method(name, excess, difference, *, chosen=False):
    value, low, high = difference
    return {
        "method": name,
        "n_domains": 9,
        "ece": excess + 0.02,
        "excess": excess,
        "nll": 0.5 + excess,
        "difference": value,
        "low": low,
        "high": high,
        "chosen": chosen,
    }


def _unlabelled(rng, n):
    if not n:
        return None
    predicted = rng.uniform(0.6, 0.9, n)
    verdict = [("inside", "edge", "outside", "unknown")[k % 4] for k in range(n)]
    reasons = {
        "inside": "As near to the known domains as they are to each other.",
        "edge": "Farther away than 9 of 10 known domains; label a few rows before use.",
        "outside": "Farther away than every known domain: do not trust this number.",
        "unknown": "Fewer than 10 rows.",
    }
    return {
        "coverage": 0.9,
        "name": [f"New clinic {k + 1}" for k in range(n)],
        "n": rng.integers(50, 400, n).tolist(),
        "predicted": _numbers(predicted),
        "low": _numbers(predicted - 0.06),
        "high": _numbers(predicted + 0.05),
        "distance": _numbers(rng.uniform(0.5, 2.5, n)),
        "verdict": verdict,
        "reason": [reasons[v] for v in verdict],
    }


def _risk():
    coverage = np.linspace(0.005, 1, 200)
    before, after = 0.97 - 0.19 * coverage**1.6, 0.985 - 0.205 * coverage**1.9
    threshold = 0.99 - 0.6 * coverage**2
    curves = {
        when: {
            "coverage": _numbers(coverage),
            "accuracy": _numbers(accuracy),
            "threshold": _numbers(threshold),
        }
        for when, accuracy in (("before", before), ("after", after))
    }
    targets = [
        {
            "accuracy": target,
            "before": _share(coverage, before, target),
            "after": _share(coverage, after, target),
            "threshold": _number(0.99 - 0.6 * _share(coverage, after, target) ** 2),
        }
        for target in (0.85, 0.9, 0.95, 0.99)
    ]
    return curves | {"targets": targets}


def _share(coverage, accuracy, target):
    enough = coverage[accuracy >= target]
    return _number(enough.max()) if enough.size else 0.0


def _number(value):
    return float(f"{float(value):.5g}")


def _numbers(values):
    return [_number(value) for value in values]


if __name__ == "__main__":
    from domaincal.report.page import render

    size = int(sys.argv[2]) if len(sys.argv) > 2 else 12
    Path(sys.argv[1]).write_text(render(with_change(sample_contents(size))), encoding="utf-8")
