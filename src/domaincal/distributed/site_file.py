"""Files of sites: sums, plans of the second round, and answers to them.

Whatever bytes a file has, reading gives arrays that can be sums of rows, or one error that names
the file and the array.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg

from domaincal._files import decoding
from domaincal._memory import MemoryLimit
from domaincal._tensor_files import (
    SITE_ENTRY,
    parse_header,
    read_tensors,
    tensor_checksum,
    write_tensors,
)
from domaincal._typing import Array, FloatArray
from domaincal.calibrators.files.learned_checks import (
    Check,
    Sizes,
    array,
    count,
    domain_names,
    names,
    require,
    text,
)
from domaincal.calibrators.temperature_target import TEMPERATURE_RANGE
from domaincal.distributed.site_curves import (
    COLUMNS,
    CURVATURE,
    NLL,
    SLOPE,
    SQUARED_SLOPE,
    SlopeCurve,
)
from domaincal.distributed.site_features import FeatureSums, packed_size, unpacked
from domaincal.distributed.site_sums import FEATURES, SiteRows, SiteSums
from domaincal.errors import FileFormatError, InputError
from domaincal.statistics import TemperatureFit
from domaincal.statistics.bin_sums import bin_edges
from domaincal.statistics.domain_bins import DomainBins

#: Contents of files of sites.
SUMS, PLAN, ANSWERS = "sums", "plan", "answers"
VERSION = 1
#: Bins of the confidence before calibration.
N_BINS = 15

_CURE = "write it again, with domaincal.distributed.summarize_site() (domaincal site summarize)"
_GIVE = "give files that domaincal.distributed.summarize_site() (domaincal site summarize) wrote"
# Sums that must agree differ by rounding.
_ROUNDING = 1e-9
# Terms of the sums of slopes are of single precision for logits in float16 or float32.
_SINGLE_ROUNDING = 1e-5

#: Arrays that every file of sums has, those of features, and those for a search.
_REQUIRED: dict[str, Check] = {
    "n_rows": array("n_domains", low=1, high=2**53, dtypes="lq"),
    "temperature": array("n_domains", low=TEMPERATURE_RANGE[0], high=TEMPERATURE_RANGE[1]),
    "standard_error": array("n_domains", low=0.0, high=np.inf, nan=True),
    "at_bound": array("n_domains", dtypes="?"),
    "nll": array("n_domains", low=-_SINGLE_ROUNDING, high=np.inf),
    "scale": array("n_domains", low=0.0, high=np.inf),
    "bins": array("n_domains", "n_bins", "n_bin_sums", low=0.0),
    "log_beta": array("n_points", low=-500.0, high=500.0, ascending=True),
    "curve": array("n_points", "n_sums"),
}
_OF_FEATURES: dict[str, Check] = {
    "shift": array("n_features"),
    "moments": array("n_domains", "n_features"),
    "gram": array("n_features", "n_features"),
    "gram_equal": array("n_features", "n_features"),
}


def write_site_file(
    path: str | os.PathLike[str], content: str, rows: Mapping[str, Any], arrays: dict[str, Array]
) -> None:
    """Write a header and arrays; ``content`` says what they are."""
    if Path(path).suffix != ".safetensors":
        raise InputError(f"{path} must end in .safetensors, the format of files of sites.")
    header = {
        "content": content,
        "version": VERSION,
        "written_by": f"domaincal {version('domaincal')}",
        **rows,
    }
    header["sha256"] = _digest(header, arrays)
    write_tensors(path, arrays, {SITE_ENTRY: json.dumps(header, allow_nan=False)})


def read_site_file(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Header and arrays of a file of :func:`write_site_file`, with the right checksum."""
    if Path(path).suffix != ".safetensors":
        raise InputError(f"{path} is not a .safetensors file; {_GIVE}.")
    tensors, metadata = read_tensors(path, MemoryLimit.of(path))
    if SITE_ENTRY not in metadata:
        raise FileFormatError(f"{path} holds no sums of a site; {_GIVE}.")
    with decoding(path, _CURE):
        header = parse_header(metadata[SITE_ENTRY])
        found = header["version"]
        require(type(found) is int and found >= 1, f"version {found!r:.20}")
        if found > VERSION:
            raise FileFormatError(
                f"{path} has format version {found} (written by {header.get('written_by')}), but "
                f"this domaincal reads versions up to {VERSION}; upgrade domaincal."
            )
        require(header["content"] in (SUMS, PLAN, ANSWERS), "it has an unknown content")
        require(header.pop("sha256") == _digest(header, tensors), "wrong checksum")
    return header, tensors


