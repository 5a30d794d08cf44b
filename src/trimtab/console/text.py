"""How numbers, times and names are written on the pages."""

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from html import escape
from urllib.parse import quote, urlencode

from trimtab.api.wording import plural

DASH = "\u2013"
"""Stands where there is nothing to say."""
MINUS = "\u2212"
CAUSES = {
    "ClusterFailover": "failover",
    "ApplicationFailover": "app failover",
    "ScoreChange": "score change",
    "PolicyChange": "policy change",
}
NUMBERED = re.compile(r"(\D*)([0-9]{0,18})")
MAX_TEXT = 400
"""Characters of a name or message that a picture shows."""


def esc(text: object) -> str:
    """A text inside of a picture; the only way by which names enter one."""
    return escape(str(text)[:MAX_TEXT], quote=True)


def shortened(text: str, length: int) -> str:
    """A text that fits; what is cut ends with an ellipsis."""
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def natural_order(name: str) -> tuple[tuple[str, int], ...]:
    """The key by which names are sorted as people count: c-9 comes before c-10."""
    return tuple((words, int(digits or 0)) for words, digits in NUMBERED.findall(name))


def clock_time(at: datetime | None) -> str:
    return f"{at.astimezone(UTC):%H:%M:%S}" if at is not None else DASH


def day_time(at: datetime | None, now: datetime) -> str:
    """The time of day, with the date when it is not today's."""
    if at is None:
        return DASH
    at = at.astimezone(UTC)
    return f"{at:%H:%M:%S}" if at.date() == now.astimezone(UTC).date() else f"{at:%Y-%m-%d %H:%M}"


STORED_TIME = re.compile(r"\b([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]([0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(?:Z|\+00:00)")
CAUSE_PREFIX = re.compile(r"^([A-Z][A-Za-z]+): ")
NO_ROOM = re.compile(r"(?:failed to [a-z ]+: )*Clusters available replicas ([0-9]+) are not enough to schedule")
UNFINISHED = re.compile(r"^cannot continue ([A-Z][A-Za-z]+): ")


def reason_text(stored: str, now: datetime) -> str:
    """A stored reason as a page says it: causes by their names there, times of the next hours without a date."""

    def time(match: re.Match[str]) -> str:
        at = parse_time(f"{match[1]}T{match[2]}Z")
        return match[2] if at is not None and abs(at - now) < timedelta(hours=20) else f"{match[1]} {match[2]}"

    text = NO_ROOM.sub(room_text, stored)
    text = UNFINISHED.sub(lambda match: f"{cause_text(match[1])} cannot go on: ", text)
    text = CAUSE_PREFIX.sub(lambda match: f"{cause_text(match[1])}: ", text)
    return STORED_TIME.sub(time, text)


def room_text(match: re.Match[str]) -> str:
    count = int(match[1])
    room = plural(count, "more replica") if count else "no replica"
    return f"the clusters that pass its filters have room for {room}{', which is not enough' if count else ''}"


def without_command(stored: str) -> str:
    """The reason of a wait for an approval without the command that gives it."""
    return stored.partition(": trimtab approve")[0]


def budget_reason(name: str, stored: str, now: datetime) -> str:
    """The reason of a budget beside its name, which it need not repeat."""
    return reason_text(stored.removeprefix(f"budget {name}: "), now)


def span(seconds: float) -> str:
    """A length of time; the script of the pages writes the same."""
    total = max(0, int(seconds))
    if total < 60:
        return f"{total} s"
    if total < 600:
        return f"{total // 60} min {total % 60:02} s"
    if total < 3600:
        return f"{total // 60} min"
    if total < 48 * 3600:
        return f"{total // 3600} h {total % 3600 // 60:02} min"
    return f"{total // 86400} days"


def ago(at: datetime | None, now: datetime) -> str:
    return span((now - at).total_seconds()) if at is not None else DASH


def iso(at: datetime | None) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z") if at is not None else ""


def one_decimal(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def percent(part: float) -> str:
    return f"{part * 100:.0f} %"


def cause_text(cause: str) -> str:
    return CAUSES.get(cause, cause.lower())


def cause_class(cause: str) -> str:
    """The style of a cause; only known causes have one."""
    known = {
        "Rebalance",
        "Drain",
        "ClusterFailover",
        "ApplicationFailover",
        "Failback",
        "ScoreChange",
        "PolicyChange",
        "Scale",
    }
    return cause if cause in known else "Other"


def path_to(*segments: str) -> str:
    """An address below the console."""
    return "/console/" + "/".join(quote(segment, safe="") for segment in segments)


def query_of(parameters: Iterable[tuple[str, str]]) -> str:
    given = [(name, value) for name, value in parameters if value]
    return "?" + urlencode(given, safe=",:/") if given else ""


def replaced(query: Mapping[str, str], name: str, value: str) -> list[tuple[str, str]]:
    """The parameters of an address with one filter set to another value; a page begins again at its first row."""
    kept = [(key, old) for key, old in query.items() if key not in (name, "after")]
    return [*kept, (name, value)]


def toggle_word(words: str, word: str) -> str:
    """A filter with one word more, or one less if it has it."""
    known = [one for one in words.split(",") if one]
    return ",".join(one for one in known if one != word) if word in known else ",".join([*known, word])


def workload_path(key: str) -> str:
    return path_to("workloads", *key.split("/"))


def cluster_path(name: str) -> str:
    return path_to("clusters", name)


def parse_time(text: str) -> datetime | None:
    """A time in an address; None for anything else."""
    try:
        at = datetime.fromisoformat(text.strip().replace(" ", "+"))
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def median(values: list[float]) -> float | None:
    ordered = sorted(values)
    if not ordered:
        return None
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


HOUR = timedelta(hours=1)
