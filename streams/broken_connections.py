"""Lets the Kafka clients notice a connection that broke a moment ago, before they write to it.

aiokafka takes a broken connection for a good one until all that came over it is read. Writing to it then raises
``RuntimeError`` on uvloop, which aiokafka expects nowhere: a restart of a broker could end a consumer, and its process.
"""

from aiokafka.conn import AIOKafkaConnection


def refuse_broken_connections() -> None:
    """Make all Kafka clients of this process connect again in place of such a connection; may be called again."""
    AIOKafkaConnection.connected = _is_connected


def _is_connected(connection: AIOKafkaConnection) -> bool:
    """Whether a connection can be written to, and its broker has not closed it."""
    reader, writer = connection._reader, connection._writer  # noqa: SLF001 - there is no other way to ask
    return reader is not None and not reader.at_eof() and not writer.is_closing()
