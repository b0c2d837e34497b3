"""Tells the embedded broker from others."""

from aiokafka.client import AIOKafkaClient
from aiokafka.protocol.transaction import InitProducerIdRequest

from eunoe.schemas.errors import Refused
from eunoe.streams.admin import open_admin
from eunoe.streams.plain_consumer import broker_faults
from eunoe.streams.settings import KafkaSettings, client_options

_UNKNOWN_ERROR = -1
_TIMEOUT_MS = 60_000


async def refuse_ordinary_broker(kafka: KafkaSettings) -> None:
    """Raise `Refused` where the brokers are no embedded one, `Unavailable` where none answers.

    Tansu lists the request for a producer id among those that it knows, and answers "unknown error" each time. Other
    brokers give an id, or the reason why they do not now: a coordinator that loads, a right that is missing.
    """
    async with open_admin(kafka):  # names a wrong login or certificate
        pass
    client = AIOKafkaClient(**client_options(kafka))
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=_TIMEOUT_MS)
    with broker_faults(kafka):
        try:
            await client.bootstrap()
            answer = await client.send(client.get_random_node(), request)
        finally:
            await client.close()
    if answer.error_code != _UNKNOWN_ERROR:
        raise Refused(
            f"EUNOE_BROKER__EMBEDDED is set, but {kafka.server} is not the broker of `eunoe up`: unset"
            " EUNOE_BROKER__EMBEDDED and EUNOE_BROKER__IDEMPOTENT, which are for that one only"
        )
