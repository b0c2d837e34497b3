"""Workarounds for the embedded broker (Tansu 0.6.0), behind the port `eunoe.streams.broker_adapter`."""
