"""Misspelt settings and values out of bounds are refused; other variables with the prefix are left alone."""

import pytest

from eunoe.deploy.settings import Settings, read_settings
from eunoe.deploy.settings.names import misspelt, setting_names
from eunoe.schemas.errors import Refused


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("EUNOE_REDIS_ULR", "EUNOE_REDIS_URL"),
        ("EUNOE_KEYS_STORE", "EUNOE_KEYS__STORE"),
        ("EUNOE_COLD_STORE", "EUNOE_COLD__STORE"),
        ("EUNOE_REDIS_WAIT_REPLICA", "EUNOE_REDIS_WAIT_REPLICAS"),
        ("EUNOE_LINKK__ASSOCIATIVE", "EUNOE_LINK__ASSOCIATIVE"),
        ("EUNOE_ERASURE", "EUNOE_ERASURES"),
        ("EUNOE_KAKFA", "EUNOE_KAFKA"),
    ],
)
def test_a_misspelt_setting_is_refused_with_the_one_that_was_meant(
    written: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(written, "secret-value")
    with pytest.raises(Refused) as told:
        read_settings()
    assert str(told.value) == f"settings: there is no {written} (did you mean {meant}?)"


def test_every_setting_is_known() -> None:
    assert misspelt(setting_names(Settings), Settings) == {}


@pytest.mark.parametrize(
    "name",
    [
        "EUNOE_VERSION",
        "EUNOE_TEST_BROKER",
        "EUNOE_KAFKA_JARS",
        "EUNOE_LOG_PORT",  # of Kubernetes, for a service eunoe-log
        "EUNOE_GATEWAY_PORT_8080_TCP_ADDR",
        "EUNOE_GATEWAY_SERVICE_HOST",
        "EUNOE_GATEWAY_SERVICE_PORT_HTTP",
        "REDIS_ULR",
    ],
)
def test_variables_of_others_are_left_alone(name: str) -> None:
    assert misspelt([name], Settings) == {}


@pytest.mark.parametrize("days", ["0", "-1", "0.000001", "inf"])
def test_a_time_that_redis_cannot_keep_an_answer_for_is_refused(days: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_ANSWER_DAYS", days)
    with pytest.raises(Refused, match="settings: answer_days: "):
        read_settings()
