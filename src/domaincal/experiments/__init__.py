"""The paper's protocol, tables and figures; experiments of users; the demo."""

from __future__ import annotations

from domaincal.experiments.experiment import Experiment
from domaincal.experiments.experiment_file import read_experiment
from domaincal.experiments.paper_numbers import paper_cells
from domaincal.experiments.results import Results
from domaincal.experiments.runner import run_experiment

__all__ = ["Experiment", "Results", "paper_cells", "read_experiment", "run_experiment"]
