"""Loads the plugin that makes tests of the document: all other processes of pytest start without it."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.import_plugin("schemathesis.pytest.plugin")
