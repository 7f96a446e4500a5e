"""Measurements: each prints a table or ratios that the documentation quotes.

Whatever of them runs ONNX Runtime in its own process keeps it from telling its maker, as a node
does.
"""

from workers.settings import tell_nobody

tell_nobody()
