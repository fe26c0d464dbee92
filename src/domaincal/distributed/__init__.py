"""Fits to rows that are not in one place: sums of sites, and Dask clusters.

Examples
--------
>>> import domaincal as dc
>>> from domaincal.distributed import combine_sites, summarize_site
>>> data, _ = dc.make_multi_domain(n_domains=4, n_rows=200, random_state=0)
>>> sums = summarize_site(data)  # at each site
>>> combine_sites([sums], dc.MultiDomainTemperatureScaling()).n_classes_
10
"""

from __future__ import annotations

from domaincal.distributed.cluster_connection import cluster_client
from domaincal.distributed.cluster_rows import on_cluster
from domaincal.distributed.dask_rows import from_dask
from domaincal.distributed.site_answers import answer_plan
from domaincal.distributed.site_models import combine_sites, plan_second_round
from domaincal.distributed.site_plan import SiteAnswers, SitePlan
from domaincal.distributed.site_rounds import load_site
from domaincal.distributed.site_summary import summarize_site
from domaincal.distributed.site_sums import SiteSums

__all__ = [
    "SiteAnswers",
    "SitePlan",
    "SiteSums",
    "answer_plan",
    "cluster_client",
    "combine_sites",
    "from_dask",
    "load_site",
    "on_cluster",
    "plan_second_round",
    "summarize_site",
]
