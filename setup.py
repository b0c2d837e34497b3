"""The packages of the distribution; everything else about it stands in pyproject.toml."""

from setuptools import find_packages, setup

LAYERS = ("schemas", "streams", "workers", "deploy")

setup(
    packages=[
        f"eunoe.{layer}{package}"
        for layer in LAYERS
        for package in ("", *(f".{name}" for name in find_packages(layer)))
    ]
)
