"""Contents of ``.onnx`` files, as text and as JSON documents."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from domaincal._wording import few
from domaincal.cli.console import print_json, say
from domaincal.cli.method_options import short_names
from domaincal.cli.tables import print_facts

# Of more classes, only the first are printed; --json has all.
_SHOWN_NAMES = 12


def inspect_onnx_file(path: Path, *, as_json: bool) -> None:
    """Print the inputs and outputs of a graph, and what is known of its calibrator."""
    from domaincal.deploy.onnx.contents import read_contents

    found = read_contents(path)
    if as_json:
        print_json("onnx file", {"path": str(path), **asdict(found)})
        return
    known = found.calibrator
    method = known.get("method")
    what = short_names().get(method, method) if method else "no calibrator of domaincal"
    version = "" if found.opset is None else f", opset {found.opset}"
    nodes = f"{found.n_nodes} node{'s' * (found.n_nodes != 1)}"
    say(f"{path} (ONNX{version}, {nodes}): {what}")
    facts = {
        name: "; ".join(f"{port} {kind}" for port, kind in ports.items()) or "none"
        for name, ports in (("inputs", found.inputs), ("outputs", found.outputs))
    }
    if method is None:
        print_facts(facts)
        say("domaincal export MODEL -o FILE --attach CLASSIFIER writes a calibrator into a graph")
        return
    if known.get("class_names"):
        facts["classes"] = few(known["class_names"], _SHOWN_NAMES)
    for name, shown, before in (
        ("fitted_on", "fitted on", ""),
        ("version", "written by", "domaincal "),
    ):
        if name in known:
            facts[shown] = before + known[name]
    print_facts(facts)
    for line in known.get("provenance", "").splitlines():
        say(line)
