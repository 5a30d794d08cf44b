"""Score clusters by price, the cheapest best."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence

from trimtab.decide.ocm.score_provider import ClusterScores, ProviderCluster, normalize_to_range, provider
from trimtab.errors import InputError

ANNOTATION = "trimtab.dev/price"


@provider("price")
def price(clusters: Sequence[ProviderCluster], options: Mapping[str, str]) -> Iterator[ClusterScores]:
    """Prices from the table in option `prices` (`cluster,price` lines), else from each cluster's annotation."""
    listed = parse_price_table(options.get("prices", ""))
    known = {
        cluster.name: listed[cluster.name] if cluster.name in listed else annotated_price(cluster)
        for cluster in clusters
        if cluster.name in listed or ANNOTATION in cluster.annotations
    }
    for name, score in normalize_to_range(known, best="lowest").items():
        yield ClusterScores(name, {"price": score})


def parse_price_table(text: str) -> dict[str, float]:
    """Lines of `cluster,price`; a header line is skipped."""
    found: dict[str, float] = {}
    for number, row in enumerate(csv.reader(io.StringIO(text)), 1):
        if not row or (number == 1 and row[1:] and not is_number(row[1])):
            continue
        if len(row) < 2 or not is_number(row[1]):
            raise InputError(f"line {number} of the prices is not `cluster,price`: {','.join(row)!r}")
        found[row[0].strip()] = float(row[1])
    return found


def annotated_price(cluster: ProviderCluster) -> float:
    text = cluster.annotations[ANNOTATION]
    if not is_number(text):
        raise InputError(f"annotation {ANNOTATION} of cluster {cluster.name!r} is not a number: {text!r}")
    return float(text)


def is_number(text: str) -> bool:
    try:
        return float(text) >= 0
    except ValueError:
        return False