def encode_rows(rows: SiteRows) -> dict[str, Any]:
    """Header entries of the rows of a site."""
    return {
        "n_classes": rows.n_classes,
        "class_names": None if rows.class_names is None else list(rows.class_names),
        "feature_names": None if rows.feature_names is None else list(rows.feature_names),
        "features": rows.features,
        "domains": rows.domains.tolist(),
        "fingerprint": rows.fingerprint,
        "floor": rows.floor,
    }


def decode_rows(header: Mapping[str, Any]) -> SiteRows:
    """Rows of a header; raises ValueError for contents that no site can have."""
    sizes: Sizes = {"n_features": -1}
    _checked(count(2, size="n_classes"), header["n_classes"], "n_classes", sizes)
    for name in ("class_names", "feature_names"):
        listed = header[name]
        value = None if listed is None else tuple(listed)
        size = "n_classes" if name == "class_names" else "n_features"
        sizes["n_features"] = 0 if value is None else len(value)
        _checked(names(size), value, name, sizes)
    require(header["features"] in FEATURES, "features are of an unknown kind")
    _checked(text, header["fingerprint"], "fingerprint", sizes)
    listed = header["domains"]
    require(isinstance(listed, list) and len(listed) > 0, "domains are no list of names")
    integers = all(type(name) is int for name in listed)
    domains = np.array(listed, np.int64 if integers else object)
    _checked(domain_names, domains, "domains", sizes)
    require(listed == sorted(listed), "domains are not sorted")
    floor = header["floor"]
    require(floor is None or (type(floor) is float and 0 < floor < 1), "floor is out of range")
    return SiteRows(
        header["n_classes"],
        None if header["class_names"] is None else tuple(header["class_names"]),
        None if header["feature_names"] is None else tuple(header["feature_names"]),
        header["features"], domains, header["fingerprint"], floor,
    )  # fmt: skip


def write_sums(sums: SiteSums, path: str | os.PathLike[str]) -> None:
    """Write sums; see :meth:`SiteSums.save`."""
    header = {**encode_rows(sums.rows), "n_iter": sums.fit.n_iter}
    write_site_file(path, SUMS, header, sums.arrays())


def decode_sums(
    header: Mapping[str, Any], tensors: dict[str, Array], path: str | os.PathLike[str]
) -> SiteSums:
    """Sums of a file, whose content is checked."""
    with decoding(path, _CURE):
        rows = decode_rows(header)
        _checked(count(), header["n_iter"], "n_iter", {})
        checks = dict(_REQUIRED)
        if rows.features != "none":
            checks |= _OF_FEATURES
        if "domain_curves" in tensors:
            checks["domain_curves"] = array("n_domains", "n_points", "n_sums")
        if "domain_grams" in tensors:
            checks["domain_grams"] = array("n_domains", "n_packed")
        sizes = {
            "n_domains": len(rows.domains), "n_bins": N_BINS, "n_bin_sums": 3,
            "n_sums": len(COLUMNS),
        }  # fmt: skip
        check_arrays(tensors, checks, sizes)
        _check_relations(rows, tensors)
        fit = TemperatureFit(
            tensors["temperature"], tensors["standard_error"], tensors["at_bound"], tensors["nll"],
            tensors["scale"], header["n_iter"],
        )  # fmt: skip
        edges = bin_edges(np.zeros(1), N_BINS, "uniform")
        curves = tensors.get("domain_curves")
        features = None
        if rows.features != "none":
            features = FeatureSums(
                tensors["shift"], tensors["moments"], tensors["gram"], tensors["gram_equal"],
                tensors.get("domain_grams"),
            )  # fmt: skip
        sums = SiteSums(
            rows, tensors["n_rows"], fit, DomainBins(edges, *np.moveaxis(tensors["bins"], 2, 0)),
            SlopeCurve(tensors["log_beta"], tensors["curve"]),
            None if curves is None else SlopeCurve(tensors["log_beta"], curves),
            features, source=str(path),
        )  # fmt: skip
        if sums.features is not None:
            _check_features(sums.features, sums)
    return sums


def check_arrays(tensors: Mapping[str, Array], checks: Mapping[str, Check], sizes: Sizes) -> None:
    """Raise ValueError unless exactly these arrays are there, and agree with their checks."""
    for name in sorted(set(checks) ^ set(tensors)):
        require(False, f"{name} is {'missing' if name in checks else 'no array of such a file'}")
    for name, check in checks.items():
        _checked(check, tensors[name], name, sizes)


