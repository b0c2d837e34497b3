"""Helm, kubectl-validate and the definitions of custom resources: ``python -m tests.support.kubernetes`` brings them.

Neither Debian nor PyPI nor npm has them. Go's module proxy has their sources: they are built once, into
``.servers/kubernetes``, which takes ten minutes of two cores. What is on the path is used as it is. Exit code 69 means
that they are not there and cannot be made.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".servers" / "kubernetes"
CRDS: Final = FOLDER / "crds"
VERSION: Final = "1.30"
"""The version of Kubernetes that manifests are rendered for and checked by."""
_HELMS_VERSION: Final = "-X helm.sh/helm/v3/pkg/chartutil.k8sVersion"
PROGRAMS: Final = {
    "helm": (f"-ldflags={_HELMS_VERSION}Major=1 {_HELMS_VERSION}Minor=30", "helm.sh/helm/v3/cmd/helm@v3.22.0"),
    "kubectl-validate": ("sigs.k8s.io/kubectl-validate@v0.0.4",),
}
"""Program → the arguments of `go install` that build it."""
DEFINITIONS: Final = {
    "github.com/kedacore/keda/v2@v2.21.0": ("config/crd/bases/keda.sh_scaledobjects.yaml",),
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": (
        "example/prometheus-operator-crd/monitoring.coreos.com_servicemonitors.yaml",
        "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
    ),
}
"""Module of Go → the files in it that define what the chart makes."""
UNAVAILABLE: Final = 69
BUILD_S: Final = 3600


def program(name: str) -> str | None:
    """The path of a program: the one that was built, else the machine's; `None` where there is none."""
    built = FOLDER / "bin" / name
    return str(built) if os.access(built, os.X_OK) else shutil.which(name)


def lacking() -> list[str]:
    """What is not there yet."""
    files = [CRDS / Path(path).name for paths in DEFINITIONS.values() for path in paths]
    return [name for name in PROGRAMS if program(name) is None] + [path.name for path in files if not path.exists()]


def fetch() -> None:
    """Build and copy what is lacking; raises ``OSError`` and ``subprocess.SubprocessError`` where that fails."""
    for name, arguments in PROGRAMS.items():
        if program(name) is None:
            sys.stderr.write(f"building {name}: some minutes, once\n")
            _go("install", *arguments)
    CRDS.mkdir(parents=True, exist_ok=True)
    for module, paths in DEFINITIONS.items():
        if any(not (CRDS / Path(path).name).exists() for path in paths):
            folder = Path(json.loads(_go("mod", "download", "-json", module))["Dir"])
            for path in paths:
                (CRDS / Path(path).name).write_bytes((folder / path).read_bytes())


def _go(*words: str) -> Any:
    own = {**os.environ, "GOBIN": str(FOLDER / "bin"), "GOFLAGS": "-buildvcs=false"}
    command = ["nice", "-n", "15", "go", *words]
    FOLDER.mkdir(parents=True, exist_ok=True)
    return subprocess.run(command, cwd=FOLDER, env=own, stdout=subprocess.PIPE, timeout=BUILD_S, check=True).stdout


def main() -> int:
    """Bring what is lacking; returns the exit code."""
    if not lacking():
        return 0
    if shutil.which("go") is None:
        sys.stderr.write(f"not there: {', '.join(lacking())}; install them, or Go, which builds them\n")
        return UNAVAILABLE
    try:
        fetch()
    except (OSError, subprocess.SubprocessError) as fault:
        sys.stderr.write(f"not there: {', '.join(lacking())}: {fault}\n")
        return UNAVAILABLE
    return 0


if __name__ == "__main__":
    sys.exit(main())
