"""Times in contracts: read and written the same way, however they are spelt."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from eunoe.schemas.base import Time, Value, write_time

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