def check_curve(sums: FloatArray, name: str) -> None:
    """Raise ValueError unless rows can have these sums at ascending points."""
    slack = _SINGLE_ROUNDING * np.abs(sums).reshape(-1, len(COLUMNS)).max(axis=0)
    slope_rises = (np.diff(sums[..., SLOPE], axis=-1) >= -slack[SLOPE]).all()
    positive = [NLL, CURVATURE, SQUARED_SLOPE]
    require(
        bool((sums[..., positive] >= -slack[positive]).all() and slope_rises),
        f"{name} holds sums that no rows can have",
    )


def _digest(header: Mapping[str, Any], arrays: Mapping[str, Array]) -> str:
    return tensor_checksum(json.dumps(header, allow_nan=False), arrays)


def _checked(check: Check, value: Any, name: str, sizes: Sizes) -> None:
    """Call a check; its error names the array."""
    try:
        check(value, sizes)
    except ValueError as error:
        raise ValueError(f"{name} {str(error).strip()}".removesuffix(".")) from error


def _check_relations(rows: SiteRows, tensors: Mapping[str, Array]) -> None:
    """Raise ValueError for arrays that do not agree with each other."""
    n = tensors["n_rows"]
    weight, confidence, hits = np.moveaxis(tensors["bins"], 2, 0)
    require(
        bool((weight == np.round(weight)).all() and (weight.sum(axis=1) == n).all()),
        "bins and n_rows do not count the same rows",
    )
    require(
        bool((hits <= weight).all() and (confidence <= weight * (1 + _SINGLE_ROUNDING)).all()),
        "bins hold more hits or confidence than rows",
    )
    known = ~tensors["at_bound"]
    require(bool((tensors["scale"][known] > 0).all()), "scale is 0 in a domain with a temperature")
    require(bool((np.diff(tensors["log_beta"]) > 0).all()), "log_beta holds a value twice")
    check_curve(tensors["curve"], "curve")
    if "domain_curves" in tensors:
        curves = tensors["domain_curves"]
        check_curve(curves, "domain_curves")
        _require_equal(curves.sum(axis=0), tensors["curve"], "domain_curves and curve do not agree")
    if rows.feature_names is not None and "shift" in tensors:
        require(
            len(rows.feature_names) == len(tensors["shift"]),
            "feature_names and shift have different lengths",
        )
    if rows.features == "logits":
        require(len(tensors["shift"]) == rows.n_classes, "shift has not one value for each class")


def _check_features(features: FeatureSums, sums: SiteSums) -> None:
    """Raise ValueError for sums of products that no rows can have."""
    n, used = np.asarray(sums.n_rows, np.float64), sums.used
    require(not features.moments[~used].any(), "moments are not 0 in a domain that is not used")
    of_domains = features.moments / n[:, None]
    for name, share in (("gram", n), ("gram_equal", np.ones(len(n)))):
        matrix = getattr(features, name)
        check_symmetric(matrix, name)
        # Sums of products are at least those of the means of the domains.
        check_positive(matrix - (of_domains.T * share) @ of_domains, np.trace(matrix), name)
    lower = features.domain_grams
    if lower is None:
        return
    size = packed_size(len(features.shift))
    require(lower.shape[1] == size, f"domain_grams have {lower.shape[1]} columns, not {size}")
    _require_equal(unpacked(lower.sum(axis=0)), features.gram, "domain_grams and gram do not agree")
    _require_equal(
        unpacked((1 / n) @ lower), features.gram_equal, "domain_grams and gram_equal do not agree"
    )
    for k in np.flatnonzero(used):
        matrix = unpacked(lower[k])
        rest = matrix - n[k] * np.outer(of_domains[k], of_domains[k])
        check_positive(rest, np.trace(matrix), "domain_grams")


def check_symmetric(matrix: FloatArray, name: str) -> None:
    """Raise ValueError unless the matrix is symmetric within rounding."""
    size = np.abs(matrix).max()
    require(bool(np.abs(matrix - matrix.T).max() <= _ROUNDING * size), f"{name} is not symmetric")


def check_positive(matrix: FloatArray, trace: float, name: str) -> None:
    """Raise ValueError unless the matrix is positive semidefinite within rounding."""
    shifted = matrix + _ROUNDING * max(trace, np.finfo(np.float64).tiny) * np.eye(len(matrix))
    try:
        scipy.linalg.cholesky(shifted, lower=True, check_finite=False)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{name} cannot be sums of products of rows") from error


def _require_equal(found: FloatArray, expected: FloatArray, problem: str) -> None:
    size = np.abs(expected).max(initial=0.0)
    require(bool((np.abs(found - expected) <= _ROUNDING * size).all()), problem)
