"""Times in contracts: read and written the same way, however they are spelt."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eunoe.schemas.base import SpokenTime, Time, Value, by_instant, write_spoken_time, write_time

ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(-timedelta(hours=8))])
TIMES = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=ZONES)  # noqa: DTZ001 - zones are drawn


class At(Value):
    at: Time


@given(TIMES)
def test_what_is_written_is_read_again_in_utc(at: datetime):
    text = write_time(at)
    assert text == at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    read = At.model_validate({"at": text}).at
    assert (read, read.tzinfo) == (at, UTC)
    assert At.from_json(At(at=at).to_json()) == At(at=at)


@pytest.mark.parametrize(
    "text", ["2026-03-01T09:30:00Z", "2026-03-01t09:30:00z", "2026-03-01 10:30:00+01:00", "2026-03-01T09:30:00.0Z"]
)
def test_spellings_of_rfc_3339_are_the_same_time(text: str):
    read = At.model_validate({"at": text}).at
    assert (read, read.tzinfo) == (datetime(2026, 3, 1, 9, 30, tzinfo=UTC), UTC)


@pytest.mark.parametrize(
    "text", ["2026-02-30T09:30:00Z", "0000-03-01T09:30:00Z", "2026-W01-1T09:30:00Z", "2026-03-01T24:30:00Z", "", "now"]
)
def test_what_is_no_time_is_refused(text: str):
    with pytest.raises(ValidationError):
        At.model_validate({"at": text})


# ---- by the clock of who spoke


class SpokenAt(Value):
    at: SpokenTime


OFFSETS = st.integers(-12 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
SPOKEN = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=OFFSETS)  # noqa: DTZ001 - zones are drawn


@given(SPOKEN)
def test_a_spoken_time_keeps_its_offset_through_all_forms(at: datetime):
    for sent in (at, at.isoformat(), write_spoken_time(at)):
        read = SpokenAt.model_validate({"at": sent})
        again = SpokenAt.from_json(read.to_json())
        for one in (read.at, again.at):
            assert (one, one.utcoffset(), one.date()) == (at, at.utcoffset(), at.date())
        assert again.to_json() == read.to_json()


@given(SPOKEN)
def test_a_reader_that_knows_no_offsets_reads_the_same_instant(at: datetime):
    read = At.from_json(SpokenAt(at=at).to_json()).at
    assert (read, read.tzinfo) == (at, UTC)


@given(TIMES.map(lambda at: at.astimezone(UTC)))
def test_a_spoken_time_in_utc_is_written_like_any_other(at: datetime):
    assert SpokenAt(at=at).to_json() == At(at=at).to_json()
    assert SpokenAt(at=at).at is at
    assert by_instant(SpokenAt(at=at)).at is at


@given(SPOKEN, OFFSETS)
def test_the_same_instant_by_two_clocks_is_equal_and_written_by_each(at: datetime, zone: timezone):
    one, other = SpokenAt(at=at), SpokenAt(at=at.astimezone(zone))
    assert one == other
    assert by_instant(one).to_json() == by_instant(other).to_json() == At(at=at).to_json()
    assert SpokenAt.from_json(other.to_json()).at.utcoffset() == zone.utcoffset(None)


@pytest.mark.parametrize("text", ["2026-03-01T09:30:00+00:00", "2026-03-01T09:30:00-00:00", "2026-03-01T09:30:00Z"])
def test_an_offset_of_none_is_utc(text: str):
    assert SpokenAt.model_validate({"at": text}).at.tzinfo is UTC


def test_seconds_of_an_offset_are_left_out():
    read = SpokenAt(at=datetime(1890, 1, 1, 9, tzinfo=timezone(timedelta(minutes=53, seconds=28))))
    assert SpokenAt.from_json(read.to_json()) == read
    assert read.at.isoformat() == "1890-01-01T08:59:32+00:53"
    assert SpokenAt(at=datetime(1890, 1, 1, 9, tzinfo=timezone(timedelta(seconds=28)))).at.tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    ["2026-06-01T20:00:00", "2026-06-01T20:00:00+24:00", "0001-01-01T00:30:00+01:00", "9999-12-31T23:30:00-01:00"],
)
def test_what_is_no_spoken_time_is_refused(text: str):
    with pytest.raises(ValidationError):
        SpokenAt.model_validate({"at": text})
