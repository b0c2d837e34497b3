"""Settings, bootstrap, command line and the embedded stack: the only place that builds clients."""
