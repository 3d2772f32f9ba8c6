"""Texts of schedules that the dialect accepts, in every form it has."""

from hypothesis import strategies as st

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
WEEKDAYS_OF_RULES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


@st.composite
def parts(draw: st.DrawFn, low: int, high: int, names: tuple[str, ...] = ()) -> str:
    def value(least: int = low, most: int = high) -> str:
        number = draw(st.integers(least, most))
        if names and draw(st.booleans()):
            return names[(number - low) % len(names)]
        return f"{number:02}" if draw(st.booleans()) else str(number)

    forms = [
        lambda: "*",
        lambda: f"*/{draw(st.integers(1, high - low + 1))}",
        value,
        lambda: f"{value()}-{value()}",
        lambda: f"{value()}-{value()}/{draw(st.integers(1, 9))}",
        lambda: f"{value(low, high - 1)}/{draw(st.integers(1, 9))}",
        lambda: f"{high - 1}-{low + 1}",
    ]
    return draw(st.sampled_from(forms))()


def fields(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[str]:
    return st.lists(parts(low, high, names), min_size=1, max_size=3).map(",".join)


DAYS = st.one_of(
    fields(1, 31),
    st.sampled_from(["?", "L", "15,L", "L-3", "15,L-1", "1W", "15W", "31W", "LW", "L-2W,3"]),
)
NTH = st.lists(
    st.one_of(
        st.tuples(st.sampled_from([*WEEKDAYS, *"01234567"]), st.integers(1, 5)).map(
            lambda both: f"{both[0]}#{both[1]}"
        ),
        st.integers(0, 7).map("L{}".format),
    ),
    min_size=1,
    max_size=2,
).map(",".join)
PLAIN = st.tuples(
    fields(0, 59), fields(0, 23), DAYS, fields(1, 12, MONTHS), st.just("?") | fields(0, 7, WEEKDAYS)
).map(" ".join)
WITH_NTH = st.tuples(
    fields(0, 59), fields(0, 23), st.sampled_from(["*", "?"]), fields(1, 12, MONTHS), NTH
).map(" ".join)
FIVE = PLAIN | WITH_NTH
CRONS = st.one_of(
    FIVE,
    st.tuples(fields(0, 59), FIVE).map(" ".join),
    st.tuples(fields(0, 59), FIVE, st.sampled_from(["*", "2027-2031", "2028", "2027/2"])).map(
        " ".join
    ),
    st.sampled_from(["@daily", "@hourly", "@weekly", "@monthly", "@yearly", "@midnight"]),
)


def _listed(name: str, values: st.SearchStrategy[object], most: int = 3) -> st.SearchStrategy[str]:
    lists = st.lists(values, min_size=1, max_size=most, unique=True)
    return lists.map(lambda found: f"{name}={','.join(map(str, found))}")


def _numbers(low: int, high: int, *, back: bool = False) -> st.SearchStrategy[object]:
    number = st.integers(low, high)
    return number | number.map(lambda value: -value) if back else number


@st.composite
def rrules(draw: st.DrawFn) -> str:
    """Draw a recurrence rule; some are refused."""
    frequency = draw(
        st.sampled_from(["YEARLY", "MONTHLY", "WEEKLY", "DAILY", "HOURLY", "MINUTELY"])
    )
    chosen = [f"FREQ={frequency}", f"INTERVAL={draw(st.integers(1, 6))}"]
    day = st.sampled_from(WEEKDAYS_OF_RULES)
    counted = st.tuples(st.integers(-4, 4).filter(bool), day).map(
        lambda both: f"{both[0]}{both[1]}"
    )
    kinds = [
        _listed("BYMONTH", _numbers(1, 12)),
        _listed("BYMONTHDAY", _numbers(1, 31, back=True)),
        _listed("BYYEARDAY", _numbers(1, 366, back=True)),
        _listed("BYDAY", counted if draw(st.booleans()) else day),
        _listed("BYHOUR", _numbers(0, 23)),
        _listed("BYMINUTE", _numbers(0, 59)),
        _listed("BYSECOND", _numbers(0, 59)),
        _listed("BYWEEKNO", _numbers(1, 53, back=True)),
        _listed("WKST", day, 1),
        _listed("BYSETPOS", _numbers(1, 4, back=True), 2),
        st.sampled_from(
            ["COUNT=3", "COUNT=200", "UNTIL=20280601T000000", "UNTIL=20280601T000000Z"]
        ),
    ]
    chosen += [draw(kind) for kind in kinds if draw(st.integers(0, 2)) == 0]
    return ";".join(chosen)
